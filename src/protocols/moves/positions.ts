/** Positions of agents: as a list in which equal answers appear once, as text, and as data. */
import { canonical } from '../../actors/decisions/vote.ts'
import { type Answer, resultOf } from './outputs.ts'

/**
 * Answer that agents can support. `value` is used for comparison: the data of the answer, or its content if it has no
 * data.
 */
export interface Position {
  content: string
  structuredData: unknown
  value: unknown
}

/** Position with the agents that support it. */
export interface Stand {
  position: Position
  agents: string[]
}

/** Returns the value by which an answer is compared. */
export const claimOf = ({ message }: Answer): unknown => message.structuredData ?? message.content

/** Checks whether two values are the same, whatever the order of their keys. */
export const isSame = (a: unknown, b: unknown): boolean => canonical(a) === canonical(b)

export const positionOf = (answer: Answer): Position => ({ ...resultOf(answer), value: claimOf(answer) })

/** Returns a position for a value that an agent gives inside a larger answer. */
export function positionFrom(value: unknown): Position {
  const isText = typeof value === 'string'
  return { content: isText ? value : canonical(value), structuredData: isText ? null : value, value }
}

/** Returns each position once, in the order in which they come, with all agents that support it. */
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
export function standsAsText(stands: readonly Stand[]): string {
  return stands
    .map(({ position, agents }, i) => `## ${i + 1} (${agents.join(', ')})\n\n${position.content}`)
    .join('\n\n')
}

/** Returns the positions as data for a code agent. */
export const standsAsData = (stands: readonly Stand[]): object[] =>
  stands.map(({ position: { content, structuredData }, agents }, i) => ({
    number: i + 1,
    agents,
    content,
    structuredData: structuredData ?? null,
  }))
