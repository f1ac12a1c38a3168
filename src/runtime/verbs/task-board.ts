/** Task board: each request of the protocol script, and each delegation, is a task. Its id is the id of the message. */

import type { AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import { errorOf, isFailure, jsonIn, saysNoSubTask } from '../../mailbox/codec.ts'
import {
  CANCEL,
  correlationOf,
  END,
  idOf,
  KIND,
  kindBits,
  type Memory,
  priorityOf,
  REQUEST,
  RESPONSE,
  readBody,
  recipientOf,
  senderOf,
  typeOf,
  WHO,
} from '../../mailbox/frame.ts'
import { MESSAGE_TYPES } from '../../mailbox/message.ts'
import type { Timer } from '../../shared/clock.ts'
import {
  DelegationRefusedError,
  DependencyFailedError,
  type DramatisError,
  type ErrorCode,
  RequestTimeoutError,
} from '../../shared/errors.ts'
import type { Admission } from '../host/admission.ts'
import type { HeldTask } from '../host/agent.ts'
import type { Cancellation } from '../host/cancellation.ts'
import type { Core } from '../host/core.ts'
import { chainOf } from '../host/delegation.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import type { Reader } from '../host/journal.ts'
import { offered, offeredIn, type Requests } from '../host/mailboxes.ts'
import { lastSuccessor, type RunState } from '../host/run.ts'

export const tasks = (core: Core): Reader => {
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
    const { content, name, metadata } = readBody(memory, at)
    const giver = senderOf(memory, at)
    const delegated = typeOf(memory, at) === 'delegate'
    const task: AgentTask = {
      id: idOf(memory, at),
      description: content,
      assignedTo: name ?? core.directory.name(recipientOf(memory, at)),
      status: 'assigned',
      priority: priorityOf(memory, at),
      result: null,
      ...(delegated ? offeredIn(memory, at) : offered(null)),
      ...(saysNoSubTask(metadata) && { coordination: true }),
    }
    const open = run.openTasks.get(giver) ?? new Map<number, string>()
    run.openTasks.set(giver, open.set(correlationOf(memory, at), task.id))
    run.tasks.set(task.id, task)
    core.journal.record(run, { kind: 'task', task, previous: null })
    const parent = run.tasks.get(task.parentTask ?? '')
    if (parent?.assignedTo === core.directory.name(giver)) block(run, parent)
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
    if (parent.status !== 'blocked') move(core, run, parent, 'blocked')
  }

  const done = (run: RunState, task: AgentTask, status: TaskStatus, result: unknown = null, error?: DramatisError) => {
    move(core, run, task, status, result, error)
    const parent = run.tasks.get(task.parentTask ?? '')
    const open = parent && run.delegated.get(parent.id)
    if (!parent || open === undefined) return
    if (open > 1) return void run.delegated.set(parent.id, open - 1)
    run.delegated.delete(parent.id)
    if (parent.status === 'blocked') move(core, run, parent, 'in_progress')
  }

  const skipped = (run: RunState, description: string, reason: string) => {
    const rest = { ...offered(null), parentTask: null, assignedTo: null, priority: 0, result: null }
    const task: AgentTask = { id: core.frames.id(), description, ...rest, status: 'skipped', reason }
    run.tasks.set(task.id, task)
    core.journal.record(run, { kind: 'task', task, previous: null })
  }

  return {
    kinds: ['frames', 'turn.started', 'message.dead', 'handoff', 'reassignment', 'decision'],
    frames: kindBits(REQUEST, END, RESPONSE, CANCEL),
    next(batch) {
      for (const record of batch) {
        const run = core.runs.get(record.run)
        if (!run) continue
        if (record.kind === 'frames')
          for (let at = record.from; at < record.to; at += record.memory.i32[at >> 2]!) frame(run, record.memory, at)
        else if (record.kind === 'turn.started') {
          const task = run.tasks.get(record.messageId)
          if (task?.status === 'assigned') move(core, run, task, 'in_progress')
        } else if (record.kind === 'message.dead' && record.letter.reason === 'cancelled') {
          const task = openTask(run, record.letter.message.id) // the host withdrew it: its giver's turn is to end
          if (task) done(run, task, 'cancelled')
        } else if (
          (record.kind === 'handoff' && record.step === 'handed_off') ||
          (record.kind === 'reassignment' && record.step === 'done')
        ) {
          const task = openTask(run, record.messageId)
          if (task) done(run, task, 'handed_off')
        } else if (record.kind === 'decision' && record.choice === 'skipped') {
          const [, description] = SKIPPED.exec(record.question) ?? []
          if (description !== undefined) skipped(run, description, record.reason)
        }
      }
    },
  }
}

/** Question of a script's decision about a sub-task with a condition. */
const SKIPPED = /^Is sub-task \d+ \((.*)\) run\?$/s

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
export function cancelOpenTasks(core: Core, run: RunState): void {
  for (const task of [...run.tasks.values()]) if (!isDone(task.status)) move(core, run, task, 'cancelled')
}

function move(
  { journal }: Core,
  run: RunState,
  task: AgentTask,
  status: TaskStatus,
  result: unknown = null,
  error?: DramatisError,
): void {
  const moved = { ...task, status, result }
  run.tasks.set(task.id, moved)
  journal.record(run, { kind: 'task', task: moved, previous: task.status, ...(error && { error }) })
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
  status === 'handed_off' ||
  status === 'skipped'

/*
 * Dependencies of tasks: a task is delivered to its agent when the tasks that it names are completed. Until then it is
 * 'blocked'. It fails as soon as one of them cannot be completed any more, and is refused if it can never begin. All
 * this is read from the task board, in the order of the log.
 */

export const taskDependencies = (
  core: Core,
  admission: Admission,
  cancellation: Cancellation,
  requests: Requests,
): Reader => {
  /** Ids of the tasks that wait, by the id of the unfinished task that they wait for. */
  const waiting = new Map<string, Set<string>>()

  const wait = ({ waitsFor }: HeldTask, task: AgentTask, dependency: AgentTask) => {
    waitsFor.add(dependency.id)
    const others = waiting.get(dependency.id)
    if (others) others.add(task.id)
    else waiting.set(dependency.id, new Set([task.id]))
  }

  const begin = (run: RunState, task: AgentTask) => {
    const held = core.blocked.get(task.id)
    if (!held) return
    const above = idsAbove(requests, held)
    for (const id of task.dependencies) {
      const dependency = lastOf(run, id)
      if (!dependency) return fail(held, unknown(task, id))
      if (above.has(dependency.id)) return fail(held, circular(task, dependency))
      if (!isDone(dependency.status)) wait(held, task, dependency)
      else if (dependency.status !== 'completed') return fail(held, failed(task, dependency))
    }
    if (held.waitsFor.size === 0) admission.release(held)
    else if (task.status !== 'blocked') move(core, run, task, 'blocked')
  }

  const fail = ({ callee, envelope }: HeldTask, error: DramatisError) => cancellation.fail(callee, envelope, error)

  const done = (run: RunState, { id }: AgentTask) => {
    const dependents = waiting.get(id)
    if (!dependents) return
    waiting.delete(id)
    const dependency = lastOf(run, id)!
    for (const each of dependents) {
      const [held, task] = [core.blocked.get(each), run.tasks.get(each)]
      if (!held || !task) continue // the task was withdrawn meanwhile
      held.waitsFor.delete(id)
      if (!isDone(dependency.status)) wait(held, task, dependency)
      else if (dependency.status !== 'completed') fail(held, failed(task, dependency))
      else if (held.waitsFor.size === 0) {
        move(core, run, task, 'assigned')
        admission.release(held)
      }
    }
  }

  return {
    kinds: ['task'],
    restored(runs) {
      for (const { envelope } of core.blocked.all) {
        if (!runs.has(envelope.run)) continue
        const task = envelope.run.tasks.get(idOf(envelope.memory, envelope.at))
        if (task) begin(envelope.run, task)
      }
    },
    next(batch) {
      for (const record of batch) {
        if (record.kind !== 'task') continue
        const run = core.runs.get(record.run)
        if (!run) continue
        if (isDone(record.task.status)) done(run, record.task)
        else if (record.previous === null && record.task.dependencies.length > 0) begin(run, record.task)
      }
    },
  }
}

/** Returns the task of that id, or the one that it became by handoffs. */
function lastOf(run: RunState, id: string): AgentTask | undefined {
  let task = run.tasks.get(id)
  while (task?.status === 'handed_off') {
    const next = run.tasks.get(run.successors.get(task.id) ?? '')
    if (!next) return task
    task = next
  }
  return task
}

function idsAbove(requests: Requests, { envelope }: HeldTask): Set<string> {
  const request = requests.of(envelope)
  const chain = request ? [...chainOf(requests, request.caller, request.turn)] : []
  return new Set(chain.map((link) => idOf(link.envelope.memory, link.envelope.at)))
}

const named = ({ assignedTo, id }: AgentTask) => `the task of "${assignedTo}" (${id})`

const unknown = ({ assignedTo: to, id: taskId }: AgentTask, dependency: string) =>
  new DelegationRefusedError(
    `A task for "${to}" depends on ${JSON.stringify(dependency)}, and no task of its run has that id. Name tasks of the same run by their ids, in the order in which they are given.`,
    { to, taskId, dependency },
  )

const circular = ({ assignedTo: to, id: taskId }: AgentTask, dependency: AgentTask) =>
  new DelegationRefusedError(
    `A task for "${to}" depends on ${named(dependency)}, which waits for it itself. Leave that dependency out: what is a part of a task comes before its end.`,
    { to, taskId, dependency: dependency.id },
  )

const failed = ({ assignedTo: agent, id: taskId }: AgentTask, dependency: AgentTask) =>
  new DependencyFailedError(
    `The task for "${agent}" cannot begin: it depends on ${named(dependency)}, which was ${FATES_OF_OTHERS[dependency.status] ?? dependency.status}. Give that one again, then this one with the id of the new one.`,
    { agent, taskId, dependency: dependency.id, status: dependency.status },
  )

const FATES_OF_OTHERS: Readonly<Partial<Record<AgentTask['status'], string>>> = { failed: 'not done: it failed' }

/*
 * Enforces the deadlines of tasks, wherever a task is. When the deadline passes, the giver of the task gets
 * `RequestTimeoutError`.
 */

/** Longest time that a timer takes, in ms. */
const LONGEST = 2 ** 31 - 1

export const taskDeadlines = (core: Core, cancellation: Cancellation, requests: Requests): Reader => {
  const timers = new Map<string, Timer>()

  const arm = (task: AgentTask, deadline: number) => {
    const waitMs = Math.max(0, deadline - core.clock.now())
    const wake = () => {
      timers.delete(task.id)
      if (waitMs > LONGEST) return arm(task, deadline)
      expire(task)
      core.loop.wake()
    }
    timers.set(task.id, core.clock.timer(Math.min(waitMs, LONGEST), wake, true))
  }

  const awaited = (id: string) => {
    const held = core.blocked.get(id)
    if (!held) return undefined
    const { tasks } = held.envelope.run
    const names = Array.from(held.waitsFor, (each) => `${each} of "${tasks.get(each)?.assignedTo}"`)
    return `Until then it waited for what it depends on: ${names.join(', ')}.`
  }

  const expire = ({ id, assignedTo, deadline }: AgentTask) => {
    const request = requests.withId(id)
    if (!request) return
    const why = awaited(id) ?? 'Give it more time, or cut the task into smaller ones.'
    const error = new RequestTimeoutError(`Agent "${assignedTo}" has not done its task by the deadline. ${why}`, {
      agent: assignedTo,
      taskId: id,
      deadline,
      tried: request.tried,
    })
    cancellation.fail(request.callee, request.envelope, error)
  }

  return {
    kinds: ['task'],
    restored(runs) {
      for (const run of runs)
        for (const task of run.tasks.values())
          if (!isDone(task.status) && task.deadline !== null) arm(task, task.deadline)
    },
    next(batch) {
      for (const record of batch) {
        if (record.kind !== 'task') continue
        const { task } = record
        if (isDone(task.status)) {
          timers.get(task.id)?.cancel()
          timers.delete(task.id)
        } else if (task.deadline !== null && !timers.has(task.id)) arm(task, task.deadline)
      }
    },
  }
}
