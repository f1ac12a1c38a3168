/** Positions of agents: as a list in which equal answers appear once, as text, and as data. */
import type { OrchestratorContext, Outcome } from '../actors/definition/context.ts'
import type { Ballot } from '../actors/model/decisions.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import { canonical } from '../shared/values.ts'

export interface Answer {
  agent: string
  message: AgentMessage
}

export type Answered = Extract<Outcome, { ok: true }>

/** Returns an answer as the result of a script. The content of a code agent's answer with data alone is their JSON. */
export function resultOf({ message }: Answer): { content: string; structuredData: unknown } {
  const { content, structuredData } = message
  const wordless = content === '' && structuredData !== null && structuredData !== undefined
  return { content: wordless ? JSON.stringify(structuredData) : content, structuredData }
}

/** Returns each answer under a heading with its agent's name. A failed answer is replaced by its reason. */
export function asText(outcomes: readonly (Answer | Outcome)[]): string {
  const wordsIn = (one: Answer | Outcome) =>
    'message' in one ? resultOf(one).content : `(no answer: ${one.error.message})`
  return outcomes.map((outcome) => `## ${outcome.agent}\n\n${wordsIn(outcome)}`).join('\n\n')
}

/** Returns the answers for a code agent: the `structuredData` that a judge or an aggregator gets. */
export function asData(outcomes: readonly Outcome[]): { outputs: object[] } {
  const outputs = outcomes.map((outcome) => {
    const { agent, ok } = outcome
    if (ok) {
      const { content, structuredData = null } = outcome.message
      return { agent, ok, content, structuredData, error: null }
    }
    const { code, message } = outcome.error
    return { agent, ok, content: null, structuredData: null, error: { code, message } }
  })
  return { outputs }
}

/** Answer that agents can support. `value`, by which it is compared, is its data, or its content. */
export interface Position {
  content: string
  structuredData: unknown
  value: unknown
}

export interface Stand {
  position: Position
  agents: string[]
}

export const claimOf = ({ message }: Answer): unknown => message.structuredData ?? message.content

/** Checks whether two values are the same, whatever the order of their keys. */
export const isSame = (a: unknown, b: unknown): boolean => canonical(a) === canonical(b)

export const positionOf = (answer: Answer): Position => ({ ...resultOf(answer), value: claimOf(answer) })

/** Returns a position for a value that an agent gives inside a larger answer. */
export const positionFrom = (value: unknown): Position => ({
  content: valueAsText(value),
  structuredData: typeof value === 'string' ? null : value,
  value,
})

/** Returns a text as it is, any other value as JSON with its keys in order. */
export const valueAsText = (value: unknown): string => (typeof value === 'string' ? value : canonical(value))

export const priorityOf = ({ agents }: OrchestratorContext, agent: string): number =>
  agents.find(({ name }) => name === agent)?.priority ?? 0

/** Returns each position once, in the order in which they come. */
export function standsOf(held: Iterable<readonly [agent: string, position: Position]>): Stand[] {
  const stands = new Map<string, Stand>()
  for (const [agent, position] of held) {
    const key = canonical(position.value)
    const stand = stands.get(key)
    if (stand) stand.agents.push(agent)
    else stands.set(key, { position, agents: [agent] })
  }
  return [...stands.values()]
}

/** Returns the positions as text, numbered from 1, under headings with the names of the agents that support each. */
export const standsAsText = (stands: readonly Stand[]): string =>
  stands.map(({ position, agents }, i) => `## ${i + 1} (${agents.join(', ')})\n\n${position.content}`).join('\n\n')

export const standsAsData = (stands: readonly Stand[]): object[] =>
  stands.map(({ position: { content, structuredData }, agents }, i) => ({
    number: i + 1,
    agents,
    content,
    structuredData: structuredData ?? null,
  }))

/** Agreement that is needed: a share of the weight, up to 1, or every agent, whatever its weight. */
export type Needed = number | 'all'

export interface Agreement {
  /** Value with the most weight; undefined if no agent supports any value. */
  winner: unknown
  /** Weight of the winner. Without a usable weight each agent counts 1. */
  score: number
  total: number
  tied: boolean
  reached: boolean
  /** false: no agent that takes part has a weight above 0, so there is no total for a share. */
  possible: boolean
}

/** Tolerance for the comparison of weights: the difference between 0.1 + 0.2 and 0.3 must not prevent agreement. */
const TOLERANCE = 1e-9

/**
 * Counts ballots as `vote` does. The total includes agents that support no value: they do not agree. A tie is no
 * agreement.
 *
 * @param abstained agents that take part and support no value; an unusable weight of such an agent does not turn the
 *   count into a majority vote.
 */
export function agreementOn(
  orchestrator: Pick<OrchestratorContext, 'agents' | 'vote'>,
  ballots: readonly Ballot[],
  abstained: readonly string[],
  needed: Needed,
): Agreement {
  const weights = new Map(orchestrator.agents.map(({ name, weight }) => [name, weight === undefined ? 1 : weight]))
  const usable = (agent: string) => {
    const weight = weights.has(agent) ? weights.get(agent) : 1
    return typeof weight === 'number' && Number.isFinite(weight) ? weight : null
  }
  const byWeight = ballots.every(({ agent }) => usable(agent) !== null)
  const total = [...ballots.map(({ agent }) => agent), ...abstained].reduce(
    (sum, agent) => sum + ((byWeight ? usable(agent) : 1) ?? 1),
    0,
  )
  const possible = needed === 'all' || total > 0
  if (ballots.length === 0) return { winner: undefined, score: 0, total, tied: false, reached: false, possible }

  const { winner, scores, tied } = orchestrator.vote([...ballots])
  const score = Math.max(...Object.values(scores))
  const isUnanimous = abstained.length === 0 && ballots.every(({ value }) => isSame(value, winner))
  const isEnough = needed === 'all' ? isUnanimous : possible && score >= (needed - TOLERANCE) * total
  return { winner, score, total, tied, reached: isEnough && !tied, possible }
}
