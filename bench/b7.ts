/** How soon a request is answered whose agent's thread exits at it, against the spawn of a thread that does nothing. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { CrashToAnswer } from './programs/crash-to-answer.ts'
import { median } from './statistics.ts'

const FIGURE = 'crash to answer over a raw spawn'
const ROUNDS = 15

export const b7: Benchmark<typeof FIGURE> = {
  id: 'B7',
  question: 'crash to next answer, spare ready, no backoff',
  must: { [FIGURE]: atMost(0.4) },
  goal: { [FIGURE]: atMost(0.2) },
  async run() {
    const { crashMs, requestMs, spawnMs } = await runProgram<CrashToAnswer>('crash-to-answer', [ROUNDS])
    const spawn = median(spawnMs)
    return {
      // over the median spawn: a single slow one would make its round look good
      ratios: { [FIGURE]: crashMs.map((ms) => ms / spawn) },
      details: [
        { label: 'raw thread, spawn to its first message', value: spawn, unit: 'ms' },
        { label: 'event agent.crashed to the answer', value: median(crashMs), unit: 'ms' },
        { label: 'request to the answer, the crash between', value: median(requestMs), unit: 'ms' },
        { label: 'the same over a raw spawn', value: median(requestMs) / spawn, unit: 'x' },
      ],
    }
  },
}
