/** A desk that settles returns through the night: a reader and a writer that a model plays, and a clerk with code. */
import { createTeam, defineTool, type MultiAgentPatternOptions } from 'dramatis'
import * as z from 'zod'
import { REASONS, type Reason, returns } from './returns.ts'

export interface NightDeskOptions {
  /** Address of the model gateway and of the payment service. */
  world: string
  model: string
  /** Folder of the durable log. */
  path: string
}

/** Both are found beside the compiled copy of this file. */
const clerk = new URL('./clerk.js', import.meta.url)

const refundWith = (world: string) =>
  defineTool({
    name: 'refund',
    description: 'Pays a customer back.',
    input: z.object({ order: z.string(), cents: z.number().int().positive() }),
    outside: true,
    // The service books a key once, however often it is asked: so the desk may ask again when it does not know.
    idempotent: true,
    async run(refund, { idempotencyKey, signal }) {
      const response = await fetch(`${world}/refunds`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
        body: JSON.stringify(refund),
        signal,
      })
      if (!response.ok) throw new Error(`The payment service answered ${response.status}.`)
      return (await response.json()) as { booking: number }
    },
  })

export function nightDesk({ world, model, path }: NightDeskOptions) {
  return createTeam({
    agents: [
      {
        name: 'reader',
        systemPrompt: `You read what customers write about goods that they send back. Answer with one word: ${REASONS.join(', ')}.`,
      },
      { name: 'clerk', module: clerk, tools: [refundWith(world)], concurrency: 16 },
      {
        name: 'writer',
        systemPrompt: 'You write the report of the night for the morning shift: what came back, and what was paid.',
      },
    ],
    enableBlackboard: true,
    maxConcurrentAgents: 16,
    models: { default: { model, baseURL: `${world}/v1` } },
    stateManagement: { path },
    orchestration: {
      strategy: 'custom',
      name: 'night desk',
      async run(desk) {
        const settled = await Promise.all(
          returns.map(async (each) => {
            const { content } = await desk.request('reader', each.letter)
            const reason = reasonIn(content)
            desk.decide(`Why does ${each.order} come back?`, reason, 'The reader says so.')
            const { content: line } = await desk.request('clerk', each.order, { structuredData: { ...each, reason } })
            return line
          }),
        )
        return (await desk.request('writer', settled.join('\n'))).content
      },
    },
  } satisfies MultiAgentPatternOptions)
}

const reasonIn = (text: string): Reason => REASONS.find((reason) => text.toLowerCase().includes(reason)) ?? 'unwanted'
