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

const lineOf = (message: AgentMessage): string =>
  message.type === 'request'
    ? `${message.sender} asks ${message.recipient}: ${short(message.content)}`
    : `${message.sender}: ${said(message)}`

/** An argument is the content of its message, with its evidence beside it as data. The judge answers by a schema, too. */
function said({ content, structuredData }: AgentMessage): string {
  const evidence = argument.safeParse(structuredData).data?.evidence ?? []
  const judged = verdict.safeParse(structuredData).data
  if (judged) return `The winner is ${judged.winner}. ${judged.reasons}`
  return [content, ...evidence.map((one) => `  - ${one}`)].join('\n')
}

function short(content: string): string {
  const line = content.replace(/\s+/g, ' ')
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}...` : line
}
