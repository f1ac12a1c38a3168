/**
 * Enforces the deadlines of tasks, wherever a task is. When the deadline passes, the giver of the task gets
 * `RequestTimeoutError`.
 */
import type { AgentTask } from '../../actors/definition/task.ts'
import type { Scheduler, Timer } from '../../clock.ts'
import { RequestTimeoutError } from '../../errors.ts'
import type { BlockedTasks } from '../mailboxes/blocked-tasks.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Reader } from '../state/reader.ts'
import type { Cancellation } from '../turns/cancellation.ts'
import { isDone } from './task-board.ts'

interface Needs {
  readonly blocked: BlockedTasks
  readonly cancellation: Cancellation
  readonly clock: Scheduler
  readonly loop: HostLoop
  readonly requests: Requests
}

/** Longest time that a timer takes, in ms. */
const LONGEST = 2 ** 31 - 1

export const taskDeadlines = (needs: Needs): Reader => {
  const timers = new Map<string, Timer>()

  const arm = (task: AgentTask, deadline: number) => {
    const waitMs = Math.max(0, deadline - needs.clock.now())
    const ring = () => {
      timers.delete(task.id)
      if (waitMs > LONGEST) return arm(task, deadline)
      expire(task)
      needs.loop.wake()
    }
    timers.set(task.id, needs.clock.timer(Math.min(waitMs, LONGEST), ring, true))
  }

  /** Returns a sentence about what kept the task from beginning. */
  const awaited = (id: string) => {
    const held = needs.blocked.get(id)
    if (!held) return undefined
    const { tasks } = held.envelope.run
    const names = Array.from(held.waitsFor, (each) => `${each} of "${tasks.get(each)?.assignedTo}"`)
    return `Until then it waited for what it depends on: ${names.join(', ')}.`
  }

  const expire = ({ id, assignedTo, deadline }: AgentTask) => {
    const request = needs.requests.withId(id)
    if (!request) return
    const why = awaited(id) ?? 'Give it more time, or cut the task into smaller ones.'
    const error = new RequestTimeoutError(`Agent "${assignedTo}" has not done its task by the deadline. ${why}`, {
      agent: assignedTo,
      taskId: id,
      deadline,
      tried: request.tried,
    })
    needs.cancellation.fail(request.callee, request.envelope, error)
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
