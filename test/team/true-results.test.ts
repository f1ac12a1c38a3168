/** What a result says agrees with its trace, and who has contributed what. Requirements P23, P24, P27, P31. */
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  type Contribution,
  defineAgent,
  type MultiAgentResult,
  type OrchestrationConfig,
  type OrchestratorContext,
  sequenceDiagram,
} from '../../src/index.ts'
import { resultText } from '../../src/service/shared/json-text.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, type Extras, localTeam, type OpenTeam, openTeam } from '../kit/team.ts'
import { FakeModel, USAGE } from '../models/fake-model.ts'
import { disagreements } from './result-accounts.ts'

// What a result says agrees with its trace, whatever happened on the way. Requirements P23, P24; document 002, 3.2
// and 3.3.

/** It takes 7 ms for each call, and breaks off where the prompt says so. */
const model = () =>
  new FakeModel(async ({ clock, messages }) => {
    await clock?.sleep(7)
    const prompt = messages.at(-1)?.content ?? ''
    return prompt === 'break off' ? [{ text: 'half' }, new Error('hung up')] : `${prompt}!`
  })

/** Asks the model, works for 10 ms, asks again: 24 ms and 30 tokens. */
async function works({ content }: AgentMessage, context: AgentContext): Promise<string> {
  await context.complete({ prompt: content })
  await context.sleep(10)
  return (await context.complete({ prompt: content })).text
}

const scripted = (run: (script: OrchestratorContext, query: string) => Promise<string>): Extras => ({
  orchestration: { strategy: 'custom', run },
})

const askAll = (...names: string[]) =>
  scripted(async (script, query) => `${(await script.requestAll(names, query)).filter(({ ok }) => ok).length}`)

interface Story {
  cast: Cast
  extras?: Extras
  /** 12 ms after its beginning: the model has answered once, and everybody works. */
  meanwhile?: (team: OpenTeam) => unknown
  /** What the result is to say, beside what its trace says too. */
  comesTo: object
}

const CALL = { inputTokens: 10, outputTokens: 5, totalTokens: 15, calls: 1 }
const TWO_CALLS = { inputTokens: 20, outputTokens: 10, totalTokens: 30, calls: 2 }

const stories: Record<string, Story> = {
  'all goes well': {
    cast: { a: works, b: works },
    extras: { orchestration: { strategy: 'sequential' } },
    comesTo: {
      success: true,
      finalOutput: 'go!!',
      tokenUsage: { a: TWO_CALLS, b: TWO_CALLS },
      executionTimeMs: 48,
      agentExecutionTimesMs: { a: 24, b: 24 },
    },
  },
  'one fails, one refuses, one is not asked': {
    cast: {
      a: works,
      b: async (_message, context) => (await context.complete({ prompt: 'break off' })).text,
      c: (_message, context) => Promise.reject(context.refuse('not mine')),
      d: works,
    },
    extras: askAll('a', 'b', 'c'),
    comesTo: {
      success: true,
      finalOutput: '1',
      agentExecutionTimesMs: { a: 24, b: 7, c: 0, d: 0 },
      tokenUsage: { a: TWO_CALLS, b: { calls: 1 }, c: { calls: 0 }, d: { calls: 0 } },
      failures: [{ agent: 'c' }, { agent: 'b' }],
    },
  },
  'a thread dies between two calls, and its turn is tried again': {
    cast: { a: works },
    meanwhile: (team) => team.crash('a'),
    comesTo: {
      finalOutput: 'go!',
      tokenUsage: { a: TWO_CALLS },
      executionTimeMs: 24,
      agentExecutionTimesMs: { a: 24 },
    },
  },
  'threads die while their model answers': {
    cast: { a: works, b: works },
    extras: askAll('a', 'b'),
    meanwhile: async (team) => {
      await team.clock.advance(8)
      team.crash('a')
      team.crash('b')
    },
    comesTo: {
      finalOutput: '2',
      tokenUsage: { a: TWO_CALLS, b: TWO_CALLS },
      orchestrationTrace: { agentActivations: { length: 5 } },
    },
  },
  'a message kills its agent until it is given up': {
    cast: {
      async a(message, context) {
        await context.complete({ prompt: message.content })
        throw new Error('broken')
      },
    },
    extras: { supervision: { onHandlerError: 'restart', poisonAttempts: 3 } },
    comesTo: {
      success: false,
      finalOutput: null,
      error: { code: 'AGENT_CRASHED' },
      tokenUsage: { a: CALL },
      agentExecutionTimesMs: { a: 7 },
    },
  },
  'the run is aborted while everybody works': {
    cast: { a: works, b: works },
    extras: askAll('a', 'b'),
    meanwhile: async (team) => {
      for (const { id } of await team.listRuns()) await team.getRun(id)?.cancel('enough')
    },
    comesTo: {
      success: false,
      error: { code: 'RUN_ABORTED' },
      tokenUsage: { a: CALL, b: CALL },
      agentExecutionTimesMs: { a: 12, b: 12 },
    },
  },
  'its time is up while models answer': {
    cast: { a: works },
    extras: { globalTimeoutMs: 20 },
    comesTo: { success: false, error: { code: 'RUN_TIMEOUT' }, tokenUsage: { a: CALL }, executionTimeMs: 20 },
  },
  'its tokens are used up': {
    cast: { a: works, b: works },
    extras: { ...askAll('a', 'b'), budget: { perRun: { tokens: 290 } } },
    comesTo: { totalTokenUsage: { calls: 2 }, failures: [{ error: { code: 'BUDGET_EXCEEDED' } }] },
  },
  'an agent that is asked twice at once has two threads': {
    cast: { a: works },
    extras: { ...askAll('a', 'a'), roles: { a: { instances: 2 } } },
    comesTo: { finalOutput: '2', tokenUsage: { a: { calls: 4 } }, agentExecutionTimesMs: { a: 24 } },
  },
  'a turn runs within one that waits for it': {
    cast: {
      a: async ({ content }, context) =>
        content === 'back' ? works({ content } as AgentMessage, context) : (await context.request('b', 'on')).content,
      b: async (_message, context) => (await context.request('a', 'back')).content,
    },
    extras: { roles: { a: { reentrancy: 'chain' } } },
    comesTo: { finalOutput: 'back!', agentExecutionTimesMs: { a: 24, b: 24 } },
  },
  'agents come with the run, and go with it': {
    cast: { a: works },
    extras: {
      script: async (script, query) => (await script.request(await script.spawn({ name: 'own' }), query)).content,
      later: { own: works },
    },
    comesTo: { finalOutput: 'go!', tokenUsage: { own: TWO_CALLS }, agentExecutionTimesMs: { a: 0, own: 24 } },
  },
  'an agent leaves before the end': {
    cast: { a: works, b: works },
    extras: scripted(async (script, query) => {
      const { content } = await script.request('a', query)
      await script.sleep(20)
      return (await script.request('b', content)).content
    }),
    meanwhile: async (team) => {
      await team.clock.advance(20)
      await team.removeAgent('a')
    },
    comesTo: { finalOutput: 'go!!', tokenUsage: { a: TWO_CALLS }, agentExecutionTimesMs: { a: 24, b: 24 } },
  },
  'agents delegate, meet, tell all, and write on the blackboard': {
    cast: {
      async a(_message, context) {
        await context.publish('plan', { steps: 2 }, 'plan')
        const { result } = await context.delegate('b', 'a part')
        await context.publish('plan', { steps: 3 }, 'plan')
        await context.broadcast('done')
        return `${result}`
      },
      b: defineAgent({
        async receive(_message, context) {
          await context.sync('noon')
          await context.publish('part', 1, 'fact', { references: ['plan'] })
          return 'my part'
        },
        observe() {},
      }),
      c: async (_message, context) => `${(await context.sync('noon')).arrived}`,
    },
    extras: {
      script: async (script, query) => {
        script.decide('Who?', 'a and c', 'they are there')
        await script.requestAll(['a', 'c'], query)
        await script.send('c', 'bye').catch(() => {})
        return 'done'
      },
      syncPoints: [{ name: 'noon', requiredAgents: ['b', 'c'], timeoutMs: 1_000 }],
      enableBlackboard: true,
    },
    comesTo: {
      finalOutput: 'done',
      blackboardState: { plan: { steps: 3 }, part: 1 },
      agentOutputs: { a: [{ content: 'my part' }], b: [{ content: 'my part' }], c: [{ content: 'b,c' }] },
      orchestrationTrace: {
        decisions: [{ question: 'Who?', choice: 'a and c', reason: 'they are there' }],
        syncPointsReached: ['noon'],
      },
    },
  },
  'two wait for each other, and one gives way': {
    cast: {
      a: async (_message, context) => (await context.request('b', 'x').catch(() => ({ content: 'gave way' }))).content,
      b: async (_message, context) => (await context.request('a', 'x').catch(() => ({ content: 'gave way' }))).content,
    },
    extras: askAll('a', 'b'),
    comesTo: { finalOutput: '2' },
  },
}

for (const [what, { cast, extras, meanwhile, comesTo }] of Object.entries(stories))
  t.test(what, async (t) => {
    const team = openTeam(t, cast, { models: { default: model() }, ...extras })
    const pending = team.execute('go')
    await team.clock.advance(12)
    await meanwhile?.(team)
    await team.clock.runToIdle()
    const result = await pending
    t.same(disagreements(result), [])
    t.match(result, comesTo)
    t.same(missing(result), [], 'every field of the contract is there')
    t.same(strange(sequenceDiagram(result.orchestrationTrace)), [])
  })

/** Document 002, 3.2, and what the contract adds. */
const FIELDS = [
  ...['runId', 'success', 'finalOutput', 'data', 'error', 'agentOutputs', 'failures', 'messageHistory'],
  ...['taskCompletion', 'blackboardState', 'orchestrationTrace', 'tokenUsage', 'totalTokenUsage', 'executionTimeMs'],
  ...['agentExecutionTimesMs', 'contributions', 'rehearsed', 'toJSON'],
]
/** Document 002, 3.3. */
const PARTS = ['events', 'decisions', 'agentActivations', 'messageFlow', 'syncPointsReached']

const missing = (result: MultiAgentResult): string[] => [
  ...FIELDS.filter((field) => Reflect.get(result, field) === undefined && field !== 'data'),
  ...PARTS.filter((part) => !Array.isArray(Reflect.get(result.orchestrationTrace, part))),
]

const ROWS = [
  /^ {2}participant p\d+ as [^;#<>]+$/,
  /^ {2}p\d+(->>|-->>|-\))p\d+: [^;#<>]+$/,
  /^ {2}Note over p\d+(,p\d+)?: [^;#<>]+$/,
]

/** Lines that are none of Mermaid's grammar for a sequence diagram, and names that nobody has introduced. */
function strange(diagram: string): string[] {
  const [first, ...lines] = diagram.trimEnd().split('\n')
  const introduced = new Set(lines.flatMap((line) => /^ {2}participant (p\d+)/.exec(line)?.[1] ?? []))
  return [
    ...(first === 'sequenceDiagram' ? [] : [`${first}`]),
    ...lines.filter((line) => !ROWS.some((row) => row.test(line))),
    ...lines.flatMap((line) => line.split(': ')[0]!.match(/p\d+/g) ?? []).filter((short) => !introduced.has(short)),
  ]
}

// Who has contributed what to an answer. The numbers are known from what the agents do. Requirements P27, P31.

type Test = Parameters<typeof localTeam>[0]

async function play(t: Test, cast: Cast, orchestration: OrchestrationConfig, extras: Extras = {}, query = 'go') {
  const team = localTeam(t, cast, { orchestration, ...extras })
  const pending = team.execute(query)
  await team.clock.runToIdle()
  return pending
}

const says = (text: string) => () => text
const sequential = { strategy: 'sequential' } as const

t.test('a sentence of the answer is of who said it first, word for word', async (t) => {
  const cast = {
    ann: says('Cats sleep. Dogs bark.'),
    bob: says('Dogs bark. Birds sing. Cats never sleep.'),
    eve: says('Dogs\n  bark.  Fish swim. Birds\nsing. Dogs Bark.'),
  }
  const { contributions } = await play(t, cast, sequential)
  t.same(contributions.sentences, [
    { text: 'Dogs bark.', saidBy: ['ann', 'bob', 'eve'] },
    { text: 'Fish swim.', saidBy: ['eve'] },
    { text: 'Birds sing.', saidBy: ['bob', 'eve'] },
    { text: 'Dogs Bark.', saidBy: ['eve'] },
  ])
  t.match(contributions.agents, {
    ann: { sentences: ['Dogs bark.'], repeated: [] },
    bob: { sentences: ['Birds sing.'], repeated: ['Dogs bark.'] },
    eve: { sentences: ['Fish swim.', 'Dogs Bark.'], repeated: ['Dogs bark.', 'Birds sing.'] },
  })
})

t.test(
  'answers that are put side by side keep their authors; headings, and what nobody said, are nobody’s',
  async (t) => {
    const parallel = { strategy: 'parallel' } as const
    const { contributions } = await play(t, { ann: says('猫在睡觉。狗在叫!'), bob: says('- One.\n- Two.') }, parallel)
    t.same(pluck(contributions.basis, 'text'), ['猫在睡觉。', '狗在叫!', 'One.', 'Two.'])
    t.equal(contributions.unattributed, 0, 'a heading is nothing that somebody could stand behind')
    t.same(contributions.sentences, [
      { text: 'ann', saidBy: [] },
      { text: '猫在睡觉。', saidBy: ['ann'] },
      { text: '狗在叫!', saidBy: ['ann'] },
      { text: 'bob', saidBy: [] },
      { text: 'One.', saidBy: ['bob'] },
      { text: 'Two.', saidBy: ['bob'] },
    ])
    const script: OrchestrationConfig = {
      strategy: 'custom',
      run: async (orchestrator, query) => `In short: ${(await orchestrator.request('ann', query)).content}`,
    }
    t.same((await play(t, { ann: says('cats sleep.') }, script)).contributions.sentences, [
      { text: 'In short: cats sleep.', saidBy: [] },
    ])
  },
)

t.test(
  'sentences in other words rest on those who said what they say, with the share that nobody stands behind',
  async (t) => {
    const synthesis = 'On Tuesday 56 millimetres of rain fell. The harbour bridge stays closed. Cucumbers are purple.'
    const cast = {
      gauge: says('It rained: 56 millimetres fell on Tuesday.'),
      roads: says('The bridge at the harbour is closed.'),
      boss: (message: { content: string }) => (message.content.includes('56') ? synthesis : 'A plan is not needed.'),
    }
    const custom: OrchestrationConfig = {
      strategy: 'custom',
      async run(orchestrator, query) {
        const found = await orchestrator.requestAll(['gauge', 'roads'], query)
        const words = found.map((one) => (one.ok ? one.message.content : ''))
        return (await orchestrator.request('boss', words.join(' '))).content
      },
    }
    const { contributions } = await play(t, cast, custom)
    const [rain, bridge, none] = contributions.basis
    t.match(rain, { text: /^On Tuesday/, restsOn: [{ agent: 'gauge' }] })
    t.match(bridge, { restsOn: [{ agent: 'roads' }] })
    t.same(none, { text: 'Cucumbers are purple.', restsOn: [], unattributed: 1 })
    t.ok(rain && rain.unattributed < 0.35 && bridge && bridge.unattributed < 0.35)
    t.ok(contributions.unattributed > 0.15 && contributions.unattributed < 0.5)
    t.notOk(contributions.basis.some(({ restsOn }) => restsOn.some(({ agent }) => agent === 'boss')))

    const alone = (await play(t, { ann: says('Cats sleep all day.') }, sequential)).contributions
    t.same(alone.basis, [{ text: 'Cats sleep all day.', restsOn: [{ agent: 'ann', share: 1 }], unattributed: 0 }])
    t.equal(alone.unattributed, 0)
  },
)

t.test('a sentence of the query is the caller’s, whoever repeats it', async (t) => {
  const cast = { ann: says('Is it warm? It is.') }
  const { contributions } = await play(t, cast, sequential, {}, 'Is it warm?')
  t.same(contributions.sentences, [
    { text: 'Is it warm?', saidBy: ['$user', 'ann'] },
    { text: 'It is.', saidBy: ['ann'] },
  ])
  t.match(contributions.agents, { ann: { sentences: ['It is.'], repeated: ['Is it warm?'] } })
  t.same(Object.keys(contributions.agents), ['ann'])
})

t.test('an answer of data alone is its JSON', async (t) => {
  const { contributions } = await play(t, { ann: () => ({ structuredData: { sum: 5 } }) }, sequential)
  t.same(contributions.sentences, [{ text: '{"sum":5}', saidBy: ['ann'] }])
})

t.test('tokens, time, messages and tasks are those of each agent', async (t) => {
  const model = new FakeModel(async ({ clock }) => {
    await clock?.sleep(7)
    return 'Thought.'
  })
  const cast = {
    async ann(_message: unknown, context: AgentContext) {
      const { text } = await context.complete({ prompt: 'think' })
      await context.send('eve', 'hello')
      await context.broadcast('to all')
      const { result } = await context.delegate('bob', 'a part')
      return `${text} ${result}`
    },
    async bob(_message: unknown, context: AgentContext) {
      await context.sleep(5)
      return 'Done.'
    },
    eve: defineAgent({ receive: (_message, context) => Promise.reject(context.refuse('no')), observe() {} }),
  }
  const script: OrchestrationConfig = {
    strategy: 'custom',
    async run(orchestrator, query) {
      await orchestrator.complete({ prompt: 'of the script' })
      const outcomes = await orchestrator.requestAll(['ann', 'eve'], query)
      return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : '')).join('')
    },
  }
  const result = await play(t, cast, script, { models: { default: model } })
  const nothing = { entries: { written: [], used: [] }, repeated: [] }
  const none = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const known: Record<string, Contribution> = {
    // To eve, to all, to bob, and the answer.
    ann: {
      tokens: USAGE,
      timeMs: 12,
      messagesSent: 4,
      tasksDone: 1,
      entries: nothing.entries,
      sentences: ['Thought.'],
      repeated: ['Done.'],
    },
    bob: { ...nothing, tokens: none, timeMs: 5, messagesSent: 1, tasksDone: 1, sentences: ['Done.'] },
    eve: { ...nothing, tokens: none, timeMs: 0, messagesSent: 0, tasksDone: 0, sentences: [] },
  }
  t.same(result.contributions.agents, known)
  t.equal(result.totalTokenUsage.calls, 2, 'the script is no agent')
})

const writes = (...entries: Parameters<AgentContext['publish']>[]) =>
  async function receive(_message: unknown, context: AgentContext) {
    for (const entry of entries) await context.publish(...entry)
  }

const solving: Cast = {
  ann: writes(['rain', 'It rained 56 mm.', 'fact'], ['wind', 'It blew.', 'fact'], ['noise', 'Hm.', 'fact']),
  bob: writes(
    ['flood', 'The cellar is wet.', 'finding', { references: ['rain', 'later'] }],
    ['storm', 'A storm.', 'finding', { supersedes: 'wind' }],
  ),
  eve: writes(['rain', 'It did not rain.', 'fact'], ['later', { pumps: 2 }, 'fact', { references: ['flood'] }]),
  max: writes(['answer', 'Buy a pump. It is urgent.', 'solution', { references: ['flood', 'storm', 'nothing'] }]),
}
const inTurn = (
  result: (orchestrator: Parameters<Extract<OrchestrationConfig, { run: unknown }>['run']>[0]) => Promise<string>,
) => ({
  strategy: 'custom' as const,
  async run(orchestrator: Parameters<Extract<OrchestrationConfig, { run: unknown }>['run']>[0]) {
    for (const { name } of orchestrator.agents) await orchestrator.request(name, 'write')
    return result(orchestrator)
  },
})

for (const scope of ['run', 'team'] as const)
  t.test(`entries reach the answer by their words and by references (blackboard of the ${scope})`, async (t) => {
    const answer = inTurn(async ({ blackboard }) => `${(await blackboard.read('answer'))?.value}`)
    const { contributions } = await play(t, solving, answer, { enableBlackboard: { scope } })
    t.same(Object.fromEntries(Object.entries(contributions.agents).map(([name, { entries }]) => [name, entries])), {
      ann: { written: ['rain', 'wind', 'noise'], used: ['rain', 'wind'] },
      bob: { written: ['flood', 'storm'], used: ['flood', 'storm'] },
      eve: { written: ['rain', 'later'], used: ['later'] }, // its rain came after bob had read ann's
      max: { written: ['answer'], used: ['answer'] },
    })
    t.same(contributions.sentences, [
      { text: 'Buy a pump.', saidBy: ['max'] },
      { text: 'It is urgent.', saidBy: ['max'] },
    ])
  })

t.test('where the answer is the list of what stands on the board, each line is its author’s', async (t) => {
  const cast: Cast = {
    ann: writes(['rain', 'It rained.', 'fact']),
    async bob(message, context) {
      await context.sleep(5)
      await writes(['sum', { mm: 56 }, 'fact'])(message, context)
    },
  }
  const { finalOutput, contributions } = await play(t, cast, { strategy: 'blackboard' })
  t.equal(finalOutput, '- rain (fact by ann): It rained.\n- sum (fact by bob): {"mm":56}')
  t.same(contributions.sentences, [
    { text: 'rain (fact by ann): It rained.', saidBy: ['ann'] },
    { text: 'sum (fact by bob): {"mm":56}', saidBy: ['bob'] },
  ])
  t.match(contributions.agents, { ann: { entries: { used: ['rain'] } }, bob: { entries: { used: ['sum'] } } })
})

t.test('a turn that is tried again contributes once', async (t) => {
  const team = localTeam(t, {
    async ann(_message: unknown, context: AgentContext) {
      await context.publish('k', 'It rained.', 'fact')
      await context.sleep(10)
      return 'It rained.'
    },
  })
  const pending = team.execute('go')
  await team.clock.advance(5)
  team.crash('ann')
  await team.clock.runToIdle()
  const { contributions } = await pending
  t.match(contributions.agents.ann, {
    messagesSent: 2, // the entry, and the answer
    entries: { written: ['k'], used: ['k'] },
    sentences: ['It rained.'],
  })
  t.same(contributions.sentences, [{ text: 'It rained.', saidBy: ['ann'] }])
})

t.test('a run that failed has no answer to contribute to, and its work is told', async (t) => {
  const cast = {
    ann: says('Cats sleep.'),
    bob() {
      throw new Error('broken')
    },
  }
  const { contributions } = await play(t, cast, sequential)
  t.same(contributions.sentences, [])
  t.match(contributions.agents, { ann: { messagesSent: 1, tasksDone: 1 }, bob: { messagesSent: 0, tasksDone: 0 } })
})

t.test('the report stays as it is: what comes later is not in it, and it is made once', async (t) => {
  const team = localTeam(t, { ann: says('Cats sleep.') })
  const run = team.launch('go')
  const result = await run.result
  await team.sendMessage({ sender: 'ann', recipient: 'ann', content: 'later', runId: run.id }).catch(() => {})
  const { contributions } = result
  t.equal(contributions.agents.ann?.messagesSent, 1)
  t.equal(result.contributions, contributions)
})

t.test('the whole of a result as JSON has it, the summary has not', async (t) => {
  const result = await play(t, { ann: says('Cats sleep.') }, sequential)
  t.same(JSON.parse(resultText(result)).contributions, result.contributions)
  t.notOk('contributions' in result.toJSON())
})
