/** How much of the host's event loop 100,000 messages/s take, from one agent to another. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { floorDetails } from './floors.ts'
import type { Paced } from './pacing.ts'
import { median } from './statistics.ts'

const FIGURE = 'host busy, share of the time'
const ROUNDS = 5
const PER_SECOND = 100_000
const FOR_MS = 1_500
/** A round that did not keep the pace answers another question. */
const PACE_KEPT = 0.95

export const b3: Benchmark<typeof FIGURE> = {
  id: 'B3',
  question: 'host busy at a paced 100,000 messages/s',
  must: { [FIGURE]: atMost(0.22) },
  goal: { [FIGURE]: atMost(0.15) },
  async run() {
    const relay: Paced[] = []
    const dramatis: Paced[] = []
    const floors: Paced[] = []
    for (let round = 0; round < ROUNDS; round++) {
      relay.push(await runProgram<Paced>('relay', ['paced', PER_SECOND, FOR_MS]))
      dramatis.push(await runProgram<Paced>('paced', [PER_SECOND, FOR_MS]))
      floors.push(await runProgram<Paced>('copies', ['paced', PER_SECOND, FOR_MS]))
    }
    const kept = dramatis.filter(({ rate }) => rate >= PER_SECOND * PACE_KEPT)
    const missed = ROUNDS - kept.length
    return {
      ratios: { [FIGURE]: kept.map(({ busy }) => busy) },
      details: [
        { label: 'relay of posted objects, reached', value: median(relay.map(({ rate }) => rate)), unit: 'messages/s' },
        { label: 'relay of posted objects, host busy', value: median(relay.map(({ busy }) => busy)), unit: 'x' },
        { label: 'dramatis, reached', value: median(dramatis.map(({ rate }) => rate)), unit: 'messages/s' },
        { label: 'dramatis, host busy', value: median(dramatis.map(({ busy }) => busy)), unit: 'x' },
        ...floorDetails('wake-ups and copies alone, host busy', 'x', busy(dramatis), busy(floors)),
      ],
      notes: missed === 0 ? [] : [`${missed} of ${ROUNDS} rounds fell behind the pace and do not count`],
    }
  },
}

const busy = (rounds: readonly Paced[]) => rounds.map(({ busy }) => busy)
