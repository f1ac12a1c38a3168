/** Whom a run is for, its caller and its tenant, and what these have of it; requests with a key, in one process. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test as TapTest } from 'tap'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { createTeam, defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { ProviderQueue } from '../../src/runtime/providers/provider-queue.ts'
import { Account, Ledger } from '../../src/runtime/verbs/accounts.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { testTeam } from '../../src/testing.ts'
import { entriesIn } from '../durability/log-entries.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import type { Operation } from '../fixtures/cluster/scripted.ts'
import { given, type localTeam, openTeam, outcomeOf, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'

// Whom a run is for: its caller and its tenant, in the run, in lists, in the log and for its agents.

t.test('agents see the caller and the tenant of a run, and lists select by them', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent },
    { modules: { ann: defineAgent({ receive: (_message, context) => JSON.stringify(context.run) }) } },
  )
  t.teardown(() => team.close())
  const told = async (options: object) => JSON.parse((await team.execute('go', options)).finalOutput ?? '')
  t.same(await told({ runId: 'a', caller: 'ann', tenant: 'acme', metadata: { plan: 'pro' } }), {
    metadata: { plan: 'pro', caller: 'ann' },
    caller: 'ann',
    tenant: 'acme',
  })
  t.same(await told({ runId: 'b', metadata: { caller: 'bob' } }), { metadata: { caller: 'bob' }, caller: 'bob' })
  t.same(await told({ runId: 'c', tenant: 'zeta' }), { metadata: {}, tenant: 'zeta' })
  const listed = (await team.listRuns()).map(({ id, caller, tenant }) => [id, caller, tenant])
  t.same(listed, [
    ['c', null, 'zeta'],
    ['b', 'bob', null],
    ['a', 'ann', 'acme'],
  ])
  const ids = async (filter: object) => (await team.listRuns(filter)).map(({ id }) => id)
  t.same(await ids({ tenant: 'acme' }), ['a'])
  t.same(await ids({ tenant: 'acme', caller: 'bob' }), [])
  t.equal(team.getRun('a', { tenant: 'acme' })?.tenant, 'acme')
  t.equal(team.getRun('a', { tenant: 'zeta' }), undefined)
  t.equal(team.getRun('b', { tenant: 'acme' }), undefined)
  t.equal(team.getRun('b')?.tenant, null)
})

t.test('a caller or a tenant that is none is refused', async (t) => {
  const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { modules: {} })
  t.teardown(() => team.close())
  for (const wrong of [{ caller: '' }, { caller: 1 }, { tenant: 'x'.repeat(257) }, { tenant: null }])
    await t.rejects(team.execute('go', wrong as object), {
      code: 'CONFIGURATION',
      details: { path: Object.keys(wrong)[0] },
    })
  const two = { caller: 'ann', metadata: { caller: 'bob' } }
  await t.rejects(team.execute('go', two), { code: 'CONFIGURATION', details: { path: 'metadata.caller' } })
})

t.test('the log has them, and so have later processes', async (t) => {
  const disk = new MemoryDisk()
  const teamOn = () => {
    const team = createTeam({
      agents: [{ name: 'ann' }],
      orchestration: { strategy: 'sequential' },
      models: { default: Object.assign(new FakeModel(() => 'hello'), { offline: true }) },
      stateManagement: { store: new MemoryStore(disk) },
      logger: silent,
    })
    t.teardown(() => team.close())
    return team
  }
  const first = teamOn()
  await first.execute('go', { runId: 'a', caller: 'ann', tenant: 'acme' })
  await first.close()
  const [launched] = entriesIn(disk.blocks).flatMap((entry) => (entry.kind === 'run.launched' ? [entry] : []))
  t.match(launched, { caller: 'ann', tenant: 'acme', metadata: { caller: 'ann' } })
  const later = teamOn()
  t.match(await later.listRuns({ tenant: 'acme' }), [{ id: 'a', caller: 'ann', tenant: 'acme' }])
  t.same(await later.listRuns({ tenant: 'zeta' }), [])
  t.equal(later.getRun('a', { tenant: 'zeta' }), undefined)
  const found = later.getRun('a', { tenant: 'acme', caller: 'ann' })!
  t.match(await found.result, { success: true })
  t.equal(found.tenant, 'acme')
})

// Turns and bounds of tenants: runs that wait for their start, and calls of models that wait for a provider.

type Test = Parameters<typeof localTeam>[0]

/** Runs that take ten ms each; `began` has their tenants in the order in which they reached the agent. */
function lineOf(t: Test, options: NonNullable<Parameters<typeof localTeam>[2]>) {
  const began: string[] = []
  const team = given(t, options).testTeam({
    async worker(_message, context) {
      began.push(context.run.tenant ?? '')
      await context.sleep(10)
      return 'done'
    },
  })
  const ask = (tenant: string, count: number) => Array.from({ length: count }, () => team.launch('go', { tenant }))
  return { team, ask, began }
}

const countOf = (began: readonly string[], tenant: string): number => began.filter((each) => each === tenant).length

t.test('a run gets the first free place, however many of another tenant stand in line', async (t) => {
  const { team, ask, began } = lineOf(t, { maxConcurrentRuns: 1, tenants: { weights: { large: 4 } } })
  ask('large', 900)
  await team.clock.advance(25)
  t.same(new Set(began), new Set(['large']))
  const before = began.length
  ask('small', 1)
  await team.clock.advance(30)
  t.equal(began[before], 'small')
})

t.test('weights of 4 to 1 give places of 4 to 1, and no place stays free', async (t) => {
  const { team, ask, began } = lineOf(t, { maxConcurrentRuns: 2, tenants: { weights: { acme: 4 } } })
  ask('other', 100)
  ask('acme', 250)
  await team.clock.advance(1_000)
  const [acme, other] = [countOf(began, 'acme'), countOf(began, 'other') - 2] // two began before anybody waited
  t.ok(acme + other > 80 && Math.abs(acme / other - 4) <= 0.2, `${acme} and ${other}`)
  t.equal(team.health().runs.running, 2)
})

t.test('a tenant has no more runs than its bounds allow, and others have the rest', async (t) => {
  const { team, ask } = lineOf(t, { maxConcurrentRuns: 4, tenants: { maxConcurrentRuns: 2, maxQueuedRuns: 3 } })
  const runs = ask('acme', 5)
  t.throws(() => ask('acme', 1), {
    code: 'TEAM_OVERLOADED',
    message: /^2 runs of tenant "acme" are under way and 3 wait/,
    details: { option: 'tenants.maxQueuedRuns', tenant: 'acme', running: 2, queued: 3, limit: 3 },
  })
  t.equal(team.waits().filter((wait) => wait.for.includes('tenants.maxConcurrentRuns')).length, 3)
  runs.push(...ask('other', 2))
  const statuses = () => runs.map(({ status }) => status)
  await team.clock.advance(5)
  t.same(statuses(), ['running', 'running', 'queued', 'queued', 'queued', 'running', 'running'])
  await team.clock.advance(200)
  t.same(new Set(statuses()), new Set(['finished']))
})

t.test(
  'within a tenant runs begin by priority, then by age; one that asks a person holds no place of it',
  async (t) => {
    const began: string[] = []
    const options = { maxConcurrentRuns: 2, tenants: { maxConcurrentRuns: 1 } }
    const team = given(t, options).testTeam({
      async worker({ content }, context) {
        began.push(content)
        if (content === 'asks') return context.ask('Go on?')
        await context.sleep(10)
        return 'done'
      },
    })
    const launch = (query: string, priority = 0) => team.launch(query, { tenant: 'acme', priority })
    const first = launch('first')
    for (const [query, priority] of [
      ['low', 1],
      ['high', 3],
      ['second high', 3],
      ['asks', 2],
    ] as const)
      launch(query, priority)
    await team.clock.advance(1_000)
    t.same(began, ['first', 'high', 'second high', 'asks', 'low'])
    t.equal((await first.result).success, true)
    await team.answer(team.questions()[0]!.questionId, 'yes')
    await team.clock.advance(1_000)
    t.equal(team.health().runs.running, 0)
  },
)

/** Tenants of 50 calls each that stand in line: those of one first. */
const TENANTS = [...Array<string>(50).fill('other'), ...Array<string>(50).fill('acme')]

/** Checks that four calls of one tenant go for each of the other, while both wait. */
function fairly(t: TapTest, order: readonly string[]): void {
  t.equal(order.length, TENANTS.length)
  const both = order.slice(0, 50)
  t.ok(Math.abs(countOf(both, 'acme') - 40) <= 1, both.join(' '))
}

t.test('calls that wait for money go to the tenants in turns', async (t) => {
  const account = new Account({ total: { path: 'budget.perTeam.money', most: 100n }, now: () => 0 })
  const ledger = new Ledger({ acme: 4 })
  const order: string[] = []
  const ask = (tenant: string) => {
    const { signal } = new AbortController()
    return ledger.reserve({
      agent: 'ann',
      tenant,
      priority: 0,
      output: 9,
      stakes: [{ account, most: () => 100n }],
      signal,
    })
  }
  const first = await ask('first')
  const calls = TENANTS.map(async (tenant) => {
    const reservation = await ask(tenant)
    order.push(tenant)
    reservation.settle([0n])
  })
  first.settle([0n])
  await Promise.all(calls)
  fairly(t, order)
})

t.test('calls that wait for a provider go to the tenants in turns, and within one by priority', async (t) => {
  const queue = new ProviderQueue({ clock: systemClock, provider: 'a.host', maxConcurrent: 1, weights: { acme: 4 } })
  const order: string[] = []
  const asked = (tenant: string, more: Partial<ModelRequest> = {}): ModelRequest => {
    const messages: ModelRequest['messages'] = [{ role: 'user', content: 'go' }]
    return { model: 'm', messages, maxOutputTokens: 9, tenant, signal: new AbortController().signal, ...more }
  }
  const call = async (request: ModelRequest, name: string) => {
    const leave = await queue.enter(request)
    order.push(name)
    leave()
  }
  const leave = await queue.enter(asked('first'))
  const calls = TENANTS.map((tenant) => call(asked(tenant), tenant))
  leave()
  await Promise.all(calls)
  fairly(t, order)
  order.length = 0
  const again = await queue.enter(asked('acme'))
  const ofOne = [1, 3, 2, 3].map((priority, n) => call(asked('acme', { priority }), `${priority} ${n}`))
  again()
  await Promise.all(ofOne)
  t.same(order, ['3 1', '3 3', '2 2', '1 0'])
})

// Requests with a key, in one process.

const module = new URL('../fixtures/cluster/scripted.js', import.meta.url)

function folderOf(t: TapTest): string {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-keyed-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function teamOf(t: TapTest, effects: string, rest: object = {}) {
  const names = ['ann', 'bob', 'cat'] as const
  const team = createTeam({
    agents: names.map((name) => ({ name, module, data: { effects } })),
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    threads: { warmSpares: 0 },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    ...rest,
  })
  t.teardown(() => team.close())
  return team
}

const program = (...operations: Operation[]) => JSON.stringify(operations)
const linesOf = (file: string) => readFileSync(file, { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean)

const ofAnn = { orchestration: { strategy: 'sequential', agentOrder: ['ann'] } } as const

t.test('a request with a key is a run of its own, in the conversation of the key', async (t) => {
  const team = openTeam(
    t,
    {
      async ann(_, context) {
        const options = { key: 'k', structuredData: { a: 1 }, metadata: { more: true } }
        const { content, structuredData, sender, type } = await context.request('bob', 'hello', options)
        return { content: `${type} of ${sender}: ${content}`, structuredData }
      },
      bob: ({ content, structuredData, metadata }) => ({
        content: `${content} ${JSON.stringify(metadata)}`,
        structuredData: { heard: structuredData },
      }),
    },
    ofAnn,
  )
  const { finalOutput } = await team.execute('go')
  t.equal(finalOutput, 'response of bob: hello {"more":true}')
  const runs = await team.listRuns()
  t.match(
    runs.find(({ threadId }) => threadId === 'k'),
    { status: 'finished', query: 'hello' },
  )
  t.equal(runs.length, 2)
})

t.test('the requests of one key are done one after the other, those of others beside them', async (t) => {
  const seen: string[] = []
  const team = openTeam(
    t,
    {
      async ann(_, context) {
        const ask = (key: string, content: string) => context.request('bob', content, { key })
        await Promise.all([ask('k', 'first'), ask('k', 'second'), ask('l', 'third')])
        return seen.join(' ')
      },
      async bob({ content }, context) {
        seen.push(`+${content}`)
        await context.sleep(100)
        seen.push(`-${content}`)
        return content
      },
    },
    { ...ofAnn, roles: { bob: { concurrency: 4 } } },
  )
  const outcome = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  const order = seen.filter((each) => !each.endsWith('third'))
  t.same(order, ['+first', '-first', '+second', '-second'])
  t.ok(seen.indexOf('+third') < seen.indexOf('-first'))
  t.equal(outcome.value?.success, true)
})

t.test('a request with a key takes no place of a run: who waits for it has one', async (t) => {
  const team = openTeam(
    t,
    { ann: async (_, context) => (await context.request('bob', 'go', { key: 'k' })).content, bob: () => 'done' },
    { ...ofAnn, maxConcurrentRuns: 1 },
  )
  t.equal((await team.execute('go')).finalOutput, 'done')
})

t.test('errors, limits and withdrawals are those of a request', async (t) => {
  const told: unknown[] = []
  const team = openTeam(
    t,
    {
      async ann(_, context) {
        const failing = async (to: string, content: string, options: object) => {
          const error = await context.request(to, content, { key: 'k', ...options }).then(
            () => undefined,
            (thrown) => thrown,
          )
          told.push([error?.code, error?.message])
        }
        await failing('bob', 'fail', {})
        await failing('nobody', 'go', {})
        await failing('bob', 'sleep', { timeoutMs: 50 })
        await failing('bob', 'sleep', { signal: AbortSignal.timeout(0) })
        await failing('bob', 'go', { key: '' })
        await failing('bob', 'go', { retries: 2 })
        await failing('bob', 'go', { misspelt: 2 })
        await context.requestAll(['bob'], 'go', { key: 'k' }).catch((error) => told.push([error.code, error.message]))
        return 'done'
      },
      async bob({ content }, context) {
        if (content === 'fail') throw new Error('broken')
        await context.sleep(60_000)
        return content
      },
    },
    ofAnn,
  )
  const outcome = outcomeOf(team.execute('go'))
  for (let n = 0; n < 100 && !outcome.settled; n++) {
    await team.clock.advance(100)
    await new Promise(setImmediate)
  }
  t.equal(outcome.value?.finalOutput, 'done')
  t.match(told, [
    ['AGENT_FAILED', /broken/],
    ['UNKNOWN_AGENT', /nobody/],
    ['REQUEST_TIMEOUT', /"bob" has not answered "ann" within 50 ms, with the key "k"\. Raise timeoutMs/],
    ['CANCELLED', /./],
    ['MESSAGE_REJECTED', /key is ""; a text that is not empty is needed/],
    ['MESSAGE_REJECTED', /retries is 2; it is not taken beside key/],
    ['MESSAGE_REJECTED', /misspelt/],
    ['MESSAGE_REJECTED', /key is "k"; context.request alone takes one/],
  ])
  const runs = await team.listRuns()
  t.ok(
    runs.every(({ status }) => status !== 'running'),
    'what was withdrawn is not done any more',
  )
})

t.test('a circle of waits is named, and its youngest wait is given up', async (t) => {
  const team = teamOf(t, join(folderOf(t), 'effects'))
  const inner = ['ask', 'ann', 'k', [['say', 'never']]] satisfies Operation
  const run = team.launch(program(['ask', 'bob', 'l', [inner]]))
  const alarms: RuntimeEvent[] = []
  const reading = (async () => {
    for await (const event of run.events({ types: ['deadlock'] })) alarms.push(event)
  })()
  const result = await run.result
  await reading
  t.match(
    result.error?.message,
    /A deadlock: "ann" waits for the answer of "bob" to a key; "bob" waits for the answer of "ann" to a key\. The wait of "bob" was ended/,
  )
  t.match(alarms, [{ type: 'deadlock', victim: 'bob', cycle: { length: 2 } }])
})

t.test('waits that end by themselves are no circle', async (t) => {
  const team = teamOf(t, join(folderOf(t), 'effects'))
  const slow = (...more: Operation[]): Operation => ['ask', 'bob', 'l', [['work', 700], ...more]]
  const chain: Operation = [
    'ask',
    'bob',
    'l',
    [
      [
        'ask',
        'cat',
        'm',
        [
          ['sleep', 700],
          ['say', 'end'],
        ],
      ],
    ],
  ]
  for (const operations of [
    [slow()],
    [chain],
    [['all', [slow(), ['ask', 'cat', 'n', [['work', 600]]]]]],
    [
      [
        'race',
        [
          ['ask', 'bob', 'l', [['ask', 'ann', 'k', []]]],
          ['work', 700],
        ],
      ],
    ],
  ] satisfies Operation[][])
    t.equal((await team.execute(program(...operations))).error?.code, undefined, program(...operations))
})

t.test('a process that goes on asks for the same again: nothing is done twice', async (t) => {
  const folder = folderOf(t)
  const effects = join(folder, 'effects')
  const stateManagement = { path: join(folder, 'log') }
  const asked = program(
    ['effect', 'before'],
    [
      'ask',
      'bob',
      'k',
      [
        ['effect', 'inner'],
        ['sleep', 1_500],
        ['effect', 'late'],
        ['say', 'answer'],
      ],
    ],
    ['effect', 'behind'],
  )
  const first = teamOf(t, effects, { stateManagement })
  const run = first.launch(asked, { runId: 'one' })
  run.result.catch(() => {})
  while (!linesOf(effects).includes('inner')) await new Promise((resolve) => setTimeout(resolve, 10))
  await first.close({ stepsMs: 10_000 })
  t.equal(run.status, 'interrupted')
  const second = teamOf(t, effects, { stateManagement })
  await second.start()
  const result = await second.getRun('one')!.result
  t.equal(result.finalOutput, 'answer')
  t.same(linesOf(effects), ['before', 'inner', 'late', 'behind'])
})
