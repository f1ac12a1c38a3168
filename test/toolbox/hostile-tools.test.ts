/** Isolated tools that attack the host or each other: by what they post, and by what they change in their thread. */
import { threadId } from 'node:worker_threads'
import t from 'tap'
import { desk } from './desk.ts'

const module = new URL('../fixtures/tools/hostile.js', import.meta.url)
const tool = (name: string) => ({ module, export: name, isolate: true })

t.test('whatever a tool posts by itself, the host goes on and the call has its own answer', async (t) => {
  const { call } = desk(t, [tool('posting')])
  const posts = [
    5,
    null,
    'text',
    [],
    {},
    { log: 'fatal', fields: '{}', text: 'x' },
    { log: 'info', fields: 5, text: {} },
    { log: 'constructor', fields: '{}', text: 'x' },
    { progress: 5 },
    { begun: threadId },
    { done: null },
    { done: 5 },
    { done: { ok: false } },
    { done: { ok: false, error: 'no' } },
    { done: { ok: true, output: 5 } },
    { done: { ok: true, tool: { name: 5 } } },
    { ready: true },
    { taskId: 1, result: 'forged' },
  ]
  t.match((await call('posting', { posts })).outcomes, [{ output: 'done' }])
  t.match((await call('posting', {})).outcomes, [{ output: 'done' }], 'and the next one too')
})

t.test('an answer that a tool forges is its own; one that is no JSON, or too deep, is a failure', async (t) => {
  const { call } = desk(t, [tool('posting')])
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
  const forged = (output: string) => call('posting', { posts: [{ done: { ok: true, output } }] })
  t.match((await forged('"forged"')).outcomes, [{ output: 'forged' }])
  for (const output of ['{', deep])
    t.match((await forged(output)).outcomes, [
      { code: 'TOOL_FAILED', message: /no JSON, or is nested more than 1,000/ },
    ])
})

t.test('an answer that a tool forges is as long as answers may be, and an error too', async (t) => {
  const { call } = desk(t, [tool('posting')], { communication: { maxMessageBytes: 100_000 } })
  const forged = async (kind: string) => (await call('posting', { forge: { kind, size: 5_000_000 } })).outcomes
  t.match(await forged('output'), [{ code: 'TOOL_FAILED', message: /gave \d+ bytes; at most 100000 are taken/ }])
  for (const kind of ['message', 'details']) {
    const [outcome] = await forged(kind)
    t.equal(outcome!.code, 'TOOL_FAILED', kind)
    t.match(outcome!.message, /^x{1,65536}$/, kind)
  }
})

t.test('a tool that posts without end loses its thread, and its call fails', async (t) => {
  const { call } = desk(t, [tool('posting')])
  t.match((await call('posting', { flood: 100_000 })).outcomes, [
    { code: 'TOOL_FAILED', message: /posted more than 20000 messages/ },
  ])
})

t.test('what a tool changes in its thread is gone with its call', async (t) => {
  const { call } = desk(t, [tool('infecting'), tool('honest')])
  for (let round = 0; round < 2; round += 1) {
    t.match((await call('infecting', {})).outcomes, [{}])
    t.match(
      (await call('honest', {}, 4)).outcomes,
      Array(4).fill({ output: { json: '{"a":1}', text: 'ext', seen: null } }),
    )
  }
})
