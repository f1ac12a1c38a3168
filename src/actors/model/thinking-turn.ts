/** The part of a turn that `complete` and `think` need. */
import type { DramatisError } from '../../errors.ts'
import type { PartKeeper } from '../definition/content.ts'
import type { AgentContext } from '../definition/context/context.ts'
import type { TaskMessageOptions } from '../definition/context/conversation.ts'
import type { RoundBounds } from '../definition/cycles.ts'
import type { Awaitable } from '../definition/definition.ts'
import type { Executor } from '../definition/executor.ts'
import type { KeptLimit, KeptLimitData, NoteWaiting } from '../definition/kept-limits.ts'
import type { ModelAnswer, ModelCall, ModelMessage, Watched } from '../definition/model.ts'
import type { ContextStrategy, RoleInfo } from '../definition/role.ts'
import type { PendingTask, TaskInput } from '../definition/task.ts'
import type { BoardNews } from './board-news.ts'
import type { SpokenTurn } from './context/conversation.ts'
import type { DelegatedTasks } from './delegated-tasks.ts'
import type { RoleTools } from './role-tools.ts'

export interface ThinkingTurn {
  readonly role: RoleInfo
  readonly context: AgentContext
  /** Verbs that the role has as tools. */
  readonly verbs: readonly string[]
  /** The role's other tools. */
  readonly tools: RoleTools
  /** Keeps the bytes of large parts for the run. */
  readonly partKeeper: PartKeeper
  /** Bounds above which the model's rounds count as a loop; false: rounds are not checked. */
  readonly loops: RoundBounds | false
  /** Id of the message that the turn handles, if the pieces of its models are read along. */
  readonly watchedMessage: string | undefined
  /** Strategy by which the role chooses the messages that its model sees. */
  readonly strategy: ContextStrategy | undefined
  /** The definition's own choice of these messages, if it has one. */
  readonly buildContext: ((history: readonly ModelMessage[]) => Awaitable<ModelMessage[]>) | undefined
  /** Delegates a task, with metadata for the agent that gets it, and a signal that withdraws it. */
  delegate(to: string, task: TaskInput, options: TaskMessageOptions): PendingTask
  /** Tasks that the model has given away and does not wait for. */
  readonly delegated: DelegatedTasks
  /** Returns the agents to which this one may give tasks, and how these stand. */
  executors(): Promise<Executor[]>
  /** Hands the turn's duty off. `said`: the conversation until now, if the agent that answers then is to read it. */
  handoff(to: string, task: string, summary: string | undefined, said: readonly SpokenTurn[] | undefined): Promise<void>
  /** Entries of the blackboard that the model subscribes to. */
  readonly news: BoardNews
  /** Marks the answer of the turn as the end of the whole task. */
  finish(): void
  /** Returns the reason why verbs no longer work, or undefined if they do. */
  refusal(): DramatisError | undefined
  /** Returns the other agents, and what each does now. */
  others(): Promise<unknown>
  /** Notifies the host of a sign that the model repeats itself in a loop. */
  loopFound(step: 'notice' | 'replan' | 'abort', signs: readonly string[]): Promise<unknown>
  /** Waits for limits that are kept in this thread. */
  readonly limits: { begin(option: KeptLimit, data: KeptLimitData): NoteWaiting }
  /** Makes one model call through the gateway in the host: a step. */
  ask(call: ModelCall, signal: AbortSignal | undefined): Promise<ModelAnswer>
}

/** Returns the place of a call in its turn; undefined if nobody reads its pieces along. */
export function watchedIn(
  { watchedMessage: messageId }: ThinkingTurn,
  round: number,
  answerOf: Watched['answerOf'],
): Watched | undefined {
  return messageId === undefined ? undefined : { messageId, round, answerOf }
}
