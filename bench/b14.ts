/** 16 agents, each of which passes on what it gets to all others by turns, against the relay between two workers. */
import { atLeast, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { AllToAll } from './programs/all-to-all.ts'
import { median } from './statistics.ts'
import { SIZE } from './workload.ts'

const FIGURE = "rate over the relay's one-way rate"
const ROUNDS = 5
const AGENTS = 16
const FOR_MS = 1_500
const MESSAGES = 100_000

export const b14: Benchmark<typeof FIGURE> = {
  id: 'B14',
  question: '16 agents all to all, each turn sends one on',
  must: { [FIGURE]: atLeast(0.7) },
  goal: { [FIGURE]: atLeast(2) },
  async run() {
    const relay: number[] = []
    const dramatis: AllToAll[] = []
    for (let round = 0; round < ROUNDS; round++) {
      relay.push(await runProgram<number>('relay', ['one-way', MESSAGES, SIZE]))
      dramatis.push(await runProgram<AllToAll>('all-to-all', [AGENTS, FOR_MS]))
    }
    return {
      ratios: { [FIGURE]: dramatis.map(({ rate }, round) => rate / relay[round]!) },
      details: [
        { label: 'relay of posted objects, 2 workers, one-way', value: median(relay), unit: 'messages/s' },
        { label: `dramatis, ${AGENTS} agents`, value: median(dramatis.map(({ rate }) => rate)), unit: 'messages/s' },
        {
          label: `dramatis, ${AGENTS} agents, threads new`,
          value: median(dramatis.map(({ rateAtFirst }) => rateAtFirst)),
          unit: 'messages/s',
        },
      ],
    }
  },
}
