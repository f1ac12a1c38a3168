/** Task board: each request of the protocol script, and each delegation, is a task. Its id is the id of the message. */
import type { AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import type { DramatisError, ErrorCode } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CANCEL,
  correlationOf,
  END,
  KIND,
  kindBits,
  priorityOf,
  REQUEST,
  RESPONSE,
  recipientOf,
  senderOf,
  typeOf,
  WHO,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { MESSAGE_TYPES } from '../../mailbox/message.ts'
import { offered, offeredIn } from '../mailboxes/task-offer.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Journal } from '../state/journal.ts'
import type { Reader } from '../state/reader.ts'
import { lastSuccessor, type RunState } from '../state/run-state.ts'
import type { RunTable } from '../state/run-table.ts'

interface Needs {
  readonly directory: AgentDirectory
  readonly journal: Journal
  readonly runs: RunTable
}

export const tasks = (needs: Needs): Reader => {
  const frame = (run: RunState, memory: Memory, at: number) => {
    const { i32 } = memory
    const i = at >> 2
    const word = i32[i + KIND]!
    const kind = word & 0xff
    if (kind === REQUEST) {
      if ((i32[i + WHO]! & 0xffff) === ORCHESTRATOR_INDEX || MESSAGE_TYPES[(word >>> 24) & 7] === 'delegate')
        assign(run, memory, at)
    } else if (kind === END || kind === RESPONSE) {
      if (run.handoffs === 0 && !run.openTasks.has(i32[i + WHO]! >>> 16)) return // most answers: of no task
      const id = taken(run, recipientOf(memory, at), correlationOf(memory, at))
      if (id !== undefined || (run.handoffs > 0 && correlationOf(memory, at) !== 0)) answered(run, id, memory, at)
    } else if (kind === CANCEL) {
      const given = taken(run, senderOf(memory, at), correlationOf(memory, at))
      const task = openTask(run, given === undefined ? undefined : lastSuccessor(run, given))
      if (task) done(run, task, 'cancelled')
    }
  }

  const assign = (run: RunState, memory: Memory, at: number) => {
    const { content, name } = readBody(memory, at)
    const giver = senderOf(memory, at)
    const delegated = typeOf(memory, at) === 'delegate'
    const task: AgentTask = {
      id: idOf(memory, at),
      description: content,
      assignedTo: name ?? needs.directory.name(recipientOf(memory, at)),
      status: 'assigned',
      priority: priorityOf(memory, at),
      result: null,
      ...(delegated ? offeredIn(memory, at) : offered(null)),
    }
    const open = run.openTasks.get(giver) ?? new Map<number, string>()
    run.openTasks.set(giver, open.set(correlationOf(memory, at), task.id))
    run.tasks.set(task.id, task)
    needs.journal.record(run, { kind: 'task', task, previous: null })
    const parent = run.tasks.get(task.parentTask ?? '')
    if (parent?.assignedTo === needs.directory.name(giver)) block(run, parent)
  }

  /**
   * Handles an answer. After a handoff another agent may have given it: then it belongs to the task that the first one
   * became.
   */
  const answered = (run: RunState, id: string | undefined, memory: Memory, at: number) => {
    const answeredId = idOf(memory, at)
    const [given, task] = [openTask(run, id), openTask(run, answeredId)]
    if (given && answeredId !== id) done(run, given, 'handed_off')
    if (task) settle(run, task, memory, at)
  }

  const settle = (run: RunState, task: AgentTask, memory: Memory, at: number) => {
    if (!isFailure(memory, at)) {
      const { content, data } = readBody(memory, at)
      return done(run, task, 'completed', jsonIn(data) ?? content)
    }
    const error = errorOf(memory, at)
    run.failures.push({ agent: task.assignedTo ?? '', taskId: task.id, error })
    done(run, task, FATES[error.code] ?? 'failed', null, error)
  }

  /** Blocks a task while it waits for its subtasks. */
  const block = (run: RunState, parent: AgentTask) => {
    if (isDone(parent.status)) return
    run.delegated.set(parent.id, (run.delegated.get(parent.id) ?? 0) + 1)
    if (parent.status !== 'blocked') move(needs, run, parent, 'blocked')
  }

  const done = (run: RunState, task: AgentTask, status: TaskStatus, result: unknown = null, error?: DramatisError) => {
    move(needs, run, task, status, result, error)
    const parent = run.tasks.get(task.parentTask ?? '')
    const open = parent && run.delegated.get(parent.id)
    if (!parent || open === undefined) return
    if (open > 1) return void run.delegated.set(parent.id, open - 1)
    run.delegated.delete(parent.id)
    if (parent.status === 'blocked') move(needs, run, parent, 'in_progress')
  }

  return {
    kinds: ['frames', 'turn.started', 'message.dead', 'handoff', 'reassignment'],
    frames: kindBits(REQUEST, END, RESPONSE, CANCEL),
    next(batch) {
      for (const record of batch) {
        const run = needs.runs.get(record.run)
        if (!run) continue
        if (record.kind === 'frames')
          for (let at = record.from; at < record.to; at += record.memory.i32[at >> 2]!) frame(run, record.memory, at)
        else if (record.kind === 'turn.started') {
          const task = run.tasks.get(record.messageId)
          if (task?.status === 'assigned') move(needs, run, task, 'in_progress')
        } else if (record.kind === 'message.dead' && record.letter.reason === 'cancelled') {
          const task = openTask(run, record.letter.message.id) // the host withdrew it: its giver's turn is to end
          if (task) done(run, task, 'cancelled')
        } else if (
          (record.kind === 'handoff' && record.step === 'handed_off') ||
          (record.kind === 'reassignment' && record.step === 'done')
        ) {
          const task = openTask(run, record.messageId)
          if (task) done(run, task, 'handed_off')
        }
      }
    },
  }
}

/** Returns the id of the task that was given under that number. The number is then used up. */
function taken(run: RunState, giver: number, correlation: number): string | undefined {
  const open = run.openTasks.get(giver)
  const id = open?.get(correlation)
  if (id !== undefined) open?.delete(correlation)
  return id
}

function openTask(run: RunState, id: string | undefined): AgentTask | undefined {
  const task = run.tasks.get(id ?? '')
  return task && !isDone(task.status) ? task : undefined
}

/** Cancels the unfinished tasks of a run that has ended before its script did. */
export function cancelOpenTasks(needs: Pick<Needs, 'journal'>, run: RunState): void {
  for (const task of [...run.tasks.values()]) if (!isDone(task.status)) move(needs, run, task, 'cancelled')
}

export function move(
  needs: Pick<Needs, 'journal'>,
  run: RunState,
  task: AgentTask,
  status: TaskStatus,
  result: unknown = null,
  error?: DramatisError,
): void {
  const moved = { ...task, status, result }
  run.tasks.set(task.id, moved)
  needs.journal.record(run, { kind: 'task', task: moved, previous: task.status, ...(error && { error }) })
}

/** Status of a task by the code of the error that it ends with. Any other error means 'failed'. */
const FATES: Readonly<Partial<Record<ErrorCode, TaskStatus>>> = {
  TASK_REFUSED: 'refused',
  DELEGATION_REFUSED: 'refused',
  CANCELLED: 'cancelled',
}

export const isDone = (status: TaskStatus): boolean =>
  status === 'completed' ||
  status === 'failed' ||
  status === 'refused' ||
  status === 'cancelled' ||
  status === 'handed_off'
