/** Percentiles and failures of a load test. */
import t from 'tap'
import { Tally } from '../../bench/load/tally.ts'
import { TeamOverloadedError } from '../../src/index.ts'

t.test('percentiles hold to three digits, over the whole range', async (t) => {
  const tally = new Tally()
  t.equal(tally.latencies, null, 'of nothing')
  for (let i = 1; i <= 10_000; i++) tally.answer(i)
  const { p50, p90, p99, p999, max } = tally.latencies!
  const expected: [number, number][] = [
    [p50, 5_000],
    [p90, 9_000],
    [p99, 9_900],
    [p999, 9_990],
    [max, 10_000],
  ]
  for (const [measured, exact] of expected) t.ok(Math.abs(measured / exact - 1) < 0.001, `${measured} for ${exact}`)
})

t.test('no percentile is beyond the largest, and no time is too short or too long', async (t) => {
  for (const tookMs of [0, 0.0004, 24.578, 7_200_000]) {
    const tally = new Tally()
    tally.answer(tookMs)
    const { p50, p999, max } = tally.latencies!
    t.ok(p50 <= max && p999 <= max, `${tookMs} ms`)
    t.ok(Math.abs(max - tookMs) <= 0.001)
  }
})

t.test('failures are counted by their code, the most frequent first, with the first message', async (t) => {
  const tally = new Tally()
  tally.fail(new TypeError('of somebody else'))
  tally.fail(new TeamOverloadedError('first', {}))
  tally.fail(new TeamOverloadedError('second', {}))
  t.equal(tally.failed, 3)
  t.strictSame(tally.failures, [
    { code: 'TEAM_OVERLOADED', count: 2, message: 'first' },
    { code: 'UNKNOWN', count: 1, message: 'of somebody else' },
  ])
})
