/** Result of a run: the answer, and folds over the run's log. */
import { readableMessages } from '../../actors/definition/content.ts'
import { type ModelMessage, NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import type { TaskStatus } from '../../actors/definition/task.ts'
import type { DramatisError } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { ORCHESTRATOR, type TypedMessage, USER } from '../../mailbox/message.ts'
import type { Redactor } from '../logging/redactor.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import { type ContributionReport, contributionsOf, type Known } from './contributions.ts'
import { exchangeOf } from './run-messages.ts'
import { speechesIn } from './speeches.ts'
import { historyOf, traceOf } from './trace.ts'
import type { OrchestrationTrace } from './trace-types.ts'

/**
 * Result of a run. `success: true` with `failures`: the result is partial. Source: document 002, 3.2.
 *
 * @example
 * const result = await team.execute('Should we migrate?')
 * if (result.success) console.log(result.finalOutput)
 * else console.error(result.error.code, result.error.message)
 */
export type MultiAgentResult<T = undefined> = {
  runId: string
  /** Answers of each agent, in order, by agent name. */
  agentOutputs: Record<string, { content: string; structuredData?: unknown }[]>
  /** Tasks that got no answer. */
  failures: { agent: string; taskId?: string; error: DramatisError }[]
  /** All messages that the log still has, in order. */
  messageHistory: TypedMessage[]
  /** Task status by task id. */
  taskCompletion: Record<string, TaskStatus>
  /** Current value of each blackboard key; null if the team has no blackboard. */
  blackboardState: Record<string, unknown> | null
  orchestrationTrace: OrchestrationTrace
  /** Tokens that models have used, by agent name. */
  tokenUsage: Record<string, TokenUsage>
  totalTokenUsage: TokenUsage
  /** Time from the launch to the end, in ms. */
  executionTimeMs: number
  /** Time in which each agent had turns, by agent name, in ms. Time with several turns at once counts once. */
  agentExecutionTimesMs: Record<string, number>
  /**
   * Contribution of each agent to the answer, by words and references. Made at the first access, from what the log
   * still has.
   */
  contributions: ContributionReport
  /**
   * The conversation for the `messages` of a next run: those of this run, its query and its answer. Calls of tools and
   * their results are among them where the agent that has the last word was asked the query itself. A run that fails
   * adds nothing.
   */
  messages: ModelMessage[]
  /** True if a client that asks no model had a part in the run (`ModelClient.rehearsal`). */
  rehearsed: boolean
  /** Returns the result without history, trace, blackboard and contributions. */
  toJSON(): object
} & (
  | { success: true; finalOutput: string; data: T; error: null }
  | { success: false; finalOutput: string | null; data: null; error: DramatisError }
)

export type RunEnding<T> = { finalOutput: string; data: T } | { error: DramatisError }

/**
 * Makes the result as of this moment; later events of the run are not in it. History and trace are decoded at the first
 * access, and objects with a key for each task or agent are made then.
 */
export function resultOf<T>(
  run: RunState,
  ending: RunEnding<T>,
  executionTimeMs: number,
  agents: readonly string[],
  { names, redactor }: { readonly names: Directory; readonly redactor: Redactor },
): MultiAgentResult<T> {
  const directory = directoryOf(run, names)
  const until = run.log.end
  const messageHistory = once(() => redactor.data(historyOf(run.log, directory, until)))
  const orchestrationTrace = once(() => redactor.data(traceOf(run.log, directory, until)))
  const tasks = [...run.tasks.values()]
  const statuses = tasks.map(({ id, status }): [string, TaskStatus] => [id, status])
  const taskCompletion = once(() => Object.fromEntries(statuses))
  const used = Array.from(run.spent.byAgent, ([name, usage]): [string, TokenUsage] => [name, { ...usage }])
  const tokenUsage = once(() => usageOf(new Map(used), agents))
  const contributions = once(() => {
    const speeches = speechesIn(run.log, directory, until)
    return contributionsOf(result as Known, redactor.data({ query: run.query, speeches, tasks }))
  })
  const failed = 'error' in ending
  const result: object = {
    success: !failed,
    finalOutput: failed ? null : redactor.data(ending.finalOutput),
    data: failed ? null : redactor.data(ending.data),
    error: failed ? redactor.data(ending.error) : null,
    runId: run.id,
    get agentOutputs() {
      return outputsOf(messageHistory())
    },
    failures: redactor.data([...run.failures]),
    get messageHistory() {
      return messageHistory()
    },
    get taskCompletion() {
      return taskCompletion()
    },
    blackboardState: redactor.data(run.boardValues()),
    get orchestrationTrace() {
      return orchestrationTrace()
    },
    get tokenUsage() {
      return tokenUsage()
    },
    totalTokenUsage: run.spent.total,
    executionTimeMs,
    get agentExecutionTimesMs() {
      return timesOf(orchestrationTrace(), agents)
    },
    get contributions() {
      return contributions()
    },
    messages: readableMessages(
      redactor.data([...run.messages, ...('error' in ending ? [] : exchangeOf(run, ending.finalOutput))]),
      ({ hash }) => directory.bytesOf?.(run.index, hash),
    ),
    rehearsed: run.spent.rehearsed,
    toJSON,
  }
  return result as MultiAgentResult<T>
}

/** Makes a value at the first access, and only once: a fold over a long log takes time. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** Fields that the summary leaves out and does not even compute: they are as long as the run was. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  'messageHistory',
  'orchestrationTrace',
  'blackboardState',
  'contributions',
  'messages',
  'toJSON',
])

/** Returns the summary of the result that it is called on: a copy may have other data than the one it was made of. */
function toJSON(this: MultiAgentResult<unknown>): object {
  const kept = Object.keys(this).filter((key) => !LEFT_OUT.has(key))
  const failures = this.failures.map((failure) => ({ ...failure, error: failure.error.toJSON() }))
  const { error } = this as { error: DramatisError | null }
  return {
    ...Object.fromEntries(kept.map((key) => [key, Reflect.get(this, key)])),
    failures,
    error: error?.toJSON() ?? null,
  }
}

/** Returns the answers of each agent, in order. */
function outputsOf(history: readonly TypedMessage[]): MultiAgentResult['agentOutputs'] {
  const outputs = new Map<string, MultiAgentResult['agentOutputs'][string]>()
  for (const { type, sender, content, structuredData, metadata } of history) {
    if (type !== 'response' || 'error' in metadata || sender === ORCHESTRATOR || sender === USER) continue
    const ofSender = outputs.get(sender) ?? []
    outputs.set(sender, ofSender)
    ofSender.push(structuredData === null ? { content } : { content, structuredData })
  }
  return Object.fromEntries(outputs)
}

/**
 * Returns the tokens of all agents of the team, and of any other caller of a model: the script, or an agent that has
 * left.
 */
function usageOf(used: ReadonlyMap<string, TokenUsage>, agents: readonly string[]): Record<string, TokenUsage> {
  const names = new Set([...agents, ...used.keys()])
  return Object.fromEntries(Array.from(names, (name) => [name, used.get(name) ?? { ...NO_TOKENS }]))
}

/**
 * Returns the time in which each agent had turns in this run, including agents that have left the team; the script is
 * left out. Time with several turns at once, by `instances`, `concurrency` or nested turns, counts once.
 */
function timesOf(trace: OrchestrationTrace, agents: readonly string[]): Record<string, number> {
  const turns = new Map(agents.map((agent): [string, OrchestrationTrace['agentActivations']] => [agent, []]))
  for (const turn of trace.agentActivations) {
    if (turn.agent.startsWith('$')) continue
    const own = turns.get(turn.agent)
    if (own) own.push(turn)
    else turns.set(turn.agent, [turn])
  }
  return Object.fromEntries(Array.from(turns, ([agent, own]) => [agent, unionOf(own)]))
}

function unionOf(turns: OrchestrationTrace['agentActivations']): number {
  let total = 0
  let until = Number.NEGATIVE_INFINITY
  for (const { startedAt, endedAt } of turns.sort((a, b) => a.startedAt - b.startedAt)) {
    total += Math.max(0, endedAt - Math.max(startedAt, until))
    until = Math.max(until, endedAt)
  }
  return total
}
