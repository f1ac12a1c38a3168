/** Configurations of strategies and scripts of users; each plays without a key. */
import t from 'tap'
import { z } from 'zod'
import { type CustomConfig, checkedConfig, defineProtocol, protocolOf } from '../../src/actors/definition/protocol.ts'
import { type AgentRole, defineTeam, defineTool } from '../../src/index.ts'
import { type OrchestrationConfig, protocolFrom } from '../../src/protocols/index.ts'
import { inFlowMode } from '../../src/protocols.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { rehearsalModel, scriptedModel, testTeam } from '../../src/testing.ts'
import { FakeOrchestrator } from '../fixtures/fake-orchestrator.ts'
import { decisions } from './speakers.ts'

const TEAM = ['researcher', 'writer', 'editor']
const LED = { strategy: 'hierarchical' as const, manager: 'editor', workers: ['researcher', 'writer'] }

/** From JSON, since a user of JavaScript may write anything. */
function refusal(config: unknown, team = TEAM): ConfigurationError {
  const untyped: OrchestrationConfig = JSON.parse(JSON.stringify(config))
  try {
    protocolFrom(untyped, team)
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error(`accepted: ${JSON.stringify(config)}`)
}

t.test('a strategy is found by its name', async (t) => {
  t.equal(protocolFrom({ strategy: 'sequential' }, TEAM).name, 'sequential')
  t.equal(protocolFrom({ strategy: 'parallel' }, TEAM).name, 'parallel')
  t.equal(protocolFrom({ strategy: 'blackboard' }, TEAM).name, 'blackboard')
  t.equal(protocolFrom(LED, TEAM).name, 'hierarchical')
})

t.test('a misspelt strategy names the nearest one', async (t) => {
  const { message, details } = refusal({ strategy: 'sequental' })
  t.match(
    message,
    /^orchestration\.strategy: got "sequental"; accepted: sequential, parallel, auction, blackboard, consensus, debate, hierarchical, collaborate, handoff, supervisor, custom\. Did you mean "sequential"\?/,
  )
  t.equal(details.path, 'orchestration.strategy')
})

t.test('what is no configuration at all is refused', async (t) => {
  for (const config of [null, 'parallel', [], {}]) t.match(refusal(config).message, /^orchestration/)
})

t.test('an agent that nobody defines is refused with its place and the nearest name', async (t) => {
  const { message, details } = refusal({ strategy: 'sequential', agentOrder: ['researcher', 'writr'] })
  t.match(
    message,
    /^orchestration\.agentOrder\[1\]: got "writr"; accepted: an agent of this team \(researcher, writer, editor\)/,
  )
  t.match(message, /Did you mean "writer"\?/)
  t.equal(details.path, 'orchestration.agentOrder[1]')
})

t.test('an unknown option is refused with the nearest name', async (t) => {
  t.match(refusal({ strategy: 'sequential', agent_order: TEAM }).message, /^orchestration\.agent_order: .*"agentOrder"/)
  t.match(refusal({ strategy: 'parallel', maxConcurent: 2 }).message, /^orchestration\.maxConcurent: .*"maxConcurrent"/)
})

t.test('each option refuses what it cannot be', async (t) => {
  const desk = { strategy: 'supervisor', supervisor: 'writer', experts: ['editor'] }
  const wrong: [object, string][] = [
    [{ strategy: 'sequential', agentOrder: [] }, 'agentOrder'],
    [{ strategy: 'sequential', agentOrder: 'writer' }, 'agentOrder'],
    [{ strategy: 'sequential', agentOrder: [7] }, 'agentOrder[0]'],
    [{ strategy: 'sequential', passFullContext: 'yes' }, 'passFullContext'],
    [{ strategy: 'sequential', allowSkip: 1 }, 'allowSkip'],
    [{ strategy: 'sequential', earlyTermination: null }, 'earlyTermination'],
    [{ strategy: 'parallel', agents: [] }, 'agents'],
    [{ ...LED, manager: undefined }, 'manager'],
    [{ ...LED, manager: 'edtor' }, 'manager'],
    [{ ...LED, workers: undefined }, 'workers'],
    [{ ...LED, workers: [] }, 'workers'],
    [{ ...LED, workers: ['writer', 'nobody'] }, 'workers[1]'],
    [{ ...LED, workers: ['writer', 'writer'] }, 'workers[1]'],
    [{ ...LED, workers: ['writer', 'editor'] }, 'workers[1]'],
    [{ ...LED, maxDelegationDepth: 0 }, 'maxDelegationDepth'],
    [{ ...LED, maxDelegationDepth: 9 }, 'maxDelegationDepth'],
    [{ ...LED, maxDelegationDepth: 1.5 }, 'maxDelegationDepth'],
    [{ ...LED, managerSummarizes: 'no' }, 'managerSummarizes'],
    [{ ...LED, workerAutonomy: 'none' }, 'workerAutonomy'],
    [{ ...LED, progressReporting: 1 }, 'progressReporting'],
    [{ ...LED, prompts: { plan: '' } }, 'prompts.plan'],
    [{ ...LED, prompts: { review: 'Is {it} good?' } }, 'prompts.review'],
    [{ ...LED, prompts: { plans: 'Plan.' } }, 'prompts.plans'],
    [{ strategy: 'parallel', agents: ['writer', 'editor', 'writer'] }, 'agents[2]'],
    [{ strategy: 'parallel', maxConcurrent: 0 }, 'maxConcurrent'],
    [{ strategy: 'parallel', maxConcurrent: 1.5 }, 'maxConcurrent'],
    [{ strategy: 'parallel', timeoutPerAgentMs: 0 }, 'timeoutPerAgentMs'],
    [{ strategy: 'parallel', timeoutPerAgentMs: -1 }, 'timeoutPerAgentMs'],
    [{ strategy: 'parallel', requireAll: 'true' }, 'requireAll'],
    [{ strategy: 'parallel', waitFor: 'frist' }, 'waitFor'],
    [{ strategy: 'parallel', waitFor: 0 }, 'waitFor'],
    [{ strategy: 'parallel', waitFor: 1.5 }, 'waitFor'],
    [{ strategy: 'parallel', waitFor: 4 }, 'waitFor'],
    [{ strategy: 'parallel', agents: ['writer'], waitFor: 2 }, 'waitFor'],
    [{ strategy: 'parallel', aggregationStrategy: 'join' }, 'aggregationStrategy'],
    [{ strategy: 'parallel', conflictResolution: 'fight' }, 'conflictResolution'],
    [{ strategy: 'parallel', aggregationStrategy: 'best' }, 'judge'],
    [{ strategy: 'parallel', aggregationStrategy: 'best', judge: 'nobody' }, 'judge'],
    [{ strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'synthesize' }, 'judge'],
    [{ strategy: 'parallel', aggregationStrategy: 'custom' }, 'aggregator'],
    [{ strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'nobody' }, 'aggregator'],
    [{ strategy: 'blackboard', agents: [] }, 'agents'],
    [{ strategy: 'blackboard', agents: ['writer', 'writer'] }, 'agents[1]'],
    [{ strategy: 'blackboard', interests: ['writer'] }, 'interests'],
    [{ strategy: 'blackboard', interests: { writr: ['x'] } }, 'interests.writr'],
    [{ strategy: 'blackboard', interests: { writer: 'x' } }, 'interests.writer'],
    [{ strategy: 'blackboard', interests: { writer: [] } }, 'interests.writer'],
    [{ strategy: 'blackboard', interests: { writer: ['x', 'find*'] } }, 'interests.writer[1]'],
    [{ strategy: 'blackboard', interests: { writer: [7] } }, 'interests.writer[0]'],
    [{ strategy: 'blackboard', solutionType: '' }, 'solutionType'],
    [{ strategy: 'blackboard', synthesizer: 'nobody' }, 'synthesizer'],
    [{ strategy: 'blackboard', maxRounds: 0 }, 'maxRounds'],
    [{ strategy: 'blackboard', maxRounds: 1.5 }, 'maxRounds'],
    [{ strategy: 'blackboard', quietMs: -1 }, 'quietMs'],
    [{ strategy: 'blackboard', quietMs: '1s' }, 'quietMs'],
    [{ strategy: 'auction', bidders: [] }, 'bidders'],
    [{ strategy: 'auction', bidders: ['writer', 'writer'] }, 'bidders[1]'],
    [{ strategy: 'auction', auctioneer: 'nobody' }, 'auctioneer'],
    [{ strategy: 'auction', auctioneer: 'writer', bidders: ['writer'] }, 'auctioneer'],
    [{ strategy: 'auction', bidTimeoutMs: 0 }, 'bidTimeoutMs'],
    [{ strategy: 'auction', minimumBid: 1.1 }, 'minimumBid'],
    [{ strategy: 'auction', weights: { capability: -1 } }, 'weights.capability'],
    [{ strategy: 'auction', weights: { load: '1' } }, 'weights.load'],
    [{ strategy: 'auction', weights: { trust: 1 } }, 'weights.trust'],
    [{ strategy: 'auction', weights: { capability: 0, load: 0, confidence: 0 } }, 'weights'],
    [{ strategy: 'auction', tieBreak: 'dice' }, 'tieBreak'],
    [{ strategy: 'auction', maxReauctions: -1 }, 'maxReauctions'],
    [{ strategy: 'auction', onNoBids: 'wait' }, 'onNoBids'],
    [{ strategy: 'auction', prompts: { bids: 'Bid!' } }, 'prompts.bids'],
    [{ strategy: 'auction', prompts: { bid: '{task}' } }, 'prompts.bid'],
    [{ strategy: 'collaborate', teammates: [] }, 'teammates'],
    [{ strategy: 'collaborate', teammates: ['writer', 'nobody'] }, 'teammates[1]'],
    [{ strategy: 'collaborate', decomposer: true }, 'decomposer'],
    [{ strategy: 'collaborate', order: 'random' }, 'order'],
    [{ strategy: 'collaborate', aggregation: 'merge' }, 'aggregation'],
    [{ strategy: 'collaborate', aggregation: 'synthesize' }, 'synthesizer'],
    [{ strategy: 'collaborate', aggregation: 'synthesize', decomposer: false }, 'synthesizer'],
    [{ strategy: 'collaborate', aggregation: 'synthesize', synthesizer: 'nobody' }, 'synthesizer'],
    [{ strategy: 'collaborate', prompts: { decompose: '' } }, 'prompts.decompose'],
    [{ strategy: 'collaborate', prompts: { split: 'x' } }, 'prompts.split'],
    [{ strategy: 'supervisor' }, 'supervisor'],
    [{ strategy: 'supervisor', supervisor: 'writer' }, 'experts'],
    [{ strategy: 'supervisor', supervisor: 'writer', experts: [] }, 'experts'],
    [{ strategy: 'supervisor', supervisor: 'writer', experts: ['editor', 'writer'] }, 'experts[1]'],
    [{ ...desk, supervisor: 'nobody' }, 'supervisor'],
    [{ ...desk, fallback: 'nobody' }, 'fallback'],
    [{ ...desk, aggregator: 'nobody' }, 'aggregator'],
    [{ ...desk, timeoutPerAgentMs: 0 }, 'timeoutPerAgentMs'],
    [{ ...desk, maxReplans: -1 }, 'maxReplans'],
    [{ ...desk, maxReplans: 1.5 }, 'maxReplans'],
    [{ ...desk, flow: 'langgraph' }, 'flow'],
    [{ ...desk, prompts: { plan: '{tasks}' } }, 'prompts.plan'],
    [{ strategy: 'custom' }, 'run'],
    [{ strategy: 'custom', module: '' }, 'module'],
    [{ strategy: 'custom', module: 7 }, 'module'],
    [{ strategy: 'custom', module: '@team/protocol', config: 7 }, 'config'],
  ]
  for (const [config, path] of wrong)
    t.equal(refusal(config).details.path, `orchestration.${path}`, JSON.stringify(config))
})

t.test('an option that would have no effect beside another is refused', async (t) => {
  const idle: [object, string][] = [
    [{ aggregationStrategy: 'best', judge: 'editor', conflictResolution: 'fail' }, 'conflictResolution'],
    [{ aggregationStrategy: 'vote', aggregator: 'editor' }, 'aggregator'],
    [{ requireAll: true, waitFor: 'first' }, 'requireAll'],
    [{ requireAll: true, waitFor: 2 }, 'requireAll'],
  ]
  for (const [options, path] of idle) {
    t.equal(refusal({ strategy: 'parallel', ...options }).details.path, `orchestration.${path}`)
  }
})

t.test('a team that is all judge has nobody to ask', async (t) => {
  const error = refusal({ strategy: 'parallel', aggregationStrategy: 'best', judge: 'judge' }, ['judge'])
  t.equal(error.details.path, 'orchestration.agents')
})

t.test('options of collaborate that nobody would act on are refused', async (t) => {
  const idle: [object, string][] = [
    [{ synthesizer: 'editor' }, 'synthesizer'],
    [{ aggregation: 'join', synthesizer: 'editor' }, 'synthesizer'],
    [{ decomposer: false, order: 'dependencies' }, 'order'],
  ]
  for (const [options, path] of idle)
    t.equal(refusal({ strategy: 'collaborate', ...options }).details.path, `orchestration.${path}`)
  const all = { strategy: 'collaborate', aggregation: 'synthesize', synthesizer: 'sum' }
  t.equal(refusal(all, ['sum']).details.path, 'orchestration.teammates')
})

t.test('a team that is all synthesizer has nobody to ask', async (t) => {
  const error = refusal({ strategy: 'blackboard', synthesizer: 'sum' }, ['sum'])
  t.equal(error.details.path, 'orchestration.agents')
})

t.test('a team that is all auctioneer has nobody to bid', async (t) => {
  const error = refusal({ strategy: 'auction', auctioneer: 'boss' }, ['boss'])
  t.equal(error.details.path, 'orchestration.bidders')
})

t.test('interests of an agent that does not contribute would have no effect', async (t) => {
  for (const options of [{ agents: ['writer'] }, { synthesizer: 'editor' }])
    t.match(refusal({ strategy: 'blackboard', ...options, interests: { editor: ['x'] } }), {
      message: /"editor" is not among the agents that contribute/,
      details: { path: 'orchestration.interests.editor', got: 'a list of 1', accepted: 'nothing' },
    })
})

t.test('a misspelt name among the interests gets the nearest one', async (t) => {
  t.match(refusal({ strategy: 'blackboard', interests: { writr: ['x'] } }).message, /Did you mean "writer"\?/)
  t.match(refusal({ strategy: 'blackboard', maxRound: 2 }).message, /^orchestration\.maxRound: .*"maxRounds"/)
})

t.test("a text of one's own has the name of one that the strategy says, and its places alone", async (t) => {
  const wrong: [prompts: unknown, path: string, message: RegExp][] = [
    ['Add what you know.', 'prompts', /texts of your own for begin, contribute, synthesize, write/],
    [{ contribut: 'Add.' }, 'prompts.contribut', /did you mean "contribute"\?/],
    [{ constructor: 'Add.' }, 'prompts.constructor', /no such text/],
    [{ contribute: ' ' }, 'prompts.contribute', /a text that is not empty/],
    [{ contribute: 5 }, 'prompts.contribute', /a text that is not empty/],
    [{ contribute: '{qery}' }, 'prompts.contribute', /did you mean \{query\}\?/],
    [{ begin: '{entries}' }, 'prompts.begin', /Accepted: \{query\}/],
    [{ write: '{query}' }, 'prompts.write', /Accepted: \{solutionType\}/],
  ]
  for (const [prompts, path, message] of wrong)
    t.match(refusal({ strategy: 'blackboard', prompts }), { message, details: { path: `orchestration.${path}` } })
  const prompts = { begin: 'Begin: {query}', contribute: 'No place.', synthesize: undefined }
  t.doesNotThrow(() => protocolFrom({ strategy: 'blackboard', prompts }, TEAM))
})

t.test('an option that is undefined counts as absent', async (t) => {
  t.doesNotThrow(() => protocolFrom({ strategy: 'sequential', agentOrder: undefined, allowSkip: undefined }, TEAM))
  t.doesNotThrow(() => protocolFrom({ strategy: 'parallel', waitFor: undefined, judge: undefined }, TEAM))
  t.doesNotThrow(() => protocolFrom({ strategy: 'blackboard', interests: { writer: undefined } }, TEAM))
})

t.test('a misspelt agent does not compile', async (t) => {
  // @ts-expect-error 'writr' is no agent
  const config: OrchestrationConfig<'writer' | 'editor'> = { strategy: 'sequential', agentOrder: ['writr'] }
  t.throws(() => protocolFrom(config, TEAM), { code: 'CONFIGURATION' })
})

const relay = defineProtocol({
  name: 'relay',
  config: z.object({ runners: z.array(z.string()), laps: z.number().int().default(1) }),
  async run(orchestrator, query, { runners, laps }) {
    let baton = query
    for (let lap = 0; lap < laps; lap++) {
      for (const runner of runners) baton = (await orchestrator.request(runner, baton)).content
    }
    return baton
  },
})
const team = () => new FakeOrchestrator({ a: (baton) => `${baton}a`, b: (baton) => `${baton}b` })
/** A configuration as a user of JavaScript may write it. */
const untyped = (value: unknown) => JSON.parse(JSON.stringify(value))

t.test('a closure runs with the verbs that the built-in protocols use', async (t) => {
  const config: CustomConfig = {
    strategy: 'custom',
    name: 'mine',
    async run(orchestrator, query) {
      const outcomes = await orchestrator.requestAll(['a', 'b'], query)
      return { content: `${outcomes.length} answered`, structuredData: outcomes.map(({ ok }) => ok) }
    },
  }
  const protocol = protocolFrom(config, ['a', 'b'])
  t.equal(protocol.name, 'mine')
  t.same(await team().play(protocol), { content: '2 answered', structuredData: [true, true] })
})

t.test('a closure without a name is called custom', async (t) => {
  t.equal(protocolFrom({ strategy: 'custom', run: async () => 'x' }, []).name, 'custom')
})

t.test('a closure that returns no result fails the run', async (t) => {
  for (const wrong of [undefined, 7, { text: 'x' }]) {
    const protocol = protocolFrom({ strategy: 'custom', name: 'mine', run: async () => untyped({ wrong }).wrong }, [])
    await t.rejects(team().play(protocol), { code: 'REPLY_INVALID', message: /^Protocol "mine" returned/ })
  }
})

t.test('a module is passed on with its config', async (t) => {
  const module = new URL('file:///team/relay.js')
  const protocol = protocolFrom({ strategy: 'custom', module, config: { laps: 2 } }, [])
  t.same(protocol, { name: 'custom', module: module.href, config: { laps: 2 } })
})

t.test('a relative module is refused', async (t) => {
  const relative = () => protocolFrom({ strategy: 'custom', module: './relay.js' }, [])
  t.throws(relative, { code: 'CONFIGURATION', message: /^orchestration\.module: .*Relative to what/ })
})

t.test('the config of a module has to be JSON', async (t) => {
  const config = { at: { start: new Date(0) } }
  const wrong = () => protocolFrom({ strategy: 'custom', module: '@team/relay', config }, [])
  t.throws(wrong, { code: 'CONFIGURATION', details: { path: 'orchestration.config.at.start' } })
})

t.test('a closure and a module exclude each other', async (t) => {
  const both = { strategy: 'custom' as const, module: '@team/relay', run: async () => 'x' }
  t.throws(() => protocolFrom(both, []), { code: 'CONFIGURATION', details: { path: 'orchestration.run' } })
})

t.test('a defined protocol runs with its config, as its schema returns it', async (t) => {
  const protocol = protocolFrom(relay(untyped({ runners: ['a', 'b'] })), ['a', 'b'])
  t.equal(protocol.name, 'relay')
  t.same(await team().play(protocol, '>'), { content: '>ab' })
  t.same(await team().play(protocolFrom(relay({ runners: ['a', 'b'], laps: 2 }), []), '>'), { content: '>abab' })
})

t.test('a config that misses the schema is refused at once with its path', async (t) => {
  t.throws(() => relay(untyped({ runners: ['a', 7], laps: 1 })), {
    code: 'CONFIGURATION',
    message: /^config\.runners\[1\]: .*\(protocol "relay"\)\.$/,
    details: { path: 'config.runners[1]' },
  })
})

t.test('an asynchronous schema is refused', async (t) => {
  const slow = defineProtocol({
    name: 'slow',
    config: z.object({}).refine(async () => true),
    run: async () => 'x',
  })
  t.throws(() => slow({}), { code: 'CONFIGURATION', message: /asynchronous/ })
})

t.test('a protocol without a schema takes any object', async (t) => {
  const echo = defineProtocol<{ text: string }>({ name: 'echo', run: async (_orchestrator, _query, { text }) => text })
  t.same(await team().play(protocolFrom(echo({ text: 'hi' }), [])), { content: 'hi' })
})

t.test('a configuration of which nothing has to be given may be left out', async (t) => {
  const config = z.object({ laps: z.number().default(3) })
  const laps = defineProtocol({ name: 'laps', config, run: async (_orchestrator, _query, { laps }) => `${laps} laps` })
  const bare = defineProtocol({ name: 'bare', run: async (_orchestrator, _query, config) => JSON.stringify(config) })
  t.same(await team().play(protocolFrom(laps(), [])), { content: '3 laps' })
  t.same(await team().play(protocolFrom(bare(), [])), { content: '{}' })
})

t.test('a definition without a name or a script is refused', async (t) => {
  t.throws(() => defineProtocol(untyped({ name: 'x' })), { code: 'CONFIGURATION', details: { path: 'run' } })
  t.throws(() => defineProtocol({ name: '', run: async () => 'x' }), {
    code: 'CONFIGURATION',
    details: { path: 'name' },
  })
})

t.test('a thread finds the definition in what a module exports, and checks the config that it was given', async (t) => {
  const definition = protocolOf(relay)
  t.equal(definition?.name, 'relay')
  if (!definition) return
  const config = checkedConfig(definition, { runners: ['b'] }, 'orchestration.config')
  t.equal(await definition.run(team().context, '>', config), '>b')
  const wrong = () => checkedConfig(definition, {}, 'orchestration.config')
  t.throws(wrong, { code: 'CONFIGURATION', details: { path: 'orchestration.config.runners' } })
})

t.test('what did not come from defineProtocol has no definition', async (t) => {
  for (const value of [undefined, null, {}, () => {}, { run() {} }]) t.equal(protocolOf(value), undefined)
})

// One team in three flows. What each does is in supervisor.test.ts, the environment in service/cli.test.ts.

const tool = (name: string) =>
  defineTool({ name, description: name, input: z.object({}), run: () => `by ${name}`, idempotent: true })
const shared = tool('weather')
const module = new URL('./tools.js', import.meta.url)

const agents: AgentRole[] = [
  { name: 'chief' },
  { name: 'weather', tools: [shared] },
  { name: 'travel', tools: [shared, tool('weather'), tool('maps'), 'delegate'] },
  { name: 'general', tools: ['delegate', { module, export: 'clock' }, { module, export: 'dice' }] },
]
const desk = defineTeam<string>({
  agents,
  orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['weather', 'travel'], fallback: 'general' },
})

t.test('the flow of a desk is switched, and nothing else of it', async (t) => {
  t.equal(inFlowMode(desk, undefined), desk)
  t.equal(inFlowMode(desk, ''), desk)
  for (const [mode, flow] of [
    ['multi_agent', 'multi_agent'],
    ['graph', 'graph'],
    ['langgraph', 'graph'],
  ] as const)
    t.same(inFlowMode(desk, mode), { ...desk, orchestration: { ...desk.orchestration, flow } })
})

t.test('with tools one agent has the tools of all, each once', async (t) => {
  const { agents: equipped } = inFlowMode(desk, 'tools')
  const { tools = [] } = equipped.find(({ name }) => name === 'general') ?? {}
  const names = tools.map((each) => (typeof each === 'string' ? each : 'name' in each ? each.name : each.export))
  t.same(names, ['delegate', 'clock', 'dice', 'weather', 'maps'])
  t.same(
    equipped.filter(({ name }) => name !== 'general'),
    agents.slice(0, 3),
  )
})

t.test('with tools one agent holds the keys of all, each once', async (t) => {
  const keys = { free: ['SEARCH_KEY_FREE'], paid: ['SEARCH_KEY_PAID'] }
  const holding = agents.map((agent) => (agent.name === 'weather' ? { ...agent, keys: ['free', 'paid'] } : agent))
  const roles = [...holding.slice(0, 3), { ...holding[3]!, keys: ['paid'] }]
  const { agents: equipped } = inFlowMode({ ...desk, agents: roles, keys }, 'tools')
  t.same(equipped.at(-1)?.keys, ['paid', 'free'])
  t.same(equipped.slice(0, 3), roles.slice(0, 3))
})

t.test('the agent that is alone calls them', async (t) => {
  const model = scriptedModel([
    { agent: 'chief', toolCall: { name: 'maps', input: {} } },
    { agent: 'chief', reply: 'There.' },
  ])
  const options = defineTeam<string>({
    agents: [{ name: 'chief' }, { name: 'travel', tools: [tool('maps')] }],
    orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['travel'] },
  })
  const team = testTeam(inFlowMode(options, 'tools'), { model })
  t.teardown(() => team.close())
  t.equal((await team.execute('Where?')).finalOutput, 'There.')
  t.match(model.calls[1]?.prompt, 'by maps')
})

t.test('what is no mode is refused, whatever the strategy', async (t) => {
  const line = defineTeam({ agents: [{ name: 'a' }], orchestration: { strategy: 'sequential' } })
  for (const mode of ['swarm', 'Tools', 'constructor'])
    for (const options of [desk, line])
      t.throws(() => inFlowMode<typeof desk | typeof line>(options, mode), {
        code: 'CONFIGURATION',
        message: `FLOW_MODE: got "${mode}"; accepted: tools, graph, langgraph, multi_agent.`,
        details: { path: 'FLOW_MODE' },
      })
  t.throws(() => inFlowMode(line, 'graph'), { message: /only a team of the strategy "supervisor"/ })
  t.equal(inFlowMode(line, 'multi_agent'), line)
})

// Each strategy, in each of its forms, gets to an answer by the rehearsal model: what nobody can try needs a key.

const names = ['ann', 'bob', 'cat', 'dan'] as const
const withoutAKeyAgents = names.map((name) => ({ name, capabilities: ['writing'], systemPrompt: `You are ${name}.` }))
const workers = ['ann', 'bob', 'cat'] as const

const forms: Record<string, OrchestrationConfig<(typeof names)[number]>> = {
  sequential: { strategy: 'sequential' },
  'early end': { strategy: 'sequential', earlyTermination: true, allowSkip: true },
  merge: { strategy: 'parallel' },
  'first answer': { strategy: 'parallel', requireAll: false, waitFor: 'first' },
  vote: { strategy: 'parallel', aggregationStrategy: 'vote' },
  best: { strategy: 'parallel', agents: workers, aggregationStrategy: 'best', judge: 'dan' },
  'best of two': { strategy: 'parallel', agents: ['ann', 'bob'], aggregationStrategy: 'best', judge: 'cat' },
  aggregator: { strategy: 'parallel', agents: workers, aggregationStrategy: 'custom', aggregator: 'dan' },
  synthesize: { strategy: 'parallel', agents: workers, conflictResolution: 'synthesize', judge: 'dan' },
  evidence: { strategy: 'parallel', agents: workers, conflictResolution: 'evidence', judge: 'dan' },
  auction: { strategy: 'auction' },
  blackboard: { strategy: 'blackboard' },
  consensus: { strategy: 'consensus' },
  'consensus by votes': { strategy: 'consensus', agents: workers, consensusMethod: 'vote', tieBreaker: 'dan' },
  'consensus by talk': { strategy: 'consensus', agents: workers, consensusMethod: 'discussion', tieBreaker: 'dan' },
  'consensus on a text': { strategy: 'consensus', agents: workers, consensusMethod: 'synthesis', tieBreaker: 'dan' },
  debate: { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'cat' },
  hierarchical: { strategy: 'hierarchical', manager: 'dan', workers },
  collaborate: { strategy: 'collaborate' },
  supervisor: { strategy: 'supervisor', supervisor: 'dan', experts: workers },
}

for (const [form, orchestration] of Object.entries(forms))
  t.test(form, async (t) => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const team = testTeam({ agents: withoutAKeyAgents, orchestration }, { model: rehearsalModel(seed) })
      t.teardown(() => team.close())
      const { success, error, rehearsed, finalOutput } = await team.execute('Should we migrate from REST to GraphQL?')
      if (form === 'consensus' && error?.code === 'CONSENSUS') continue // they did not agree, as teams may
      t.match({ success, error, rehearsed }, { success: true, rehearsed: true, error: undefined }, `seed ${seed}`)
      t.not(finalOutput, '')
    }
  })

// Models that answer in words where a strategy asks for data: they fare as agents of code that do so.

type Reply = string | object

/** Each says its lines, the last one again and again. */
async function play(orchestration: OrchestrationConfig<string>, lines: Record<string, Reply[]>) {
  const names = Object.keys(lines)
  const script = names.flatMap((agent) => {
    const last = lines[agent]?.at(-1) ?? ''
    return [...(lines[agent] ?? []), ...Array<Reply>(8).fill(last)].map((reply) => ({ agent, reply }))
  })
  const team = testTeam({ agents: names.map((name) => ({ name })), orchestration }, { model: scriptedModel(script) })
  try {
    return await team.execute('Migrate?')
  } finally {
    await team.close()
  }
}

const DEBATE = { strategy: 'debate' as const, debaters: ['pro', 'con'], judge: 'judge', maxRounds: 1 }
const no = { argument: 'No.', evidence: ['a count'] }

t.test('what a debater says without evidence stands, and it stays in the debate', async (t) => {
  const verdict = { winner: 'pro', reasons: 'It is right.' }
  const result = await play(DEBATE, { pro: ['Yes, for speed.'], con: [no], judge: [verdict, 'Yes.'] })
  t.match(result, { success: true, finalOutput: 'Yes.', failures: [] })
  t.ok(decisions(result).includes('Does "pro" give evidence in round 1? no'))
  const verdictAsked = result.messageHistory.find(({ recipient }) => recipient === 'judge')
  t.match(verdictAsked?.content, /Yes, for speed\.\n\n\(without evidence\)/)
})

t.test('a judge that gives no verdict ends the run with ReplyInvalidError', async (t) => {
  const result = await play(DEBATE, { pro: [no], con: [no], judge: ['pro wins'] })
  t.match(result.error, { code: 'REPLY_INVALID', details: { agent: 'judge', content: 'pro wins' } })
  t.equal(result.totalTokenUsage.calls, 4, 'the judge is told once that JSON is wanted')
})

t.test('a member whose vote nobody understands stays, and counts as not agreeing', async (t) => {
  const result = await play(
    { strategy: 'consensus', consensusMethod: 'vote', maxRounds: 1 },
    { a: ['A', { choice: 1 }], b: ['B', { choice: 1 }], c: ['C', 'The first, I think.'] },
  )
  t.match(result.error, { code: 'CONSENSUS' })
  t.ok(decisions(result).includes('Does the vote of "c" count? no'))
})

t.test('a manager that will not plan has done the work itself', async (t) => {
  const result = await play(
    { strategy: 'hierarchical', manager: 'lead', workers: ['ann'] },
    { lead: ['It is done.'], ann: ['?'] },
  )
  t.match(result, { success: true, finalOutput: 'It is done.' })
  t.same(decisions(result), ['Who does the work? lead'])
})

t.test('one that is told once that JSON is wanted may still give it', async (t) => {
  const plan = { tasks: [{ worker: 'ann', task: 'dig' }] }
  const result = await play(
    { strategy: 'hierarchical', manager: 'lead', workers: ['ann'], workerAutonomy: 'high' },
    { lead: ['Let ann dig.', plan, 'Dug.'], ann: ['a hole'] },
  )
  t.match(result, { success: true, finalOutput: 'Dug.' })
})

t.test('a note that is null is none, whoever gives it', async (t) => {
  const accepts = { accept: true, objection: null }
  const synthesis = { strategy: 'consensus' as const, consensusMethod: 'synthesis' as const, maxRounds: 1 }
  t.equal((await play(synthesis, { a: ['A', 'both'], b: ['B', accepts], c: ['C', accepts] })).finalOutput, 'both')

  const vote = { choice: 1, reasons: null }
  const ballots = { strategy: 'consensus' as const, consensusMethod: 'vote' as const, maxRounds: 1 }
  t.equal((await play(ballots, { a: ['A', vote], b: ['B', vote] })).finalOutput, 'A')

  const view = { agreesWith: 'b', answer: null, reasons: null }
  t.equal((await play({ strategy: 'consensus', maxRounds: 1 }, { a: ['A', view], b: ['B', view] })).finalOutput, 'B')

  const judge = [{ winner: 'con', reasons: null }, 'No.']
  t.equal((await play(DEBATE, { pro: [no], con: [no], judge })).finalOutput, 'No.')

  const plan = { tasks: [{ worker: 'ann', task: 'dig', dependsOn: null }], reasoning: null }
  const approved = { approved: true, remarks: null }
  const led = { strategy: 'hierarchical' as const, manager: 'lead', workers: ['ann'] }
  t.equal((await play(led, { lead: [plan, approved, approved, 'Dug.'], ann: ['a hole'] })).finalOutput, 'Dug.')

  // A plan says why; one that does not the second time either is taken.
  const split = { tasks: [{ agent: 'ann', task: 'dig', dependsOn: null }], reasoning: null }
  const supervised = { strategy: 'supervisor' as const, supervisor: 'lead', experts: ['ann'] }
  t.equal((await play(supervised, { lead: [split, split, 'Dug.'], ann: ['a hole'] })).finalOutput, 'Dug.')
})
