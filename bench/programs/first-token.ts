/**
 * Time from a call to its first words, for who reads them: by the bare client of OpenAI's API, and by `run.text()` and
 * `run.stream()` of a team with one model agent. A server in another thread answers at once, in pieces.
 *
 *   node first-token.js <rounds>
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { createTeam } from 'dramatis'
import OpenAI from 'openai'

/** Milliseconds to the first words, of each round. */
export interface FirstToken {
  bare: number[]
  text: number[]
  stream: number[]
}

const WARM_UP = 100
const PIECES = 20

if (isMainThread) console.log(JSON.stringify(await measured(Number(process.argv[2] ?? 300))))
else serve()

function serve(): void {
  const chunk = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 0, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  const pieces = Array.from({ length: PIECES }, (_, i) => chunk({ content: `word${i} ` }))
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const piece of pieces) response.write(piece)
      response.end(`${chunk({}, 'stop')}data: [DONE]\n\n`)
    })
  })
  server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port))
}

async function measured(rounds: number): Promise<FirstToken> {
  const worker = new Worker(new URL(import.meta.url))
  const [port] = (await once(worker, 'message')) as [number]
  const baseURL = `http://127.0.0.1:${port}/v1`
  const client = new OpenAI({ baseURL, apiKey: 'none' })
  const team = createTeam({
    agents: [{ name: 'speaker', systemPrompt: 'You speak.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'm', baseURL, apiKey: 'none' } },
  })
  await team.start()
  const messages = [
    { role: 'system' as const, content: 'You speak.' },
    { role: 'user' as const, content: 'Speak.' },
  ]
  async function* bare() {
    for await (const { choices } of await client.chat.completions.create({ model: 'm', messages, stream: true }))
      if (choices[0]?.delta.content) yield choices[0].delta.content
  }
  async function* stream() {
    for await (const part of team.launch('Speak.', { stream: true }).stream()) if (part.type === 'text') yield part.text
  }
  const text = () => team.launch('Speak.', { stream: true }).text()
  const ways = { bare, text, stream }
  const all: FirstToken = { bare: [], text: [], stream: [] }
  for (let round = -WARM_UP; round < rounds; round++)
    for (const way of ['bare', 'text', 'stream'] as const) {
      const ms = await firstOf(ways[way])
      if (round >= 0) all[way].push(ms)
    }
  await team.close()
  await worker.terminate()
  return all
}

/** Reads all, and returns the time until the first piece has come. */
async function firstOf(read: () => AsyncIterable<string>): Promise<number> {
  const began = performance.now()
  let first = 0
  for await (const _piece of read()) first ||= performance.now() - began
  if (first === 0) throw new Error('no word has come')
  return first
}
