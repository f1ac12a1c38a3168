/** What one more agent takes that waits on a thread of its own: the difference between a small and a large team. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { median } from './statistics.ts'

const FIGURE = 'MB for an idle agent'
const ROUNDS = 5
const FEW = 1
const MANY = 33

export const b10: Benchmark<typeof FIGURE> = {
  id: 'B10',
  question: 'memory of an idle agent with a thread',
  must: { [FIGURE]: atMost(12) },
  goal: { [FIGURE]: atMost(8) },
  async run() {
    const few: number[] = []
    const many: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      few.push(await runProgram<number>('idle-agents', [FEW]))
      many.push(await runProgram<number>('idle-agents', [MANY]))
    }
    return {
      ratios: { [FIGURE]: many.map((rss, round) => (rss - few[round]!) / (MANY - FEW)) },
      details: [
        { label: `resident, ${FEW} agent and a spare thread`, value: median(few), unit: 'MB' },
        { label: `resident, ${MANY} agents and a spare thread`, value: median(many), unit: 'MB' },
      ],
      notes: ['MB here are 2^20 bytes'],
    }
  },
}
