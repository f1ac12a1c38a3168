/**
 * Finds what each agent has contributed to a run's answer: by words that stand in it and by references, never by guess.
 */
import { NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import { type TypedMessage, USER } from '../../mailbox/message.ts'
import { sentencesOf } from '../../sentences.ts'
import { basisOf, unattributedOf, writerOf } from './basis.ts'
import type { Speech } from './speeches.ts'

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
 * Contributions of all agents to a run's answer. Source: document 002, 4.3 and 7 (question 3).
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
   * numbers and names alone. The agent that wrote the answer from what others said is no contributor to it.
   */
  basis: { text: string; restsOn: { agent: string; share: number }[]; unattributed: number }[]
  /** Share of the answer's words that nobody stands behind, from 0 to 1; 0 if the run failed. */
  unattributed: number
}

/** Data of a run that the report is made from. */
export interface Remnants {
  readonly query: string
  readonly speeches: readonly Speech[]
  readonly tasks: readonly AgentTask[]
}

/** Data for the report that a result has already. */
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
  const basis = basisOf(textsOf(sentences), speeches, writerOf(result.finalOutput, result.messageHistory))
  return {
    agents: Object.fromEntries(agents.map((name) => [name, report(name)])),
    sentences,
    basis,
    unattributed: unattributedOf(basis),
  }
}

/** Returns the speakers of each sentence, in the order in which they said it. */
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
