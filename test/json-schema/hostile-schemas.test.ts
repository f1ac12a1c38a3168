/** Schemas of strangers: what holds a checker is refused with its bound, or checked in a number of steps that has one. */
import t from 'tap'
import { regexes } from 'zod'
import { foreignSchema } from '../../src/json-schema/foreign-schema.ts'
import { laterSchema } from '../../src/json-schema/later-schema.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'

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
  for (let seed = 1; seed <= howMany(3_000, 100_000); seed++) {
    const dice = new Dice(seed)
    const schema = await foreignSchema(Object(made(dice, 5))).catch((error: Error) => error)
    if (schema instanceof Error) continue
    read += 1
    await schema['~standard'].validate(made(dice, 5))
  }
  t.ok(read > 100, `${read} are read`)
})
