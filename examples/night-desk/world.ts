/**
 * What the desk reaches, in a process that lives on when the desk's is killed: a gateway to a model, and a payment
 * service. Both count, and both honour `Idempotency-Key`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { type Loopback, onLoopback } from '../lib/loopback.ts'

/** A kind of request that came, before it is answered. */
export type Arrival = 'model call' | 'refund'

export interface World extends Loopback {
  /** Number of requests that came, and of those that were new: the others had a key that was known. */
  readonly counts: Readonly<Record<Arrival, { came: number; done: number }>>
}

export interface WorldOptions {
  /** Where the gateway passes calls on to; without it a few rules answer in a model's place. */
  provider?: { baseURL: string; apiKey: string | undefined } | undefined
  /** Called for each request, with its number. What it resolves to comes before the answer. */
  onArrival(what: Arrival, number: number): Promise<void>
}

const STAND_IN_MS = 40

export async function openWorld({ provider, onArrival }: WorldOptions): Promise<World> {
  const counts = { 'model call': { came: 0, done: 0 }, refund: { came: 0, done: 0 } }
  const answers = new Map<string, Promise<string>>()
  const ask = provider ? (body: string) => passedOn(provider, body) : standIn
  const act: Record<Arrival, (body: string) => Promise<string>> = {
    'model call': ask,
    refund: async () => JSON.stringify({ booking: counts.refund.done }),
  }
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const what: Arrival = request.url === '/refunds' ? 'refund' : 'model call'
    const body = await textOf(request)
    const count = counts[what]
    count.came += 1
    const key = String(request.headers['idempotency-key'])
    const number = count.came
    let answered = answers.get(key)
    if (!answered) {
      count.done += 1
      answered = act[what](body)
      answers.set(key, answered)
    }
    await onArrival(what, number)
    response.setHeader('content-type', 'application/json').end(await answered)
  }
  const server = await onLoopback((request, response) => {
    answer(request, response).catch((error: unknown) => response.writeHead(502).end(String(error)))
  })
  return { ...server, counts }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}

async function passedOn({ baseURL, apiKey }: NonNullable<WorldOptions['provider']>, body: string): Promise<string> {
  const headers = { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) }
  const response = await fetch(`${baseURL}/chat/completions`, { method: 'POST', headers, body })
  if (!response.ok) throw new Error(`The provider answered ${response.status}.`)
  return response.text()
}

/** Answers by a few rules, in the time that a very fast model takes. */
async function standIn(body: string): Promise<string> {
  await pause(STAND_IN_MS)
  const { messages } = JSON.parse(body) as { messages: { role: string; content: string }[] }
  const [system = '', asked = ''] = [messages[0]?.content, messages.at(-1)?.content]
  const content = system.startsWith('You read') ? reasonOf(asked) : reportOf(asked)
  const usage = { prompt_tokens: words(system) + words(asked), completion_tokens: words(content) }
  const choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }
  return JSON.stringify({ id: 'by-rules', object: 'chat.completion', model: 'rules', choices: [choice], usage })
}

const words = (text: string) => text.split(/\s+/).length

function reasonOf(letter: string): string {
  if (/crack|black|broken/.test(letter)) return 'broken'
  return /came on|too late/.test(letter) ? 'late' : 'unwanted'
}

function reportOf(asked: string): string {
  const lines = asked.split('\n').filter((line) => line.startsWith('Order '))
  const refunded = lines.filter((line) => line.endsWith('refunded.') && !line.includes('not refunded'))
  return [`[by rules, not by a model] ${lines.length} returns, ${refunded.length} refunds.`, ...lines.sort()].join('\n')
}
