/** Contradictions between answers that are combined: found, told, marked, recorded and settled. */
import t from 'tap'
import { type AgentDefinition, type AgentMessage, defineAgent, type OrchestrationConfig } from '../../src/index.ts'
import { differencesIn } from '../../src/protocols/conflicts.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, type Options, stage, type Test } from '../team/stage.ts'

/** Answers with data or words; under `low` autonomy it first says how it would work. */
const finds = (reply: unknown): AgentDefinition =>
  defineAgent({ receive: () => (typeof reply === 'string' ? reply : { structuredData: reply }) })

/** Plans or splits, and combines what the others found. It keeps what it was told at the end. */
function leads(plan: object): AgentDefinition & { told: AgentMessage[] } {
  const told: AgentMessage[] = []
  const definition = defineAgent({
    receive(message) {
      if (told.push(message) === 1) return { structuredData: plan }
      if (message.content.startsWith('Which statements')) return { structuredData: { contradictions: [] } }
      return 'one answer'
    },
  })
  return Object.assign(definition, { told })
}

async function play(
  t: Test,
  cast: Cast<string>,
  orchestration: OrchestrationConfig<string>,
  options: Options<string> = {},
) {
  const team = stage<string>(t, cast, { ...options, orchestration })
  const pending = team.execute('Which port?')
  await team.clock.advance(100_000)
  const result = await pending
  const decided = result.orchestrationTrace.decisions.filter(({ question }) => question.startsWith('They contradict'))
  return { ...result, decided: decided.map(({ question, choice }) => `${question} ${choice}`) }
}

const OPEN = 'They contradict each other about "port": what holds? open'
const LIST = '## Contradictions\n\n- "port": 443 (a); 80 (b)'
const [a, b] = [finds({ port: 443, host: 'x' }), finds({ port: 80, host: 'x' })]

t.test('wherever answers are combined, contradictions are found, told, marked and in the trace', async (t) => {
  const workers = ['a', 'b']
  const planned = {
    tasks: [
      { worker: 'a', task: 'look' },
      { worker: 'b', task: 'look' },
    ],
  }
  const split = {
    tasks: [
      { agent: 'a', task: 'look' },
      { agent: 'b', task: 'look' },
    ],
    reasoning: '',
  }
  const told: [OrchestrationConfig<string>, plan: object][] = [
    [{ strategy: 'supervisor', supervisor: 'lead', experts: workers }, split],
    [{ strategy: 'supervisor', supervisor: 'other', experts: workers, aggregator: 'lead', flow: 'graph' }, {}],
    [{ strategy: 'hierarchical', manager: 'lead', workers, workerAutonomy: 'high' }, planned],
    [{ strategy: 'collaborate', decomposer: false, aggregation: 'synthesize', synthesizer: 'lead' }, {}],
    [{ strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'lead', agents: workers }, {}],
  ]
  for (const [orchestration, plan] of told) {
    const lead = leads(plan)
    const cast: Cast<string> =
      orchestration.strategy === 'supervisor' && orchestration.flow ? { a, b, lead, other: a } : { a, b, lead }
    const result = await play(t, cast, orchestration)
    const { strategy } = orchestration
    t.same(result.decided, [OPEN], strategy)
    const last = lead.told.at(-1)
    t.ok(last?.content.includes(LIST), strategy)
    const data = { ...Object(last?.structuredData), ...Object(last?.metadata.hierarchical) }
    t.match(data.contradictions, [
      { about: '"port"', claims: [{ value: 443, agents: ['a'] }, { value: 80 }], holds: null },
    ])
  }
  const marked: [OrchestrationConfig<string>, plan: object, decided: string, list: string][] = [
    [
      { strategy: 'hierarchical', manager: 'lead', workers, workerAutonomy: 'high', managerSummarizes: false },
      planned,
      OPEN,
      LIST,
    ],
    [{ strategy: 'collaborate', decomposer: false, aggregation: 'join', teammates: workers }, {}, OPEN, LIST],
    [{ strategy: 'parallel', agents: workers }, {}, OPEN.replace('open', '443'), `${LIST}; what holds: 443`],
  ]
  for (const [orchestration, plan, decided, list] of marked) {
    const result = await play(t, { a, b, lead: leads(plan) }, orchestration)
    t.same(result.decided, [decided], orchestration.strategy)
    t.ok(result.finalOutput?.endsWith(list), `${orchestration.strategy}: ${result.finalOutput}`)
  }
})

t.test('answers that agree, and what one agent says of several things, are no contradiction', async (t) => {
  const same: [unknown, unknown][] = [
    [{ port: 80 }, { port: 80 }],
    [{ port: 80 }, { host: 'x' }],
    ['The port is 80.', 'The port is 80.'],
    ['The port is 80.', 'Use any host that you like.'],
    [
      { port: 80, references: ['x'] },
      { port: 80, references: ['y'] },
    ],
    ['On day 1 it rains. On day 2 it rains.', 'On day 3 it rains.'],
    ['', {}],
  ]
  for (const [one, other] of same) {
    const result = await play(t, { a: finds(one), b: finds(other) }, { strategy: 'parallel' })
    t.same(result.decided, [])
    t.notMatch(result.finalOutput, /Contradictions/)
  }
})

t.test('conflictResolution says what holds, in a merge and for whoever combines', async (t) => {
  const cast = { a, b: { code: b, weight: 3, priority: 2 }, c: { code: finds({ port: 443 }), priority: 1 } }
  const rules = { vote: '80', priority: '80', evidence: '80' }
  for (const [rule, holds] of Object.entries(rules)) {
    const conflictResolution = rule as keyof typeof rules
    const merged = await play(t, cast, { strategy: 'parallel', conflictResolution })
    t.same(merged.decided, [OPEN.replace('open', holds)], rule)
    t.match(merged.finalOutput, new RegExp(`443 \\(a, c\\); 80 \\(b\\); what holds: ${holds}$`), rule)
    const lead = leads({ tasks: ['a', 'b', 'c'].map((worker) => ({ worker, task: 'look' })) })
    const led = { strategy: 'hierarchical', manager: 'lead', workers: ['a', 'b', 'c'], workerAutonomy: 'high' } as const
    const result = await play(t, { ...cast, lead }, { ...led, conflictResolution })
    t.same(result.decided, [OPEN.replace('open', holds)])
    t.match(lead.told.at(-1)?.content, `what holds: ${holds}`)
  }
  const failed = await play(t, cast, { strategy: 'parallel', conflictResolution: 'fail' })
  t.match(failed, { success: false, error: { code: 'CONSENSUS', details: { about: '"port"' } } })
  const judged = await play(
    t,
    { ...cast, lead: finds('one answer') },
    { strategy: 'parallel', judge: 'lead', conflictResolution: 'synthesize' },
  )
  t.match(judged, { finalOutput: 'one answer', decided: [OPEN] })
})

t.test(
  'whoever combines is asked what texts contradict each other about, where conflictResolution is set',
  async (t) => {
    const texts = { a: finds('We open at dawn.'), b: finds('Nobody is let in before noon.') }
    const asked: string[] = []
    const lead = defineAgent({
      receive({ content }) {
        asked.push(content)
        if (!content.startsWith('Which statements')) return 'one answer'
        const statements = [
          { agent: 'a', statement: 'We open at dawn.' },
          { agent: 'b', statement: 'Nobody is let in before noon.' },
        ]
        return { structuredData: { contradictions: [{ about: 'the hours', statements }] } }
      },
    })
    const graph = {
      strategy: 'supervisor',
      supervisor: 'boss',
      experts: ['a', 'b'],
      aggregator: 'lead',
      flow: 'graph',
    } as const
    const cast = { ...texts, lead, boss: finds('') }
    const silent = await play(t, cast, graph)
    t.same([silent.decided, asked.length], [[], 1])
    const { decided } = await play(t, cast, { ...graph, conflictResolution: 'vote' })
    t.same(decided, ['They contradict each other about the hours: what holds? We open at dawn.'])
    t.match(asked.at(-1), /the hours: We open at dawn\. \(a\); Nobody.*\(b\); what holds: We open/)
  },
)

t.test('texts in the same words contradict each other in a number, the last word or a negation', (t) => {
  const pairs: [one: string, other: string, about: string | undefined][] = [
    ['The port is 443.', 'The port is 80.', '"The port is …"'],
    ['Intro. The port is 443, they say.', '- The port is 80, they say', '"The port is … they say"'],
    ['The launch is on Monday.', 'The launch is on Tuesday.', '"The launch is on …"'],
    ['The gate is open.', 'The gate is not open.', '"The gate is open?"'],
    ["It isn't safe to swim.", 'It is safe to swim.', '"It is safe to swim?"'],
    ['Das Tor ist nicht offen.', 'Das Tor ist offen.', '"Das Tor ist offen?"'],
    ['The gate is open.', 'The gate is open.', undefined],
    ['Ann likes tea.', 'Bob likes tea.', undefined],
    ['Yes.', 'No.', undefined],
    ['It costs 5 of 10 coins.', 'It costs 6 of 11 coins.', undefined],
  ]
  for (const [one, other, about] of pairs) {
    const said = (agent: string, text: string) => ({ agent, value: text, text })
    const found = differencesIn([said('a', one), said('b', other)])
    t.same(pluck(found, 'about'), about === undefined ? [] : [about], `${one} ${other}`)
  }
  const long = 'word '.repeat(200_000)
  t.same(
    differencesIn([
      { agent: 'a', value: long, text: long },
      { agent: 'b', value: long, text: long },
    ]),
    [],
  )
  t.end()
})
