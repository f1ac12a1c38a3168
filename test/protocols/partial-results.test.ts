/** What a run answers when some of its agents fail, what the next agent is told, and what workers may do without asking. */
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  type AgentContext,
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  createTeam,
  DelegationRefusedError,
  defineAgent,
  type MultiAgentPatternOptions,
  type MultiAgentResult,
  type OrchestratorContext,
} from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import type { HierarchicalConfig, SupervisorConfig } from '../../src/protocols.ts'
import { type Script, scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import type { Answers } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { type Cast, type Options, says, stage, type Test, throws } from '../team/stage.ts'
import { asked, decisions, leads, led, play, type Told, task, worker, works } from './led-team.ts'

// What a run answers when those fail who plan, who work, or who make one answer of the results.

/* A desk of models, of which some have a provider that is down. */

const ADDRESS = 'connect ECONNREFUSED 10.0.0.7:443'
const PLAN = JSON.stringify({
  tasks: ['weather', 'finance'].map((agent) => ({ agent, task: `Ask ${agent}.` })),
  reasoning: 'one thing each',
})

const roles = ['chief', 'weather', 'finance', 'general', 'editor'] as const
type Role = (typeof roles)[number]

function answering(down: readonly Role[], editor = 'Rain, and 1,085.'): Answers {
  return ({ agent, messages }) => {
    if (down.some((name) => name === agent)) throw new Error(ADDRESS)
    const told = JSON.stringify(messages.at(-1)?.content)
    if (told.includes('# What was tried')) return 'Sorry, not today.'
    if (told.includes('# Results')) return editor
    return agent === 'chief' && told.includes('# Experts') ? PLAN : `${agent} knows`
  }
}

type Desk = Partial<Pick<SupervisorConfig, 'flow' | 'fallback' | 'aggregator' | 'conflictResolution' | 'prompts'>>

function desk(t: Parameters<typeof modelTeam>[0], answers: Answers, config: Desk, options: object = {}) {
  const orchestration: SupervisorConfig = {
    strategy: 'supervisor',
    supervisor: 'chief',
    experts: ['weather', 'finance'],
    ...config,
  }
  const agents = roles.map((name) => ({ name }))
  return modelTeam(t, answers, agents, { orchestration, communication: { turnRetries: 0 }, ...options })
}

const JOINED = '## weather\n\nweather knows\n\n## finance\n\nfinance knows'
const ALL = roles
const FIXED = /^Sorry, I could not find an answer this time/
const OWN = /^Sorry, not today\.$/
const fallback = 'general'
const aggregator = 'editor'

const rows: [config: Desk, down: readonly Role[], failed: readonly Role[], answer: string | RegExp][] = [
  [{}, ['chief'], ['chief'], FIXED],
  [{ aggregator }, ['chief'], ['chief'], OWN],
  [{ fallback }, ['chief'], ['chief'], 'general knows'],
  [{ fallback }, ['chief', 'general'], ['chief', 'general'], FIXED],
  [{ fallback, aggregator }, ['chief', 'general'], ['chief', 'general'], OWN],
  [{}, ['weather', 'finance'], ['weather', 'finance'], OWN],
  [{ fallback }, ['weather', 'finance'], ['weather', 'finance'], OWN],
  [{}, ALL, ['chief'], FIXED],
  [{ fallback }, ALL, ['chief', 'general'], FIXED],
  [{ fallback, aggregator }, ALL, ['chief', 'general', 'editor'], FIXED],
  [{ aggregator }, ['editor'], ['editor'], JOINED],
  [{ aggregator, fallback }, ['editor'], ['editor'], JOINED],
  [{ aggregator }, ['editor', 'weather'], ['weather', 'editor'], '## finance\n\nfinance knows'],
  [{ aggregator, conflictResolution: 'vote' }, ['editor'], ['editor', 'editor'], JOINED],
  [{ flow: 'graph', aggregator }, ['editor'], ['editor'], JOINED],
  [{ flow: 'graph' }, ALL, ['weather', 'finance', 'chief'], FIXED],
  [{ flow: 'tools' }, ['chief'], ['chief'], FIXED],
  [{ flow: 'tools', fallback }, ['general'], ['general'], OWN],
  [{ flow: 'tools', fallback }, ALL, ['general', 'chief'], FIXED],
  [{ flow: 'tools', fallback, prompts: { apology: 'Later, please.' } }, ALL, ['general'], /^Later, please\.$/],
]

const failedIn = ({ failures }: Pick<MultiAgentResult, 'failures'>) => failures.map(({ agent }) => agent)

for (const [config, down, failed, answer] of rows)
  t.test(`supervisor ${JSON.stringify(config)}, down: ${down.join(', ')}`, async (t) => {
    const { team } = desk(t, answering(down), config)
    const pending = team.execute('What?')
    await team.clock.advance(1_000_000)
    const result = await pending
    t.same(failedIn(result).sort(), [...failed].sort())
    for (const { error } of result.failures) t.match(error.message, ADDRESS, 'the reasons stay')
    if (typeof answer === 'string') return t.match(result, { success: true, finalOutput: answer, error: null })
    t.match(result, { success: false, finalOutput: null, error: { code: 'AGENT_FAILED', message: answer } })
    t.notMatch(result.error?.message, /10\.0\.0\.7|ECONN|AGENT_FAILED|\n/)
    const results = (result.error?.details.results ?? []) as { workerAgentRole: string; status: string }[]
    t.match(pluck(results, 'workerAgentRole'), failed.slice(0, results.length))
    t.ok(results.length > 0)
    t.ok(results.every(({ status }) => status === 'FAILED'))
    const isByPlan = config.flow === 'graph' || !down.some((name) => name === 'chief' || name === 'general')
    if (!isByPlan) t.ok(result.error?.modelFailure, 'why the model gave no answer can still be asked')
  })

/* What whoever runs the team has decided, and the end of the run, stay what they are. */

t.test('a budget, a timeout and the end of the run are told as they are', async (t) => {
  for (const config of [{}, { fallback }, { flow: 'tools' as const }]) {
    const poor = desk(t, answering([]), config, { budget: { perRun: { tokens: 1 } } }).team
    t.match((await poor.execute('What?')).error, { code: 'BUDGET_EXCEEDED' })

    const never = desk(t, () => new Promise<never>(() => {}), config).team
    const late = never.launch('What?', { timeoutMs: 50 })
    await never.clock.advance(100)
    t.match((await late.result).error, { code: 'RUN_TIMEOUT' })
    const run = never.launch('What?')
    await run.cancel('no longer wanted')
    t.match((await run.result).error, { code: 'RUN_ABORTED' })
  }
})

t.test('a guardrail of who plans, answers alone or combines is not gone around', async (t) => {
  const refuses = (on: 'input' | 'output') => ({ [on]: [{ name: 'topic', check: () => ({ refuse: 'not here' }) }] })
  for (const [config, on, guarded] of [
    [{}, 'input', 'chief'],
    [{ flow: 'tools' }, 'input', 'chief'],
    [{ aggregator }, 'output', 'editor'],
  ] as const) {
    const agents = roles.map((name) => ({ name, ...(name === guarded && { guardrails: refuses(on) }) }))
    const { error } = await desk(t, answering([]), config, { agents }).team.execute('What?')
    t.match(error, { code: 'GUARDRAIL', message: /not here/ })
  }
})

t.test('an answer that broke off is followed by the results', async (t) => {
  const whole = answering([]) as Exclude<Answers, readonly unknown[]>
  const answers: Answers = (request, nth) =>
    request.agent === 'editor' ? [{ text: 'It is ' }, new Error('the line broke')] : whole(request, nth)
  const { team } = desk(t, answers, { aggregator })
  const run = team.launch('What?')
  const texts: string[] = []
  for await (const text of run.text()) texts.push(text)
  t.same(texts, ['It is ', '\n\n', JOINED])
  t.equal((await run.result).finalOutput, JOINED)
})

t.test('joined results are no answer in a schema', async (t) => {
  const output = z.object({ rain: z.boolean() })
  const { team } = desk(t, answering(['editor']), { aggregator })
  const { error } = await team.execute('What?', { output })
  t.match(error, { code: 'AGENT_FAILED', message: FIXED, details: { failures: [{ agent: 'editor' }] } })
  const { team: sum } = modelTeam(
    t,
    answering(['editor']),
    roles.slice(1).map((name) => ({ name })),
    {
      orchestration: { strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'editor' },
      communication: { turnRetries: 0 },
    },
  )
  t.match((await sum.execute('What?', { output })).error, { code: 'AGENT_FAILED', message: /ECONNREFUSED/ })
})

/* The other strategies in which an agent makes one answer of several. */

const splits = says('["dig", "fill"]')
const manager = defineAgent({
  receive({ metadata }: AgentMessage) {
    const { step } = metadata.hierarchical as { step: string }
    if (step !== 'plan') throw new Error(ADDRESS)
    return {
      structuredData: {
        tasks: [
          { worker: 'a', task: 'dig' },
          { worker: 'b', task: 'fill' },
        ],
      },
    }
  },
})
const writes = (value: string) =>
  defineAgent({
    async receive(_message, context) {
      await context.publish(value, value, 'fact')
    },
  })
const sum = throws(ADDRESS)
const both = { a: says('A'), b: says('B') }
const able = { a: { code: says('A'), capabilities: ['dig'] }, b: { code: says('B'), capabilities: ['fill'] } }
const merged = '## a\n\nA\n\n## b\n\nB'
const differ = { a: says('The port is 80'), b: says('The port is 443') }
const contested = /^## a\n\nThe port is 80\n\n## b\n\nThe port is 443\n\n## Contradictions\n\n- /

type Part = AgentDefinition | { code: AgentDefinition; capabilities: string[] }
const others: [
  what: string,
  orchestration: OrchestrationConfig,
  cast: Record<string, Part>,
  answer: string | RegExp,
][] = [
  [
    'parallel, to an aggregator',
    { strategy: 'parallel', aggregationStrategy: 'custom', agents: ['a', 'b'], aggregator: 'sum' },
    { ...both, sum },
    merged,
  ],
  [
    'parallel, merged by the judge',
    { strategy: 'parallel', conflictResolution: 'synthesize', judge: 'sum' },
    { ...differ, sum },
    contested,
  ],
  [
    'parallel, voted, and made one by the judge',
    { strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'synthesize', judge: 'sum' },
    { ...both, sum },
    merged,
  ],
  [
    'parallel, by evidence',
    { strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'evidence', judge: 'sum' },
    { ...both, sum },
    'A',
  ],
  [
    'collaborate, in parts',
    {
      strategy: 'collaborate',
      decomposer: 'llm',
      teammates: ['a', 'b'],
      aggregation: 'synthesize',
      synthesizer: 'sum',
    },
    { ...able, llm: splits, sum },
    merged,
  ],
  [
    'collaborate, a whole task',
    { strategy: 'collaborate', decomposer: false, aggregation: 'synthesize', synthesizer: 'sum' },
    { ...both, sum },
    merged,
  ],
  [
    'hierarchical',
    { strategy: 'hierarchical', manager: 'boss', workers: ['a', 'b'], workerAutonomy: 'high' },
    { ...both, boss: manager },
    merged,
  ],
  [
    'blackboard',
    { strategy: 'blackboard', synthesizer: 'sum', interests: { a: ['query'], b: ['query'] } },
    { a: writes('x'), b: writes('y'), sum },
    '- x (fact by a): x\n- y (fact by b): y',
  ],
]

for (const [what, orchestration, cast, answer] of others)
  t.test(`${what}: without who makes the answer the results are joined`, async (t) => {
    const result = await stage<string>(t, cast, { orchestration }).execute('What?')
    t.match(result, { success: true, finalOutput: answer, error: null })
    t.ok(failedIn(result).every((agent) => agent === 'sum' || agent === 'boss'))
    t.match(result.failures.at(-1)?.error, { code: 'AGENT_FAILED', message: ADDRESS })
    t.notMatch(result.finalOutput, ADDRESS)
  })

// What agents have said, on its way to the next one: whole, and for a model a summary where it is long.

const LONG = 'word '.repeat(8_000) // 40,000 characters
const summing: Script = {
  agent: '$orchestrator',
  when: /^Sum up what agents of your team have said/,
  reply: 'In short: 7.',
}

function passOnStage(
  t: Test,
  script: Script[],
  modules: Record<string, AgentDefinition>,
  roles: Record<string, Partial<AgentRole>>,
  orchestration: MultiAgentPatternOptions['orchestration'],
) {
  const model = scriptedModel(script)
  const names = [...new Set([...Object.keys(modules), ...Object.keys(roles)])]
  const agents = names.map((name) => ({ name, ...roles[name] }))
  const team = testTeam<string>({ agents, orchestration, logger: silent }, { model, modules })
  t.teardown(() => team.close())
  return { team, model }
}

const inOrder = (...agentOrder: string[]) => ({ strategy: 'sequential' as const, agentOrder, passFullContext: true })
const told = (model: ReturnType<typeof scriptedModel>, agent: string) =>
  model.calls.find((call) => call.agent === agent)?.prompt ?? ''

t.test('a model gets a summary of long answers, and the last one whole', async (t) => {
  const script = [summing, { agent: 'c', reply: 'fine' }]
  const { team, model } = passOnStage(
    t,
    script,
    { a: says(LONG), b: says(`b ${LONG}`) },
    { c: {} },
    inOrder('a', 'b', 'c'),
  )
  const { finalOutput, orchestrationTrace, tokenUsage } = await team.execute('Count.')
  t.equal(finalOutput, 'fine')
  const prompt = told(model, 'c')
  t.match(prompt, /^Count\.\n\n\(This is a summary.*\)\n\nIn short: 7\.\n\n## b\n\nb word word/s)
  t.ok(prompt.length > LONG.length && prompt.length < LONG.length + 300)
  t.match(told(model, '$orchestrator'), /for "c".*## a\n\nword/s)
  t.match(orchestrationTrace.decisions, [
    { question: /passed on to "c"/, choice: 'as a summary', reason: /40006 char.*32768/ },
  ])
  t.ok(tokenUsage.$orchestrator!.calls > 0)
  model.assertDone()
})

t.test('what is short, and what code gets, stays whole, and costs nothing', async (t) => {
  const short = 'word '.repeat(1_000)
  const script = [{ agent: 'c', reply: 'fine' }]
  const { team, model } = passOnStage(t, script, { a: says(short), b: says(short) }, { c: {} }, inOrder('a', 'b', 'c'))
  await team.execute('Count.')
  t.equal(told(model, 'c'), `Count.\n\n## a\n\n${short}\n\n## b\n\n${short}`)
  const measures = defineAgent({ receive: ({ content }) => `${content.length}` })
  const code = passOnStage(t, [], { a: says(LONG), b: says(LONG), c: measures }, {}, inOrder('a', 'b', 'c'))
  t.ok(Number((await code.team.execute('Count.')).finalOutput) > 2 * LONG.length)
  t.equal(code.model.calls.length, 0)
})

t.test('what was summed up once is not summed up again', async (t) => {
  const script = [summing, { agent: 'c', reply: 'fine' }, { agent: 'd', reply: 'done' }]
  const cast = { a: says(LONG), b: says('short') }
  const { team, model } = passOnStage(t, script, cast, { c: {}, d: {} }, inOrder('a', 'b', 'c', 'd'))
  t.equal((await team.execute('Count.')).finalOutput, 'done')
  t.match(told(model, 'd'), /\nIn short: 7\.\n\n## b\n\nshort\n\n## c\n\nfine$/)
  model.assertDone()
})

t.test('a small window makes less long, and a summary that fails is a text that is cut short', async (t) => {
  const script: Script[] = [
    { agent: '$orchestrator', fail: 'server' },
    { agent: 'c', reply: 'fine' },
  ]
  const text = `begin ${'word '.repeat(2_000)}end`
  const { team, model } = passOnStage(
    t,
    script,
    { a: says(text), b: says('b') },
    { c: { maxTokens: 4_000 } },
    inOrder('a', 'b', 'c'),
  )
  const pending = team.execute('Count.')
  await team.clock.advance(100_000)
  const { orchestrationTrace, finalOutput } = await pending
  t.equal(finalOutput, 'fine')
  const prompt = told(model, 'c')
  t.match(prompt, /## a\n\nbegin word.*characters left out.*end\n\n## b\n\nb$/s)
  t.ok(prompt.length < 4_200)
  t.match(orchestrationTrace.decisions, [{ choice: 'cut short' }])
})

t.test('results that a task builds on are summed up for a model', async (t) => {
  const tasks = [
    { agent: 'a', task: 'Find.' },
    { agent: 'c', task: 'Tell.', dependsOn: [1] },
  ]
  const chief = defineAgent({
    receive: ({ structuredData }) =>
      Object(structuredData).results ? 'over' : { structuredData: { tasks, reasoning: 'so' } },
  })
  const script = [summing, { agent: 'c', reply: 'fine' }]
  const supervised = { strategy: 'supervisor' as const, supervisor: 'chief', experts: ['a', 'c'] }
  const { team, model } = passOnStage(t, script, { chief, a: says(LONG) }, { c: {} }, supervised)
  const { messageHistory } = await team.execute('Count.')
  const given = messageHistory.find(({ recipient }) => recipient === 'c')
  t.match(given?.structuredData, { contextSummary: /^\(This is a summary.*In short: 7\.$/s })
  model.assertDone()

  const plan = tasks.map(({ agent, ...task }) => ({ ...task, worker: agent }))
  const manager = defineAgent({
    receive: ({ metadata }) =>
      Object(metadata.hierarchical).step === 'plan' ? { structuredData: { tasks: plan, reasoning: 'so' } } : 'over',
  })
  const led = {
    strategy: 'hierarchical' as const,
    manager: 'boss',
    workers: ['a', 'c'],
    workerAutonomy: 'high' as const,
  }
  const second = passOnStage(
    t,
    [summing, { agent: 'c', reply: 'fine' }],
    { boss: manager, a: says(LONG) },
    { c: {} },
    led,
  )
  await second.team.execute('Count.')
  t.match(told(second.model, 'c'), /In short: 7\./)
  t.ok(told(second.model, 'c').length < 2_000)
  second.model.assertDone()
})

// What workers may do without asking, how deep they may delegate, and what they report.

type Config = Partial<HierarchicalConfig>

t.test('low: the manager approves or corrects what a worker proposes, and reviews what it has done', async (t) => {
  const told: Told[] = []
  const remarks = ['', 'Use the spade.', '', 'Deeper.']
  const verdict = (it: Told) => {
    told.push(it)
    return { approved: it.step === 'approve' ? it.worker === 'ann' : it.worker === 'bob', remarks: remarks.shift() }
  }
  const boss = leads([task('bob', 'fill'), task('ann', 'dig', 1)], { approve: verdict, review: verdict })
  for (const config of [{}, { workerAutonomy: 'low' as const }]) {
    told.length = 0
    remarks.splice(0, 9, 'Use the spade.', '', '', 'Deeper.')
    const result = await play(t, { boss, ann: worker, bob: worker }, config)
    t.equal(result.finalOutput, 'bob: bob did fill; ann: ann did dig')
    t.match(told, [
      { step: 'approve', worker: 'bob', task: 'fill', proposal: 'with care' },
      { step: 'review', worker: 'bob', task: 'fill', result: 'bob did fill' },
      { step: 'approve', worker: 'ann', task: 'dig', proposal: 'with care' },
      { step: 'review', worker: 'ann', task: 'dig', result: 'ann did dig' },
    ])
    const earlier = '# Results of earlier tasks\n\n## bob\n\nbob did fill'
    const ofAnn = `dig\n\n${earlier}\n\n# How you do it\n\nwith care`
    t.same(asked(result), [
      'request boss plan',
      'request bob propose',
      'request boss approve',
      'delegate bob fill\n\n# How you do it\n\nwith care\n\n# Remarks of your manager\n\nUse the spade.',
      'request boss review',
      'request ann propose',
      'request boss approve',
      `delegate ann ${ofAnn}`,
      'request boss review',
      `delegate ann ${ofAnn}\n\n# Your first result\n\nann did dig\n\n# Remarks of your manager\n\nDeeper.`,
      'request boss summary',
    ])
    t.same(decisions(result), [
      'Who does task 1? bob',
      'Is what "bob" proposes for task 1 approved? no',
      'Is what "bob" has done for task 1 approved? yes',
      'Who does task 2? ann',
      'Is what "ann" proposes for task 2 approved? yes',
      'Is what "ann" has done for task 2 approved? no',
    ])
    const proposing = result.messageHistory.find(({ recipient, type }) => recipient === 'ann' && type === 'request')
    t.equal(proposing?.sender, 'boss')
    const flow = result.orchestrationTrace.messageFlow.filter(({ from, to }) => [from, to].includes('bob'))
    t.same(new Set(flow.flatMap(({ from, to }) => [from, to])), new Set(['boss', 'bob']))
    t.match(proposing?.content, /^Say in a few sentences .*\n\n# Task\n\ndig\n\n# Results of earlier tasks/)
  }
})

t.test('medium: a worker works without asking, and its result is sent back once at most', async (t) => {
  const boss = leads([task('ann', 'dig')], { review: () => ({ approved: false, remarks: 'Deeper.' }) })
  const deeper = works(({ content }) => (content.includes('Deeper.') ? 'a pit' : 'a hole'))
  const result = await play(t, { boss, ann: deeper }, { workerAutonomy: 'medium' })
  t.equal(result.finalOutput, 'ann: a pit')
  t.same(asked(result), [
    'request boss plan',
    'delegate ann dig',
    'request boss review',
    'delegate ann dig\n\n# Your first result\n\na hole\n\n# Remarks of your manager\n\nDeeper.',
    'request boss summary',
  ])
})

t.test('high: nobody asks the manager about anything', async (t) => {
  const verdict = () => ({ approved: false, remarks: 'No.' })
  const boss = leads([task('ann', 'dig')], { approve: verdict, review: verdict })
  const result = await play(t, { boss, ann: worker }, { workerAutonomy: 'high' })
  t.same(asked(result), ['request boss plan', 'delegate ann dig', 'request boss summary'])
})

/** Gives its task to the next in the alphabet. */
const passesOn = works(async ({ content }, context) => {
  const next = { ann: 'bob', bob: 'cat', cat: 'dan' }[context.role.name]
  try {
    return next ? `${context.role.name} by ${(await context.delegate(next, content)).result}` : 'dan'
  } catch (error) {
    if (!(error instanceof DelegationRefusedError)) throw error
    return `${context.role.name} alone: ${error.message}`
  }
})

t.test('workers delegate as deep as they may', async (t) => {
  const cast = { boss: leads([task('ann', 'dig')]), ann: passesOn, bob: passesOn, cat: passesOn, dan: passesOn }
  const cases: [Config, RegExp, object | undefined][] = [
    [
      {},
      /^ann: ann alone: "ann" cannot .* workerAutonomy "low" the manager alone/,
      { bound: 'workerAutonomy', limit: 1 },
    ],
    [{ workerAutonomy: 'medium', maxDelegationDepth: 8 }, /^ann: ann alone: .* "medium"/, { from: 'ann', to: 'bob' }],
    [
      { workerAutonomy: 'high', maxDelegationDepth: 1 },
      /ann alone: .* maxDelegationDepth is 1\./,
      { limit: 1, depth: 2 },
    ],
    [
      { workerAutonomy: 'high' },
      /^ann: ann by bob alone: .* 3 .* maxDelegationDepth is 2\./,
      { from: 'bob', to: 'cat' },
    ],
    [{ workerAutonomy: 'high', maxDelegationDepth: 3 }, /^ann: ann by bob by cat alone/, { from: 'cat', limit: 3 }],
    [{ workerAutonomy: 'high', maxDelegationDepth: 4 }, /^ann: ann by bob by cat by dan$/, undefined],
  ]
  for (const [config, answer, details] of cases) {
    const team = led(t, cast, config)
    const pending = team.execute('the job')
    await team.clock.advance(100_000)
    const result = await pending
    t.match(result, { success: true, finalOutput: answer })
    const letters = team.deadLetters.list().map(({ reason, errors }) => ({ reason, errors }))
    t.match(letters, details ? [{ reason: 'rejected', errors: [{ code: 'DELEGATION_REFUSED', details }] }] : [])
    t.equal(letters.length, details ? 1 : 0)
    t.equal(Object.values(result.taskCompletion).filter((status) => status === 'refused').length, details ? 1 : 0)
  }
})

t.test('it is the same depth where the manager delegates by itself', async (t) => {
  const boss = defineAgent({
    receive: async (_message, context) => String((await context.delegate('ann', 'dig')).result),
  })
  const cast = { boss, ann: passesOn, bob: passesOn, cat: passesOn, dan: passesOn }
  t.match((await play(t, cast)).finalOutput, /^ann alone: .* workerAutonomy "low"/)
  t.match(
    (await play(t, cast, { workerAutonomy: 'high' })).finalOutput,
    /^ann by bob alone: .* maxDelegationDepth is 2/,
  )
})

t.test('a task that is handed back and forth comes to rest', async (t) => {
  const passesBack = works(async ({ content }, context) => {
    try {
      await context.handoff(context.role.name === 'ann' ? 'bob' : 'ann', content)
      return ''
    } catch (error) {
      if (!(error instanceof DelegationRefusedError)) throw error
      return `${context.role.name} keeps it: ${error.details.bound}`
    }
  })
  const cast = { boss: leads([task('ann', 'dig')]), ann: passesBack, bob: passesBack }
  const answers = { low: 'ann: ann keeps it: workerAutonomy', high: 'bob: bob keeps it: maxDelegationDepth' } as const
  for (const [workerAutonomy, answer] of Object.entries(answers)) {
    const result = await play(t, cast, { workerAutonomy: workerAutonomy as 'low' | 'high' })
    t.match(result, { success: true, finalOutput: answer })
  }
})

t.test('a worker that may not delegate escalates to the manager, which reassigns the task', async (t) => {
  const escalates = works(async (_message, context) => {
    const outcome = await context.escalate('my back')
    return outcome.kind === 'reassigned' ? outcome.result.content : outcome.kind
  })
  const manager = leads([task('ann', 'dig')])
  const boss = defineAgent({
    receive: (message, context) =>
      'escalation' in message.metadata
        ? { structuredData: { decision: 'reassign', to: 'bob' } }
        : Reflect.get(manager, 'receive')(message, context),
  })
  const result = await play(t, { boss, ann: escalates, bob: worker }, { workerAutonomy: 'medium' })
  t.equal(result.finalOutput, 'ann: bob did dig')
})

const reports = works(async (_message: AgentMessage, context: AgentContext) => {
  await context.report('half of it')
  return 'done'
})

t.test('what workers report goes to the manager, unless somebody else is above them', async (t) => {
  const heard: string[] = []
  const cast = { boss: leads([task('ann', 'dig')], {}, heard), ann: reports }
  await play(t, cast, { workerAutonomy: 'high' })
  t.same(heard, ['report of ann: half of it'])

  heard.length = 0
  const others: string[] = []
  const chief = leads([], {}, others)
  await play(
    t,
    { ...cast, ann: { code: reports, escalateTo: 'chief' }, chief },
    { workers: ['ann'], workerAutonomy: 'high' },
  )
  t.same([heard, others], [[], ['report of ann: half of it']])
})

t.test('a worker that leaves and comes back has its place again', async (t) => {
  const heard: string[] = []
  const cast = { boss: leads([task('ann', 'dig')], {}, heard), ann: reports, bob: worker }
  const team = led(t, cast, { workerAutonomy: 'high' })
  t.equal(team.getAgent('ann')?.role.escalateTo, 'boss')
  await team.removeAgent('ann')
  t.match(await team.execute('the job'), { error: { code: 'REPLY_INVALID', message: /expected.*"bob"/ } })
  await team.addAgent({ name: 'ann' })
  t.match(await team.execute('the job'), { success: true, finalOutput: 'ann: done' })
  t.same(heard, ['report of ann: half of it'])
})

/** The tools of the worker `ann`, which a model plays as the rest of the team. */
async function toolsOf(t: Tap, config: Config, role: object = {}): Promise<string[]> {
  const answers: Record<string, string> = {
    plan: '{"tasks":[{"worker":"ann","task":"Dig."}],"reasoning":""}',
    review: '{"approved":true}',
    summary: 'There is a hole.',
  }
  const { team, model } = modelTeam(
    t,
    ({ agent, messages }) => {
      if (agent === 'ann') return 'A hole.'
      const asked = textOf(messages.at(-1)?.content ?? '')
      const step = /^Plan/.test(asked) ? 'plan' : /^Answer/.test(asked) ? 'summary' : 'review'
      return answers[step] ?? ''
    },
    [{ name: 'boss' }, { name: 'ann', ...role }, { name: 'bob' }],
    { orchestration: { strategy: 'hierarchical', manager: 'boss', workers: ['ann', 'bob'], ...config } },
  )
  t.equal((await team.execute('Make a hole.')).finalOutput, 'There is a hole.')
  const asked = model.requests.find(({ agent }) => agent === 'ann')
  return asked?.tools?.map(({ name }) => name) ?? []
}
type Tap = Parameters<typeof modelTeam>[0] & { equal(found: unknown, wanted: unknown): unknown }

t.test('a model has the tools that its place gives it', async (t) => {
  t.same(await toolsOf(t, {}), ['escalate', 'refuse', 'report'])
  t.same(await toolsOf(t, { progressReporting: false }), ['escalate', 'refuse'])
  t.same(await toolsOf(t, { workerAutonomy: 'high' }), ['escalate', 'refuse', 'report', 'request', 'delegate'])
  t.same(await toolsOf(t, { workerAutonomy: 'high', maxDelegationDepth: 1 }), [
    'escalate',
    'refuse',
    'report',
    'request',
  ])
  const rights = { delegationAllowed: false, tools: ['report'] }
  t.same(await toolsOf(t, { workerAutonomy: 'high' }, rights), ['escalate', 'refuse', 'report', 'request'])
  t.same(await toolsOf(t, { workerAutonomy: 'high' }, { trust: 'untrusted' }), ['refuse'])
})

// Delegations of a script: in whose name, and how deep. What `hierarchical` does, a protocol of one's own does too.

/** Passes each task on to the next of the line, and says how far it got. */
const chain = defineAgent({
  async receive({ sender }, context: AgentContext) {
    const line = ['a', 'b', 'c', 'd']
    const next = line[line.indexOf(context.role.name) + 1]
    const own = `${sender}>${context.role.name}`
    if (next === undefined) return own
    const below = await context.delegate(next, 'go on').then(
      ({ result }) => String(result),
      (error: { code: string }) => error.code,
    )
    return `${own} ${below}`
  },
})

const line = { a: chain, b: chain, c: chain, d: chain }

async function customDelegationPlay(
  t: Test,
  run: (script: OrchestratorContext) => Promise<string>,
  options: Options<string> & { depth?: number; cast?: Cast<string> } = {},
) {
  const { depth, cast = line, ...rest } = options
  const orchestration = { strategy: 'custom' as const, run, ...(depth !== undefined && { maxDelegationDepth: depth }) }
  return stage(t, cast, { ...rest, orchestration }).execute('q')
}

const first = (as?: string) => async (script: OrchestratorContext) =>
  String((await script.delegate('a', 'go', as === undefined ? undefined : { as })).result)

t.test('maxDelegationDepth bounds what agents delegate; a task of the script is the first', async (t) => {
  const expected = [
    [1, '$orchestrator>a DELEGATION_REFUSED'],
    [2, '$orchestrator>a a>b DELEGATION_REFUSED'],
    [3, '$orchestrator>a a>b b>c DELEGATION_REFUSED'],
    [undefined, '$orchestrator>a a>b b>c c>d'],
  ] as const
  for (const [depth, output] of expected) {
    const result = await customDelegationPlay(t, first(), depth === undefined ? {} : { depth })
    t.match(result, { success: true, finalOutput: output })
  }
  const named = await customDelegationPlay(t, first('d'), { depth: 2 })
  t.match(named, { finalOutput: 'd>a a>b DELEGATION_REFUSED' }, 'whoever gives it')
})

t.test('maxDelegationDepth is checked, beside a module too', (t) => {
  const agents = [{ name: 'a' }]
  const module = new URL('../fixtures/team/relay.js', import.meta.url)
  for (const wrong of [0, 9, 1.5, '2'])
    for (const code of [{ run: async () => '' }, { module }])
      t.throws(
        () =>
          createTeam({
            agents,
            models: 'rehearsal',
            orchestration: { strategy: 'custom', ...code, maxDelegationDepth: wrong as number },
          }),
        { code: 'CONFIGURATION', details: { path: 'orchestration.maxDelegationDepth' } },
      )
  t.end()
})

t.test('as: the role of that agent decides, and the error names it', async (t) => {
  const says = defineAgent({ receive: ({ sender }) => `task of ${sender}` })
  const cast = {
    lead: { code: says, canDelegateTo: ['a'] },
    mute: { code: says, delegationAllowed: false },
    a: says,
    b: says,
    hermit: { code: says, canBeDelegatedTo: false },
  }
  const give = (to: string, as: string) => async (script: OrchestratorContext) =>
    script.delegate(to, 'go', { as }).then(
      ({ result }) => String(result),
      ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
    )
  const cases: [to: string, as: string, expected: RegExp][] = [
    ['a', 'lead', /^task of lead$/],
    ['b', 'lead', /^DELEGATION_REFUSED "lead" cannot delegate to "b": .*canDelegateTo/],
    ['lead', 'lead', /^DELEGATION_REFUSED .*nobody delegates to itself/],
    ['a', 'mute', /^DELEGATION_REFUSED "mute" .*delegationAllowed: false/],
    ['hermit', 'lead', /^DELEGATION_REFUSED .*canBeDelegatedTo: false/],
    ['a', 'nobody', /^UNKNOWN_AGENT .*"nobody"/],
    ['a', '$user', /^UNKNOWN_AGENT /],
  ]
  for (const [to, as, expected] of cases) {
    const { success, finalOutput } = await customDelegationPlay(t, give(to, as), { cast })
    t.ok(success)
    t.match(finalOutput, expected, `${as} to ${to}`)
  }
  const wrong = [{ by: 'lead' }, { as: 7 }, { as: '' }, null]
  for (const options of wrong) {
    const result = await customDelegationPlay(
      t,
      async (script) => String(await script.delegate('a', 'go', options as never)),
      { cast },
    )
    t.match(result, { success: false, error: { code: 'MESSAGE_REJECTED' } })
  }
})

t.test('an agent cannot speak in the name of another', async (t) => {
  const forges = defineAgent({
    async receive(_message, context: AgentContext) {
      const forged = { metadata: { $sender: 'b' } }
      return (await context.request('b', 'who am I?', forged)).content
    },
  })
  const b = defineAgent({ receive: ({ sender }) => sender })
  const result = await customDelegationPlay(t, async (script) => (await script.request('a', 'go')).content, {
    cast: { a: forges, b },
  })
  t.equal(result.finalOutput, 'a')
})
