/** Result of a run: the answer, and folds over the run's log. */

import {
  type ContentPart,
  contentFault,
  lengthToStore,
  readableMessages,
  textOf,
} from '../../actors/definition/content.ts'
import { type ModelMessage, NO_TOKENS, type TokenUsage, type ToolCall } from '../../actors/definition/model.ts'
import type { AgentTask, TaskStatus } from '../../actors/definition/task.ts'
import { type Conversation, charactersOf } from '../../actors/model/conversation.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { jsonIssue, ORCHESTRATOR, type TypedMessage, USER } from '../../mailbox/message.ts'
import { isObject, refused, refusedAs } from '../../shared/checks.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { sentencesOf } from '../../shared/sentences.ts'
import { speakerIn } from '../host/handed-answers.ts'
import { HISTORY_TURN } from '../host/parts.ts'
import { directoryOf, type RunState, type RunTable } from '../host/run.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { Money } from '../settings/money.ts'
import { basisOf, type Speech, speechesIn, unattributedOf, writerOf } from './basis.ts'
import { historyOf, type OrchestrationTrace, traceOf } from './trace.ts'

/*
 * Finds what each agent has contributed to a run's answer: by words that stand in it and by references, never by guess.
 */

/** Contribution of one agent to a run. */
export interface Contribution {
  /**
   * Tokens that the agent's models have used. Tokens of a protocol script's own calls are in `totalTokenUsage` alone.
   */
  tokens: TokenUsage
  /** Time in which the agent had turns, in ms. */
  timeMs: number
  /**
   * Number of messages that the agent has sent, answers included. A message to several counts once, and a failure does
   * not count.
   */
  messagesSent: number
  /**
   * Number of tasks that the agent has completed. A task that was handed off counts for the agent that has completed
   * it.
   */
  tasksDone: number
  /** Keys on the blackboard, each once. */
  entries: {
    /** Keys that the agent wrote in this run. */
    written: string[]
    /** Keys of these that reached the answer. */
    used: string[]
  }
  /** Sentences of the answer that the agent was the first to say. */
  sentences: string[]
  /** Sentences of the answer that the agent said after another one. */
  repeated: string[]
}

/**
 * Contributions of all agents to a run's answer.
 *
 * A sentence of the answer is an agent's if it stands word for word in one of its answers, or in an entry that it wrote
 * on the blackboard. White space, line breaks and the marks of headings and lists do not matter. The agent that said it
 * first is credited; a sentence of the query is the caller's. A paraphrase, a translation, and words that a strategy or
 * a script adds belong to nobody: nothing is guessed.
 *
 * An entry reached the answer if a sentence of it is a sentence of the answer, or if the answer lists it as the
 * strategy blackboard does. It also did if an entry that reached the answer names its key in `references` or
 * `supersedes`. The version meant is the one that stood when that entry was written, else the first one after it. What
 * an agent read and put in its own words is not known.
 *
 * @example
 * const { agents, sentences } = result.contributions
 * for (const [name, { tokens, sentences }] of Object.entries(agents))
 *   console.log(name, tokens.totalTokens, sentences.length)
 * // word for word by nobody
 * console.log(sentences.filter(({ saidBy }) => saidBy.length === 0).map(({ text }) => text))
 */
export interface ContributionReport {
  /** Contributions by agent name: all agents of the team, and those that were in it for a part of the run. */
  agents: Record<string, Contribution>
  /**
   * Sentences of the answer, in order; none if the run failed. `saidBy`: the agents that have said it, in this order;
   * '$user' if the query has it.
   */
  sentences: { text: string; saidBy: string[] }[]
  /**
   * Contributions behind each sentence of the answer, also behind one in other words than theirs. They are found by the
   * numbers, names and longer words, two at least, that it shares with a sentence of theirs; across languages these are
   * numbers and names alone. The agent that wrote the answer from what others said is no contributor to it. A heading
   * that is the name of an agent is left out.
   */
  basis: { text: string; restsOn: { agent: string; share: number }[]; unattributed: number }[]
  /** Share of the answer's words that nobody stands behind, from 0 to 1; 0 if the run failed. */
  unattributed: number
}

export interface Remnants {
  readonly query: string
  readonly speeches: readonly Speech[]
  readonly tasks: readonly AgentTask[]
}

export interface Known {
  readonly finalOutput: string | null
  readonly messageHistory: readonly TypedMessage[]
  readonly tokenUsage: Readonly<Record<string, TokenUsage>>
  readonly agentExecutionTimesMs: Readonly<Record<string, number>>
}

export function contributionsOf(result: Known, { query, speeches, tasks }: Remnants): ContributionReport {
  const saidBy = speakers(query, speeches)
  const sentences = sentencesOf(result.finalOutput ?? '').map((text) => ({
    text,
    saidBy: [...(saidBy.get(text) ?? [])],
  }))
  const writes = speeches.filter((speech) => speech.entry !== undefined)
  const used = usedOf(writes, new Set(sentences.map(({ text }) => text)))
  const timesMs = new Map(Object.entries(result.agentExecutionTimesMs))
  const tokens = new Map(Object.entries(result.tokenUsage))
  const names = new Set([...timesMs.keys(), ...tokens.keys(), ...speeches.map(({ agent }) => agent)])
  const report = (agent: string): Contribution => {
    const own = writes.filter((write) => write.agent === agent)
    const mine = sentences.filter((sentence) => sentence.saidBy.includes(agent))
    const sent = result.messageHistory.filter(({ sender, metadata }) => sender === agent && !('error' in metadata))
    return {
      tokens: { ...(tokens.get(agent) ?? NO_TOKENS) },
      timeMs: timesMs.get(agent) ?? 0,
      messagesSent: sent.length,
      tasksDone: tasks.filter(({ assignedTo, status }) => assignedTo === agent && status === 'completed').length,
      entries: { written: keysOf(own), used: keysOf(own.filter((write) => used.has(write))) },
      sentences: textsOf(mine.filter((sentence) => sentence.saidBy[0] === agent)),
      repeated: textsOf(mine.filter((sentence) => sentence.saidBy[0] !== agent)),
    }
  }
  const agents = [...names].filter((name) => !name.startsWith('$'))
  // The heading of an answer among others says nothing that somebody could stand behind.
  const saying = sentences.filter(({ text, saidBy }) => saidBy.length > 0 || !names.has(text))
  const basis = basisOf(textsOf(saying), speeches, writerOf(result.finalOutput, result.messageHistory))
  return {
    agents: Object.fromEntries(agents.map((name) => [name, report(name)])),
    sentences,
    basis,
    unattributed: unattributedOf(basis),
  }
}

function speakers(query: string, speeches: readonly Speech[]): Map<string, Set<string>> {
  const saidBy = new Map<string, Set<string>>()
  const say = (agent: string, text: string) => {
    for (const sentence of sentencesOf(text)) {
      const known = saidBy.get(sentence)
      if (known) known.add(agent)
      else saidBy.set(sentence, new Set([agent]))
    }
  }
  say(USER, query)
  for (const { agent, texts } of speeches) for (const text of texts) say(agent, text)
  return saidBy
}

/** Returns the entries whose words are in the answer, and the entries that they refer to. */
function usedOf(writes: readonly Speech[], answer: ReadonlySet<string>): Set<Speech> {
  const places = new Map<string, number[]>()
  for (const [at, { entry }] of writes.entries()) {
    const key = entry?.key ?? ''
    const known = places.get(key)
    if (known) known.push(at)
    else places.set(key, [at])
  }
  const isSaid = ({ texts }: Speech) => texts.some((text) => sentencesOf(text).some((sentence) => answer.has(sentence)))
  const used = new Set([...writes.keys()].filter((at) => isSaid(writes[at]!)))
  // The iteration of a set includes what is added on the way.
  for (const at of used) {
    const { references = [], supersedes = null } = writes[at]!.entry ?? {}
    for (const key of supersedes === null ? references : [...references, supersedes]) {
      const versions = places.get(key) ?? []
      const meant = versions.findLast((other) => other < at) ?? versions.find((other) => other > at)
      if (meant !== undefined) used.add(meant)
    }
  }
  return new Set(Array.from(used, (at) => writes[at]!))
}

const keysOf = (writes: readonly Speech[]) => [...new Set(writes.map(({ entry }) => entry?.key ?? ''))]

const textsOf = (sentences: readonly { text: string }[]) => sentences.map(({ text }) => text)

/** Limits of what a caller gives: it goes to each model agent of the run. */
const MOST_MESSAGES = 2_000
const MOST_CHARACTERS = 2 ** 22

const ROLES: readonly unknown[] = ['user', 'assistant', 'tool'] satisfies ModelMessage['role'][]
const FIELDS = ['role', 'content', 'toolCalls', 'toolCallId']

/**
 * Returns a copy of messages. Their parts are checked, and not copied.
 *
 * @throws ConfigurationError that names the field, what came and what is accepted.
 */
export function readMessages(given: unknown): ModelMessage[] {
  if (!Array.isArray(given)) throw refused('messages', given, 'a list of messages')
  if (given.length > MOST_MESSAGES)
    throw refusedAs(
      'messages',
      `${given.length} messages`,
      `at most ${MOST_MESSAGES}`,
      'Leave the oldest out, or give a summary of them.',
    )
  const messages = given.map((message: unknown, i) => readMessage(message, `messages[${i}]`))
  checkResults(messages)
  const characters = messages.reduce((sum, { content }) => sum - lengthToStore(content), charactersOf(messages))
  if (characters > MOST_CHARACTERS)
    throw refusedAs(
      'messages',
      `${characters} characters, media below 64 KiB included`,
      `at most ${MOST_CHARACTERS}`,
      'Leave the oldest out.',
    )
  return messages
}

/** Every provider refuses a result without its call. */
function checkResults(messages: readonly ModelMessage[]): void {
  const called = new Set<string>()
  for (const [i, { toolCalls = [], toolCallId }] of messages.entries()) {
    if (toolCallId !== undefined && !called.has(toolCallId))
      throw refused(`messages[${i}].toolCallId`, toolCallId, 'the id of a call in an earlier message')
    for (const { id } of toolCalls) called.add(id)
  }
}

function readMessage(message: unknown, path: string): ModelMessage {
  if (!isObject(message)) throw refused(path, message, 'a message: { role, content }')
  const { role, content, toolCalls, toolCallId, ...others } = message as Partial<Record<keyof ModelMessage, unknown>>
  const [other] = Object.keys(others)
  if (other !== undefined)
    throw refusedAs(`${path}.${other}`, 'a field that a message does not have', FIELDS.join(', '))
  if (!ROLES.includes(role))
    throw refused(`${path}.role`, role, ROLES.join(', '), 'System prompts are those of the roles (systemPrompt).')
  const fault = contentFault(content, `${path}.content`)
  if (fault) throw refused(fault.path, fault.value, fault.needed)
  if (toolCalls !== undefined && (role !== 'assistant' || !Array.isArray(toolCalls)))
    throw refused(`${path}.toolCalls`, toolCalls, "a list, in a message of role 'assistant'")
  if ((role === 'tool') !== (typeof toolCallId === 'string'))
    throw refused(`${path}.toolCallId`, toolCallId, "the id of a call in a message of role 'tool', and in no other")
  const calls = (toolCalls as unknown[] | undefined)?.map((call, i) => readCall(call, `${path}.toolCalls[${i}]`))
  return {
    role: role as ModelMessage['role'],
    content: typeof content === 'string' ? content : [...(content as ContentPart[])],
    ...(calls && calls.length > 0 && { toolCalls: calls }),
    ...(typeof toolCallId === 'string' && { toolCallId }),
  }
}

function readCall(call: unknown, path: string): ToolCall {
  const { id, name, input, providerData } = Object(call) as Partial<Record<keyof ToolCall, unknown>>
  for (const [field, value] of Object.entries({ id, name, input }))
    if (typeof value !== 'string') throw refused(`${path}.${field}`, value, 'a text')
  const issue = providerData === undefined ? undefined : jsonIssue(providerData, `${path}.providerData`)
  if (issue) throw refusedAs(issue.path, issue.got, 'JSON')
  return { ...(call as ToolCall) }
}

/**
 * Returns what a run adds to the conversation of its caller: its query and its answer. Where the agent that has spoken
 * last was asked the query itself, the calls of its tools and their results are among them.
 */
function exchangeOf(run: RunState, answer: string): ModelMessage[] {
  for (const state of run.states.values()) {
    const last = (state as Partial<Conversation>).turns?.at(-1)
    if (!last || last.id === HISTORY_TURN) continue
    const [asked, ...said] = last.messages
    if (asked?.role !== 'user' || textOf(asked.content) !== run.query) continue
    const final = said.at(-1)
    const isAnswer = final?.role === 'assistant' && !final.toolCalls && final.content === answer
    if (isAnswer && said.every(({ role }) => role !== 'user')) return [...last.messages]
  }
  return [
    { role: 'user', content: run.parts ?? run.query },
    { role: 'assistant', content: answer },
  ]
}

/**
 * Result of a run. `success: true` with `failures`: the result is partial. `data` is null where the run has failed; its
 * type lets a script read a field of it without a look at `success`, and throw there.
 *
 * @example
 * const result = await team.execute('Should we migrate?')
 * if (result.success) console.log(result.finalOutput)
 * else console.error(result.error.code, result.error.message)
 */
export type MultiAgentResult<T = undefined> = {
  runId: string
  /** Agent that has spoken last for the run; null: a script, or several. */
  speaker: string | null
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
  /** Money that models have cost, by the prices of the team; null if it has none. */
  money: Money | null
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
  | { success: false; finalOutput: string | null; data: never; error: DramatisError }
)

export type RunEnding<T> = { finalOutput: string; data: T } | { error: DramatisError }

/** Currency of the prices of the team. */
type OfTable = Pick<RunTable, 'currency'>

/**
 * Makes the result as of this moment; later events of the run are not in it. History and trace are decoded at the first
 * access, and objects with a key for each task or agent are made then.
 */
export function resultOf<T>(
  run: RunState,
  ending: RunEnding<T>,
  executionTimeMs: number,
  agents: readonly string[],
  { names, redactor, runs }: { readonly names: Directory; readonly redactor: Redactor; readonly runs: OfTable },
): MultiAgentResult<T> {
  const directory = directoryOf(run, names)
  const until = run.log.end
  const messageHistory = once(() => redactor.data(historyOf(run.log, directory, until)))
  const orchestrationTrace = once(() => redactor.data(traceOf(run.log, directory, until)))
  const speaker = once(() => speakerIn(run.log, run.index, directory.name, until))
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
    get speaker() {
      return speaker()
    },
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
    money: run.spent.money.in(runs.currency),
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
