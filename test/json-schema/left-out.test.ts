/** Keywords that cannot be checked by are left out, so that what fits the whole schema is never refused. */
import t from 'tap'
import { foreignSchema } from '../../src/json-schema/foreign-schema.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { schema, value } from './random-schemas.ts'

async function read(jsonSchema: object) {
  const leftOut: string[] = []
  const made = await foreignSchema(jsonSchema, (place) => void leftOut.push(place))
  const fits = async (given: unknown) => !(await made['~standard'].validate(given)).issues
  return { leftOut, fits }
}

const strange = [
  '[\\w-.]',
  '(?i)abc',
  '(?P<y>\\d)',
  '\\Aa\\Z',
  '[[:alpha:]]+',
  '\\#',
  'a++',
  '(?>a)',
  '[a',
  '\\',
  '(?=a)b',
  '(a)\\1',
]

t.test('patterns that are none, or that cannot be matched in linear time, are left out and told', async (t) => {
  for (const pattern of [...strange, '(a{30}){100}']) {
    const { leftOut, fits } = await read({
      type: 'object',
      properties: { a: { type: 'string', pattern } },
      required: ['a'],
    })
    t.same(leftOut, ['properties.a.pattern'], pattern)
    t.ok(await fits({ a: '!' }), pattern)
    t.notOk(await fits({ a: 1 }), 'the rest is checked')
    t.notOk(await fits({}), 'the rest is checked')
  }
})

/** What cannot be checked by, with a value that may fit, and with one that still does not. */
const odd: [jsonSchema: object, leftOut: string[], fitting: unknown, other?: unknown][] = [
  [{ minimum: 1, exclusiveMinimum: true, type: 'number' }, ['exclusiveMinimum'], 1, 0],
  [{ maximum: 1, exclusiveMaximum: false, type: 'number' }, ['exclusiveMaximum'], 1, 2],
  [{ properties: { a: { type: 'string', required: true } } }, ['properties.a.required'], {}, { a: 1 }],
  [{ type: 'any', minLength: 2 }, ['type'], 5, 'a'],
  [{ type: 'object', properties: [], additionalProperties: false }, ['properties'], { a: 1 }, 1],
  [
    { patternProperties: { '[\\w-.]': {}, '^b': { type: 'null' } }, additionalProperties: false },
    ['patternProperties'],
    { a: 1 },
    { b: 1 },
  ],
  [{ type: 'object', unevaluatedProperties: false }, ['unevaluatedProperties'], { a: 1 }, 1],
  [{ $ref: 'http://127.0.0.1:1/schema.json', type: 'string' }, ['$ref'], 'a', 1],
  [{ type: 'string', not: { pattern: '\\#' } }, ['not.pattern'], 'a', 1],
  [{ if: { pattern: '\\#' }, else: { type: 'null' } }, ['if.pattern'], 'a'],
  [
    { oneOf: [{ type: 'string', pattern: '\\#' }, { type: 'string', pattern: '\\@' }, { type: 'number' }] },
    ['oneOf.0.pattern', 'oneOf.1.pattern'],
    'a',
    true,
  ],
  [{ contains: { pattern: '\\#' }, maxContains: 1 }, ['contains.pattern'], ['a', 'b'], []],
  [{ $ref: '#/oneOf/0', oneOf: [{ type: 'string', pattern: '\\#' }, {}] }, ['oneOf.0.pattern'], 'a', 1],
]

t.test('so are other keywords, and what would refuse too much without them', async (t) => {
  for (const [jsonSchema, places, fitting, other] of odd) {
    const { leftOut, fits } = await read(jsonSchema)
    const shown = JSON.stringify(jsonSchema)
    t.same(leftOut, places, shown)
    t.ok(await fits(fitting), shown)
    if (other !== undefined) t.notOk(await fits(other), shown)
  }
})

t.test('a schema without such keywords is checked as it is', async (t) => {
  const { leftOut, fits } = await read({
    not: { type: 'string', pattern: '^a' },
    oneOf: [{ minimum: 1 }, { maximum: 3 }],
  })
  t.same(leftOut, [])
  t.notOk(await fits('a'))
  t.notOk(await fits(2))
  t.ok(await fits(4))
})

t.test('a schema beyond a bound is still refused', async (t) => {
  await t.rejects(read({ enum: ['x'.repeat(300_000)], pattern: '\\#' }), { message: /more than 262144 characters/ })
})

/** The same schema, in which some of its patterns and types cannot be read. */
function spoiled(dice: Dice, part: unknown, key = ''): unknown {
  if (key === 'enum' || key === 'const') return part
  if (Array.isArray(part)) return part.map((each) => spoiled(dice, each))
  if (typeof part !== 'object' || part === null) return part
  const entries = Object.entries(part).map(([name, value]) => {
    const isHit = dice.chance(0.5)
    if (isHit && key === 'patternProperties') return [`${name}\\#`, value]
    if (isHit && name === 'pattern' && typeof value === 'string') return [name, `${value}\\#`]
    if (isHit && name === 'type' && typeof value === 'string') return [name, 'any']
    return [name, spoiled(dice, value, name)]
  })
  return Object.fromEntries(entries)
}

t.test('whatever fits a schema fits what is left of it', async (t) => {
  const refused: string[] = []
  const seeds = howMany(600, 100_000)
  let spoilt = 0
  for (let seed = 1; seed <= seeds; seed++) {
    const dice = new Dice(seed)
    const whole = { ...Object(schema(dice, 3)), $defs: { one: schema(dice, 1, false), two: {} } }
    const rest = spoiled(dice, whole) as object
    const [one, other] = [await read(whole), await read(rest)]
    spoilt += Number(other.leftOut.length > 0)
    for (let n = 0; n < 8; n++) {
      const given = value(dice, 3)
      if ((await one.fits(given)) && !(await other.fits(given))) refused.push(JSON.stringify({ whole, rest, given }))
    }
  }
  t.same(refused.slice(0, 3), [])
  t.ok(spoilt > seeds / 6, `${spoilt} are spoilt`)
})
