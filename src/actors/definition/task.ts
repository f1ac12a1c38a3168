/** Types of tasks. A task is a piece of work that an agent, or the protocol script, has given to another agent. */

import type { AgentMessage } from '../../mailbox/message.ts'
import type { TaskRefusedError } from '../../shared/errors.ts'

/**
 * Result of an escalation: guidance; the answer of the agent that has done the task instead; or nothing, with the
 * reason.
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
   * board; its id is the message's id. Meanwhile the task of this turn is 'blocked'.
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
   * Gives the task of this turn to another agent, with the duty to answer. Its six steps
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
   * whose `metadata.escalation` is `{ from, reason, details, done, task: { id, description, structuredData }, passedBy
   * }` (`done`: what this turn has done so far, in words). Its answer decides.
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

/** A sub-task, as the model that works on it has said. */
export interface SubtaskProgress {
  description: string
  status: 'pending' | 'in_progress' | 'completed' | 'failed'
  /** Parts that it was taken apart into. */
  subtasks: SubtaskProgress[]
}

/** How far an agent is with the message that it handles. */
export interface AgentProgress {
  runId: string
  /** Id of the message, which is that of its task if the message is one. */
  taskId: string
  /** The sub-task that it works on, with its place; undefined if it has not taken its task apart. */
  subtask?: string
  /** Sub-tasks that it has taken its task apart into. */
  subtasks: SubtaskProgress[]
  /** Number of times that its model was asked for the sub-task, or for the task. */
  round: number
  /** Number of rounds that it has for it: `maxRounds` of its role, and as many again with guidance of its manager. */
  maxRounds: number
  /** Number of messages that its model was asked with last. */
  messages: number
  /** The last of what was said in the turn, cut short. */
  lastMessages: { role: string; text: string }[]
}

/** How far the turn of a model is. */
export type Progress = Omit<AgentProgress, 'runId' | 'taskId'>

/** An agent that takes tasks of another, as that other sees it. */
export interface Executor {
  executor: string
  status: AgentStatus
  tasks: { id: string; task: string; status: TaskStatus; progress?: Progress }[]
}

/* Types of task routing: the options of a script's questions, and the answers. */

/**
 * Way to choose the agent for a task.
 *
 * - 'explicit': the agent that the task names (`assignedTo`).
 * - 'capability_match': an agent that can do it.
 * - 'load_balance': among those, the one with the fewest messages.
 * - 'auction': the agent with the best bid.
 * - 'round_robin': each agent in turn.
 */
export type TaskRouting = 'explicit' | 'capability_match' | 'load_balance' | 'auction' | 'round_robin'

/** All values of `TaskRouting`. */
export const TASK_ROUTINGS: readonly TaskRouting[] = [
  'explicit',
  'capability_match',
  'load_balance',
  'auction',
  'round_robin',
]

/** Options that limit which agents can get a task. */
export interface CandidateOptions<Name extends string = string> {
  /** Agents to choose from, in that order. Default: all agents of the team, in its order. */
  among?: readonly Name[]
  /** Input types of the task, as capabilities declare them. A capability that declares no types accepts any. */
  inputTypes?: readonly string[]
  /** Output types of the task, as capabilities declare them. */
  outputTypes?: readonly string[]
}

/** Options of `route`. */
export interface RouteOptions<Name extends string = string> extends CandidateOptions<Name> {
  /** Routing to use. Default: the team's `taskRouting`. */
  by?: TaskRouting
}

/** An agent that can get a task now. */
export interface Candidate<Name extends string = string> {
  agent: Name
  /** Match of its declarations with the task, from 0 (nothing says that it fits) to 1. */
  fit: number
  /** Number of messages that wait for it or are in progress, over all runs. */
  load: number
}

/**
 * State of a task: in progress, or how it ended.
 *
 * - 'pending': for plans only; the runtime's own board has no task without an assigned agent.
 * - 'assigned': its agent has not begun.
 * - 'blocked': it waits for the tasks that it depends on, or its agent waits for work that it has delegated for it.
 * - 'handed_off': another task, whose parent it is, has replaced it.
 * - 'refused': its agent has refused it, or the runtime has before the agent began.
 * - 'cancelled': its result is no longer needed.
 * - 'skipped': its plan runs it on a condition (`runIf`), which did not hold. It was given to nobody.
 */
export type TaskStatus =
  | 'pending'
  | 'assigned'
  | 'in_progress'
  | 'blocked'
  | 'handed_off'
  | 'completed'
  | 'failed'
  | 'refused'
  | 'cancelled'
  | 'skipped'

/**
 * State of an agent. 'waiting': its turn waits for other agents. 'passivated': it has no thread until its next message.
 * 'failed': stopped permanently, or until its cool-down is over.
 */
export type AgentStatus =
  | 'starting'
  | 'idle'
  | 'running'
  | 'waiting'
  | 'restarting'
  | 'passivated'
  | 'stopped'
  | 'failed'

/** A task of a run. */
export interface AgentTask {
  /** Id of the message that asked for the task; of one that was skipped an id of its own. */
  id: string
  description: string
  /** Names of capabilities, in any letter case. Only an agent that declares all of them is given the task. */
  requiredCapabilities: string[]
  assignedTo: string | null
  status: TaskStatus
  /** Priority in the agent's mailbox; higher goes first. Default: 0. */
  priority: number
  /** Deadline in epoch ms. The agent that gave the task waits until then, wherever the task is. */
  deadline: number | null
  /** Ids of tasks of the same run. The agent gets this task when all of them are completed. */
  dependencies: string[]
  /** The structured data of the answer, or its content if there is no structured data. */
  result: unknown
  /** Id of the task that this one is a part of: the task of the turn that gave it. */
  parentTask: string | null
  /** Why it was skipped, if it was. */
  reason?: string
  /**
   * True if the strategy leads the work with it: a plan, a proposal, an approval, a review, one answer made of the
   * results. It is no sub-task.
   */
  coordination?: true
}

/** A task that was given: a promise of the completed task. `id` resolves as soon as the task is on its way. */
export type PendingTask = Promise<AgentTask> & { readonly id: Promise<string> }

/**
 * A task as a caller gives it: a description alone, or an object with more fields. `assignedTo` becomes the agent it is
 * given to. `parentTask` defaults to the task of the calling turn. An existing task can be given again: it becomes a
 * new one.
 */
export type TaskInput =
  | string
  | (Pick<AgentTask, 'description'> &
      Partial<
        Omit<
          AgentTask,
          'id' | 'status' | 'result' | 'reason' | 'coordination' | 'requiredCapabilities' | 'dependencies'
        >
      > & {
        requiredCapabilities?: readonly string[]
        dependencies?: readonly string[]
      })

/** Key of the metadata of a task's message that has what its giver adds to it: a JSON value. */
export const CONTEXT = 'context'
