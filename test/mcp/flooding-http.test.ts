/** What a server over HTTP can make the host hold or read: bounded, and over a bound the connection ends with an error that says so. */
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { forever } from '../runtime/models/hostile-server.ts'
import { connected } from './connected.ts'
import { floodingHttp } from './flooding-http-server.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const EVENTS = { 'content-type': 'text/event-stream' }
const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, ' '))
const overHttp: [string, string, (response: ServerResponse) => unknown][] = [
  ['a body without an end', 'a body of more than 16 MiB', (to) => forever(to, '[', ' '.repeat(65_536), JSON_TYPE)],
  [
    'an event without an end',
    'an event of more than 16 MiB',
    (to) => forever(to, 'data: ', 'x'.repeat(65_536), EVENTS),
  ],
  [
    'a body of millions of values',
    'a body of more than 1048576 JSON values',
    (to) => to.writeHead(200, JSON_TYPE).end(`{"a":[${'{},'.repeat(4_000_000)}{}]}`),
  ],
  ['comments', 'a stream without data of more than 1 MiB', (to) => forever(to, '', ': so\n\n'.repeat(9_999), EVENTS)],
  [
    'a body that grows when it is decompressed',
    'a body of more than 16 MiB',
    (to) => to.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(bomb),
  ],
]

for (const [what, bound, flood] of overHttp)
  t.test(`over HTTP, ${what}: calls under way fail with the bound, and later ones too`, async (t) => {
    const { url } = await floodingHttp(t, { flood })
    const { call } = await connected(t, { url })
    const ended = {
      code: 'TOOL_FAILED',
      message: `failed: it sends ${bound}, so the connection to it was ended; connect`,
    }
    await Promise.all(['wait', 'flood'].map((each) => t.rejects(call(each), ended)))
    await t.rejects(call('say'), ended)
  })

t.test('over HTTP, a server that asks without end and reads no answer is given up', async (t) => {
  const ping = `data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n\n`
  const server = await floodingHttp(t, { lifelong: ping })
  const { call } = await connected(t, { url: server.url })
  server.more(ping.repeat(5_000))
  await t.rejects(call('wait'), { message: 'it does not read the 1000 answers sent to it' })
})

t.test('over HTTP, the stream that stays open is bounded by its events, not by what it carries in all', async (t) => {
  const server = await floodingHttp(t, { lifelong: `${': still here\n\n'.repeat(200_000)}data: ` })
  const { call } = await connected(t, { url: server.url })
  t.match(await call('say'), { content: [{ text: 'said' }] })
  server.more('x'.repeat(17 * 2 ** 20))
  await t.rejects(call('wait'), { message: 'it sends an event of more than 16 MiB' })
})
