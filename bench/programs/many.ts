/**
 * What a hop or a message costs where there are many agents, through the public API, with the defaults on.
 *
 *   many.js ring <agents> <hops>      one token goes round
 *   many.js big <agents> <laps>       all ask all, see roundsOf
 */
import { createTeam, type OrchestratorContext } from 'dramatis'
import type { Round } from '../agents/big-node.ts'
import type { Place, Token } from '../agents/ring-node.ts'
import { type Cost, costOf, type ManyCosts, messagesIn, roundsOf } from '../many.ts'

const [kind, size, much] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const names = Array.from({ length: size }, (_, i) => `node-${i}`)
let costs: ManyCosts | undefined

const team = createTeam({
  agents: names.map((name, i) => ({
    name,
    module: new URL(`../agents/${kind}-node.js`, import.meta.url),
    ...(kind === 'ring' && { data: { next: names[(i + 1) % size]! } satisfies Place }),
  })),
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const measure = kind === 'ring' ? ring(orchestrator) : big(orchestrator)
      costs = { cold: await measure(), warm: await measure() }
      return 'done'
    },
  },
  threads: { warmSpares: 0 },
})
await team.start()
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(costs))

function ring(orchestrator: OrchestratorContext): () => Promise<Cost> {
  let laps = 0
  return () => {
    const end = `end-${laps++}`
    return costOf(much, async () => {
      const structuredData: Token = { left: much - 1, end }
      await orchestrator.send(names[0]!, 'token', { structuredData })
      await orchestrator.blackboard.waitFor(end)
    })
  }
}

function big(orchestrator: OrchestratorContext): () => Promise<Cost> {
  const rounds = roundsOf(size, much)
  const ask = async (asker: number, others: readonly number[]) => {
    const structuredData: Round = { ask: others.map((other) => names[other]!) }
    await orchestrator.request(names[asker]!, 'ask', { structuredData })
  }
  return () =>
    costOf(messagesIn(rounds), async () => {
      for (const round of rounds) await Promise.all(round.map(({ asker, others }) => ask(asker, others)))
    })
}
