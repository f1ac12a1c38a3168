/** What came of a run: the answer, and folds over its log. */
import { NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import type { TaskStatus } from '../../actors/definition/task.ts'
import type { DramatisError } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { ORCHESTRATOR, type TypedMessage, USER } from '../../mailbox/message.ts'
import type { Redactor } from '../logging/redactor.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import { type ContributionReport, contributionsOf } from './contributions.ts'
import { speechesIn } from './speeches.ts'
import { historyOf, traceOf } from './trace.ts'
import type { OrchestrationTrace } from './trace-types.ts'

/**
 * What came of a run. `success: true` with `failures`: the result is partial. Source: document 002, 3.2.
 *
 * @example
 * const result = await team.execute('Should we migrate?')
 * if (result.success) console.log(result.finalOutput)
 * else console.error(result.error.code, result.error.message)
 */
export type MultiAgentResult<T = undefined> = {
  runId: string
  /** What each agent answered, in order, by its name. */
  agentOutputs: Record<string, { content: string; structuredData?: unknown }[]>
  /** Tasks that did not come to an answer. */
  failures: { agent: string; taskId?: string; error: DramatisError }[]
  /** Every message that the log still has, in order. */
  messageHistory: TypedMessage[]
  /** By the task's id. */
  taskCompletion: Record<string, TaskStatus>
  /** The value of each key that holds; null where the team has no blackboard. */
  blackboardState: Record<string, unknown> | null
  orchestrationTrace: OrchestrationTrace
  /** What models have cost, by the agent's name. */
  tokenUsage: Record<string, TokenUsage>
  totalTokenUsage: TokenUsage
  /** From the launch to the end. */
  executionTimeMs: number
  /** How long each agent had turns, by its name: ms, in which one that had several at once counts once. */
  agentExecutionTimesMs: Record<string, number>
  /** What each agent contributed to the answer, by words and references. Made when somebody looks, of what the log still has. */
  contributions: ContributionReport
  /** Whether a client that asks no model had a part in it (`ModelClient.rehearsal`). */
  rehearsed: boolean
  /** Without history, trace, blackboard and contributions. */
  toJSON(): object
} & (
  | { success: true; finalOutput: string; data: T; error: null }
  | { success: false; finalOutput: string | null; data: null; error: DramatisError }
)

export type RunEnding<T> = { finalOutput: string; data: T } | { error: DramatisError }

/** The result as it is at this moment; what happens in the run later is not in it. History and trace are decoded when somebody looks. */
export function resultOf<T>(
  run: RunState,
  ending: RunEnding<T>,
  executionTimeMs: number,
  agents: readonly string[],
  { names, redactor }: { readonly names: Directory; readonly redactor: Redactor },
): MultiAgentResult<T> {
  const directory = directoryOf(run, names)
  const until = run.log.length
  const messageHistory = once(() => redactor.data(historyOf(run.log, directory, until)))
  const orchestrationTrace = once(() => redactor.data(traceOf(run.log, directory, until)))
  const tasks = [...run.tasks.values()]
  const contributions = once(() => {
    const speeches = speechesIn(run.log, directory, until)
    return contributionsOf(result, redactor.data({ query: run.query, speeches, tasks }))
  })
  const base = {
    runId: run.id,
    get agentOutputs() {
      return outputsOf(messageHistory())
    },
    failures: redactor.data([...run.failures]),
    get messageHistory() {
      return messageHistory()
    },
    taskCompletion: Object.fromEntries(tasks.map((task) => [task.id, task.status])),
    blackboardState: run.board ? redactor.data(run.board.snapshot()) : null,
    get orchestrationTrace() {
      return orchestrationTrace()
    },
    tokenUsage: usageOf(run, agents),
    totalTokenUsage: run.spent.total,
    executionTimeMs,
    get agentExecutionTimesMs() {
      return timesOf(orchestrationTrace(), agents)
    },
    get contributions() {
      return contributions()
    },
    rehearsed: run.spent.rehearsed,
  }
  const end =
    'error' in ending
      ? { success: false as const, finalOutput: null, data: null, error: redactor.data(ending.error) }
      : { success: true as const, ...redactor.data(ending), error: null }
  const result = Object.defineProperties({ ...end }, Object.getOwnPropertyDescriptors(base)) as Omit<
    MultiAgentResult<T>,
    'toJSON'
  >
  return Object.assign(result, { toJSON: () => summary(result) }) as MultiAgentResult<T>
}

/** A fold over a long log takes its time, so it is made when somebody looks, and once. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** They are as long as the run was, and are not even made for the summary. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  'messageHistory',
  'orchestrationTrace',
  'blackboardState',
  'contributions',
  'toJSON',
])

function summary(result: Omit<MultiAgentResult<unknown>, 'toJSON'>): object {
  const kept = Object.keys(result).filter((key) => !LEFT_OUT.has(key))
  const failures = result.failures.map((failure) => ({ ...failure, error: failure.error.toJSON() }))
  const { error } = result as { error: DramatisError | null }
  return {
    ...Object.fromEntries(kept.map((key) => [key, Reflect.get(result, key)])),
    failures,
    error: error?.toJSON() ?? null,
  }
}

/** What each agent answered, in order. */
function outputsOf(history: readonly TypedMessage[]): MultiAgentResult['agentOutputs'] {
  const outputs: MultiAgentResult['agentOutputs'] = {}
  for (const { type, sender, content, structuredData, metadata } of history) {
    if (type !== 'response' || 'error' in metadata || sender === ORCHESTRATOR || sender === USER) continue
    if (!Object.hasOwn(outputs, sender)) outputs[sender] = [] // an agent may be called "constructor"
    outputs[sender]!.push(structuredData === null ? { content } : { content, structuredData })
  }
  return outputs
}

/** Of all agents of the team, and of whoever else has asked a model: the script, or one that has left. */
function usageOf({ spent }: RunState, agents: readonly string[]): Record<string, TokenUsage> {
  const names = new Set([...agents, ...spent.byAgent.keys()])
  return Object.fromEntries(Array.from(names, (name) => [name, { ...(spent.byAgent.get(name) ?? NO_TOKENS) }]))
}

/**
 * How long each agent had turns in this run, whoever else has left it by now; the script is none. A time in which one had several
 * at once, by `instances`, `concurrency` or within each other, counts once.
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
