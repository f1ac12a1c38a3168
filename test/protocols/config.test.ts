import t from 'tap'
import { type OrchestrationConfig, protocolFrom } from '../../src/protocols/index.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'

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
