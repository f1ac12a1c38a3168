/** How growth gets from samples to a reader. */
import t from 'tap'
import { growingOf, type Loaded } from '../../bench/load/load.ts'
import { loadText } from '../../bench/load/load-report.ts'
import type { Sample } from '../../bench/load/sampler.ts'

const MB = 2 ** 20
/** Four samples a second. */
const samplesFor = (count: number, grow: (seconds: number) => Partial<Sample>): Sample[] =>
  Array.from({ length: count }, (_, i) => {
    const seconds = i / 4
    return { seconds, rss: 100 * MB, heap: 20 * MB, external: 5 * MB, queued: 0, busy: 0.5, ...grow(seconds) }
  })

t.test('what grows is named, and nothing else is', async (t) => {
  t.strictSame(growing(samplesFor(120, () => ({}))), 'nothing')
  t.strictSame(
    growing(samplesFor(120, (seconds) => ({ heap: 20 * MB + seconds * MB }))),
    "the host's heap: +1 MB/s over the last 14.8 s",
  )
  t.strictSame(
    growing(samplesFor(120, (seconds) => ({ rss: 90 * MB + seconds * 3 * MB, queued: seconds * 40 }))),
    'memory of the process (rss): +3 MB/s over the last 14.8 s; what waits (queued): +40/s over the last 14.8 s',
  )
  t.strictSame(
    growing(samplesFor(120, (seconds) => ({ external: seconds * MB }))),
    "the host's external memory: +1 MB/s over the last 14.8 s",
  )
})

t.test('of a short test nothing is said', async (t) => {
  t.match(growing(samplesFor(20, (seconds) => ({ queued: seconds * 100 }))), /^too short to tell/)
})

t.test('counts that are not zero are told, and an error stays on its line', async (t) => {
  const text = loadText(
    loaded(
      samplesFor(1, () => ({})),
      {
        interrupted: true,
        unfinished: 2,
        notBegun: 3,
        failed: 7,
        failures: [{ code: 'TEAM_OVERLOADED', count: 7, message: 'all\nthis team takes' }],
      },
    ),
  )
  t.match(text, /^team\.ts: 5 executes per second, 2 at a time, 200 bytes each, for 10 s, interrupted$/m)
  t.match(text, /^executes +12 begun, 3 answered, 7 failed, 2 not finished, 3 due but never begun$/m)
  t.match(text, /^ +7 TEAM_OVERLOADED, the first: all this team takes$/m)
  t.match(text, /^latency +nothing was answered$/m)
  t.match(text, /^ +0\.0 +100\.0 +20\.0 +5\.0 +0 +50%$/m, 'one sample is one row')
})

function growing(samples: Sample[]): string | undefined {
  return loadText(loaded(samples, {})).match(/^growing +(.+)$/m)?.[1]
}

function loaded(samples: Sample[], fields: Partial<Loaded>): Loaded {
  return {
    plan: { file: 'team.ts', concurrency: 2, rate: 5, seconds: 10, size: 200 },
    interrupted: false,
    seconds: 10,
    begun: 12,
    answered: 3,
    failed: 0,
    failures: [],
    unfinished: 0,
    notBegun: 0,
    throughput: 0.3,
    latenciesMs: null,
    restarts: 0,
    deadLetters: 0,
    hostBusy: 0.5,
    samples,
    growing: growingOf(samples),
    ...fields,
  }
}
