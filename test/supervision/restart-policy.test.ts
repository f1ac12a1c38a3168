/** Rules 2 and 3 as the pure function that they are: when a dead agent lives again. */
import fc from 'fast-check'
import t from 'tap'
import type { RestartTime } from '../../src/runtime/host/agent.ts'
import { groupOf, livesAgain, nextRestart, type RestartPolicy } from '../../src/runtime/supervision/restarts.ts'

const policy: RestartPolicy = { maxRestarts: 3, withinMs: 60_000, backoff: { baseMs: 200, capMs: 10_000 } }
const most = () => 1
const least = () => 0

/** Lets an agent die at these times; the delays of its restarts, null where it is stopped. */
function delaysOf(
  times: readonly number[],
  { random = most, ...changes }: Partial<RestartPolicy & { random: () => number }> = {},
) {
  let history: readonly RestartTime[] = []
  return times.map((at, epoch) => {
    const next = nextRestart({ ...policy, ...changes }, history, at, epoch + 1, random)
    history = next.history
    return next.restart ? next.delayMs : null
  })
}

t.test('rule 2: three restarts within the window are granted, the fourth is not', async (t) => {
  t.same(
    delaysOf([0, 1, 2, 3]).map((delay) => delay !== null),
    [true, true, true, false],
  )
})

t.test('rule 2: the window slides, and a death at its very end no longer counts', async (t) => {
  const times = [0, 20_000, 40_000]
  t.equal(delaysOf([...times, 59_999]).at(-1), null)
  t.not(delaysOf([...times, 60_000]).at(-1), null)
})

t.test('rule 2: no restart at all with maxRestarts 0, any number with Infinity', async (t) => {
  t.same(delaysOf([0], { maxRestarts: 0 }), [null])
  const times = Array.from({ length: 100 }, (_, i) => i)
  t.notOk(delaysOf(times, { maxRestarts: Number.POSITIVE_INFINITY }).includes(null))
})

t.test('rule 2: the history is of the deaths in the window, each with its epoch', async (t) => {
  const history = [
    { at: 0, epoch: 1, delayMs: 0 },
    { at: 50_000, epoch: 2, delayMs: 0 },
  ]
  t.same(nextRestart(policy, history, 70_000, 3, most).history, [
    { at: 50_000, epoch: 2, delayMs: 0 },
    { at: 70_000, epoch: 3, delayMs: 0 },
  ])
})

t.test('rule 3: the first restart is immediate, then the delay doubles from base to cap', async (t) => {
  const maxRestarts = 10
  t.same(delaysOf([0, 1, 2, 3, 4, 5, 6, 7, 8], { maxRestarts }), [0, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000])
})

t.test('rule 3: jitter takes up to half of the delay away and never exceeds the cap', async (t) => {
  const maxRestarts = 10
  t.same(delaysOf([0, 1, 2, 3], { maxRestarts, random: least }), [0, 100, 200, 400])
  t.same(delaysOf([0, 1, 2], { maxRestarts, backoff: { baseMs: 500, capMs: 300 } }), [0, 300, 300])
})

t.test('rule 3: the delay begins anew after (base + cap) / 2 of health, and not before', async (t) => {
  const health = (200 + 10_000) / 2
  t.same(delaysOf([0, health]), [0, 200])
  t.same(delaysOf([0, health + 1]), [0, 0])
})

t.test('rule 3: the time that it is kept down is no health: who dies at once every time reaches the cap', async (t) => {
  const patient = { ...policy, maxRestarts: Number.POSITIVE_INFINITY }
  const delays: number[] = []
  let history: readonly RestartTime[] = []
  for (let now = 0; delays.length < 12; now += 1 + delays.at(-1)!) {
    const next = nextRestart(patient, history, now, delays.length + 1, most)
    history = next.history
    delays.push(next.delayMs)
  }
  t.same(delays, [0, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000, 10_000])
})

const policies = fc.record({
  maxRestarts: fc.integer({ min: 0, max: 6 }),
  withinMs: fc.integer({ min: 1, max: 100_000 }),
  backoff: fc.record({ baseMs: fc.integer({ min: 0, max: 5_000 }), capMs: fc.integer({ min: 0, max: 20_000 }) }),
})
const pauses = fc.array(fc.integer({ min: 0, max: 40_000 }), { minLength: 1, maxLength: 40 })
const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

/** The times after these pauses. */
const after = (gaps: readonly number[]) => gaps.map((_, i) => gaps.slice(0, i + 1).reduce((sum, gap) => sum + gap, 0))

t.test('rule 2: never are more than maxRestarts granted within any window', async (t) => {
  fc.assert(
    fc.property(policies, pauses, chance, (changes, gaps, drawn) => {
      const times = after(gaps)
      const granted = delaysOf(times, { ...changes, random: () => drawn }).map((delay) => delay !== null)
      return times.every((at, i) => {
        const inWindow = times.filter((other, j) => j <= i && granted[j] && at - other < changes.withinMs)
        return inWindow.length <= changes.maxRestarts
      })
    }),
  )
  t.pass('for policies and deaths at random')
})

t.test('rule 2: a death is refused only when as many as maxRestarts came before it in the window', async (t) => {
  fc.assert(
    fc.property(policies, pauses, chance, (changes, gaps, drawn) => {
      const times = after(gaps)
      return delaysOf(times, { ...changes, random: () => drawn }).every((delay, i) => {
        const before = times.filter((other, j) => j < i && times[i]! - other < changes.withinMs).length
        return (delay === null) === before >= changes.maxRestarts
      })
    }),
  )
  t.pass('for policies and deaths at random')
})

t.test('rule 3: every delay is 0, or within half of and the whole capped exponential', async (t) => {
  fc.assert(
    fc.property(policies, pauses, chance, (changes, gaps, drawn) => {
      const { baseMs, capMs } = changes.backoff
      const grown = Array.from({ length: 41 }, (_, n) => Math.min(capMs, baseMs * 2 ** n))
      const delays = delaysOf(after(gaps), { ...changes, maxRestarts: 100, random: () => drawn })
      return delays.every(
        (delay) =>
          delay === 0 || (delay !== null && delay <= capMs && grown.some((full) => full / 2 <= delay && delay <= full)),
      )
    }),
  )
  t.pass('for policies and deaths at random')
})

t.test('rule 1: who goes with one that died', async (t) => {
  const all = ['a', 'b', 'c']
  t.same(groupOf('one_for_one', all, 'b'), ['b'])
  t.same(groupOf('rest_for_one', all, 'b'), ['b', 'c'])
  t.same(groupOf('one_for_all', all, 'b'), ['a', 'b', 'c'])
})

t.test('rule 1: who is none of them goes alone', async (t) => {
  for (const strategy of ['one_for_one', 'rest_for_one', 'one_for_all'] as const)
    t.same(groupOf(strategy, ['a', 'b'], 'script'), ['script'])
})

t.test('rule 1: which kinds live again, after an end of their own and after a crash', async (t) => {
  const fates = (['permanent', 'transient', 'temporary'] as const).map((type) => [
    livesAgain(type, true),
    livesAgain(type, false),
  ])
  t.same(fates, [
    [true, true],
    [false, true],
    [false, false],
  ])
})
