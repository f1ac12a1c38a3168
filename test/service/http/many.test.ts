/** Many clients at once, over real connections: 50 tasks, and 1,000 connections that are cut at random. */
import { once } from 'node:events'
import { type ClientRequest, createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { defineAgent } from '../../../src/index.ts'
import { Dice } from '../../dice.ts'
import { EVERYTHING, type Stage, stage } from './stage.ts'

const LIMITS = { tasksPerCaller: 100, streamsPerCaller: 2_000, streams: 2_000 }

t.test('50 tasks at once: each has its own answer', async (t) => {
  const agent = defineAgent({
    async receive({ content }, context) {
      await context.sleep(0)
      return `heard: ${content}`
    },
  })
  const { url } = await listening(t, stage(t, agent, { limits: LIMITS }, { concurrency: 50 }))
  const answers = Array.from({ length: 50 }, async (_, n) => {
    const headers = { 'x-caller': EVERYTHING, 'content-type': 'application/json' }
    const body = JSON.stringify({ query: `task ${n}` })
    const response = await fetch(`${url}/api/tasks`, { method: 'POST', headers, body })
    return ((await response.json()) as { answer: string }).answer
  })
  t.same(
    await Promise.all(answers),
    answers.map((_, n) => `heard: task ${n}`),
  )
})

t.test('1,000 connections cut at random while a task runs: no event is missed, none comes twice', async (t) => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const agent = defineAgent({
    async receive(_message, context) {
      for (let n = 1; n <= 30; n++) await context.blackboard!.write(`entry.n${n}`, n, 'number')
      await released
      for (let n = 31; n <= 60; n++) await context.blackboard!.write(`entry.n${n}`, n, 'number')
      return 'done'
    },
  })
  const { url, send } = await listening(t, stage(t, agent, { limits: LIMITS }))
  const { body: task } = await send('POST', '/api/tasks', {
    body: { query: 'q' },
    headers: { prefer: 'respond-async' },
  })
  const path = `${url}/api/tasks/${task.id}/events`
  const dice = new Dice(7)
  let cuts = 0
  const client = async (): Promise<string[]> => {
    const seen: string[] = []
    for (;;) {
      const isLast = cuts >= 1_000
      cuts += 1
      const isOver = await reading(path, seen, isLast ? Number.POSITIVE_INFINITY : 1 + dice.upTo(2_000))
      if (cuts > 500) release()
      if (isOver) return seen
    }
  }
  const clients = await Promise.all(Array.from({ length: 20 }, client))
  t.ok(cuts >= 1_000, `${cuts} connections`)
  const whole: string[] = []
  await reading(path, whole, Number.POSITIVE_INFINITY)
  t.ok(whole.length > 120)
  for (const seen of clients) t.same(seen, whole)
})

/** Reads so many bytes of a stream, wherever in a frame they end, then cuts the connection. Resolves to true at its end. */
function reading(url: string, seen: string[], most: number): Promise<boolean> {
  const last = seen.at(-1)
  const headers = { 'x-caller': EVERYTHING, ...(last !== undefined && { 'last-event-id': last }) }
  return new Promise((resolve, reject) => {
    let text = ''
    const asked: ClientRequest = httpRequest(url, { headers }, (response) => {
      const whole = () => [...text.matchAll(/^id: (.+)\nevent: .+\ndata: .+\n\n/gm)].map(([, id]) => id!)
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
        if (text.length < most) return
        text = text.slice(0, most)
        seen.push(...whole())
        asked.destroy()
        response.removeAllListeners()
        response.on('error', () => {})
        resolve(false)
      })
      response.on('end', () => {
        seen.push(...whole())
        resolve(true)
      })
      response.on('error', reject)
    })
    asked.on('error', (error) => (text.length < most ? reject(error) : undefined))
    asked.end()
  })
}

async function listening(t: Test, given: Stage): Promise<Stage & { url: string }> {
  const server = createServer(given.api.node).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { ...given, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
