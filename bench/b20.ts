/** What it costs to be watched: the host's time for a message, unwatched, by the digest and by events. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { median } from './statistics.ts'

const DIGEST = 'host time, digest over unwatched'
const EVENTS = 'host time, events over unwatched'
const ROUNDS = 5
const MESSAGES = 50_000
const WATCHED = ['nobody', 'digest', 'events'] as const

interface Watched {
  hostUs: number
  bytes: number
}

export const b20: Benchmark<typeof DIGEST | typeof EVENTS> = {
  id: 'B20',
  question: 'what a watcher costs, two agents at full speed',
  must: { [DIGEST]: atMost(1.1), [EVENTS]: atMost(6) },
  goal: { [DIGEST]: atMost(1.05), [EVENTS]: atMost(4) },
  async run() {
    const rounds = { nobody: [], digest: [], events: [] } as Record<(typeof WATCHED)[number], Watched[]>
    for (let round = 0; round < ROUNDS; round++)
      for (const how of WATCHED) rounds[how].push(await runProgram<Watched>('watched', [how, MESSAGES]))
    const over = (how: 'digest' | 'events') =>
      rounds[how].map(({ hostUs }, round) => hostUs / rounds.nobody[round]!.hostUs)
    return {
      ratios: { [DIGEST]: over('digest'), [EVENTS]: over('events') },
      details: WATCHED.map((how) => ({
        label: how === 'nobody' ? 'a message, unwatched' : `a message, ${how} as JSON`,
        value: median(rounds[how].map(({ hostUs }) => hostUs)),
        unit: 'us' as const,
      })),
      notes: (['digest', 'events'] as const).map(
        (how) => `${how}: ${Math.round(median(rounds[how].map(({ bytes }) => bytes)))} bytes of JSON a message`,
      ),
    }
  },
}
