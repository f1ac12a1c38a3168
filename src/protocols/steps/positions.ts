/** What agents stand for: as one list in which equal answers are one, as text, and as data. */
import { canonical } from '../../actors/decisions/vote.ts'
import { type Answer, resultOf } from './outputs.ts'

/** An answer that agents can stand behind. `value` is what it is compared by: its data, or its words where it has none. */
export interface Position {
  content: string
  structuredData: unknown
  value: unknown
}

/** A position, and who stands behind it. */
export interface Stand {
  position: Position
  agents: string[]
}

/** What an answer is compared by. */
export const claimOf = ({ message }: Answer): unknown => message.structuredData ?? message.content

/** Whether two values are the same, whatever the order of their keys. */
export const isSame = (a: unknown, b: unknown): boolean => canonical(a) === canonical(b)

export const positionOf = (answer: Answer): Position => ({ ...resultOf(answer), value: claimOf(answer) })

/** The position that a value is, as an agent says it in a larger answer. */
export function positionFrom(value: unknown): Position {
  const isText = typeof value === 'string'
  return { content: isText ? value : canonical(value), structuredData: isText ? null : value, value }
}

/** Each position once, in the order in which they come, with all who stand behind it. */
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

/** Numbered from 1, under headings with the names of those who stand behind each. */
export function standsAsText(stands: readonly Stand[]): string {
  return stands
    .map(({ position, agents }, i) => `## ${i + 1} (${agents.join(', ')})\n\n${position.content}`)
    .join('\n\n')
}

/** The same for an agent of code. */
export const standsAsData = (stands: readonly Stand[]): object[] =>
  stands.map(({ position: { content, structuredData }, agents }, i) => ({
    number: i + 1,
    agents,
    content,
    structuredData: structuredData ?? null,
  }))
