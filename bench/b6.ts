/** Seven agents that wait 60 ms each, beside one in an endless synchronous loop, over the 60 ms they need alone. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runChild, runProgram } from './child.ts'
import { comparison } from './comparisons.ts'
import type { BesideALoop } from './programs/beside-a-loop.ts'
import { median } from './statistics.ts'
import { WAIT_MS } from './workload.ts'

const FIGURE = 'seven answers over their ideal time'
const ROUNDS = 5

export const b6: Benchmark<typeof FIGURE> = {
  id: 'B6',
  question: 'seven agents beside one in an endless loop',
  must: { [FIGURE]: atMost(1.2) },
  goal: { [FIGURE]: atMost(1.05) },
  async run() {
    const { tookMs, closeMs } = await runProgram<BesideALoop>('beside-a-loop', [ROUNDS])
    return {
      ratios: { [FIGURE]: tookMs.map((ms) => ms / WAIT_MS) },
      details: [
        { label: 'all seven have answered', value: median(tookMs), unit: 'ms' },
        { label: 'close() ends the looping thread', value: closeMs, unit: 'ms' },
      ],
      notes: [
        'maxConcurrentAgents is 8 here: one run holds the loop and the seven',
        `frameworks that run all agents in one thread freeze as long as the loop lasts; ${await frozen()}`,
      ],
    }
  },
}

/** What becomes of the seven where all share a thread. The loop ends after 2 s there, or nothing ever would. */
async function frozen(): Promise<string> {
  try {
    const { stdout } = await runChild(await comparison('beside-a-loop'))
    const { ms }: { ms: number } = JSON.parse(stdout)
    return `LangGraph.js with a loop of 2,000 ms: seven answers after ${Math.round(ms).toLocaleString('en')} ms`
  } catch (error) {
    return `LangGraph.js not measured: ${error instanceof Error ? error.message : String(error)}`
  }
}
