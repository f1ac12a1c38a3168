/**
 * How the desk works: a model takes the question apart, experts work on the parts at the same time, and a model makes one
 * answer of what they found. Who fails, or takes too long, is named in the answer; the others' parts stand.
 */
import type { OrchestratorContext } from 'dramatis'
import { z } from 'zod'

export const EXPERTS = ['weather', 'finance', 'travel', 'general'] as const

/** From the start of an expert's turn. */
const TIMEOUT_MS = 10_000

const plan = z.object({
  tasks: z
    .array(
      z.object({
        agent: z.enum(EXPERTS).describe('Who is to do it.'),
        task: z.string().min(1).describe('What to do, in the language of the question.'),
      }),
    )
    .min(1)
    .max(8),
  reasoning: z.string().describe('Why these tasks, in a sentence.'),
})

interface Part {
  agent: string
  task: string
  answer: string | null
  error: string | null
}

export async function answerAtDesk(desk: OrchestratorContext, question: string): Promise<string> {
  const { output } = await desk.complete({ messages: planning(desk, question), output: plan })
  for (const { agent, task } of output.tasks) desk.decide(task, agent, output.reasoning)
  const parts = await Promise.all(output.tasks.map((each) => partOf(desk, each)))
  if (parts.every(({ error }) => error !== null)) return apology(parts)
  const { text } = await desk.complete({ messages: combining(question, parts), stream: true })
  return text
}

async function partOf(desk: OrchestratorContext, { agent, task }: { agent: string; task: string }): Promise<Part> {
  try {
    const { content } = await desk.request(agent, task, { timeoutMs: TIMEOUT_MS })
    return { agent, task, answer: content, error: null }
  } catch (error) {
    return { agent, task, answer: null, error: error instanceof Error ? error.message : String(error) }
  }
}

function planning({ agents }: OrchestratorContext, question: string) {
  const who = agents.map(({ name, description }) => `- ${name}: ${description}`).join('\n')
  return [
    { role: 'system' as const, content: `Take the question apart into tasks for these experts:\n${who}` },
    { role: 'user' as const, content: question },
  ]
}

function combining(question: string, parts: readonly Part[]) {
  const content =
    'Answer the question from these results alone, in its own language, in a few sentences. Say of what is missing that it could not be found out.'
  return [
    { role: 'system' as const, content },
    { role: 'user' as const, content: JSON.stringify({ question, parts }) },
  ]
}

const apology = (parts: readonly Part[]) =>
  `None of the experts could help this time: ${parts.map(({ agent, error }) => `${agent}: ${error}`).join(' ')} Please try again later.`
