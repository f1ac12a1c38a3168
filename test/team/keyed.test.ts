/** Requests with a key, in one process. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createTeam, type RuntimeEvent } from '../../src/index.ts'
import type { Operation } from '../fixtures/cluster/scripted.ts'
import { openTeam, outcomeOf } from '../kit/team.ts'

const module = new URL('../fixtures/cluster/scripted.js', import.meta.url)

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-keyed-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function teamOf(t: Test, effects: string, rest: object = {}) {
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
