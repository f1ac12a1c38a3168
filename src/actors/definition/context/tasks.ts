/** Verbs for tasks: delegating a task, handing it off, escalating it, refusing it. */
import type { TaskRefusedError } from '../../../errors.ts'
import type { AgentMessage } from '../../../mailbox/message.ts'
import type { AgentTask, PendingTask, TaskInput } from '../task.ts'

/**
 * Result of an escalation: guidance; the answer of the agent that has done the task instead; or nothing, with the
 * reason. Source: document 002, 2.6.2.
 */
export type EscalationOutcome =
  | { kind: 'guidance'; guidance: string }
  | { kind: 'reassigned' | 'taken_over'; to: string; result: AgentMessage }
  | { kind: 'unresolved'; reason: string }

/** Verbs for the task of this turn, and for tasks of other agents. */
export interface TaskContext {
  /**
   * Gives an agent a task, and resolves with the task when it is done: status 'completed', and `result` with the
   * structured data of the answer, or its content. The other agent's `receive` gets a message of type delegate, with
   * the description as its content and the other fields of the task as `structuredData`. The task is on the run's
   * board; its id is the message's id. Meanwhile the task of this turn is 'blocked'. Source: document 002, 2.5.
   *
   * The host enforces the delegation graph: `delegationAllowed` and `canDelegateTo` of this role, `canBeDelegatedTo` of
   * the other, never to itself. Delegations are nested at most 8 deep, or as deep as the strategy says. Otherwise it
   * rejects with `DelegationRefusedError`, which names the obstacle, and the message is a dead letter. A `deadline`
   * limits the wait: `RequestTimeoutError`. A refused task rejects with `TaskRefusedError`, all other failures as for
   * `request`: then this turn has the duty again, and continues.
   *
   * With `dependencies`, ids of tasks of the same run, the agent gets the task when these are completed, whoever gave
   * them. A task that was handed off is completed when its successor is. Until then the new task is 'blocked' and in no
   * mailbox; its deadline runs. It rejects with `DependencyFailedError` as soon as a dependency ends in another way.
   * The promise's `id` is the task's id, as soon as the task is on its way: so several tasks can be given at once.
   *
   * A task that can never be done rejects with `DelegationRefusedError` at once. Examples: a deadline that is over, an
   * agent that does not declare all `requiredCapabilities`, a dependency that is no task of the run, or one that waits
   * for this turn. Tasks that wait for each other in a larger circle are a deadlock, which is broken like any other.
   *
   * @example
   * const deadline = context.now() + 60_000
   * const { result } = await context.delegate('surveyor', { description: 'Measure it.', deadline })
   *
   * @example
   * const walls = context.delegate('mason', 'Build the walls.')
   * const roof = context.delegate('carpenter', { description: 'Put the roof on.', dependencies: [await walls.id] })
   * await Promise.all([walls, roof])
   */
  delegate(to: string, task: TaskInput): PendingTask
  /**
   * Gives the task of this turn to another agent, with the duty to answer. Source: document 002, 2.6.1, whose six steps
   * are events of the trace (`eventType: 'handoff'`):
   *
   * - The state is summarized (`summary`, otherwise the task and what this turn has done).
   * - The target is identified; the delegation graph and its depth apply as for `delegate`.
   * - The target is asked by a message of type delegate whose `metadata.handoff` is `{ from, summary, task }`. A model
   *   reads the request itself, or the conversation of the model that hands off.
   * - It acknowledges by continuing: its `receive` has answered, or has returned a promise that is still pending after
   *   one turn of its event loop.
   * - Then this promise resolves, and the task of this turn is 'handed_off'.
   * - The target proceeds with a task of its own, whose parent is the task of this turn.
   *
   * From then on the caller of this turn waits for the target. It gets the target's answer or error; its timeout runs
   * from the start of the target's turn; a deadline of the task stays; and withdrawing the request stops the target.
   * Nobody gets what this turn returns or emits. A caller that reads the answer as a stream gets no more pieces of this
   * turn, but those of the target if a model plays it. If the task has no caller, the answer goes to nobody, and a
   * failed task is a dead letter.
   *
   * If the target refuses before it has acknowledged, fails, or is gone for good, the duty stays here: handoff rejects
   * with `TaskRefusedError`, `AgentFailedError`, `AgentTerminatedError`, and this turn continues. A target that refuses
   * later refuses to the caller. Rejects with `DelegationRefusedError` outside of the graph, and if the duty was handed
   * off before. The handoff is one step: a redelivered turn does not hand off twice. Await the handoff: a turn that
   * ends earlier takes it back.
   *
   * @example
   * try {
   *   await context.handoff('night-shift', { description: message.content }, 'Half of the pages are read.')
   * } catch (error) {
   *   if (!(error instanceof TaskRefusedError)) throw error
   *   return readTheRest()
   * }
   */
  handoff(to: string, task: AgentTask | TaskInput, summary?: string): Promise<void>
  /**
   * Asks the manager (`escalateTo` of the role) what to do when this turn cannot go on. The manager gets a request
   * whose `metadata.escalation` is
   * `{ from, reason, details, done, task: { id, description, structuredData }, passedBy }` (`done`: what this
   * turn has done so far, in words). Its answer decides. Source: document 002, 2.6.2.
   *
   * - A plain answer is guidance.
   * - `structuredData: { decision: 'reassign', to }`: the task of this turn is delegated to `to`, whose answer is the
   *   result.
   * - `{ decision: 'take_over' }`: the manager's own answer is the result.
   * - `{ decision: 'escalate' }`: the manager's own manager is asked, and so on, each once.
   *
   * A model agent decides by the tools `reassign`, `take_over` and `escalate`, which its model has in that turn alone.
   *
   * A reassignment is a delegation by the manager: its place in the delegation graph decides (see `delegate`), not this
   * agent's. `to` gets a message of type delegate with `metadata.reassigned` `{ from, by, reason, guidance }`, which is
   * a task of the board. The task of this turn is 'handed_off' when the answer has come. A plain question with data
   * keeps its data.
   *
   * 'unresolved', with the reason: the manager, or the agent it named, has refused, failed, not answered in time, or is
   * gone; or no manager is left to ask, as for a protocol script, which is reported to '$orchestrator' too (see
   * `report`); or the delegation graph forbids it. Rejects only when this turn is to stop, and with
   * `MessageRejectedError` for a reason that is not a text or details that are not JSON.
   *
   * A manager that itself waits for this turn can answer meanwhile if its role has `reentrancy: 'chain'`. Without it,
   * this is a deadlock, which is named and broken like any other: one of the two waits rejects with `DeadlockError`. If
   * it is the wait of this turn, the outcome is 'unresolved'.
   *
   * @example
   * const outcome = await context.escalate('the page is in Basque', { page: 3 })
   * if (outcome.kind === 'guidance') return translate(page, outcome.guidance)
   * if (outcome.kind === 'unresolved') throw context.refuse(outcome.reason)
   * return outcome.result
   */
  escalate(reason: string, details?: object): Promise<EscalationOutcome>
  /**
   * Returns the error that refuses the task: `throw context.refuse('why')`. The caller gets it as `TaskRefusedError`.
   */
  refuse(reason: string): TaskRefusedError
}
