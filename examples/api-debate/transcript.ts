/** The debate as the result's messages have it: what was asked, and what was said. */
import type { AgentMessage } from 'dramatis'
import { z } from 'zod'

const argument = z.object({ argument: z.string(), evidence: z.array(z.string()) })
const verdict = z.object({ winner: z.string(), reasons: z.string() })

const USER = '$user'
const LONGEST = 100

/** The beginning of each question, all of each answer. */
export function transcriptOf(messages: readonly AgentMessage[]): string {
  const within = messages.filter(({ sender, recipient }) => sender !== USER && recipient !== USER)
  return within.map(lineOf).join('\n')
}

const lineOf = ({ sender, recipient, type, content }: AgentMessage): string =>
  type === 'request' ? `${sender} asks ${recipient}: ${short(content)}` : `${sender}: ${said(content)}`

/** Debaters and judge answer by a schema where the strategy has to understand them. */
function said(content: string): string {
  const data = asJson(content)
  const argued = argument.safeParse(data).data
  if (argued) return [argued.argument, ...argued.evidence.map((one) => `  - ${one}`)].join('\n')
  const judged = verdict.safeParse(data).data
  return judged ? `The winner is ${judged.winner}. ${judged.reasons}` : content
}

function asJson(content: string): unknown {
  try {
    return JSON.parse(content)
  } catch {
    return undefined // words
  }
}

function short(content: string): string {
  const line = content.replace(/\s+/g, ' ')
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}...` : line
}
