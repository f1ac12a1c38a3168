/** What agents have answered: as text for the next reader, as data for the next program. */
import type { Outcome } from '../../actors/definition/context/context.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** Who said what. */
export interface Answer {
  agent: string
  message: AgentMessage
}

/** An outcome that is an answer. */
export type Answered = Extract<Outcome, { ok: true }>

/** An answer as the result of a script. An agent of code may answer with data alone; then the data is its words. */
export function resultOf({ message }: Answer): { content: string; structuredData: unknown } {
  const { content, structuredData } = message
  const wordless = content === '' && structuredData !== null && structuredData !== undefined
  return { content: wordless ? JSON.stringify(structuredData) : content, structuredData }
}

/** Each answer under a heading with its agent's name; in the place of one that failed, why. */
export function asText(outcomes: readonly (Answer | Outcome)[]): string {
  const sections = outcomes.map((outcome) => {
    const answered = 'message' in outcome
    return `## ${outcome.agent}\n\n${answered ? resultOf(outcome).content : `(no answer: ${outcome.error.message})`}`
  })
  return sections.join('\n\n')
}

/** The same for an agent of code: the `structuredData` that a judge or an aggregator gets. */
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
