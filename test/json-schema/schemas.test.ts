/** Schemas of strangers: what fits, what is left out, and what would hold a checker. */
import { type Schema, validate } from '@cfworker/json-schema'
import t from 'tap'
import { regexes } from 'zod'
import { issuesOf } from '../../src/json-schema/check.ts'
import { foreignSchema } from '../../src/json-schema/foreign-schema.ts'
import { laterSchema } from '../../src/json-schema/later-schema.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { schema, value } from './random-schemas.ts'

// Random schemas and values: the check accepts what another implementation of JSON Schema accepts.
//
// npm test   600 schemas      npm run test:deep   100,000

const SCHEMAS = howMany(150, 100_000)
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

// Keywords that cannot be checked by are left out, so that what fits the whole schema is never refused.

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
  const seeds = howMany(150, 100_000)
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

// Schemas of strangers: what holds a checker is refused with its bound, or checked in a number of steps that has
// one.

const nested = (depth: number): object => (depth === 0 ? {} : { items: nested(depth - 1) })
const list = <T>(length: number, make: (at: number) => T): T[] => Array.from({ length }, (_, at) => make(at))

/** What is refused, with what is said. */
const refused: [schema: object, says: RegExp][] = [
  [nested(100), /^it has more than 64 levels of nesting; got 65$/],
  [{ enum: ['x'.repeat(300_000)] }, /more than 262144 characters; got 3000\d\d/],
  [{ allOf: list(600, () => ({})) }, /more than 512 branches of anyOf, oneOf and allOf; got 600/],
  [{ items: { anyOf: list(400, () => ({})) }, oneOf: list(200, () => ({})) }, /more than 512 branches/],
  [{ properties: Object.fromEntries(list(600, (at) => [`p${at}`, { $ref: '#' }])) }, /more than 512 references/],
  [{ $ref: `#${'/a'.repeat(1_000)}` }, /more than 1000 characters in a reference; got 2001/],
  [{ $ref: 'http://127.0.0.1:1/schema.json' }, /refers to "http:.*", which is not within it/],
  [{ $ref: '#/$defs/none' }, /refers to "#\/\$defs\/none", which is not there/],
  [{ $ref: '#/constructor' }, /which is not there/],
  [{ allOf: list(100, (at) => ({ pattern: `a${at}` })) }, /more than 64 patterns; got 65/],
  [{ pattern: '.{0,999}x'.repeat(10) }, /pattern ".*" is not possible: it has 10000 parts/],
  [{ pattern: `(${'a'.repeat(900)}){1000}` }, /more than 20000 parts in all patterns together; got 901000/],
  [{ pattern: '((((a{30}){30}){30}){30})' }, /more than 20000 parts/],
  [{ pattern: '^(?=a)b' }, /pattern "\^\(\?=a\)b" is not possible: .*Look-around and back references are not/],
  [{ pattern: '(a)\\1' }, /is not possible/],
  [{ patternProperties: { '(?<!a)b': {} } }, /is not possible/],
  [{ pattern: '[a' }, /is not possible/],
  [{ minItems: 1e9 }, /more than 10000 minItems; got 1000000000/],
  [{ unevaluatedProperties: false }, /keyword "unevaluatedProperties" is not possible/],
  [{ type: 'text' }, /"type" is "text"; accepted: a type, or a list of types/],
  [{ properties: [] }, /"properties" is \[\]; accepted: an object of schemas/],
  [{ anyOf: [] }, /"anyOf" is \[\]; accepted: a list of schemas/],
  [{ minimum: '1' }, /"minimum" is "1"; accepted: a number/],
]

t.test('a schema beyond a bound is refused, with the bound and what came', async (t) => {
  for (const [schema, message] of refused) await t.rejects(foreignSchema(schema), { message })
})

const deep = (depth: number): object => (depth === 0 ? {} : { x: deep(depth - 1) })
const twice = { properties: { x: { $ref: '#/$defs/a' } }, required: ['x', 'q'] }
const a = 'a'.repeat(50_000)

/** What is checked, and does not fit. */
const checked: [schema: object, value: unknown, says: RegExp][] = [
  [{ pattern: '^(a+)+$' }, `${a}!`, /must match the pattern/],
  [{ pattern: '(x+x+)+y' }, 'x'.repeat(50_000), /must match the pattern/],
  [{ pattern: '^([a-z]+)*\\d$' }, a, /must match the pattern/],
  [{ patternProperties: { '^(a+)+$': false } }, { [a]: 1 }, /must not be there/],
  [{ propertyNames: { pattern: '^(a|aa)+$' } }, { [`${a}!`]: 1 }, /must match the pattern/],
  [{ format: 'email' }, `${a}@`, /must be of the format email/],
  [{ pattern: '^[ab]*a[ab]{200}[cd]$' }, 'ab'.repeat(500_000), /takes more than 200000 steps/],
  [{ $ref: '#/$defs/a', $defs: { a: { anyOf: [twice, twice] } } }, deep(100), /takes more than 200000 steps/],
  [{ $ref: '#' }, 1, /leads more than 400 levels deep/],
  [{ allOf: [{ $ref: '#' }, { $ref: '#' }] }, 1, /leads more than 400 levels deep/],
  [{ items: { enum: list(9_000, (at) => `v${at}`) } }, list(60_000, () => 'z'), /takes more than 200000 steps/],
  [
    { items: { allOf: list(500, () => ({ uniqueItems: true })) } },
    list(10, () => list(1_000, (at) => `${'x'.repeat(1_000)}${at}`)),
    /takes more than 200000 steps/,
  ],
  [{ items: { const: list(5_000, () => 'x') } }, list(100, () => list(5_000, () => 'x')), /more than 200000 steps/],
  [{ $ref: '#/default', default: { pattern: '^(a+)+$' } }, `${a}!`, /refers to what is an example/],
  [{ required: ['constructor', 'toString'] }, {}, /must have required property 'constructor'/],
]

t.test('a value is checked in bounded steps, and what takes more does not fit', async (t) => {
  for (const [schema, value, message] of checked) {
    const { issues } = await (await foreignSchema(schema))['~standard'].validate(value)
    t.match(issues?.[0]?.message, message, JSON.stringify(schema).slice(0, 80))
  }
})

t.test('what clients write for their formats is accepted, though it looks ahead', async (t) => {
  for (const [pattern, value] of [
    [regexes.email, 'ann@example.com'],
    [regexes.uuid(), '01890a5d-ac96-774b-bcce-b302099a8057'],
    [regexes.datetime({ offset: true }), '2026-11-29T05:00:00Z'],
    [/^\d{4}-\d{2}$/, '2026-11'],
    [/^\p{Lu}/u, 'Ä'],
  ] as const) {
    const schema = await foreignSchema({ type: 'string', pattern: pattern.source })
    t.same(await schema['~standard'].validate(value), { value }, value)
    t.ok((await schema['~standard'].validate(`!${value}`)).issues || !pattern.test(`!${value}`))
  }
})

t.test('a schema that cannot be read says so when it checks', async (t) => {
  const schema = laterSchema(nested(100), (error) => [{ path: [], message: `not possible: ${error}` }])
  t.match(await schema['~standard'].validate(1), { issues: [{ message: /not possible: Error: it has more than 64/ }] })
})

t.test('random nonsense is refused or checked, and nothing else is thrown', async (t) => {
  const keys = [
    'type',
    'items',
    'anyOf',
    'allOf',
    'not',
    '$ref',
    'pattern',
    'enum',
    'properties',
    'const',
    'contains',
    'required',
  ]
  const leaves = [0, -1, 1e308, null, true, '', '#', '#/$defs/a', '(a+)+$', 'object', 'array', [], {}, '\ud800', '[']
  const made = (dice: Dice, depth: number): unknown => {
    if (depth === 0 || dice.chance(0.3)) return dice.pick(leaves)
    if (dice.chance(0.3)) return list(dice.upTo(4), () => made(dice, depth - 1))
    return Object.fromEntries(
      list(1 + dice.upTo(4), () => [dice.pick([...keys, '__proto__', '$defs', 'a']), made(dice, depth - 1)]),
    )
  }
  let read = 0
  for (let seed = 1; seed <= howMany(750, 100_000); seed++) {
    const dice = new Dice(seed)
    const schema = await foreignSchema(Object(made(dice, 5))).catch((error: Error) => error)
    if (schema instanceof Error) continue
    read += 1
    await schema['~standard'].validate(made(dice, 5))
  }
  t.ok(read > 100, `${read} are read`)
})
