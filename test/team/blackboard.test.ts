/** The blackboard of a running team: who writes, who reads, who is told, also on real threads. */
import t from 'tap'
import { z } from 'zod'
import { type AgentContext, type BlackboardEntry, createTeam, defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { after, all, echo, type Options, says, stage, type Test } from './stage.ts'

// The blackboard of a running team: who writes, who reads, who is told, and what is kept of it.

/** A run whose script does that, and what it resolved to. */
async function play<T>(t: Test, script: (context: AgentContext) => Promise<T>, options: Partial<Options<'a'>> = {}) {
  let value: T | undefined
  const team = stage(
    t,
    { a: echo },
    {
      enableBlackboard: true,
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          value = await script(orchestrator)
          return 'over'
        },
      },
      ...options,
    },
  )
  const result = await team.execute('q')
  if (!result.success) throw result.error
  return { team, result, value: value as T }
}

t.test('an entry has its author, its time and everything that was said with it', async (t) => {
  const writes = defineAgent({
    async receive(_message, context) {
      await context.sleep(10)
      await context.publish('old', 1, 'fact')
      const options = { confidence: 0.7, supersedes: 'old', references: ['source'] }
      return { structuredData: await context.publish('finding.1', { rows: 3 }, 'insight', options) }
    },
  })
  const team = stage(t, { a: writes }, { enableBlackboard: true })
  const run = team.launch('q')
  await team.clock.advance(10)
  const entry = {
    key: 'finding.1',
    value: { rows: 3 },
    author: 'a',
    timestamp: 10,
    entryType: 'insight',
    confidence: 0.7,
    supersedes: 'old',
    references: ['source'],
    version: 1,
  }
  t.same((await run.result).agentOutputs.a?.[0]?.structuredData, entry)
  t.same(await run.blackboard?.read('finding.1'), entry)
})

t.test('agents, the script and the host see the same board', async (t) => {
  const adds = defineAgent({
    async receive(_message, { blackboard }) {
      const n = (await blackboard.read<number>('n'))?.value ?? 0
      return String((await blackboard.write('n', n + 1, 'count')).version)
    },
  })
  const team = stage(
    t,
    { a: adds, b: adds },
    {
      enableBlackboard: true,
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          await orchestrator.publish('n', 5, 'count')
          for (const name of ['a', 'b']) await orchestrator.request(name, 'add')
          return String((await orchestrator.blackboard.read('n'))?.value)
        },
      },
    },
  )
  const run = team.launch('q')
  t.equal((await run.result).finalOutput, '7')
  t.same(
    (await run.blackboard!.getHistory('n')).map(({ author, value, version }) => `${version} ${author} ${value}`),
    ['1 $orchestrator 5', '2 a 6', '3 b 7'],
  )
  t.same((await run.result).blackboardState, { n: 7 })
})

t.test('each run has its own, unless the team shares one', async (t) => {
  const adds = defineAgent({
    async receive(_message, { blackboard }) {
      const n = (await blackboard.read('n', z.number()))?.value ?? 0
      await blackboard.write('n', n + 1, 'count')
      return String(n + 1)
    },
  })
  for (const [scope, outputs] of [
    ['run', ['1', '1']],
    ['team', ['1', '2']],
  ] as const) {
    const team = stage(t, { a: adds }, { enableBlackboard: { scope } })
    t.same([(await team.execute('q')).finalOutput, (await team.execute('q')).finalOutput], outputs, scope)
  }
})

t.test('a stale write is refused if the writer asks for it, and names who was first', async (t) => {
  const { value } = await play(t, async ({ blackboard }) => {
    await blackboard.write('n', 1, 'fact', { ifVersion: 0 })
    return blackboard.write('n', 2, 'fact', { ifVersion: 0 }).catch((error: unknown) => error)
  })
  t.match(value, {
    code: 'MESSAGE_REJECTED',
    details: { path: 'ifVersion', expected: 0, actual: 1, author: '$orchestrator' },
  })
})

t.test('of two agents that write the same version one wins, and the other is told', async (t) => {
  const writes = defineAgent({
    async receive(_message, { blackboard }) {
      await blackboard.write('n', 1, 'fact', { ifVersion: 0 })
      return 'won'
    },
  })
  const team = stage(t, { a: writes, b: writes }, { enableBlackboard: true, orchestration: { strategy: 'parallel' } })
  const { agentOutputs, failures } = await team.execute('q')
  t.equal(Object.keys(agentOutputs).length, 1)
  t.match(failures, [{ error: { code: 'AGENT_FAILED', details: { cause: { code: 'MESSAGE_REJECTED' } } } }])
})

t.test('query filters by type, author and key, and leaves out what is superseded', async (t) => {
  const { value } = await play(t, async ({ blackboard }) => {
    await blackboard.write('guess', 1, 'guess')
    await blackboard.write('fact', 2, 'fact', { supersedes: 'guess' })
    await blackboard.write('other', 3, 'fact')
    const keys = async (filter?: object) => (await blackboard.query(filter)).map(({ key }) => key)
    return [
      await keys(),
      await keys({ entryType: 'fact' }),
      await keys({ author: 'nobody' }),
      await keys({ key: 'guess' }),
      await keys({ entryType: 'fact', key: 'other' }),
    ]
  })
  t.same(value, [['fact', 'other'], ['fact', 'other'], [], ['guess'], ['other']])
})

t.test('a read with a schema gives what the schema makes of it, or says what is wrong', async (t) => {
  const { value } = await play(t, async ({ blackboard }) => {
    await blackboard.write('n', '5', 'fact')
    const read = await blackboard.read('n', z.coerce.number())
    return [
      read?.value,
      await blackboard.read('n', z.number()).catch((error: unknown) => error),
      await blackboard.read('no'),
    ]
  })
  t.match(value, [5, { code: 'MESSAGE_REJECTED', message: /"n"/ }, undefined])
})

t.test('who waits for a key gets its first entry, at once if it is there', async (t) => {
  const waits = defineAgent({
    receive: async (_message, { blackboard }) => String((await blackboard.waitFor('go')).value),
  })
  const team = stage(
    t,
    { a: waits, b: after(10) },
    {
      enableBlackboard: true,
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          const first = orchestrator.request('a', 'wait')
          await orchestrator.sleep(20)
          await orchestrator.publish('go', 'now', 'signal')
          return [(await first).content, (await orchestrator.request('a', 'wait')).content].join()
        },
      },
    },
  )
  const pending = team.execute('q')
  await team.clock.advance(20)
  t.match(await pending, { finalOutput: 'now,now', agentExecutionTimesMs: { a: 20 } })
})

t.test('a wait ends at its deadline, by its signal, or with its run', async (t) => {
  const waits = defineAgent({
    async receive({ content }, { blackboard, signal }) {
      if (content === 'deadline') await blackboard.waitFor('never', { timeoutMs: 10 })
      else if (content === 'signal') await blackboard.waitFor('never', { signal: AbortSignal.abort() })
      else await blackboard.waitFor('never', { signal })
    },
  })
  const team = stage(t, { a: waits }, { enableBlackboard: true })
  const deadline = team.execute('deadline')
  await team.clock.advance(10)
  t.match((await deadline).error, { details: { cause: { code: 'REQUEST_TIMEOUT' } } })
  t.match((await team.execute('signal')).error, { details: { cause: { code: 'CANCELLED' } } })
  const run = team.launch('run')
  await team.clock.advance(0)
  await run.cancel()
  await team.clock.advance(0)
  t.equal(team.getAgentStatus('a'), 'idle')
})

t.test('what matches comes to observe of who subscribed, in order, from its author', async (t) => {
  const heard: { type: string; sender: string; content: string; entry: BlackboardEntry }[] = []
  const listens = defineAgent({
    receive: (_message, context) => context.subscribe('finding.*'),
    observe({ type, sender, content, structuredData }) {
      heard.push({ type, sender, content, entry: structuredData as BlackboardEntry })
    },
  })
  const writes = defineAgent({
    async receive(_message, context) {
      for (const key of ['finding.1', 'other', 'finding.2.deep', 'finding.1']) await context.publish(key, key, 'fact')
    },
  })
  const team = stage(t, { a: listens, b: writes }, { enableBlackboard: true })
  t.equal((await team.execute('q')).success, true)
  await team.clock.advance(0)
  t.match(heard, [
    { type: 'publish', sender: 'b', content: 'finding.1', entry: { author: 'b', version: 1, entryType: 'fact' } },
    { type: 'publish', sender: 'b', content: 'finding.1', entry: { version: 2, value: 'finding.1' } },
  ])
})

t.test('who subscribes twice is told once', async (t) => {
  const heard: string[] = []
  const listens = defineAgent({
    async receive(_message, context) {
      for (const pattern of ['finding.*', 'finding.*', '**']) await context.subscribe(pattern)
    },
    observe: ({ content }) => void heard.push(content),
  })
  const writes = defineAgent({
    receive: async (_message, context) => void (await context.publish('finding.1', 1, 'fact')),
  })
  const team = stage(
    t,
    { a: listens, b: writes },
    { enableBlackboard: true, orchestration: { strategy: 'sequential', agentOrder: ['a', 'a', 'b'] } },
  )
  await team.execute('q')
  await team.clock.advance(0)
  t.same(heard, ['finding.1'])
})

t.test('a subscription outlives the crash of its agent', async (t) => {
  const heard: string[] = []
  const listens = defineAgent({
    receive: (_message, context) => context.subscribe('**'),
    observe: ({ content }) => void heard.push(content),
  })
  const writes = defineAgent({
    async receive(_message, context) {
      await context.sleep(10)
      await context.publish('late', 1, 'fact')
    },
  })
  const team = stage(t, { a: listens, b: writes }, { enableBlackboard: true })
  const pending = team.execute('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(10)
  await pending
  await team.clock.advance(0)
  t.same(heard, ['late'])
})

t.test('a turn that is tried again after a crash reads what it read, and writes once', async (t) => {
  const read: unknown[] = []
  const code = defineAgent({
    async receive(_message, context) {
      read.push((await context.blackboard.read('n'))?.value)
      await context.publish('mine', 1, 'fact')
      await context.sleep(10)
      return 'done'
    },
  })
  const team = stage(
    t,
    { a: code },
    {
      enableBlackboard: true,
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          await orchestrator.publish('n', 1, 'fact')
          const asked = orchestrator.request('a', 'go')
          await orchestrator.sleep(5)
          await orchestrator.publish('n', 2, 'fact')
          return (await asked).content
        },
      },
    },
  )
  const run = team.launch('q')
  await team.clock.advance(7)
  team.crash('a')
  await team.clock.advance(20)
  t.equal((await run.result).finalOutput, 'done')
  t.same(read, [1, 1])
  t.equal((await run.blackboard?.read('mine'))?.version, 1)
})

t.test('every write is an event of the run, and in its trace', async (t) => {
  const writes = defineAgent({ receive: async (_message, context) => void (await context.publish('n', 1, 'fact')) })
  const run = stage(t, { a: writes }, { enableBlackboard: true }).launch('q')
  t.match(await all(run.events({ types: ['blackboard'] })), [
    { runId: run.id, entry: { key: 'n', value: 1, author: 'a' } },
  ])
  const { events } = (await run.result).orchestrationTrace
  t.match(where(events, 'eventType', 'blackboard'), [{ details: { key: 'n', author: 'a', version: 1 } }])
})

for (const scope of ['run', 'team'] as const)
  t.test(
    `every write is a message of its author, once, whoever has subscribed (blackboard of the ${scope})`,
    async (t) => {
      const hears = defineAgent({
        async receive(_message, context) {
          await context.subscribe('heard.*')
          await context.publish('own', 1, 'fact')
          return ''
        },
        observe() {},
      })
      const team = stage(
        t,
        { a: hears, b: hears },
        {
          enableBlackboard: { scope },
          orchestration: {
            strategy: 'custom',
            async run(orchestrator) {
              await orchestrator.requestAll(['a', 'b'], 'go')
              await Promise.all([1, 2].map((n) => orchestrator.blackboard.write(`heard.${n}`, { n }, 'fact')))
              return ''
            },
          },
        },
      )
      const run = team.launch('q')
      const told = all(run.events({ types: ['message'] }))
      const { messageHistory, orchestrationTrace } = await run.result
      const published = messageHistory.filter(({ type }) => type === 'publish')
      t.match(published, [
        { sender: 'a', recipient: null, content: 'own', structuredData: { key: 'own', author: 'a', version: 1 } },
        { sender: 'b', recipient: null, content: 'own', structuredData: { key: 'own', author: 'b', version: 2 } },
        { sender: '$orchestrator', recipient: null, content: 'heard.1', structuredData: { value: { n: 1 } } },
        { sender: '$orchestrator', recipient: null, content: 'heard.2', structuredData: { value: { n: 2 } } },
      ])
      const events = (await told).flatMap((event) => (event.type === 'message' ? event.message : []))
      t.same(where(events, 'type', 'publish'), published)
      t.equal(orchestrationTrace.events.filter(({ details }) => Object(details).type === 'publish').length, 4)
    },
  )

t.test('the host writes as $user, and can be told of what is written', async (t) => {
  const team = stage(t, { a: after(10) }, { enableBlackboard: true })
  const run = team.launch('q')
  const told: string[] = []
  const stop = await run.blackboard!.subscribe('**', ({ key, author }) => void told.push(`${author} ${key}`))
  await run.blackboard!.write('hint', 'look here', 'hint')
  stop()
  await run.blackboard!.write('late', 1, 'hint')
  t.same(told, ['$user hint'])
  await team.clock.advance(10)
  t.same((await run.result).blackboardState, { hint: 'look here', late: 1 })
})

t.test('a value that is no JSON, or a key that is none, is refused', async (t) => {
  const { value } = await play(t, async (context) => [
    await context.publish('n', { at: new Date(0) }, 'fact').catch((error: unknown) => error),
    await context.publish('', 1, 'fact').catch((error: unknown) => error),
  ])
  t.match(value, [
    { code: 'MESSAGE_REJECTED', details: { got: 'a Date' } },
    { code: 'MESSAGE_REJECTED', details: { path: 'key' } },
  ])
})

t.test('a team without a blackboard says so to every verb', async (t) => {
  const missing = { code: 'CONFIGURATION', details: { path: 'enableBlackboard' } }
  const verbs: ((context: AgentContext) => Promise<unknown>)[] = [
    ({ blackboard }) => blackboard.read('n'),
    ({ blackboard }) => blackboard.query(),
    (context) => context.publish('n', 1, 'fact'),
  ]
  const { team, value } = await play(
    t,
    (context) => Promise.all(verbs.map((verb) => verb(context).catch((error: unknown) => error))),
    { enableBlackboard: false },
  )
  t.match(value, [missing, missing, missing])
  t.equal(team.getBlackboard(), undefined)
  t.equal(team.launch('again').blackboard, undefined)
})

t.test(
  'a callback of an agent is told of entries that match, in order and once, until it has heard enough',
  async (t) => {
    const heard: string[] = []
    const listens = defineAgent({
      async receive(_message, context) {
        const { blackboard } = context
        const stop = await blackboard.subscribe('x.*', ({ key, version, author }) => {
          heard.push(`${author} ${key} ${version}`)
          if (version === 2) stop()
        })
        await blackboard.subscribe('**', ({ key }) => {
          if (key === 'y') throw new Error('of no consequence')
        })
        await t.rejects(context.subscribe('x.*'), { code: 'CONFIGURATION', message: /has no observe/ })
        await t.rejects(
          blackboard.subscribe('x*', () => {}),
          { code: 'MESSAGE_REJECTED' },
        )
        await t.rejects(blackboard.subscribe('x', 1 as never), { code: 'MESSAGE_REJECTED' })
      },
    })
    const writes = defineAgent({
      async receive(_message, { blackboard }) {
        for (const key of ['x.1', 'y', 'x.2', 'x.2', 'x.3']) await blackboard.write(key, 1, 'fact')
      },
    })
    const team = stage(
      t,
      { a: listens, b: writes },
      { orchestration: { strategy: 'sequential', agentOrder: ['a', 'b'] } },
    )
    t.equal((await team.execute('q')).success, true)
    await team.clock.advance(0)
    t.same(heard, ['b x.1 1', 'b x.2 1', 'b x.2 2'])
  },
)

t.test('a callback in one of several instances is refused: another one would get the entry', async (t) => {
  const subscribes = defineAgent({
    receive: async (_message, { blackboard }) => void (await blackboard.subscribe('n', () => {})),
  })
  const cast = { a: { code: subscribes, instances: 2 } }
  t.match((await stage(t, cast).execute('q')).error, {
    details: { cause: { code: 'CONFIGURATION', message: /2 instances.*blackboard\.subscribe is refused/ } },
  })
})

t.test('the board of a finished run can still be read', async (t) => {
  const team = stage(t, { a: says('A') }, { enableBlackboard: true })
  const run = team.launch('q')
  await run.blackboard!.write('n', 1, 'fact')
  await run.result
  t.equal((await team.getBlackboard(run.id)?.read('n'))?.value, 1)
})

t.test('a script in the host is told of entries, in order and once each, until it has heard enough', async (t) => {
  const heard: string[] = []
  const team = stage(
    t,
    {
      a: defineAgent({
        async receive(_message, { blackboard }) {
          for (const key of ['x.1', 'y', 'x.2', 'x.2', 'x.3']) await blackboard.write(key, 1, 'fact')
        },
      }),
    },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          const stop = await orchestrator.blackboard.subscribe('x.*', ({ key, version }) => {
            heard.push(`${key} ${version}`)
            if (version === 2) stop()
          })
          await t.rejects(orchestrator.subscribe('x.*'), { code: 'CONFIGURATION' })
          await orchestrator.request('a', 'go')
          await t.rejects(
            orchestrator.blackboard.subscribe('x*', () => {}),
            { code: 'MESSAGE_REJECTED' },
          )
          await t.rejects(orchestrator.blackboard.subscribe('x', 1 as never), { code: 'MESSAGE_REJECTED' })
          return 'over'
        },
      },
    },
  )
  t.equal((await team.execute('q')).success, true)
  t.same(heard, ['x.1 1', 'x.2 1', 'x.2 2'])
})

const writer = defineAgent({
  async receive(message, context) {
    if (message.content === 'write') await context.publish('note', 1, 'fact')
    return 'done'
  },
})

const teamWith = (options: { enableBlackboard?: boolean }) =>
  testTeam(
    { agents: [{ name: 'writer' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { writer } },
  )

t.test('a run has a blackboard as soon as an agent uses it, if the team says nothing of one', async (t) => {
  await using team = teamWith({})
  const written = await team.execute('write')
  t.strictSame(written.blackboardState, { note: 1 })
  t.equal((await team.getBlackboard(written.runId)?.read('note'))?.author, 'writer')
  const idle = await team.execute('nothing')
  t.equal(idle.blackboardState, null)
  t.equal(team.getBlackboard(idle.runId), undefined)
})

t.test('a team that wants no blackboard has none, and says how to have one', async (t) => {
  await using team = teamWith({ enableBlackboard: false })
  const result = await team.execute('write')
  t.match(result, { success: false, blackboardState: null })
  t.match(result.error?.message, /Set enableBlackboard: true/)
})

// The blackboard protocol on real threads.

const module = new URL('../fixtures/team/contributor.js', import.meta.url)

t.test('entries decide who works when, on threads of which two die once after they have written', async (t) => {
  const team = createTeam({
    agents: [
      { name: 'writer', module, data: { needs: 'finding.done', key: 'report' } },
      { name: 'analyst', module, data: { needs: 'dataset.done', key: 'finding', dies: true } },
      { name: 'collector', module, data: { key: 'dataset', dies: true } },
    ],
    orchestration: {
      strategy: 'blackboard',
      interests: { collector: ['query'], analyst: ['dataset.done'], writer: ['finding.done'] },
    },
    supervision: { backoff: { baseMs: 0 } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const run = team.launch('q')
  const { finalOutput, failures, messageHistory } = await run.result
  t.same(finalOutput?.split('\n'), [
    '- dataset (fact by collector): by collector',
    '- dataset.done (progress by collector): attempt 2',
    '- finding (fact by analyst): by analyst',
    '- finding.done (progress by analyst): attempt 2',
    '- report (fact by writer): by writer',
    '- report.done (progress by writer): attempt 1',
  ])
  t.same(failures, [])
  const asked = messageHistory.filter(({ type, sender }) => type === 'request' && sender === '$orchestrator')
  t.same(pluck(asked, 'recipient'), ['collector', 'analyst', 'writer'])
  for (const key of ['dataset', 'finding', 'report']) t.equal((await run.blackboard?.getHistory(key))?.length, 1, key)
})
