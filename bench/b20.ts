/** What it costs to be watched: the host's time for a message, unwatched, by the digest and by events. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { Watched } from './programs/watched.ts'
import { median } from './statistics.ts'

const DIGEST = 'host time, digest over unwatched'
const EVENTS = 'host time, events over unwatched'
const ROUNDS = 5
const MESSAGES = 50_000
/** Of each kind, in a round. */
const LAPS = 6

export const b20: Benchmark<typeof DIGEST | typeof EVENTS> = {
  id: 'B20',
  question: 'what a watcher costs, two agents at full speed',
  must: { [DIGEST]: atMost(1.1), [EVENTS]: atMost(6) },
  goal: { [DIGEST]: atMost(1.05), [EVENTS]: atMost(4) },
  async run() {
    const digest: Watched[] = []
    const events: Watched[] = []
    for (let round = 0; round < ROUNDS; round++) {
      digest.push(await runProgram<Watched>('watched', ['digest', MESSAGES, LAPS]))
      events.push(await runProgram<Watched>('watched', ['events', MESSAGES, LAPS]))
    }
    const ratios = (rounds: Watched[]) => rounds.map(({ watchedUs, unwatchedUs }) => watchedUs / unwatchedUs)
    const us = (label: string, values: number[]) => ({ label, value: median(values), unit: 'us' as const })
    const bytes = (rounds: Watched[]) => median(rounds.map((round) => round.bytes)).toFixed(1)
    return {
      ratios: { [DIGEST]: ratios(digest), [EVENTS]: ratios(events) },
      details: [
        us(
          'a message, unwatched',
          [...digest, ...events].map(({ unwatchedUs }) => unwatchedUs),
        ),
        us(
          'a message, digest as JSON',
          digest.map(({ watchedUs }) => watchedUs),
        ),
        us(
          'a message, events as JSON',
          events.map(({ watchedUs }) => watchedUs),
        ),
      ],
      notes: [`digest: ${bytes(digest)} bytes of JSON a message, events: ${bytes(events)}`],
    }
  },
}
