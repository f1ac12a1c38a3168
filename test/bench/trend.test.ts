/** What a load test calls growing, and what it does not. */
import t from 'tap'
import { ENOUGH_SAMPLES, growthOf } from '../../bench/load/trend.ts'

const MB = 2 ** 20
/** Four samples a second for 30 s. */
const samples = (value: (seconds: number) => number) =>
  Array.from({ length: 120 }, (_, i): [number, number] => [i / 4, value(i / 4)])
/** Up and down by 1, without a pattern that a line could follow. */
const noise = (seconds: number) => Math.sin(seconds * 1_000)

t.test('a steady rise is named with its slope and how long it was seen', async (t) => {
  const growth = growthOf(
    samples((seconds) => 100 * MB + seconds * 2 * MB + noise(seconds) * MB),
    4 * MB,
  )
  t.ok(growth)
  t.ok(Math.abs(growth!.perSecond / MB - 2) < 0.1, `${growth!.perSecond}`)
  t.ok(Math.abs(growth!.rise / MB - 29.5) < 1.5, `${growth!.rise}`)
  t.equal(growth!.overSeconds, 14.75)
})

t.test('what levels off, falls or only wavers does not grow', async (t) => {
  const steady: Record<string, (seconds: number) => number> = {
    constant: () => 100 * MB,
    zero: () => 0,
    wavering: (seconds) => (100 + 20 * noise(seconds)) * MB,
    'growing in the first half alone': (seconds) => Math.min(seconds, 14) * 20 * MB,
    falling: (seconds) => (500 - seconds * 10) * MB,
    'a saw of a collector, 3 s long': (seconds) => (50 + (seconds % 3) * 20) * MB,
  }
  for (const [name, value] of Object.entries(steady)) t.equal(growthOf(samples(value), 4 * MB), null, name)
})

t.test('a rise that is small, by itself or beside what is there, does not count', async (t) => {
  const rising = samples((seconds) => 1_000 + seconds * 2) // 29.5 over the second half
  t.equal(growthOf(rising, 1), null, 'less than a tenth of the mean')
  const fromNothing = samples((seconds) => seconds * 2)
  t.ok(growthOf(fromNothing, 29))
  t.equal(growthOf(fromNothing, 30), null, 'less than the least rise')
})

t.test('a rise with one step back is a rise all the same', async (t) => {
  const growth = growthOf(
    samples((seconds) => (seconds * 10 - (seconds > 22 ? 20 : 0)) * MB),
    4 * MB,
  )
  t.ok(growth)
})

t.test('too few samples say nothing', async (t) => {
  const rising = samples((seconds) => seconds * MB)
  t.equal(growthOf([], 1), undefined)
  t.equal(growthOf(rising.slice(0, 2 * (ENOUGH_SAMPLES - 1)), 1), undefined)
  t.ok(growthOf(rising.slice(0, 2 * ENOUGH_SAMPLES), 1))
})
