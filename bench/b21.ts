/** How soon the first words of a model reach who reads a run, over the same call by the bare client. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { FirstToken } from './programs/first-token.ts'
import { median } from './statistics.ts'

const TEXT = 'first words by run.text(), less 5 ms, over the bare client'
const STREAM = 'the same by run.stream()'
const ROUNDS = 3
const CALLS = 300
/** Time that a team may take beyond the ratio, in ms. */
const ALLOWED_MS = 5

export const b21: Benchmark<typeof TEXT | typeof STREAM> = {
  id: 'B21',
  question: 'first words of a model, to who reads the run',
  must: { [TEXT]: atMost(1.1), [STREAM]: atMost(1.1) },
  goal: { [TEXT]: atMost(0), [STREAM]: atMost(0) },
  async run() {
    const rounds: FirstToken[] = []
    for (let round = 0; round < ROUNDS; round++) rounds.push(await runProgram<FirstToken>('first-token', [CALLS]))
    const over = (way: 'text' | 'stream') =>
      rounds.map((round) => Math.max(0, median(round[way]) - ALLOWED_MS) / median(round.bare))
    const middle = (way: keyof FirstToken) => median(rounds.map((round) => median(round[way])))
    const late = (way: keyof FirstToken) =>
      median(rounds.map((round) => [...round[way]].sort((a, b) => a - b)[Math.floor(0.95 * CALLS)]!))
    return {
      ratios: { [TEXT]: over('text'), [STREAM]: over('stream') },
      details: (['bare', 'text', 'stream'] as const).flatMap((way) => [
        { label: `${LABELS[way]}, p50`, value: middle(way), unit: 'ms' as const },
        { label: `${LABELS[way]}, p95`, value: late(way), unit: 'ms' as const },
      ]),
      notes: ['the server answers at once, so all of the time is that of the clients and of the team'],
    }
  },
}

const LABELS = { bare: 'the bare client', text: 'run.text()', stream: 'run.stream()' }
