/** The criteria of success of document 002, section 6, that can be measured without a model, while an agent dies again and again. */
import { atLeast, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { Criteria } from './programs/criteria.ts'
import { median } from './statistics.ts'

const ORDER = 'messages in order'
const DELIVERY = 'accepted messages handled, once'
const COMPLETION = 'runs completed under faults'
const RECOVERY = 'deaths that were recovered from'
const ROUNDS = 3
const MESSAGES = 2_000
const RUNS = 100
const EVERY = 100

export const p30: Benchmark<typeof ORDER | typeof DELIVERY | typeof COMPLETION | typeof RECOVERY> = {
  id: 'P30',
  question: 'criteria of success, an agent dies of every 100th message',
  must: { [ORDER]: atLeast(1), [DELIVERY]: atLeast(0.999), [COMPLETION]: atLeast(0.9), [RECOVERY]: atLeast(0.95) },
  goal: { [ORDER]: atLeast(1), [DELIVERY]: atLeast(1), [COMPLETION]: atLeast(1), [RECOVERY]: atLeast(1) },
  async run() {
    const rounds: Criteria[] = []
    for (let round = 0; round < ROUNDS; round++)
      rounds.push(await runProgram<Criteria>('criteria', [MESSAGES, RUNS, EVERY]))
    return {
      ratios: {
        [ORDER]: rounds.map(({ handled, outOfOrder }) => 1 - outOfOrder / handled),
        // Who is handled twice counts against it as who is not at all.
        [DELIVERY]: rounds.map(({ messages, handled }) => 1 - Math.abs(messages - handled) / messages),
        [COMPLETION]: rounds.map(({ runs, completed }) => completed / runs),
        [RECOVERY]: rounds.map(({ crashes, recovered }) => recovered / crashes),
      },
      details: [{ label: 'deaths in a round', value: median(rounds.map(({ crashes }) => crashes)), unit: 'x' }],
    }
  },
}
