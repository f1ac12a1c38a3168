/** Agents without a thread: what a registered one takes, and how soon one of them gets a thread. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
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
      details: [
        { label: 'start of the team', value: median(rounds.map(({ startMs }) => startMs)), unit: 'ms' },
        { label: 'the floor: a raw thread, two side by side', value: await rawThreadMs(), unit: 'ms' },
      ],
      notes: ['KB here are 2^10 bytes; each request is for an agent that has no thread'],
    }
  },
}

const RAW = 100
const SIDE_BY_SIDE = 2

/** What a thread takes of the time that starts, posts one message and ends. */
async function rawThreadMs(): Promise<number> {
  let left = RAW
  const one = async () => {
    while (left-- > 0) {
      const worker = new Worker('require("node:worker_threads").parentPort.postMessage(0)', { eval: true, env: {} })
      await once(worker, 'exit')
    }
  }
  const since = performance.now()
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, one))
  return (performance.now() - since) / RAW
}
