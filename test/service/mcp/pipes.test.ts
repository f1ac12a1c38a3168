/** Teams by the Model Context Protocol over pipes: forms in both eras, signs of life, and nothing else on stdout. */
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Transport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import t, { type Test } from 'tap'
import { servePipes } from '../../../src/service/mcp/stdio.ts'
import { silent } from '../../kit/team.ts'
import { opening } from '../chat/desk.ts'
import { openShop, type Shop } from '../chat/shop.ts'
import { type Opened, said, speak } from './client.ts'

const cli = fileURLToPath(new URL('../../../src/service/cli.js', import.meta.url))
const file = fileURLToPath(new URL('../../fixtures/mcp/shop-team.js', import.meta.url))

/** Serves a shop over pipes. Resolves to the client's end of them. */
async function piped(t: Test, shop: Partial<Shop> = {}, mcp = {}) {
  const done: string[] = []
  const team = openShop({ does: (what) => done.push(what), ...shop })
  const stdin = new PassThrough()
  const transport: Transport = {
    start: async () => {},
    send: async (message) => void stdin.write(`${JSON.stringify(message)}\n`),
    close: async () => void stdin.end(),
  }
  const write = async (text: string) => {
    for (const line of text.split('\n')) if (line !== '') transport.onmessage?.(JSON.parse(line))
  }
  const options = { teams: { shop: team }, mcp, logger: silent, limits: { disconnectGraceMs: 1 } }
  const caller = { id: 'local', may: ['run', 'watch', 'operate', 'approve'] as const }
  const { over, close } = await servePipes(options, caller, { stdin, answer: { write } })
  t.teardown(async () => {
    await close()
    await team.close()
  })
  return { team, done, transport, over }
}

for (const era of ['2025', '2026'] as const)
  t.test(`a program of ${era} is asked by a form within its call, and a person says yes or no`, async (t) => {
    const { transport, done } = await piped(t, {}, { waitMs: 1_000 })
    let isAgreed = true
    const elicits: Opened['elicits'] = () => ({ action: 'accept', content: { approve: isAgreed } })
    const { ask } = await speak(t, transport, { era, elicits })
    t.equal(said(await ask('use buy lamp')), 'result: {"done":"lamp"}')
    isAgreed = false
    t.match(said(await ask('use buy sofa')), /did not agree/)
    t.match(said(await ask('use pay rent')), /"questions":\[\]/, 'who has asked is not offered what others approve')
    t.same(done, ['buy lamp'])
  })

t.test('a program is told that its task works, and waits for it', async (t) => {
  const gate = opening()
  const { transport } = await piped(
    t,
    { pause: (word) => (word === 'slowly' ? gate.promise : undefined) },
    { waitMs: 1 },
  )
  const { ask } = await speak(t, transport, { era: '2025' })
  const told: unknown[] = []
  const onprogress = (progress: unknown) => {
    told.push(progress)
    gate.resolve()
  }
  t.equal(said(await ask('say slowly', { onprogress })), 'slowly')
  t.match(told, [{ progress: 1, message: 'shop works' }])
})

t.test('a call that its program gives up ends its task', async (t) => {
  const gate = opening()
  const { transport, team } = await piped(t, { pause: () => gate.promise })
  const { ask } = await speak(t, transport, { era: '2025' })
  const leaving = new AbortController()
  const left = ask('say slowly', { signal: leaving.signal })
  while ((await team.listRuns()).length === 0) await new Promise(setImmediate)
  leaving.abort()
  await t.rejects(left)
  while ((await team.listRuns())[0]!.status !== 'aborted') await new Promise(setImmediate)
  gate.resolve()
})

t.test('dramatis mcp speaks nothing but the protocol on stdout, and ends when its program leaves', async (t) => {
  const effects = join(t.testdir(), 'effects')
  mkdirSync(effects)
  const env = { EFFECTS: effects }
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [cli, 'mcp', `shop=${file}`, '--agents'],
    env,
    stderr: 'pipe',
  })
  const errors: unknown[] = []
  let printed = ''
  transport.stderr?.on('data', (text) => {
    printed += text
  })
  const { client, ask, call } = await speak(t, transport, {
    elicits: () => ({ action: 'accept', content: { approve: true } }),
  })
  client.onerror = (error) => errors.push(error)
  const { tools } = await client.listTools()
  t.same(tools.map(({ name }) => name).slice(0, 2), ['ask_shop', 'ask_shop_shop'])
  t.equal(said(await ask('use buy lamp')), 'result: {"done":"lamp"}')
  t.equal(said(await call('ask_shop_shop', { query: 'say hello' })), 'hello')
  const [name] = readdirSync(effects)
  t.equal(readFileSync(join(effects, name!), 'utf8'), 'buy lamp')
  const stderr = transport.stderr!
  const ended = once(stderr, 'end')
  await client.close()
  await ended
  t.match(printed, /"jsonrpc"[\s\S]*serves shop by MCP[\s\S]*a tool prints/)
  t.same(errors, [])
})
