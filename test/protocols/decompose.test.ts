/** How a task is taken apart, questions whose answers fit a schema, and sub-tasks on conditions. */
import t from 'tap'
import { z } from 'zod'
import { jsonIn } from '../../src/actors/model/structured-output.ts'
import { type AgentMessage, type AgentRole, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import type { RunIf } from '../../src/protocols/run-if.ts'
import { askFor, type CollaborateConfig } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { echo, says, stage, type Test, throws } from '../team/stage.ts'
import { leads, play, works } from './led-team.ts'

// How a task is taken apart: what counts as a list of sub-tasks, and what keeps the task whole. Source: document
// 000.

type Config = Omit<CollaborateConfig, 'strategy'>

/** A task for a team of a model and two agents of code; the model takes it apart, as the server says. */
async function asked(t: Test, answer: string | Answer, config: Config = {}): Promise<MultiAgentResult> {
  const server = await modelServer(t)
  server.answer(answer)
  const agents = [{ name: 'flights', capabilities: ['flight'] }, { name: 'llm', model: 'default' }, { name: 'hotels' }]
  const orchestration = { strategy: 'collaborate' as const, teammates: ['flights', 'hotels', 'llm'], ...config }
  const models = { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key' } }
  const team = testTeam<string>(
    { agents, orchestration, models, logger: silent },
    { modules: { flights: echo, hotels: echo } },
  )
  t.teardown(() => team.close())
  return team.execute('A flight and a hotel')
}

const PARTS = ['Find a flight', 'Book the flight']
const DONE = 'flights: Find a flight\nflights: Book the flight'
const WHOLE = 'flights: A flight and a hotel'
const verdict = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions[0]

t.test('the first teammate with a model is asked for a JSON array of strings', async (t) => {
  const result = await asked(t, JSON.stringify(PARTS))
  t.equal(result.finalOutput, DONE)
  t.match(verdict(result), { choice: 'into 2', reason: '"llm" named them.' })
  const [first] = result.messageHistory.filter(({ recipient }) => recipient === 'llm')
  t.match(first?.content, /JSON array of strings.*\n\n# Task\n\nA flight and a hotel$/s)
})

t.test('the array may stand in a fence or behind prose, and blank sub-tasks are none', async (t) => {
  const answers = [
    `\`\`\`json\n${JSON.stringify(PARTS)}\n\`\`\``,
    `These are the parts:\n${JSON.stringify(PARTS)}`,
    JSON.stringify(['', ...PARTS, '  ']),
  ]
  for (const answer of answers) t.equal((await asked(t, answer)).finalOutput, DONE, answer)
})

t.test('a role that a model plays has a model, also by default, and also as the synthesizer', async (t) => {
  const server = await modelServer(t)
  const models = { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key' } }
  const play = async (agents: AgentRole[], config: Config = {}) => {
    server.answer(JSON.stringify(PARTS))
    const team = testTeam<string>(
      { agents, orchestration: { strategy: 'collaborate', ...config }, models, logger: silent },
      { modules: { flights: echo } },
    )
    t.teardown(() => team.close())
    return verdict(await team.execute('A flight'))
  }
  const flights = { name: 'flights', capabilities: ['flight'] }
  const named = { choice: 'into 2', reason: '"llm" named them.' }
  t.match(await play([flights, { name: 'llm' }]), named)
  t.match(await play([flights, { name: 'llm' }], { aggregation: 'synthesize', synthesizer: 'llm' }), named)
  t.match(await play([flights]), { choice: 'no', reason: /no teammate has a model/ })
})

t.test('an empty array, or one of blanks, means that the task is atomic', async (t) => {
  for (const answer of ['[]', '["", "  \\n"]']) {
    const result = await asked(t, answer)
    t.equal(result.finalOutput, WHOLE)
    t.match(verdict(result), { choice: 'no', reason: /"llm" finds that it is done best in one piece/ })
  }
})

t.test('whatever else is answered, the task stays whole', async (t) => {
  const answers = [
    'First find a flight, then book it.',
    '["Find a flight"',
    '["Find a flight"] is what I would do',
    '"Find a flight"',
    '{"tasks": ["Find a flight"]}',
    '["Find a flight", 7]',
    '[["Find a flight"]]',
    'null',
    '[{"task": "Find a flight"}]',
  ]
  for (const answer of answers) {
    const result = await asked(t, answer)
    t.equal(result.finalOutput, WHOLE, answer)
    t.match(verdict(result), { choice: 'no', reason: /"llm" was asked for a list of sub-tasks in JSON/ }, answer)
  }
})

t.test('the task stays whole if the model fails', async (t) => {
  const result = await asked(t, { status: 400 })
  t.match(result, { success: true, finalOutput: WHOLE, failures: [{ agent: 'llm' }] })
  t.match(verdict(result), { choice: 'no', reason: /^"llm" failed: AGENT_FAILED: .*ModelError/ })
})

t.test('the task stays whole if nobody has a model, or nobody is to take it apart', async (t) => {
  const cast = { a: { code: echo, capabilities: ['fly'] }, b: echo }
  const none = await stage(t, cast, { orchestration: { strategy: 'collaborate' } }).execute('Fly!')
  t.equal(none.finalOutput, 'a: Fly!')
  t.match(verdict(none), { choice: 'no', reason: /no teammate has a model/ })
  const result = await asked(t, JSON.stringify(PARTS), { decomposer: false })
  t.equal(result.finalOutput, WHOLE)
  t.notOk(result.agentOutputs.llm)
})

t.test('an agent of code answers with data', async (t) => {
  const cast = { a: { code: echo, capabilities: ['fly'] }, b: says({ structuredData: ['fly there', 'fly back'] }) }
  const config = { strategy: 'collaborate', decomposer: 'b' } as const
  t.equal((await stage(t, cast, { orchestration: config }).execute('Travel!')).finalOutput, 'a: fly there\na: fly back')
})

t.test('ten thousand sub-tasks are not carried out', async (t) => {
  const result = await asked(t, JSON.stringify(Array.from({ length: 10_000 }, (_, i) => `Find flight ${i}`)))
  t.equal(result.finalOutput, WHOLE)
  t.match(verdict(result), { choice: 'no', reason: '"llm" named 10000 sub-tasks, and 100 are the most.' })
})

const dependencies = (tasks: object, config: Config = {}) =>
  [JSON.stringify(tasks), { order: 'dependencies', ...config }] as const
const tasksOf = (...needs: number[][]) => needs.map((dependsOn, at) => ({ task: `flight ${at + 1}`, dependsOn }))

t.test('with dependencies it is asked for them, and may leave them out', async (t) => {
  for (const plan of [{ tasks: tasksOf([], [1]), reasoning: 'first things first' }, tasksOf([], [1])]) {
    const result = await asked(t, ...dependencies(plan))
    t.equal(result.finalOutput, 'flights: flight 1\nflights: flight 2')
    t.match(result.messageHistory[0]?.content, /A flight/)
    t.match(result.messageHistory.find(({ recipient }) => recipient === 'llm')?.content, /"dependsOn": \[1\]/)
  }
  const strings = await asked(t, ...dependencies(PARTS))
  t.equal(strings.finalOutput, DONE)
})

t.test('a dependency that is null is none, and one that is named twice is one', async (t) => {
  const [first, second] = tasksOf([], [1, 1])
  const result = await asked(t, ...dependencies([{ ...first, dependsOn: null }, second!]))
  t.equal(result.finalOutput, 'flights: flight 1\nflights: flight 2')
  const told = result.messageHistory.find(({ content }) => content === 'flight 2')
  t.match(told?.structuredData, { contextSummary: /^## 1\. flight 1 \(by flights\)\n\nflights: flight 1$/ })
})

t.test('dependencies on what is not there are no plan', async (t) => {
  const odd = [{ task: 'flight', runIf: { task: 0 } }]
  for (const plan of [tasksOf([], [3]), tasksOf([0]), tasksOf([1.5]), [{ task: '  ', dependsOn: [] }], odd]) {
    const result = await asked(t, ...dependencies(plan))
    t.equal(result.finalOutput, WHOLE)
    t.match(verdict(result), { reason: /a list of sub-tasks in JSON/ })
  }
})

t.test('a circle of dependencies is an error that names it', async (t) => {
  const circles: [number[][], string][] = [
    [[[2], [3], [1]], '1 -> 2 -> 3 -> 1'],
    [[[], [2]], '2 -> 2'],
    [[[], [1, 3], [4], [2]], '2 -> 3 -> 4 -> 2'],
  ]
  for (const [needs, circle] of circles) {
    const { success, error } = await asked(t, ...dependencies(tasksOf(...needs)))
    t.notOk(success)
    t.match(error, { code: 'REPLY_INVALID', message: `its tasks wait for each other in a circle, ${circle}.` })
  }
})

// Questions of a script whose answers have to fit a schema.

const schema = z.object({ side: z.enum(['left', 'right']), why: z.string().default('no reason') })

function asking(t: Tap, judge: (message: AgentMessage) => unknown) {
  const heard: AgentMessage[] = []
  const cast = {
    judge: defineAgent({
      receive(message) {
        heard.push(message)
        const said = judge(message)
        return typeof said === 'string' ? said : { structuredData: said }
      },
    }),
  }
  const team = stage(t, cast, { orchestration })
  return { team, heard }
}
type Tap = Parameters<typeof stage>[0]

const orchestration = {
  strategy: 'custom' as const,
  run: async (script: Parameters<typeof askFor>[0], query: string) => {
    const { value, message } = await askFor(script, 'judge', query, schema, { structuredData: { sides: 2 } })
    return `${message.sender}: ${JSON.stringify(value)}`
  },
}

t.test('an agent of code answers with data, or with JSON in its words', async (t) => {
  const says = [
    { side: 'left' },
    '{"side":"left"}',
    'I think:\n```json\n{"side":"left"}\n```',
    'So be it: {"side":"left"}',
  ]
  for (const said of says) {
    const { team, heard } = asking(t, () => said)
    t.equal((await team.execute('Which?')).finalOutput, 'judge: {"side":"left","why":"no reason"}')
    t.match(heard, [{ content: 'Which?', structuredData: { sides: 2 } }])
    t.match(heard[0]?.metadata, { answerSchema: { type: 'object', properties: { side: { enum: ['left', 'right'] } } } })
  }
})

t.test('an answer that misses the schema is sent back once, with what is wrong', async (t) => {
  const better = asking(t, ({ content }) => (content.includes('cannot be used') ? { side: 'right' } : { side: 'up' }))
  t.equal((await better.team.execute('Which?')).finalOutput, 'judge: {"side":"right","why":"no reason"}')
  t.match(better.heard[1]?.content, /^Which\?\n\nYour last answer cannot be used: side: .*left/)

  const hopeless = asking(t, () => 'left, I should say')
  const { error } = await hopeless.team.execute('Which?')
  t.match(error, { code: 'REPLY_INVALID', message: /"judge" cannot be used: it has no structured data/ })
  t.match(error?.details, { agent: 'judge', content: 'left, I should say' })
  t.equal(hopeless.heard.length, 2)
})

t.test('of many things that are wrong the first ones are told', async (t) => {
  const heard: string[] = []
  const judge = defineAgent({
    receive({ content }) {
      heard.push(content)
      return { structuredData: Array.from({ length: 200 }, () => 'x') }
    },
  })
  const run = async (script: Parameters<typeof askFor>[0]) =>
    String((await askFor(script, 'judge', 'Which?', z.array(z.number()))).value)
  const team = stage(t, { judge }, { orchestration: { strategy: 'custom', run } })
  const { error } = await team.execute('Which?')
  for (const text of [error?.message, heard[1]]) {
    t.match(text, /cannot be used: 0: .*; 9: .*; and 190 more\./)
    t.notMatch(text, '; 10: ')
  }
})

t.test('a model is asked in the schema, and answers with data', async (t) => {
  const model = scriptedModel([{ agent: 'judge', reply: { side: 'left', why: 'tradition' } }])
  const team = testTeam({ agents: [{ name: 'judge' }], orchestration }, { model })
  t.teardown(() => team.close())
  const result = await team.execute('Which?')
  t.equal(result.finalOutput, 'judge: {"side":"left","why":"tradition"}')
  t.match(result.agentOutputs.judge, [{ structuredData: { side: 'left', why: 'tradition' } }])
  model.assertDone()
})

t.test('JSON is all of a text, or in a fence, or behind prose up to its end; nothing else is', async (t) => {
  const cases: [text: string, value: unknown][] = [
    ['["a", "b"]', ['a', 'b']],
    ['Here [as you asked] it is:\n["a", "b"]', ['a', 'b']],
    ['```json\n["a"]\n``` as you asked', ['a']],
    ['["a"] is what I would do', undefined],
    ['It says "}" first: {"a": "]}", "b": ["\\""]}', { a: ']}', b: ['"'] }],
    ['[\n  {"x": 1},\n  {"x": 2}', undefined],
    ['{"a": 1}\n{"a": 2}', undefined],
    ['} then {"a": 1} ', { a: 1 }],
    ['one, two', undefined],
    ['[1, 2', undefined],
    ['Here: ```json ```\n["a"]\n```', ['a']],
    ['```JSON  \n\n["a"]\n```', ['a']],
    ['```js\nx\n``` and ```\n["a"]\n``` too', ['a']],
    ['````\n["a"]\n````', ['a']],
    [`${'['.repeat(2_000)}${']'.repeat(2_000)}`, undefined],
    ['['.repeat(100_000), undefined],
  ]
  for (const [text, value] of cases) t.same(jsonIn(text)?.value, value, text.slice(0, 40))
})

t.test('an agent asks another one, and its model is told what is wrong', async (t) => {
  const asker = defineAgent({
    receive: async ({ content }, context) => (await askFor(context, 'judge', content, schema)).value.why,
  })
  const model = scriptedModel([
    { agent: 'judge', when: /:\nWhich\?$/, reply: { side: 'up' } },
    { agent: 'judge', when: /cannot be used: side: .*left/, reply: { side: 'left' } },
  ])
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['asker' as const] }
  const team = testTeam(
    { agents: [{ name: 'asker' }, { name: 'judge' }], orchestration },
    { modules: { asker }, model },
  )
  t.teardown(() => team.close())
  t.equal((await team.execute('Which?')).finalOutput, 'no reason')
  model.assertDone()
})

t.test('what is no schema is refused, and named', async (t) => {
  for (const wrong of [undefined, {}, { type: 'object' }, z.object({ when: z.date() })]) {
    const run = async (script: Parameters<typeof askFor>[0]) =>
      String((await askFor(script, 'judge', 'Which?', wrong as typeof schema)).value)
    const team = stage(
      t,
      { judge: defineAgent({ receive: () => '{}' }) },
      { orchestration: { strategy: 'custom', run } },
    )
    const { error } = await team.execute('Which?')
    t.match(error, { message: /schema/ })
    t.match(JSON.stringify(error), /"path":"schema"/)
  }
})

// Sub-tasks on a condition: the outcome of another one, or a value in its result.

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
    const result = await runIfAsked(t, { strategy: 'supervisor', supervisor: 'chief', experts: ['ann'] }, tasks)
    return { result, ends: endsIn(result) }
  },
  async collaborate(t, parts) {
    const result = await runIfAsked(t, { ...taken, aggregation: 'synthesize' }, parts)
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
async function runIfAsked(t: Test, orchestration: object, tasks: object[]): Promise<MultiAgentResult> {
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
      t.match((await runIfAsked(t, taken, parts)).error, { code: 'REPLY_INVALID', message }, what)
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
    const result = await runIfAsked(t, orchestration, [
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
