/**
 * Messages/s among agents that each pass on what they get, to all others by turns, through the public API, with the
 * defaults on: when their threads are new, and when the code of all of them is compiled.
 *
 *   all-to-all.js <agents> <ms>
 */
import { createTeam } from 'dramatis'
import type { Command, Peers } from '../agents/passer.ts'
import { supervision } from './detectors.ts'

export interface AllToAll {
  /** Messages/s in the time that is measured. */
  rate: number
  /** The same when the threads are new. */
  rateAtFirst: number
}

const START_MS = 500
/** Each thread compiles its own code, so that 16 on two cores are at it for about 4 s. */
const WARM_UP_MS = 6_000
const [count = '0', forMs = '0'] = process.argv.slice(2)
const names = Array.from({ length: Number(count) }, (_, i) => `passer-${i + 1}`)
let rates: AllToAll | undefined

const team = createTeam({
  agents: names.map((name) => ({
    name,
    module: new URL('../agents/passer.js', import.meta.url),
    data: { peers: names.filter((other) => other !== name) } satisfies Peers,
  })),
  supervision,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      /** What all have got so far, and when that was known. */
      const tell = async (command: Command) => {
        const outcomes = await orchestrator.requestAll(names, command)
        let got = 0
        for (const outcome of outcomes) {
          if (!outcome.ok) throw outcome.error
          got += (outcome.message.structuredData as { got: number }).got
        }
        return { got, at: performance.now() }
      }
      const measure = async () => {
        const before = await tell('count')
        await orchestrator.sleep(Number(forMs))
        const after = await tell('count')
        return ((after.got - before.got) / (after.at - before.at)) * 1_000
      }
      await tell('start')
      await orchestrator.sleep(START_MS)
      const rateAtFirst = await measure()
      await orchestrator.sleep(WARM_UP_MS)
      rates = { rate: await measure(), rateAtFirst }
      await tell('stop')
      return 'done'
    },
  },
})
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(rates))
