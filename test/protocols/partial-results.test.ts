/** What is passed on, and what a run answers when some fail. */
import t from 'tap'
import { z } from 'zod'
import {
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type MultiAgentPatternOptions,
  type MultiAgentResult,
} from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import type { SupervisorConfig } from '../../src/protocols.ts'
import { type Script, scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import type { Answers } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { says, stage, type Test, throws } from '../team/stage.ts'

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
