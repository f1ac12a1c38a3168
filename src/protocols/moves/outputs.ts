/** Formats the answers of agents: as text for the next reader, or as data for the next program. */
import type { Outcome } from '../../actors/definition/context/context.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** Answer of an agent. */
export interface Answer {
  agent: string
  message: AgentMessage
}

/** Outcome of a request that succeeded. */
export type Answered = Extract<Outcome, { ok: true }>

/**
 * Returns an answer as the result of a script. A code agent may answer with data only; then the content is its data as
 * JSON.
 */
export function resultOf({ message }: Answer): { content: string; structuredData: unknown } {
  const { content, structuredData } = message
  const wordless = content === '' && structuredData !== null && structuredData !== undefined
  return { content: wordless ? JSON.stringify(structuredData) : content, structuredData }
}

/** Returns each answer under a heading with its agent's name. A failed answer is replaced by its reason. */
export function asText(outcomes: readonly (Answer | Outcome)[]): string {
  const sections = outcomes.map((outcome) => {
    const answered = 'message' in outcome
    return `## ${outcome.agent}\n\n${answered ? resultOf(outcome).content : `(no answer: ${outcome.error.message})`}`
  })
  return sections.join('\n\n')
}

/** Returns the answers for a code agent: the `structuredData` that a judge or an aggregator gets. */
export function asData(outcomes: readonly Outcome[]): { outputs: object[] } {
  const outputs = outcomes.map((outcome) => {
    const { agent, ok } = outcome
    if (!ok) {
      const { code, message } = outcome.error
      return { agent, ok, content: null, structuredData: null, error: { code, message } }
    }
    const { content, structuredData = null } = outcome.message
    return { agent, ok, content, structuredData, error: null }
  })
  return { outputs }
}
