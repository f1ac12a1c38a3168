/** The verbs about tasks: giving one, giving one away, asking what to do, refusing. */
import type { TaskRefusedError } from '../../../errors.ts'
import type { AgentMessage } from '../../../mailbox/message.ts'
import type { AgentTask, PendingTask, TaskInput } from '../task.ts'

/**
 * What came of an escalation: advice; the answer of who has done the task in this one's place; or nothing, and why. Source:
 * document 002, 2.6.2.
 */
export type EscalationOutcome =
  | { kind: 'guidance'; guidance: string }
  | { kind: 'reassigned' | 'taken_over'; to: string; result: AgentMessage }
  | { kind: 'unresolved'; reason: string }

/** What a turn does about its own task, and about those of others. */
export interface TaskContext {
  /**
   * Gives an agent a task, and resolves with the task when it is done: status 'completed', and in `result` the structured data
   * of the answer, or its content. It comes to the other's `receive` as a message of type delegate, with the description as its
   * content and the rest of the task as `structuredData`. It is a task of the run's board whose id is the message's; meanwhile
   * the task of this turn is 'blocked'. Source: document 002, 2.5.
   *
   * The host holds to the delegation graph: `delegationAllowed` and `canDelegateTo` of this role, `canBeDelegatedTo` of the
   * other, never to itself; and delegations are nested 8 deep at most, or as deep as the strategy says. Else it rejects with `DelegationRefusedError`, which says
   * what is in the way, and the message is a dead letter. A `deadline` limits the wait: `RequestTimeoutError`. A task that was
   * refused rejects with `TaskRefusedError`, and all else as `request` does: then the duty is this turn's again, which goes on.
   *
   * With `dependencies`, ids of tasks of the same run, it comes to the other when these are completed, by whomever they were
   * given; one that was handed off is completed when the task is that it became. Until then it is 'blocked', and in no mailbox;
   * its deadline runs. It rejects with `DependencyFailedError` as soon as one of them has ended otherwise. The `id` of the promise
   * is the task's own, as soon as it is on its way: so several can be given at once.
   *
   * What can never be done as it is rejects with `DelegationRefusedError` at once: a deadline that is over, an agent that does not
   * declare all `requiredCapabilities`, a dependency that no task of the run is, or that waits for this turn. Tasks that wait for
   * each other in a larger circle are a deadlock, which is broken like any other.
   *
   * @example
   * const { result } = await context.delegate('surveyor', { description: 'Measure it.', deadline: context.now() + 60_000 })
   *
   * @example
   * const walls = context.delegate('mason', 'Build the walls.')
   * const roof = context.delegate('carpenter', { description: 'Put the roof on.', dependencies: [await walls.id] })
   * await Promise.all([walls, roof])
   */
  delegate(to: string, task: TaskInput): PendingTask
  /**
   * Gives the task of this turn away, with the duty to answer. Source: document 002, 2.6.1, whose six steps are events of the
   * trace (`eventType: 'handoff'`): the state is summarized (`summary`, else the task and what this turn has done), the target
   * identified (the delegation graph and its depth hold as for `delegate`), and asked by a message of type delegate whose
   * `metadata.handoff` is `{ from, summary, task }`. It acknowledges by going on: its `receive` has returned a promise that has
   * not settled when its event loop has turned once, or has answered. Then this promise resolves, the task of this turn is
   * 'handed_off', and the target proceeds with a task of its own, whose parent that is.
   *
   * From then on who asked this turn waits for the target: it gets the target's answer or error, its timeout runs from the start
   * of the target's turn, a deadline of the task stays, and withdrawing the request stops the target. What this turn returns or
   * emits is for nobody; who reads the answer in pieces gets no more of them, and the target's answer at the end. Where nobody had asked, nobody is answered, and a task that fails is a dead letter.
   *
   * A target that refuses before it has acknowledged, fails, or is gone for good leaves the duty here: it rejects with
   * `TaskRefusedError`, `AgentFailedError`, `AgentTerminatedError`, and this turn goes on. A target that refuses later refuses to
   * who had asked. Rejects with `DelegationRefusedError` outside of the graph, and when the duty was handed off before. It is one
   * step: a turn that is tried again does not hand off twice. Await it: a turn that ends before takes it back.
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
   * Asks the manager (`escalateTo` of the role) what to do when this turn cannot go on. It gets a request whose
   * `metadata.escalation` is `{ from, reason, details, done, task: { id, description, structuredData }, passedBy }` (`done`: what
   * this turn has done so far, in words), and decides by its answer. A plain one is guidance. With `structuredData: { decision:
   * 'reassign', to }` what this turn was asked is delegated to `to`, whose answer is the result; with `{ decision: 'take_over' }`
   * its own answer is the result; with `{ decision: 'escalate' }` its own manager is asked, and so on, each once. Source: document
   * 002, 2.6.2.
   *
   * Who reassigns delegates: the manager's place in the delegation graph decides (see `delegate`), not this agent's. `to` gets a
   * message of type delegate with `metadata.reassigned` `{ from, by, reason, guidance }`, which is a task of the board; the task of
   * this turn is 'handed_off' when the answer is there. What came as a plain question with data keeps its data.
   *
   * 'unresolved', with the reason: the manager, or whom it named, has refused, failed, not answered in time, or is gone; or nobody
   * is left to ask, as for a protocol script, which is reported to '$orchestrator' too (see `report`); or the delegation graph
   * forbids it. Rejects only when this turn is to stop, and with `MessageRejectedError` for what is no text or no JSON.
   *
   * A manager that itself waits for this turn answers meanwhile if its role has `reentrancy: 'chain'`. Without, that is a deadlock,
   * which is named and broken like any other: one of the two waits rejects with `DeadlockError`, and where it is this one the
   * outcome is 'unresolved'.
   *
   * @example
   * const outcome = await context.escalate('the page is in Basque', { page: 3 })
   * if (outcome.kind === 'guidance') return translate(page, outcome.guidance)
   * if (outcome.kind === 'unresolved') throw context.refuse(outcome.reason)
   * return outcome.result
   */
  escalate(reason: string, details?: object): Promise<EscalationOutcome>
  /** The error that refuses the task: `throw context.refuse('why')`. Who asked gets it as `TaskRefusedError`. */
  refuse(reason: string): TaskRefusedError
}
