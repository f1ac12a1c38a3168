/** What an agent keeps, over turns, runs and crashes; and the state "persistent" without a log. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createTeam, defineAgent, type OrchestratorContext } from '../../src/index.ts'
import { says, stage } from './stage.ts'

// What an agent keeps: over turns, runs, failures, crashes and restarts; and what it keeps for one run alone.

/** Counts what it handled, in all and in this run; does what the message says on its way. */
const counter = defineAgent({
  initialState: { n: 0, log: [] as string[] },
  initialRunState: () => ({ n: 0 }),
  async receive({ content }, context) {
    context.setState((draft) => {
      draft.n += 1
      draft.log.push(content)
    })
    context.setRunState((draft) => {
      draft.n += 1
    })
    if (content === 'throw') throw new Error('broken')
    if (content === 'refuse') throw context.refuse('no')
    if (content === 'no reply') return 5 as never
    if (content === 'wait') await context.sleep(10)
    return `${context.state.n} ${context.runState.n}`
  },
})

const stateOnce = { orchestration: { strategy: 'sequential' as const, agentOrder: ['a' as const] } }

t.test('state lasts over runs, the state of a run does not', async (t) => {
  const team = stage(t, { a: counter }, { orchestration: { strategy: 'sequential', agentOrder: ['a', 'a'] } })
  t.equal((await team.execute('q')).finalOutput, '2 2')
  t.equal((await team.execute('q')).finalOutput, '4 2')
})

t.test('messages of their own are runs of their own', async (t) => {
  const team = stage(t, { a: counter })
  const ask = async () => (await team.sendMessage({ recipient: 'a', content: 'hi', requiresResponse: true }))?.content
  t.same([await ask(), await ask()], ['1 1', '2 1'])
})

t.test('runs that interleave keep their states apart', async (t) => {
  const team = stage(t, { a: counter }, { orchestration: { strategy: 'sequential', agentOrder: ['a', 'a'] } })
  const pending = Promise.all([team.execute('wait'), team.execute('wait')])
  await team.clock.advance(100)
  const outputs = (await pending).map(({ finalOutput }) => finalOutput)
  t.same(
    outputs.map((output) => output?.split(' ')[1]),
    ['2', '2'],
  )
})

for (const content of ['throw', 'refuse', 'no reply'])
  t.test(`a turn that fails (${content}) leaves no trace in the state`, async (t) => {
    const team = stage(t, { a: counter })
    t.equal((await team.execute(content)).success, false)
    t.equal((await team.execute('q')).finalOutput, '1 1')
  })

t.test('a turn that is cancelled leaves no trace in the state', async (t) => {
  const team = stage(t, { a: counter })
  const run = team.launch('wait')
  await team.clock.advance(5)
  await run.cancel()
  await team.clock.advance(5)
  t.equal((await team.execute('q')).finalOutput, '1 1')
})

t.test('a turn that a crash cuts off counts once', async (t) => {
  const team = stage(t, { a: counter })
  const pending = team.execute('wait')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(50)
  t.equal((await pending).finalOutput, '1 1')
})

t.test('state and the state of a run survive a crash between turns', async (t) => {
  const team = stage(
    t,
    { a: counter, b: says('B') },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          await orchestrator.request('a', 'one')
          await orchestrator.sleep(10)
          return (await orchestrator.request('a', 'two')).content
        },
      },
    },
  )
  const pending = team.execute('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(50)
  t.equal((await pending).finalOutput, '2 2')
})

t.test('changes in one turn add up, and are seen at once', async (t) => {
  const code = defineAgent({
    initialState: { n: 0 },
    receive(_message, context) {
      const seen = [context.state.n]
      for (let i = 0; i < 3; i++) {
        context.setState((draft) => {
          draft.n += 1
        })
        seen.push(context.state.n)
      }
      return seen.join(' ')
    },
  })
  const team = stage(t, { a: code })
  t.equal((await team.execute('q')).finalOutput, '0 1 2 3')
  t.equal((await team.execute('q')).finalOutput, '3 4 5 6')
})

t.test('the state that a handler holds does not change under it', async (t) => {
  const code = defineAgent({
    initialState: { list: [1] },
    receive(_message, context) {
      const held = context.state
      context.setState((draft) => {
        draft.list.push(2)
      })
      return { structuredData: { held: [...held.list], now: [...context.state.list] } }
    },
  })
  t.same((await stage(t, { a: code }).execute('q')).agentOutputs.a?.[0]?.structuredData, { held: [1], now: [1, 2] })
})

t.test('state is changed by setState alone', async (t) => {
  type State = { n: number; deep: { list: number[] } }
  const changes: ((state: State) => unknown)[] = [
    (state) => Object.assign(state, { n: 5 }),
    (state) => state.deep.list.push(1),
  ]
  for (const change of changes) {
    const code = defineAgent({
      initialState: { n: 0, deep: { list: [] as number[] } },
      receive(_message, context) {
        change(context.state as State)
      },
    })
    t.match((await stage(t, { a: code }).execute('q')).error, { code: 'AGENT_FAILED', message: /TypeError/ })
  }
})

t.test('state is JSON: anything else is refused with its path, and the turn fails', async (t) => {
  const code = defineAgent({
    initialState: { at: {} as unknown },
    receive(_message, context) {
      context.setState((draft) => {
        draft.at = { when: new Date(0) }
      })
    },
  })
  t.match((await stage(t, { a: code }).execute('q')).error, {
    code: 'AGENT_FAILED',
    details: { cause: { code: 'MESSAGE_REJECTED', details: { path: 'state.at.when', got: 'a Date' } } },
  })
})

t.test('state that begins as no JSON is a configuration error', async (t) => {
  const code = defineAgent({ initialState: { at: new Date(0) }, receive() {} })
  await t.rejects(stage(t, { a: code }).start(), { code: 'CONFIGURATION', details: { path: 'initialState.at' } })
})

t.test('the first state can follow from the role', async (t) => {
  const code = defineAgent({
    initialState: ({ name, weight }) => ({ name, weight }),
    receive: (_message, { state }) => JSON.stringify(state),
  })
  const team = stage(t, { a: { code, weight: 2 }, b: code })
  t.same((await team.execute('q')).agentOutputs, {
    a: [{ content: '{"name":"a","weight":2}' }],
    b: [{ content: '{"name":"b"}' }],
  })
})

t.test('two agents of the same code share nothing, and nothing with the definition', async (t) => {
  const first = { list: [] as string[] }
  const code = defineAgent({
    initialState: first,
    receive({ content }, context) {
      context.setState((draft) => {
        draft.list.push(content)
      })
      return context.state.list.join()
    },
  })
  const team = stage(t, { a: code, b: code }, { orchestration: { strategy: 'parallel' } })
  t.same((await team.execute('q')).agentOutputs, { a: [{ content: 'q' }], b: [{ content: 'q' }] })
  t.same(first, { list: [] })
})

t.test('an agent without state has an empty one', async (t) => {
  const code = defineAgent({ receive: (_message, { state, runState }) => JSON.stringify([state, runState]) })
  t.equal((await stage(t, { a: code }).execute('q')).finalOutput, '[{},{}]')
})

t.test('observe changes state like receive', async (t) => {
  const code = defineAgent({
    initialState: { heard: 0 },
    receive: (_message, { state }) => `${state.heard}`,
    observe(_message, context) {
      context.setState((draft) => {
        draft.heard += 1
      })
    },
  })
  const team = stage(t, { a: code })
  for (let i = 0; i < 3; i++) await team.broadcast('news', '$user')
  t.equal((await team.execute('q')).finalOutput, '3')
})

t.test('start runs in each life before the first message, and may change the state', async (t) => {
  const code = defineAgent({
    initialState: { lives: 0 },
    start(context) {
      context.setState((draft) => {
        draft.lives += 1
      })
    },
    receive: (_message, { state }) => `life ${state.lives}`,
  })
  const team = stage(t, { a: code }, stateOnce)
  t.equal((await team.execute('q')).finalOutput, 'life 1')
  team.crash('a')
  await team.clock.advance(0)
  t.equal((await team.execute('q')).finalOutput, 'life 2')
})

t.test('start can wait, and has role, data and log', async (t) => {
  const lines: unknown[] = []
  const code = defineAgent({
    initialState: { ready: '' },
    async start(context) {
      await null
      context.log.info({ data: context.data }, 'starting')
      context.setState((draft) => {
        draft.ready = context.role.name
      })
    },
    receive: (_message, { state }) => state.ready,
  })
  const ignore = () => {}
  const team = stage(
    t,
    { a: { code, data: { step: 1 } } },
    { logger: { debug: ignore, warn: ignore, error: ignore, info: (fields, text) => lines.push({ ...fields, text }) } },
  )
  t.equal((await team.execute('q')).finalOutput, 'a')
  t.match(lines, [{ agent: 'a', data: { step: 1 }, text: 'starting' }])
})

t.test('stop runs when the team closes, after the turns have ended', async (t) => {
  const order: string[] = []
  const code = defineAgent({
    async receive(_message, { signal }) {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      order.push('turn ended')
    },
    async stop() {
      await null
      order.push('stopped')
    },
  })
  const team = stage(t, { a: code })
  team.launch('q')
  await team.clock.advance(0)
  await team.close()
  t.same(order, ['turn ended', 'stopped'])
})

t.test('agents stop in the reverse order of their start', async (t) => {
  const order: string[] = []
  const code = (name: string) =>
    defineAgent({
      start: () => void order.push(`${name} starts`),
      receive() {},
      stop: () => void order.push(`${name} stops`),
    })
  const team = stage(t, { a: code('a'), b: code('b') })
  await team.start()
  await team.close()
  t.same(order.slice(2), ['b stops', 'a stops'])
})

t.test('a stop that throws is reported, and does not keep the team open', async (t) => {
  const code = defineAgent({
    receive() {},
    stop() {
      throw new Error('broken')
    },
  })
  const errors: object[] = []
  const ignore = () => {}
  const logger = { debug: ignore, info: ignore, warn: ignore, error: (fields: object) => void errors.push(fields) }
  const team = stage(t, { a: code, b: says('B') }, { logger })
  await team.start()
  await team.close()
  t.same([team.getAgentStatus('a'), team.getAgentStatus('b')], ['stopped', 'stopped'])
  t.match(errors, [{ agent: 'a', error: 'Error: broken' }])
})

t.test('a context cannot be used after its turn', async (t) => {
  let late: Promise<void> | undefined
  const code = defineAgent({
    receive(_message, context) {
      late = new Promise((resolve) => setImmediate(resolve)).then(() => context.send('b', 'too late'))
      late.catch(() => {})
    },
  })
  const team = stage(t, { a: code, b: says('B') }, stateOnce)
  await team.execute('q')
  await t.rejects(late!, { code: 'TURN_ENDED', details: { agent: 'a' } })
})

// The state 'persistent' of teams without a log. Requirement P14, document 002, 2.4.1.

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-state-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs `act` as the script of a team of its own, which is closed afterwards. */
async function session(persistentFile: string | undefined, act: (script: OrchestratorContext) => Promise<unknown>) {
  const team = createTeam({
    agents: [{ name: 'a' }],
    models: 'rehearsal',
    logger: silent,
    orchestration: { strategy: 'custom', run: async (script) => JSON.stringify((await act(script)) ?? null) },
    ...(persistentFile !== undefined && { persistentFile }),
  })
  const result = await team.execute('go')
  await team.close()
  if (!result.success) throw result.error
  return JSON.parse(result.finalOutput)
}

const add = (key: string) => (script: OrchestratorContext) =>
  script.shared('persistent').update<number>(key, (n = 0) => n + 1)
const get = (key: string) => (script: OrchestratorContext) => script.shared('persistent').get(key)

t.test('the state persistent outlives the session in the file that persistentFile names', async (t) => {
  const folder = folderOf(t)
  const file = join(folder, 'new', 'state.json')
  t.equal(await session(file, get('n')), null)
  for (const n of [1, 2, 3]) t.equal(await session(file, add('n')), n)
  t.equal(await session(file, get('n')), 3)
  t.same(JSON.parse(readFileSync(file, 'utf8')), { version: 1, values: { n: { version: 3, value: 3 } } })
  t.same(readdirSync(join(folder, 'new')), ['state.json'], 'nothing is left beside it')
  t.equal(await session(undefined, get('n')), null, 'without the option it ends with the team')
  const others = async (script: OrchestratorContext) => {
    await script.shared('team_shared').update('n', () => 9)
    return script.shared('persistent').get('n')
  }
  t.equal(await session(file, others), 3, 'other scopes are not in it')
  t.equal(Object.keys(JSON.parse(readFileSync(file, 'utf8')).values).length, 1)
})

t.test('updates at once all count, and so do those of another team with the same file', async (t) => {
  const file = join(folderOf(t), 'state.json')
  const many = (script: OrchestratorContext) => Promise.all(Array.from({ length: 20 }, () => add('n')(script)))
  await session(file, many)
  t.equal(await session(file, get('n')), 20)
  const between = async (script: OrchestratorContext) => {
    await add('n')(script)
    await session(file, add('n'))
    return add('n')(script)
  }
  t.equal(await session(file, between), 23)
})

t.test('no update is lost where two processes, and two teams of one, write at once', async (t) => {
  const file = join(folderOf(t), 'state.json')
  const program = fileURLToPath(new URL('../fixtures/team/counts-in-file.js', import.meta.url))
  const TIMES = 30
  const children = [1, 2].map(() =>
    spawn(process.execPath, [program, file, `${TIMES}`], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  await Promise.all(children.map(({ stdout }) => once(stdout, 'data')))
  const ends = children.map((child) => once(child, 'exit'))
  for (const { stdin } of children) stdin.end()
  const many = async (script: OrchestratorContext) => {
    for (let n = 0; n < TIMES; n++) await add('n')(script)
  }
  await Promise.all([session(file, many), session(file, many)])
  t.same(await Promise.all(ends), [
    [0, null],
    [0, null],
  ])
  t.equal(await session(file, get('n')), 4 * TIMES)
})

t.test('a file that cannot be read or written is named, and stays as it is', async (t) => {
  const folder = folderOf(t)
  const file = join(folder, 'state.json')
  const refused = { code: 'CONFIGURATION', message: /persistentFile: .*state\.json cannot be read/ }
  for (const text of ['', '{', '[]', '{"version":2,"values":{}}', '{"version":1,"values":{"k":{"value":1}}}']) {
    writeFileSync(file, text)
    await t.rejects(session(file, add('k')), refused, text)
    t.equal(readFileSync(file, 'utf8'), text)
  }
  const unwritable = join(file, 'below', 'state.json') // a file is no folder
  await t.rejects(session(unwritable, add('k')), { code: 'CONFIGURATION', message: /state\.json cannot be/ })
})

t.test('persistentFile beside stateManagement is refused, and so is what is no path', (t) => {
  const make = (options: object) => () =>
    createTeam({ agents: [{ name: 'a' }], models: 'rehearsal', orchestration: { strategy: 'sequential' }, ...options })
  const both = { persistentFile: 'state.json', stateManagement: { path: join(folderOf(t), 'log') } }
  for (const options of [both, { persistentFile: '' }, { persistentFile: 7 }])
    t.throws(make(options), { code: 'CONFIGURATION', details: { path: 'persistentFile' } })
  t.end()
})
