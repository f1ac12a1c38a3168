/**
 * Dependencies of tasks (document 002, 2.5.2): a task is delivered to its agent when the tasks that it names are
 * completed. Until then it is 'blocked'. It fails as soon as one of them cannot be completed any more, and is refused
 * if it can never begin. All this is read from the task board, in the order of the log.
 */

import type { AgentTask } from '../../actors/definition/task.ts'
import { DelegationRefusedError, DependencyFailedError, type DramatisError } from '../../errors.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Admission } from '../admission/admission.ts'
import { chainOf } from '../admission/chain.ts'
import type { BlockedTasks } from '../mailboxes/blocked-tasks.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { HeldTask } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Reader } from '../state/reader.ts'
import type { RunState } from '../state/run-state.ts'
import type { RunTable } from '../state/run-table.ts'
import type { Cancellation } from '../turns/cancellation.ts'
import { isDone, move } from './task-board.ts'

interface Needs {
  readonly admission: Admission
  readonly blocked: BlockedTasks
  readonly cancellation: Cancellation
  readonly journal: Journal
  readonly requests: Requests
  readonly runs: RunTable
}

export const taskDependencies = (needs: Needs): Reader => {
  /** Ids of the tasks that wait, by the id of the unfinished task that they wait for. */
  const waiting = new Map<string, Set<string>>()

  const wait = ({ waitsFor }: HeldTask, task: AgentTask, dependency: AgentTask) => {
    waitsFor.add(dependency.id)
    const others = waiting.get(dependency.id)
    if (others) others.add(task.id)
    else waiting.set(dependency.id, new Set([task.id]))
  }

  const begin = (run: RunState, task: AgentTask) => {
    const held = needs.blocked.get(task.id)
    if (!held) return
    const above = idsAbove(needs, held)
    for (const id of task.dependencies) {
      const dependency = lastOf(run, id)
      if (!dependency) return fail(held, unknown(task, id))
      if (above.has(dependency.id)) return fail(held, circular(task, dependency))
      if (!isDone(dependency.status)) wait(held, task, dependency)
      else if (dependency.status !== 'completed') return fail(held, failed(task, dependency))
    }
    if (held.waitsFor.size === 0) needs.admission.release(held)
    else if (task.status !== 'blocked') move(needs, run, task, 'blocked')
  }

  /** Fails a blocked task: its giver gets the reason. */
  const fail = ({ callee, envelope }: HeldTask, error: DramatisError) =>
    needs.cancellation.fail(callee, envelope, error)

  const done = (run: RunState, { id }: AgentTask) => {
    const dependents = waiting.get(id)
    if (!dependents) return
    waiting.delete(id)
    const dependency = lastOf(run, id)!
    for (const each of dependents) {
      const [held, task] = [needs.blocked.get(each), run.tasks.get(each)]
      if (!held || !task) continue // the task was withdrawn meanwhile
      held.waitsFor.delete(id)
      if (!isDone(dependency.status)) wait(held, task, dependency)
      else if (dependency.status !== 'completed') fail(held, failed(task, dependency))
      else if (held.waitsFor.size === 0) {
        move(needs, run, task, 'assigned')
        needs.admission.release(held)
      }
    }
  }

  return {
    kinds: ['task'],
    restored(runs) {
      for (const { envelope } of needs.blocked.all) {
        if (!runs.has(envelope.run)) continue
        const task = envelope.run.tasks.get(idOf(envelope.memory, envelope.at))
        if (task) begin(envelope.run, task)
      }
    },
    next(batch) {
      for (const record of batch) {
        if (record.kind !== 'task') continue
        const run = needs.runs.get(record.run)
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

/** Returns the ids of the tasks whose turns wait for that task. */
function idsAbove(needs: Needs, { envelope }: HeldTask): Set<string> {
  const request = needs.requests.of(envelope)
  const chain = request ? [...chainOf(needs.requests, request.caller, request.turn)] : []
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
    `The task for "${agent}" cannot begin: it depends on ${named(dependency)}, which was ${FATES[dependency.status] ?? dependency.status}. Give that one again, then this one with the id of the new one.`,
    { agent, taskId, dependency: dependency.id, status: dependency.status },
  )

const FATES: Readonly<Partial<Record<AgentTask['status'], string>>> = { failed: 'not done: it failed' }
