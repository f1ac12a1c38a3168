/** Agents without a thread: what a registered one takes, and how soon one of them gets a thread. */
import { atLeast, atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { RegisteredCosts } from './programs/registered-agents.ts'
import { median } from './statistics.ts'

const HEAP = 'KB of heap for an agent without a thread'
const RATE = 'activations a second'
const ROUNDS = 3
const AGENTS = 10_000
const THREADS = 16
const REQUESTS = 400

export const b13: Benchmark<typeof HEAP | typeof RATE> = {
  id: 'B13',
  question: '10,000 registered agents, 16 threads (and B10b: what such an agent takes)',
  must: { [HEAP]: atMost(64), [RATE]: atLeast(40) },
  goal: { [HEAP]: atMost(8), [RATE]: atLeast(200) },
  async run() {
    const rounds: RegisteredCosts[] = []
    for (let round = 0; round < ROUNDS; round++)
      rounds.push(await runProgram<RegisteredCosts>('registered-agents', [AGENTS, THREADS, REQUESTS]))
    return {
      ratios: {
        [HEAP]: rounds.map(({ heapKb }) => heapKb),
        [RATE]: rounds.map(({ activationsPerS }) => activationsPerS),
      },
      details: [{ label: 'start of the team', value: median(rounds.map(({ startMs }) => startMs)), unit: 'ms' }],
      notes: ['KB here are 2^10 bytes; each request is for an agent that has no thread'],
    }
  },
}
