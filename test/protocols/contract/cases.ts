/**
 * Every strategy with a cast of code that plays it to the end. An agent works for a while before and after it does what it
 * does, so that a turn can be cut off in its middle, and says whose question it was, so that runs cannot mix unseen.
 */
import { type AgentContext, type AgentDefinition, type AgentMessage, defineAgent } from '../../../src/index.ts'
import type { OrchestrationConfig } from '../../../src/protocols/index.ts'
import type { Told } from '../led-team.ts'

export interface Case {
  name: string
  orchestration: OrchestrationConfig
  cast: Record<string, AgentDefinition>
  /** What the run of that query answers. */
  answer(query: string): string | RegExp
}

type Saying = string | { content?: string; structuredData?: unknown } | undefined
type Says = (message: AgentMessage, context: AgentContext) => Saying | Promise<Saying>

/** Before it does what it does, and after. */
export const WORK_MS = 5

/** An agent that says that, after some work. */
export const plays = (says: Says): AgentDefinition =>
  defineAgent({
    async receive(message, context) {
      await context.sleep(WORK_MS)
      const said = await says(message, context)
      await context.sleep(WORK_MS)
      return said
    },
  })

const signs = plays(({ content }, { role }) => `${content}, ${role.name}`)

const bids = (bid: number) =>
  plays(({ content, metadata }, { role }) =>
    'bidFor' in metadata ? { structuredData: { bid } } : `${content}, ${role.name}`,
  )

const queryIn = ({ structuredData }: AgentMessage) => (structuredData as { query: string }).query
const isQuery = ({ structuredData }: AgentMessage) => structuredData === null

/** Answers the query, and later answers in the other way. */
const then = (later: Says) =>
  plays((message, context) => (isQuery(message) ? `${message.content}, ${context.role.name}` : later(message, context)))

const votes = then(() => ({ structuredData: { choice: 2 } }))
const accepts = then(() => ({ structuredData: { accept: true } }))
const takesOver = then((message) => ({ structuredData: { answer: { query: queryIn(message) } } }))
const argues = plays((message, { role }) => ({
  structuredData: { argument: `${queryIn(message)}, ${role.name}`, evidence: ['a count'] },
}))

export const cases: readonly Case[] = [
  {
    name: 'sequential',
    orchestration: { strategy: 'sequential' },
    cast: { a: signs, b: signs, c: signs },
    answer: (query) => `${query}, a, b, c`,
  },
  {
    name: 'parallel, merged',
    orchestration: { strategy: 'parallel' },
    cast: { a: signs, b: signs },
    answer: (query) => `## a\n\n${query}, a\n\n## b\n\n${query}, b`,
  },
  {
    name: 'parallel, voted',
    orchestration: { strategy: 'parallel', aggregationStrategy: 'vote' },
    cast: { a: plays(({ content }) => content), b: signs, c: plays(({ content }) => content) },
    answer: (query) => query,
  },
  {
    name: 'parallel, judged',
    orchestration: { strategy: 'parallel', aggregationStrategy: 'best', judge: 'judge' },
    cast: { a: signs, b: signs, judge: plays(() => ({ structuredData: { best: 'b' } })) },
    answer: (query) => `${query}, b`,
  },
  {
    name: 'auction',
    orchestration: { strategy: 'auction', auctioneer: 'boss', bidTimeoutMs: 1_000_000, weights: { load: 0 } },
    cast: {
      boss: plays(({ metadata }) => ({ structuredData: { winner: (metadata.bids as { agent: string }[])[0]?.agent } })),
      a: bids(0.2),
      b: bids(0.4),
    },
    answer: (query) => `${query}, b`,
  },
  {
    name: 'blackboard',
    orchestration: { strategy: 'blackboard', interests: { a: ['query'], b: ['draft'] } },
    cast: {
      a: plays(async ({ structuredData }, context) => {
        await context.publish('draft', (structuredData as { query: string }).query, 'fact')
        return undefined
      }),
      b: plays(async ({ structuredData }, context) => {
        await context.publish('answer', `${(structuredData as { query: string }).query}, b`, 'solution')
        return undefined
      }),
    },
    answer: (query) => `${query}, b`,
  },
  {
    name: 'hierarchical',
    orchestration: { strategy: 'hierarchical', manager: 'manager', workers: ['a', 'b'] },
    cast: {
      manager: plays(({ metadata }) => {
        const { step, query, task: done, results = [] } = metadata.hierarchical as Told
        if (step === 'summary') return results.map(({ result }) => String(result).split('\n').at(-1)).join('; ')
        if (step !== 'plan') return { structuredData: { approved: step === 'approve', remarks: `is it ${done}` } }
        const task = (worker: string, ...dependsOn: number[]) => ({ worker, task: query, dependsOn })
        return { structuredData: { tasks: [task('a'), task('b'), task('a', 1, 2)] } }
      }),
      a: signs,
      b: signs,
    },
    answer: (query) => `is it ${query}, a; is it ${query}, b; is it ${query}, a`,
  },
  {
    name: 'consensus, by ballots',
    orchestration: { strategy: 'consensus', consensusMethod: 'vote' },
    cast: { a: votes, b: votes, c: votes },
    answer: (query) => `${query}, b`,
  },
  {
    name: 'consensus, by discussion',
    orchestration: { strategy: 'consensus' },
    cast: { a: takesOver, b: takesOver, c: takesOver },
    answer: (query) => `{"query":"${query}"}`,
  },
  {
    name: 'consensus, by a text that all accept',
    orchestration: { strategy: 'consensus', consensusMethod: 'synthesis', tieBreaker: 'chair' },
    cast: { a: accepts, b: accepts, chair: plays((message) => `${queryIn(message)}, all`) },
    answer: (query) => `${query}, all`,
  },
  {
    name: 'debate',
    orchestration: { strategy: 'debate', debaters: ['pro', 'con'], judge: 'judge', maxRounds: 2 },
    cast: {
      pro: argues,
      con: argues,
      judge: plays((message) => ({ content: `${queryIn(message)}, con`, structuredData: { winner: 'con' } })),
    },
    answer: (query) => `${query}, con`,
  },
  {
    name: 'collaborate',
    orchestration: {
      strategy: 'collaborate',
      teammates: ['a', 'b'],
      decomposer: 'planner',
      order: 'dependencies',
    },
    cast: {
      planner: plays(({ content }) => {
        const task = content.slice(content.lastIndexOf('\n') + 1)
        const tasks = [
          { task, dependsOn: [] },
          { task: `${task} not`, dependsOn: [1] },
        ]
        return { structuredData: tasks }
      }),
      a: signs,
      b: signs,
    },
    answer: (query) => `${query}, a\n${query} not, a`,
  },
  {
    name: 'supervisor',
    orchestration: {
      strategy: 'supervisor',
      supervisor: 'planner',
      experts: ['a', 'b'],
      aggregator: 'editor',
      timeoutPerAgentMs: 100_000,
    },
    cast: {
      planner: plays(({ content }) => {
        const task = /# Question\n\n(.*)/.exec(content)?.[1]
        const tasks = ['a', 'b', 'a'].map((agent, at) => ({ agent, task, dependsOn: at === 2 ? [1, 2] : [] }))
        return { structuredData: { tasks, reasoning: 'as always' } }
      }),
      a: signs,
      b: signs,
      editor: plays(({ structuredData }) => {
        const { results } = structuredData as { results: { resultData: string }[] }
        return results.map(({ resultData }) => resultData).join('; ')
      }),
    },
    answer: (query) => `${query}, a; ${query}, b; ${query}, a`,
  },
  {
    name: 'custom',
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        const outcomes = await script.requestAll(['a', 'b'], query)
        return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join('; ')
      },
    },
    cast: { a: signs, b: signs },
    answer: (query) => `${query}, a; ${query}, b`,
  },
]
