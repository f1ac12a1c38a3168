/** Sub-tasks on a condition: the outcome of another one, or a value in its result. */
import t from 'tap'
import { type AgentMessage, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import type { RunIf } from '../../src/protocols/run-if.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { type Test, throws } from '../team/stage.ts'
import { leads, play, works } from './led-team.ts'

interface Part {
  task: string
  dependsOn?: number[]
  runIf?: unknown
}

/** What comes of a task: it fails at `fail`, says a text, gives the data in it, or is done. */
function done(task: string): unknown {
  if (task.startsWith('fail')) throw new Error('no way')
  if (task.startsWith('text ')) return task.slice(5)
  return task.startsWith('{') ? JSON.parse(task) : `${task} done`
}

const worker = works(({ content }) => done(content.split('\n')[0]!))
const expert = defineAgent({
  receive({ content }) {
    const result = done(content)
    return typeof result === 'string' ? result : { structuredData: result }
  },
})

const taken = { strategy: 'collaborate', teammates: ['ann'], order: 'dependencies', decomposer: 'chief' }

/** What each strategy makes of a plan: the parts that were done, failed or skipped, with the reason, in their order. */
type Ends = [status: string, reason: string | undefined][]
const strategies: Record<string, (t: Test, parts: Part[]) => Promise<{ result: MultiAgentResult; ends: Ends }>> = {
  async supervisor(t, parts) {
    const tasks = parts.map((part) => ({ agent: 'ann', ...part }))
    const result = await asked(t, { strategy: 'supervisor', supervisor: 'chief', experts: ['ann'] }, tasks)
    return { result, ends: endsIn(result) }
  },
  async collaborate(t, parts) {
    const result = await asked(t, { ...taken, aggregation: 'synthesize' }, parts)
    return { result, ends: endsIn(result) }
  },
  async hierarchical(t, parts) {
    let ends: Ends = []
    const boss = leads(
      parts.map((part) => ({ worker: 'ann', ...part })),
      {
        summary({ results }) {
          ends = results.map(({ ok, error, ...rest }) => {
            const reason = 'skipped' in rest ? String(rest.skipped) : undefined
            return [ok ? 'COMPLETED' : error ? 'FAILED' : 'SKIPPED', reason]
          })
          return 'all told'
        },
      },
    )
    return { result: await play(t, { boss, ann: worker }, { workerAutonomy: 'high' }), ends }
  },
}

/** A model plans, and makes the answer of the results. */
async function asked(t: Test, orchestration: object, tasks: object[]): Promise<MultiAgentResult> {
  const model = scriptedModel([
    { agent: 'chief', reply: JSON.stringify({ tasks, reasoning: 'so' }) },
    { agent: 'chief', when: /# Results/, reply: 'all told' },
  ])
  const options = { agents: [{ name: 'chief' }, { name: 'ann', capabilities: ['a'] }], orchestration, logger: silent }
  const team = testTeam<string>(options as Parameters<typeof testTeam<string>>[0], { model, modules: { ann: expert } })
  t.teardown(() => team.close())
  const pending = team.execute('the job')
  await team.clock.advance(100_000)
  return pending
}

/** The results, as whoever makes one answer of them gets them. */
function endsIn({ messageHistory }: MultiAgentResult): Ends {
  const data = messageHistory.findLast(({ structuredData }) => Object.hasOwn(Object(structuredData), 'results'))
  const { results } = data!.structuredData as { results: { status: string; errorDetails?: { message: string } }[] }
  return results.map(({ status, errorDetails }) => [status, status === 'SKIPPED' ? errorDetails?.message : undefined])
}

const data = '{"rain":{"mm":7,"where":["Taipei","Kyoto"]},"sure":true}'
const nulls = { outcome: null, path: null, compare: 'equals', value: null }
const a = (task: string, runIf?: Partial<RunIf>, ...dependsOn: number[]): Part => ({
  task,
  dependsOn,
  ...(runIf && { runIf: { task: 1, ...runIf } }),
})
const on = (first: string, runIf: Partial<RunIf>) => [a(first), a('pack', runIf)]

/** Plans, and what comes of each task: + done, x failed, the reason if it is skipped. */
const plans: [what: string, parts: Part[], ...ends: string[]][] = [
  ['one that was completed', on('walk', {}), '+', '+'],
  ['a failure that is none', on('walk', { outcome: 'failed' }), '+', 'task 1 is failed, and that is completed.'],
  ['a failure', [a('fail'), a('instead', { outcome: 'failed' })], 'x', '+'],
  ['a failure, with what it says', [a('fail'), a('instead', { outcome: 'failed' }, 1)], 'x', '+'],
  ['one that has failed', [a('fail'), a('go on'), a('pack', {})], 'x', '+', 'task 1 is completed, and that is failed.'],
  ['words, whatever their letters', on('text  Yes ', { value: 'yes' }), '+', '+'],
  ['other words', on('text no', { value: 'yes' }), '+', 'the result of task 1 equals "yes", and that is "no".'],
  ['words in a text', on('rain', { compare: 'contains', value: 'RAIN' }), '+', '+'],
  [
    'words not in a text',
    on('rain', { compare: 'lacks', value: 'rain' }),
    '+',
    'lacks "rain", and that is "rain done".',
  ],
  ['a number', on(data, { path: 'rain.mm', compare: 'above', value: 5 }), '+', '+'],
  ['a number as text', on('text 7.0', { value: 7 }), '+', '+'],
  ['a smaller number', on(data, { path: 'rain.mm', compare: 'below', value: 5 }), '+', 'is below 5, and that is 7.'],
  ['no number', on('rain', { compare: 'above', value: 5 }), '+', 'is above 5, and that is "rain done".'],
  ['true', on(data, { path: 'sure', value: true }), '+', '+'],
  ['an item of a list', on(data, { path: 'rain.where', compare: 'contains', value: 'kyoto' }), '+', '+'],
  ['a place in a list', on(data, { path: 'rain.where.1', compare: 'differs', value: 'Taipei' }), '+', '+'],
  ['data in a text', on(`text So: ${data}`, { path: 'rain.mm', value: 7 }), '+', '+'],
  [
    'what is not there',
    on(data, { path: 'rain.cm', compare: 'differs', value: 5 }),
    '+',
    '"rain.cm" in the result of task 1, and there is not.',
  ],
  ['what only objects have', on(data, { path: 'constructor', compare: 'lacks', value: 'x' }), '+', 'and there is not.'],
  [
    'a way that is taken, another, and one that joins them',
    [
      a('rain'),
      a('umbrella', { compare: 'contains', value: 'rain' }),
      a('hat', { task: 2, outcome: 'skipped' }),
      a('go', undefined, 2, 3),
    ],
    ...['+', '+', 'task 2 is skipped, and that is completed.', '+'],
  ],
  [
    'what builds on a skipped one alone',
    [
      a('walk'),
      a('hat', { value: 'sun' }),
      a('put it on', undefined, 2),
      a('or not', { task: 3, outcome: 'skipped' }, 3),
    ],
    ...['+', 'equals "sun"', 'It builds on what was skipped: task 2.', '+'],
  ],
  ['a place that is there', on(data, { path: 'sure' }), '+', '+'],
  ['a place that is not there', on('walk', { path: 'sure' }), '+', 'and there is not.'],
  [
    'nothing to compare with',
    on(data, { compare: 'above' }),
    '+',
    'is above some value, and the plan does not say which.',
  ],
  [
    'why one has failed',
    [a('fail'), a('go on'), a('instead', { outcome: 'failed', compare: 'contains', value: 'no way' })],
    'x',
    '+',
    '+',
  ],
  ['no task of the plan', on('walk', { task: 3 }), '+', 'task 3 is completed, and the plan has no such task.'],
  [
    'null where nothing is said',
    [
      { task: 'walk', runIf: null },
      { task: 'pack', runIf: { task: 1, ...nulls } },
    ],
    '+',
    '+',
  ],
  ['one that comes later in the plan', [a('first', { task: 2, outcome: 'failed' }), a('fail')], '+', 'x'],
]

for (const [strategy, carriedOut] of Object.entries(strategies))
  t.test(`a task under ${strategy} is run on its condition alone`, async (t) => {
    for (const [what, parts, ...wanted] of plans)
      await t.test(what, async (t) => {
        const { result, ends } = await carriedOut(t, parts)
        t.match(result, { success: true, finalOutput: 'all told' })
        t.equal(ends.length, wanted.length)
        for (const [at, want] of wanted.entries()) {
          const [status, reason = ''] = ends[at] ?? []
          t.equal(status, { '+': 'COMPLETED', x: 'FAILED' }[want] ?? 'SKIPPED', `task ${at + 1}`)
          if (status === 'SKIPPED') t.ok(reason.includes(want), reason)
        }
        const skips = result.orchestrationTrace.decisions.filter(({ choice }) => choice === 'skipped')
        t.same(
          pluck(skips, 'reason'),
          ends.flatMap(([, reason]) => reason ?? []),
          'the trace says so, too',
        )
      })
  })

const faults: [what: string, parts: Part[], message: RegExp][] = [
  ['itself', on('walk', { task: 2 }), /circle, 2 -> 2/],
  ['one that waits for it', [a('walk', { task: 2 }), a('hat', undefined, 1)], /circle, 1 -> 2 -> 1/],
  ['a field that it has not', [a('walk'), { task: 'hat', runIf: { task: 1, status: 'failed' } }], /status/],
]

t.test('a plan whose conditions cannot be read, or wait for each other, is sent back with its fault', async (t) => {
  for (const [what, parts, message] of faults) {
    const heard: string[] = []
    const hears =
      (tasks: object[]) =>
      (_told: unknown, { content }: AgentMessage) => {
        heard.push(content)
        return { tasks: tasks.map((task) => ({ worker: 'ann', agent: 'ann', ...task })), reasoning: 'so' }
      }
    const led = await play(t, { boss: leads([], { plan: hears(parts) }), ann: worker })
    t.match(led, { success: false, error: { code: 'REPLY_INVALID', message } }, what)
    const chief = defineAgent({ receive: (message) => ({ structuredData: hears(parts)(undefined, message) }) })
    const agents = [{ name: 'chief' }, { name: 'ann' }]
    const orchestration = { strategy: 'supervisor' as const, supervisor: 'chief', experts: ['ann'] }
    const team = testTeam<string>({ agents, orchestration, logger: silent }, { modules: { chief, ann: expert } })
    const { success, error } = await team.execute('the job')
    t.notOk(success, what)
    t.match(error?.details.failures, [{ agent: 'chief', code: 'REPLY_INVALID', message }], what)
    await team.close()
    t.match(heard, [/^Plan/, message, /^Take/, message], what)
    if (!what.startsWith('a field'))
      t.match((await asked(t, taken, parts)).error, { code: 'REPLY_INVALID', message }, what)
  }
})

t.test('a plan of which all is skipped leaves the answer to who makes it', async (t) => {
  for (const strategy of ['supervisor', 'hierarchical']) {
    const { result, ends } = await strategies[strategy]!(t, [a('walk', { task: 3 })])
    t.match(result, { success: true, finalOutput: 'all told' })
    t.match(ends, [['SKIPPED', /task 3 is completed, and the plan has no such task/]])
  }
})

t.test('a failure is told to what is done because of it', async (t) => {
  const { result } = await strategies.supervisor!(t, [a('fail'), a('instead', { outcome: 'failed' }, 1)])
  const told = result.messageHistory.find(({ content }) => content === 'instead')
  t.match(told?.structuredData, { contextSummary: /\(sub-task 1 failed: .*no way/ })
})

t.test('a run in which all else is skipped fails with what failed', async (t) => {
  for (const orchestration of [{ strategy: 'supervisor', supervisor: 'chief', experts: ['ann'] }, taken]) {
    const result = await asked(t, orchestration, [
      { agent: 'ann', ...a('fail') },
      { agent: 'ann', ...a('pack', {}) },
    ])
    t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
    t.match(result.failures, [{ agent: 'ann' }])
    t.match(result.error?.details, { results: [{ status: 'FAILED' }, { status: 'SKIPPED' }] })
  }
  const boss = leads([
    { worker: 'ann', task: 'fail' },
    { worker: 'ann', ...a('pack', {}) },
  ])
  const result = await play(t, { boss, ann: throws('no way') }, { workerAutonomy: 'high' })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED', message: /no way/ } })
})
