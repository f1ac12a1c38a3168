import t from 'tap'
import { Dice } from '../dice.ts'
import { climb } from './slopes.ts'

const dice = new Dice(1)
const noise = () => dice.upTo(21) - 10
const series = (value: (at: number) => number, length = 26) => Array.from({ length }, (_, at) => value(at))

t.test('a series climbs if most pairs of its samples do, and by more than it may', async (t) => {
  t.equal(
    climb(
      series((at) => at, 9),
      0,
    ),
    undefined,
    'too few to tell',
  )
  t.equal(
    climb(
      series(() => 100),
      0,
    ),
    null,
  )
  t.equal(
    climb(
      series(() => 100 + noise()),
      5,
    ),
    null,
    'noise',
  )
  t.equal(
    climb(
      series((at) => (at === 25 ? 10_000 : 100 + noise())),
      5,
    ),
    null,
    'one sample of a busy moment',
  )
  t.equal(
    climb(
      series((at) => (at < 3 ? 10_000 : 100 + noise())),
      5,
    ),
    null,
    'it falls',
  )
  t.equal(
    climb(
      series((at) => 100 + at),
      50,
    ),
    null,
    'it may climb so far',
  )
  t.equal(
    climb(
      series((at) => 100 + 4 * at),
      50,
    ),
    100,
  )
  const rise =
    climb(
      series((at) => 100 + 4 * at + noise()),
      50,
    ) ?? 0
  t.ok(rise > 80 && rise < 120, `${rise} of 100, with noise`)
})
