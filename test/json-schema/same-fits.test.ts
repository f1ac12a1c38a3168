/**
 * Random schemas and values: the check accepts what another implementation of JSON Schema accepts.
 *
 *   npm test   600 schemas      npm run test:deep   100,000
 */
import { type Schema, validate } from '@cfworker/json-schema'
import t from 'tap'
import { issuesOf } from '../../src/json-schema/check.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { schema, value } from './random-schemas.ts'

const SCHEMAS = howMany(600, 100_000)
t.test('the same values fit', async (t) => {
  const other: string[] = []
  let fitting = 0
  for (let seed = 1; seed <= SCHEMAS; seed++) {
    const dice = new Dice(seed)
    const made = { ...Object(schema(dice, 3)), $defs: { one: schema(dice, 1, false), two: {} } }
    for (let n = 0; n < 8; n++) {
      const given = value(dice, 3)
      const fits = validate(given, made as Schema, '2020-12').valid
      fitting += Number(fits)
      const issues = issuesOf(made, given)
      if (fits !== (issues.length === 0)) other.push(JSON.stringify({ made, given, fits, issues }))
    }
  }
  t.same(other.slice(0, 3), [])
  t.ok(fitting > SCHEMAS, `${fitting} values fit`)
})
