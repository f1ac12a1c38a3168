/** Protocols of the user's own: the closure, and the definition with a configuration. */
import { createTeam, defineProtocol } from 'dramatis'
import { z } from 'zod'

export const poker = defineProtocol({
  name: 'planning-poker',
  config: z.object({ estimators: z.array(z.string()), tieBreaker: z.string() }),
  async run(orchestrator, query, { estimators, tieBreaker }) {
    await orchestrator.publish('story', query, 'fact')
    const outcomes = await orchestrator.requestAll(estimators, 'Estimate')
    const { data, missing } = await orchestrator.synced<number>('revealed')
    const sum: number = Object.values(data).reduce((total, value) => total + value, missing.length)
    // @ts-expect-error what agents bring has the type that was named
    const text: string = data.ann
    const estimates = await orchestrator.blackboard.query({ entryType: 'estimate' })
    const verdict = orchestrator.vote(estimates.map(({ author, value }) => ({ agent: author, value })))
    const story = (await orchestrator.blackboard.read('story', z.string()))?.value.toUpperCase()
    orchestrator.decide('estimate', String(verdict.winner), verdict.tied ? 'tie' : 'votes')
    if (verdict.tied) return (await orchestrator.request(tieBreaker, `Break the tie on ${story}`)).content
    return `${verdict.winner} of ${outcomes.length}, ${sum} in all ${text}`
  },
})

const module = new URL('./analyst.js', import.meta.url)
const agents = [
  { name: 'ann', module },
  { name: 'bob', module },
  { name: 'lead', module },
] as const

export const teams = () => [
  createTeam({
    agents,
    enableBlackboard: true,
    orchestration: poker({ estimators: ['ann', 'bob'], tieBreaker: 'lead' }),
  }),
  createTeam({
    agents,
    // @ts-expect-error the configuration lacks a field
    orchestration: poker({ estimators: ['ann', 'bob'] }),
  }),
  createTeam({
    agents,
    orchestration: {
      strategy: 'custom',
      name: 'relay',
      async run(orchestrator, query) {
        // the script sees its team by name
        const names: ('ann' | 'bob' | 'lead')[] = orchestrator.agents.map(({ name }) => name)
        const chosen: 'ann' | 'bob' | 'lead' | null = await orchestrator.route(query, {
          by: 'load_balance',
          among: ['ann'],
        })
        const [best] = await orchestrator.candidates({ description: query, requiredCapabilities: ['sums'] })
        const fit: number | undefined = best?.agent === 'bob' ? best.fit : best?.load
        // @ts-expect-error nobody of this team has that name
        await orchestrator.route(query, { among: ['anne'] })
        let last = `${query} ${chosen} ${fit}`
        for (const name of names) last = (await orchestrator.request(name, last)).content
        return { content: last, structuredData: { laps: names.length } }
      },
    },
  }),
  createTeam({ agents, orchestration: { strategy: 'custom', module: new URL('./poker.js', import.meta.url) } }),
  createTeam({ agents, orchestration: { strategy: 'custom', module: 'a-package', config: { estimators: ['ann'] } } }),
  createTeam({
    agents,
    // @ts-expect-error a script returns a text
    orchestration: { strategy: 'custom', run: async () => 42 },
  }),
]

/** Data beside the answer, and a configuration of which nothing has to be given. */
export const laps = defineProtocol({
  name: 'laps',
  config: z.object({ laps: z.number().default(3) }),
  async run(orchestrator, query, config) {
    const count: number = config.laps
    return { content: query, structuredData: { laps: count, agents: orchestrator.agents.length } }
  },
})
export const plain = defineProtocol({ name: 'plain', run: async (_orchestrator, query) => query })

export const short = () => [
  createTeam({ agents, orchestration: laps() }),
  createTeam({ agents, orchestration: laps({}) }),
  createTeam({ agents, orchestration: laps({ laps: 4 }) }),
  createTeam({ agents, orchestration: plain() }),
  createTeam({ agents, orchestration: plain({ anything: 1 }) }),
  createTeam({
    agents,
    // @ts-expect-error a number of laps
    orchestration: laps({ laps: 'four' }),
  }),
  createTeam({
    agents,
    // @ts-expect-error what has no default has to be given
    orchestration: poker(),
  }),
]

export const wrong = defineProtocol({
  name: 'p',
  config: z.object({ laps: z.number() }),
  // @ts-expect-error what the schema gives is what run gets
  run: async (_orchestrator, _query, { lap }) => lap,
})
