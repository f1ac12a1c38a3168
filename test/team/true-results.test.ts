/** What a result says agrees with its trace, whatever happened on the way. Requirements P23, P24; document 002, 3.2 and 3.3. */
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  defineAgent,
  type MultiAgentResult,
  type OrchestratorContext,
  sequenceDiagram,
} from '../../src/index.ts'
import { type Cast, type Extras, type OpenTeam, openTeam } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { disagreements } from './result-accounts.ts'

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
