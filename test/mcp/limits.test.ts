/** Waits and warnings of MCP connections that have bounds: by a clock that a test owns in part. */
import t, { type Test } from 'tap'
import type { Logger } from '../../src/index.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { connected } from './connected.ts'
import { plainHttp } from './plain-http-server.ts'

const CANCEL_MS = 5_000
const LONGEST_WAIT_MS = 60_000

/** Has no time pass in sleeps, and returns their lengths. */
function sleepless(t: Test): number[] {
  const slept: number[] = []
  t.intercept(systemClock, 'sleep', { value: async (ms: number) => void slept.push(ms) })
  return slept
}

t.test('a server is waited for as long as it says, at most a minute, and three times', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url, era: '2025' })
  for (const [said, waitMs] of [
    ['7', 7_000],
    ['3600', LONGEST_WAIT_MS],
    ['1e9', LONGEST_WAIT_MS],
    ['-1', 200],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 200],
  ] as const) {
    const slept = sleepless(t)
    server.refuses = () => ({ status: 429, headers: { 'retry-after': said } })
    await t.rejects(call('echo', {}, {}, 120_000), { code: 'TOOL_FAILED', message: /it answered 429/ })
    t.match([slept.length, slept[0]], [3, waitMs], said)
  }
})

t.test('a server that does not take the cancelling of its task is not waited for', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url, era: '2025' })
  const { timer } = systemClock
  let isOver = () => {}
  const over = new Promise<void>((resolve) => {
    isOver = resolve
  })
  t.intercept(systemClock, 'timer', {
    value: (ms: number, task: () => void, limit?: boolean) => {
      if (ms !== CANCEL_MS) return timer(ms, task, limit)
      task() // its time is up at once
      isOver()
      return { cancel: () => {} }
    },
  })
  const late = new AbortController()
  server.said = (method) => {
    if (method === 'tools/call') return { resultType: 'task', taskId: 't', pollIntervalMs: 1 }
    if (method === 'tasks/cancel') return new Promise<object>(() => {})
    late.abort(Object.assign(new Error('enough'), { code: 'CANCELLED' }))
    return { status: 'working', pollIntervalMs: 1 }
  }
  await t.rejects(call('echo', {}, { signal: late.signal }), { code: 'OUTCOME_UNKNOWN' })
  await over
})

t.test('errors of a connection that belong to no call are told up to 16 KiB a minute', async (t) => {
  const warned: string[] = []
  const none = () => {}
  const warn = ({ error }: { error: string }) => warned.push(error)
  const logger = { debug: none, info: none, error: none, warn } as unknown as Logger
  const program = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line)
    const result = method === 'initialize'
      ? { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'a', version: '1' } }
      : method === 'tools/list' ? { tools: [{ name: 'noise' }] } : { content: [] }
    const answer = () => id !== undefined && console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
    if (method !== 'tools/call') return answer()
    for (let at = 0; at < 3_000; at++) console.log('this is no message')
    answer()
  })`
  let now = 1e6
  t.intercept(systemClock, 'monotonic', { value: () => now })
  const server = { command: process.execPath, args: ['-e', program], era: '2025' as const }
  const { call } = await connected(t, server, logger)
  const isFull = () => /fails more often than is told: the rest of this minute is left out/.test(warned.at(-1) ?? '')
  while (!isFull()) await call('noise')
  const { length } = warned.slice(0, -1).join('')
  t.ok(length > 15_000 && length <= 16_384, `${length} characters`)
  for (let calls = 0; calls < 20; calls++) await call('noise')
  t.ok(isFull(), 'nothing more is told')
  const before = warned.length
  now += 60_000
  await call('noise')
  t.ok(warned.length > before, 'the next minute has room')
})
