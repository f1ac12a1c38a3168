/** The task board: each request of the protocol script is a task; its id is the message's. */
import type { AgentTask, TaskStatus } from '../../actors/task.ts'
import { errorOf, isFailure, isMessage, jsonIn } from '../../mailbox/codec.ts'
import {
  CANCEL,
  correlationOf,
  END,
  kindOf,
  lengthOf,
  priorityOf,
  REQUEST,
  RESPONSE,
  recipientOf,
  senderOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { type Core, ORCHESTRATOR_INDEX, type Part } from '../core.ts'
import type { RunState } from '../run-state.ts'

export const tasks: Part = (core) => {
  const frame = (run: RunState, memory: Memory, at: number) => {
    const kind = kindOf(memory, at)
    if (kind === REQUEST && senderOf(memory, at) === ORCHESTRATOR_INDEX) assign(run, memory, at)
    else if (
      isMessage(memory, at) &&
      (kind === END || kind === RESPONSE) &&
      recipientOf(memory, at) === ORCHESTRATOR_INDEX
    )
      settle(run, memory, at)
    else if (kind === CANCEL && senderOf(memory, at) === ORCHESTRATOR_INDEX) {
      const task = run.tasks.get(run.taskIds.get(correlationOf(memory, at)) ?? '')
      if (task && !isDone(task.status)) move(core, run, task, 'cancelled')
    }
  }

  const assign = (run: RunState, memory: Memory, at: number) => {
    const { content, name } = readBody(memory, at)
    const id = idOf(memory, at)
    const assignedTo = name ?? core.name(recipientOf(memory, at))
    const task: AgentTask = {
      id,
      description: content,
      requiredCapabilities: [],
      assignedTo,
      status: 'assigned',
      priority: priorityOf(memory, at),
      deadline: null,
      dependencies: [],
      result: null,
      parentTask: null,
    }
    run.taskIds.set(correlationOf(memory, at), id)
    run.tasks.set(id, task)
    core.record(run, { kind: 'task', task, previous: null })
  }

  const settle = (run: RunState, memory: Memory, at: number) => {
    const task = run.tasks.get(idOf(memory, at))
    if (!task || isDone(task.status)) return
    if (!isFailure(memory, at)) {
      const { content, data } = readBody(memory, at)
      return move(core, run, task, 'completed', data === undefined ? content : jsonIn(data))
    }
    const error = errorOf(memory, at)
    run.failures.push({ agent: task.assignedTo ?? '', taskId: task.id, error })
    const { code } = error
    move(core, run, task, code === 'TASK_REFUSED' ? 'refused' : code === 'CANCELLED' ? 'cancelled' : 'failed')
  }

  return {
    next(batch) {
      for (const record of batch) {
        const run = core.runs.get(record.run)
        if (!run) continue
        if (record.kind === 'frames')
          for (let at = record.from; at < record.to; at += lengthOf(record.memory, at)) frame(run, record.memory, at)
        else if (record.kind === 'turn.started') {
          const task = run.tasks.get(record.messageId)
          if (task?.status === 'assigned') move(core, run, task, 'in_progress')
        }
      }
    },
  }
}

/** The run has ended before its script did: what was not done will not be. */
export function cancelOpenTasks(core: Pick<Core, 'record'>, run: RunState): void {
  for (const task of [...run.tasks.values()]) if (!isDone(task.status)) move(core, run, task, 'cancelled')
}

function move(
  core: Pick<Core, 'record'>,
  run: RunState,
  task: AgentTask,
  status: TaskStatus,
  result: unknown = null,
): void {
  const moved = { ...task, status, result }
  run.tasks.set(task.id, moved)
  core.record(run, { kind: 'task', task: moved, previous: task.status })
}

export const isDone = (status: TaskStatus) =>
  status === 'completed' || status === 'failed' || status === 'refused' || status === 'cancelled'
