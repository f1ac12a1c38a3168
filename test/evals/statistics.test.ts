/** Statistics of scores, by simulation: what is found where nothing is, and what is found where something is. */
import t from 'tap'
import { agreementOf, comparisonOf, fewestFound, holm, intervalOf, meanOf } from '../../src/evals/statistics.ts'
import { seededRandom } from '../../src/shared/random.ts'
import { howMany } from '../how-many.ts'

const REPEATS = 5

/** Draws suites of cases, each of its own difficulty, whose chances are better by `effect` the second time. */
function* suites(cases: number, effect: number, count: number) {
  for (let suite = 1; suite <= count; suite++) {
    const random = seededRandom([suite, cases, 5, 7])
    const chances = Array.from({ length: cases }, () => 0.3 + 0.4 * random())
    const played = (more: number) =>
      chances.map((chance) => meanOf(Array.from({ length: REPEATS }, () => Number(random() < chance + more))))
    yield [played(0), played(effect)] as const
  }
}

const foundIn = (cases: number, effect: number, count: number): number => {
  const all = [...suites(cases, effect, count)]
  return all.filter(([before, now]) => comparisonOf(before, now).p < 0.05).length / count
}

t.test('where there is no difference, one is seldom found', async (t) => {
  for (const cases of [10, 30, 100]) {
    const found = foundIn(cases, 0, howMany(100, 1_000)) // a share of fewer says nothing
    t.ok(found <= 0.06, `${cases} cases: ${found}`)
  }
})

t.test('a difference of 0.2 is found in 100 cases, and less often in fewer', async (t) => {
  const count = howMany(10, 1_000)
  const [few, many] = [foundIn(10, 0.2, count), foundIn(100, 0.2, count)]
  t.ok(many >= 0.95, `${many}`)
  t.ok(few < 0.7, `${few}`)
})

t.test('the smallest difference that is told is found in about 80 %', async (t) => {
  const [before, now] = [...suites(100, 0, 1)][0]!
  const { smallest } = comparisonOf(before, now)
  const found = foundIn(100, smallest!, howMany(15, 1_000))
  t.ok(found > 0.7 && found < 0.92, `${smallest}: ${found}`)
})

t.test('an interval holds the mean that it is about', async (t) => {
  const of = (cases: number, chance: number) => {
    const count = howMany(25, 2_000)
    let held = 0
    for (let suite = 1; suite <= count; suite++) {
      const random = seededRandom([suite, cases, 11, 13])
      const { low, high } = intervalOf(Array.from({ length: cases }, () => Number(random() < chance)))
      if (low <= chance && chance <= high) held += 1
    }
    return held / count
  }
  for (const [cases, chance] of [
    [10, 0.97],
    [10, 0.5],
    [29, 0.9],
    [100, 0.5],
  ] as const) {
    const held = of(cases, chance)
    t.ok(held >= 0.9, `${cases} cases at ${chance}: ${held}`)
  }
})

t.test('small numbers are told as they are', async (t) => {
  t.match(intervalOf([1, 1, 1]), { mean: 1, high: 1, n: 3, method: 'wilson' })
  t.ok(intervalOf([1, 1, 1]).low < 0.5)
  t.match(comparisonOf([0.5, 0.5], [0.5, 0.5]), { difference: 0, low: 0, high: 0, p: 1, smallest: null })
  t.match(comparisonOf([0, 0, 0, 1], [1, 1, 1, 1]), { difference: 0.75, p: 0.25, smallest: null, differing: 3 })
  t.equal(fewestFound([1], 0, 0.05), 6)
  t.equal(fewestFound([1], 0, 0), undefined)
  t.equal(fewestFound([1, 0.01], 0, 0.05), 6, 'the other one is found, so this is corrected for itself alone')
  t.equal(fewestFound([1, 0.9], 0, 0.05), 7, 'corrected for two')
  t.equal(comparisonOf(Array(6).fill(0), Array(6).fill(1)).p, 2 / 64)
  t.same(comparisonOf([0.1, 0.4], [0.3, 0.2]), comparisonOf([0.1, 0.4], [0.3, 0.2]))
})

t.test('chances of several scorers are corrected in their order', async (t) => {
  t.same(
    holm([0.01, 0.04, 0.03]).map((p) => p.toFixed(2)),
    ['0.03', '0.06', '0.06'],
  )
  t.same(holm([0.6, 0.9]), [1, 1])
  t.same(holm([]), [])
})

t.test('agreement is kappa, by the distance of words', async (t) => {
  const times = (count: number, pair: [number, number]) => Array.from({ length: count }, () => pair)
  const two = [...times(20, [1, 1]), ...times(5, [1, 0]), ...times(10, [0, 1]), ...times(15, [0, 0])]
  const of = (pairs: [number, number][], words: number) => agreementOf(pairs, words).kappa?.toFixed(3)
  t.equal(of(two, 2), '0.400')
  t.equal(
    of(
      [
        [0, 0],
        [1, 1],
        [2, 2],
        [0, 2],
      ],
      3,
    ),
    '0.500',
  )
  t.equal(of(times(30, [1, 1]), 2), '0.000', 'one word alone says nothing')
  const { low, high, labelled } = agreementOf(two, 2)
  t.ok(low! > 0.1 && low! < 0.2 && high! > 0.6 && high! < 0.7, `${low} to ${high}`)
  t.equal(labelled, 50)
})
