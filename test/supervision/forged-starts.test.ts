/** Answers to a start that no thread of ours gives: an agent's code can change what its thread sends. */
import t from 'tap'
import type { Assignment } from '../../src/actors/definition/assignment.ts'
import { type AgentRole, createTeam } from '../../src/index.ts'
import { startedIn } from '../../src/runtime/threads/worker-thread.ts'
import { silent } from './teams.ts'

const module = new URL('../fixtures/supervision/forges-its-start.js', import.meta.url)
const known = { module: 'file:///tool.js', bundled: false, shown: 'tool.js', export: 'look', option: 'tools[0]' }
const assignment = { role: { name: 'ann' }, tools: { modules: [known] } } as unknown as Assignment

/** Starts an agent that answers so, in a team with limits that are not what ends the test. */
async function start(t: { teardown(end: () => unknown): unknown }, env: { FORGED?: string; KIND?: string }) {
  Object.assign(process.env, env)
  const agent: AgentRole = { name: 'ann', module, env: Object.keys(env) }
  const team = createTeam({
    agents: [agent],
    orchestration: { strategy: 'sequential' },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  try {
    await team.start()
    return undefined
  } catch (error) {
    return error
  } finally {
    for (const name of Object.keys(env)) delete process.env[name]
  }
}

const unknown = /^Agent "ann" failed twice while it started: The thread of agent "ann" answered its start with what/

t.test('an agent that answers its start with nothing has failed to start, and is named', async (t) => {
  t.match(await start(t, { FORGED: 'null' }), { code: 'START_FAILED', message: unknown, details: { agent: 'ann' } })
})

t.test('an answer that leads to a port of the agent is none', async (t) => {
  t.match(await start(t, { KIND: 'port' }), { code: 'START_FAILED', message: unknown })
})

t.test('an answer that is thrown, or cannot be read, is a start that failed', async (t) => {
  const thrown = JSON.stringify({ isError: false, value: { toString: 5, valueOf: 5 } })
  for (const env of [{ KIND: 'throw', FORGED: thrown }, { KIND: 'nothing' }])
    t.match(await start(t, env), { code: 'START_FAILED', message: /The thread could not be started/ })
})

t.test('a failure at a place that no file can have is a start that failed', async (t) => {
  const error = {
    code: 'CONFIGURATION',
    message: 'bad',
    details: {},
    cause: { name: 'Error', message: 'bad', stack: 'Error: bad\n    at file:///a%2Fb.js:1:2' },
  }
  const forged = JSON.stringify({ ok: false, importing: 'agent', error })
  t.match(await start(t, { FORGED: forged }), { code: 'START_FAILED', message: /nor could it be seen why/ })
})

t.test('answers of another shape are failed starts', async (t) => {
  const deep = `${'['.repeat(2_000)}${']'.repeat(2_000)}`
  const wrong = [
    undefined,
    5,
    'text',
    () => {},
    [],
    {},
    { ok: 1 },
    { ok: true, state: {} },
    { ok: true, state: '{' },
    { ok: true, state: '5' },
    { ok: true, state: 'null' },
    { ok: true, state: deep },
    { ok: true, tools: 5 },
    { ok: true, harmful: [5] },
    { ok: false },
    { ok: false, error: 'bad' },
    { ok: false, error: { code: 5, message: 'bad' } },
    { ok: false, error: { code: 'CONFIGURATION', message: {} } },
    { ok: false, error: { code: 'CONFIGURATION', message: 'bad' }, importing: 5 },
  ]
  for (const reply of wrong)
    t.match(
      startedIn(reply, assignment),
      { ok: false, error: { code: 'START_FAILED' } },
      JSON.stringify(reply)?.slice(0, 80),
    )
})

t.test('answers of the right shape are taken, without what is not theirs', async (t) => {
  const cause = { name: 'TypeError', message: 'bad', stack: 'TypeError: bad' }
  const error = { code: 'CONFIGURATION' as const, message: 'bad', details: { a: 1 }, cause }
  t.same(startedIn({ ok: true, state: '{"a":1}', tools: ['look'], harmful: [] }, assignment), {
    ok: true,
    state: '{"a":1}',
    tools: ['look'],
    harmful: [],
  })
  t.same(startedIn({ ok: true, state: undefined, own: 5 }, assignment), { ok: true, state: undefined })
  t.same(startedIn({ ok: false, error, importing: 'agent' }, assignment), { ok: false, error, importing: 'agent' })
  t.same(startedIn({ ok: false, error, importing: { ...known, shown: 'x' } }, assignment), {
    ok: false,
    error,
    importing: known,
  })
  t.same(startedIn({ ok: false, error, importing: { module: 'file:///etc', export: 'x' } }, assignment), {
    ok: false,
    error,
  })
})
