/** The model of a rehearsal: what it answers by schema, which models are asked instead, which fail, and what is recorded. */

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelClient, ModelMessage } from '../../../src/actors/definition/model.ts'
import { countPrompt, countTokens } from '../../../src/actors/model/tokens.ts'
import { type AgentContext, defineAgent, defineTool, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { sampleOf } from '../../../src/runtime/providers/json-sample.ts'
import { Reach } from '../../../src/runtime/testing/reach.ts'
import { SteppedClock } from '../../../src/runtime/testing/virtual-clock.ts'
import { Dice } from '../../../src/shared/random.ts'
import { rehearsalModel, rehearse, scriptedModel } from '../../../src/testing.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { howMany } from '../../how-many.ts'
import { pluck } from '../../kit/lists.ts'
import { never, silent } from '../../kit/team.ts'
import { calls, FakeModel } from '../../models/fake-model.ts'
import { ask } from '../../runtime/models/pieces.ts'

const tool = (name: string, properties: object) => ({
  name,
  description: `Does ${name}.`,
  inputSchema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
})
const SEARCH = tool('search', { query: { type: 'string' } })
const ADD = tool('add', { a: { type: 'number' }, b: { type: 'number' } })

t.test('it says that it is none, and what it was asked', async (t) => {
  const model = rehearsalModel()
  t.equal(model.rehearsal, true)
  const { text, finishReason } = await ask(model, 'REST or\n  GraphQL?', { agent: 'critic' })
  t.match(text, /^\[rehearsal\] critic was asked "REST or GraphQL\?"\. /)
  t.equal(finishReason, 'stop')
})

t.test('a long question is quoted in short, and its label is not said again', async (t) => {
  const { text } = await ask(rehearsalModel(), `[rehearsal] ${'why '.repeat(10_000)}`)
  t.ok(text.length < 400, text)
  t.equal(text.split('[rehearsal]').length, 2)
})

t.test('its text comes in several pieces', async (t) => {
  const { texts } = await ask(rehearsalModel(), 'why?')
  t.ok(texts.length > 2, JSON.stringify(texts))
})

t.test('the same seed and question have the same answer, whatever else was asked', async (t) => {
  const [one, other] = [rehearsalModel(7), rehearsalModel(7)]
  const questions = ['a', 'b', 'c', 'd', 'e', 'f']
  const forth = await Promise.all(questions.map((question) => ask(one, question, { agent: 'ann' })))
  await ask(other, 'something else', { agent: 'bob' })
  const back = await Promise.all(questions.toReversed().map((question) => ask(other, question, { agent: 'ann' })))
  t.same(forth, back.toReversed())
  const text = async (seed: number, agent: string) => {
    const { toolCalls } = await ask(rehearsalModel(seed), 'a', { agent, tools: [ADD] })
    return toolCalls[0]!.input
  }
  t.not(await text(7, 'ann'), await text(8, 'ann'), 'another seed')
  t.not(await text(7, 'ann'), await text(7, 'bob'), 'another agent')
})

t.test('the ids of an earlier call change nothing', async (t) => {
  const said = (id: string): ModelMessage[] => [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: '', toolCalls: [{ id, name: 'search', input: '{}' }] },
    { role: 'tool', content: 'found', toolCallId: id },
  ]
  t.same(
    await ask(rehearsalModel(), said('x'), { runId: 'r1' }),
    await ask(rehearsalModel(), said('y'), { runId: 'r2' }),
  )
})

t.test('asked for JSON it answers with a value that fits', async (t) => {
  const properties = { plan: { type: 'string' }, steps: { type: 'integer', minimum: 3, maximum: 5 } }
  const jsonSchema = { type: 'object', properties, required: ['plan', 'steps'], additionalProperties: false }
  const answerFunction = { name: 'create_plan', description: 'Plans.' }
  for (const wanted of [{ jsonSchema }, { jsonSchema, answerFunction }]) {
    const { text, texts } = await ask(rehearsalModel(), 'Plan it.', wanted)
    const { plan, steps } = JSON.parse(text)
    t.equal(plan, '[rehearsal] plan')
    t.ok([3, 4, 5].includes(steps))
    t.ok(texts.length > 0)
  }
})

t.test('tools are called once, with arguments that fit; then it says what they answered', async (t) => {
  const model = rehearsalModel()
  const tools = [SEARCH, ADD]
  const first = await ask(model, 'What is new?', { tools })
  t.same([first.finishReason, first.text], ['tool_calls', ''])
  t.same(pluck(first.toolCalls, 'name'), ['search', 'add'])
  t.equal(new Set(first.toolCalls.map(({ id }) => id)).size, 2)
  t.match(JSON.parse(first.toolCalls[0]!.input), { query: /^\[rehearsal\] query$/ })
  t.match(JSON.parse(first.toolCalls[1]!.input), { a: Number, b: Number })
  const [search, add] = first.toolCalls
  const conversation: ModelMessage[] = [
    { role: 'user', content: 'What is new?' },
    { role: 'assistant', content: '', toolCalls: first.toolCalls },
    { role: 'tool', content: 'Nothing.', toolCallId: search!.id },
    { role: 'tool', content: '42', toolCallId: add!.id },
  ]
  const second = await ask(model, conversation, { tools })
  t.same(second.toolCalls, [])
  t.match(second.text, /was asked "What is new\?"\. search said "Nothing\."\. add said "42"\./)
  const again = await ask(model, [...conversation, { role: 'user', content: 'And now?' }], { tools })
  t.equal(again.toolCalls.length, 2, 'a new question')
})

t.test('tools come before JSON', async (t) => {
  const jsonSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const { toolCalls, text } = await ask(rehearsalModel(), 'go', { tools: [ADD], jsonSchema })
  t.same([toolCalls.length, text], [1, ''])
})

t.test('what a role may do with its team it does not do by chance', async (t) => {
  const names = ['request', 'delegate', 'publish', 'handoff', 'escalate', 'refuse', 'spawn']
  const tools = names.map((name) => tool(name, { to: { type: 'string' } }))
  const { toolCalls, text } = await ask(rehearsalModel(), 'go', { tools })
  t.same(toolCalls, [])
  t.match(text, /was asked "go"/)
})

t.test('its usage is what it was asked and has said', async (t) => {
  const messages: ModelMessage[] = [{ role: 'user', content: 'How many tokens are there in this?' }]
  const { usage, texts } = await ask(rehearsalModel(), messages, { model: 'gpt-4o' })
  const outputTokens = texts.reduce((sum, text) => sum + countTokens(text, 'gpt-4o'), 0)
  const inputTokens = countPrompt({ messages, model: 'gpt-4o' })
  t.same(usage, { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 })
})

t.test('it is cut off at maxOutputTokens', async (t) => {
  for (const maxOutputTokens of [0, 1, 5, 10]) {
    const { usage, finishReason, text } = await ask(rehearsalModel(), 'a question of some words', { maxOutputTokens })
    t.equal(finishReason, 'length')
    t.ok(usage!.outputTokens <= maxOutputTokens && countTokens(text) <= maxOutputTokens, text)
  }
  t.same((await ask(rehearsalModel(), 'go', { tools: [ADD], maxOutputTokens: 2 })).toolCalls, [])
})

t.test('its signal ends it between two pieces', async (t) => {
  const controller = new AbortController()
  const reason = new Error('enough')
  const { signal } = controller
  const pieces = rehearsalModel().complete({ model: 'test', messages: [{ role: 'user', content: 'go' }], signal })
  const heard: unknown[] = []
  const listening = (async () => {
    for await (const { text } of pieces) {
      heard.push(text)
      controller.abort(reason)
    }
  })()
  await t.rejects(listening, reason)
  t.equal(heard.length, 1)
  await t.rejects(ask(rehearsalModel(), 'go', { signal: AbortSignal.abort(reason) }), reason)
})

const strict = { strict: false, ownProperties: true, allErrors: true, logger: false } as const
const ajv = formats.default(new Ajv2020(strict))
const ajv7 = formats.default(new Ajv(strict))

const SEEDS = Array.from({ length: 25 }, (_, seed) => seed)

/** What another validator has against the values that are drawn for a schema. */
function misses(schema: object, validate = ajv.compile(schema)): unknown[] {
  return SEEDS.map((seed) => sampleOf(schema, new Dice(seed, 'test'), '[label]')).flatMap((value) =>
    validate(value) ? [] : [{ value, errors: ajv.errorsText(validate.errors) }],
  )
}

const node = (child: object) => ({
  $ref: '#/$defs/node',
  $defs: { node: { type: 'object', properties: { v: { type: 'number' }, child }, required: ['v', 'child'] } },
})

const BY_HAND: Record<string, object> = {
  'anything at all': {},
  'a constant': { const: null },
  'a choice of any types': { enum: [1, 'a', null, { b: [] }] },
  'bounds that are not to be met': { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.01 },
  'bounds far off': { type: 'number', minimum: 1e12, maximum: 1e12 + 1 },
  'bounds below zero': { type: 'integer', exclusiveMaximum: -10 },
  'steps that binary fractions miss': { type: 'number', multipleOf: 0.01, minimum: 1, maximum: 2 },
  'wide steps': { type: 'integer', multipleOf: 1_000, minimum: 1 },
  'one step in the range': { type: 'integer', multipleOf: 7, minimum: 50, maximum: 60 },
  'whole steps of a fraction': { type: 'integer', multipleOf: 333.25, minimum: 1 },
  'a long text': { type: 'string', minLength: 200 },
  'a short text': { type: 'string', maxLength: 3 },
  'a text of emoji length': { type: 'string', minLength: 5, maxLength: 5 },
  'a pattern': { type: 'string', pattern: '^[A-Z]{2}-\\d{3,5}$' },
  'a pattern of some length': { type: 'string', pattern: '^[a-z]+$', minLength: 12, maxLength: 14 },
  'a pattern without ends': { type: 'string', pattern: '[0-9]' },
  'a format of some length': { type: 'string', format: 'email', maxLength: 20 },
  'one of several types': { type: ['string', 'null', 'integer'] },
  'one and no more': { oneOf: [{ type: 'integer' }, { type: 'number', minimum: 3 }] },
  'anything but': { not: { type: 'string' } },
  'all at once': {
    allOf: [
      { type: 'object', properties: { a: { type: 'number', minimum: 900 } }, required: ['a'] },
      { type: 'object', properties: { a: { type: 'integer', minimum: 2, maximum: 901 } }, required: ['b'] },
    ],
  },
  'all at once, many times': {
    type: 'array',
    items: {
      allOf: [
        { type: 'number', minimum: 900, maximum: 9_000 },
        { type: 'integer', minimum: 10, maximum: 901 },
      ],
    },
    minItems: 5,
  },
  'if and else': {
    type: 'object',
    properties: { kind: { enum: ['a', 'z'] }, b: { type: 'string' } },
    required: ['kind', 'b'],
    if: { properties: { kind: { const: 'a' } } },
    // biome-ignore lint/suspicious/noThenProperty: a word of JSON schema
    then: { properties: { b: { const: 'of a' } } },
    else: { properties: { b: { const: 'of z' } } },
  },
  'names by pattern': {
    type: 'object',
    patternProperties: { '^x-': { type: 'integer' } },
    additionalProperties: false,
    minProperties: 3,
  },
  'names of a kind': {
    type: 'object',
    propertyNames: { pattern: '^[a-z]{3}$' },
    additionalProperties: { type: 'number' },
    minProperties: 3,
    maxProperties: 4,
  },
  'a name that no property has': { type: 'object', required: ['z'], additionalProperties: { type: 'boolean' } },
  'a name of every object': {
    type: 'object',
    properties: JSON.parse('{"__proto__": {"type": "integer"}, "toString": {"type": "integer"}}'),
    required: ['__proto__', 'toString'],
  },
  'names that every object inherits': {
    type: 'object',
    properties: { valueOf: { enum: [[]] }, toString: { const: 1 }, constructor: { type: 'integer' } },
    maxProperties: 1,
  },
  'few of many': {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' }, c: { type: 'number' } },
    required: ['c'],
    maxProperties: 2,
  },
  'a list of different things': { type: 'array', items: { enum: [1, 2, 3] }, minItems: 3, uniqueItems: true },
  'a list with something in it': { type: 'array', contains: { const: 4 }, minContains: 2, items: { type: 'integer' } },
  'a list of places': {
    type: 'array',
    prefixItems: [{ type: 'string' }, { type: 'number' }],
    items: false,
    minItems: 2,
  },
  'places and a rest': { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'boolean' }, minItems: 4 },
  'a list of what can miss': {
    type: 'array',
    items: { oneOf: [{ type: 'integer' }, { type: 'number', minimum: 3 }] },
    minItems: 12,
  },
  'an empty list': { type: 'array', maxItems: 0 },
  'a chain that may end': node({ anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] }),
  'a tree': node({ type: 'array', items: { $ref: '#/$defs/node' } }),
  'a pointer with signs in it': { $ref: '#/$defs/a~1b%20c', $defs: { 'a/b c': { type: 'integer' } } },
}

t.test('values fit the schema', async (t) => {
  for (const [name, schema] of Object.entries(BY_HAND)) t.same(misses(schema), [], name)
})

t.test('values fit a schema of draft 7', async (t) => {
  const $schema = 'http://json-schema.org/draft-07/schema#'
  const items = [{ type: 'string' }, { $ref: '#/definitions/n' }]
  const schema = { $schema, items, additionalItems: false, minItems: 2, definitions: { n: { type: 'integer' } } }
  t.same(misses(schema, ajv7.compile(schema)), [])
})

t.test('strings have the format that is asked for', async (t) => {
  const known = ['date-time', 'date', 'time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid']
  for (const format of known) t.same(misses({ type: 'string', format }), [], format)
})

const reply = z.object({
  title: z.string().min(1).max(40),
  mail: z.email(),
  link: z.url(),
  at: z.iso.datetime(),
  id: z.uuid(),
  code: z
    .string()
    .regex(/^[A-Z]+$/)
    .min(6),
  count: z.int().positive(),
  price: z.number().multipleOf(0.25).nonnegative(),
  tags: z.array(z.string()).min(1).max(3),
  kind: z.enum(['a', 'b']),
  maybe: z.string().optional(),
  none: z.number().nullable(),
  scores: z.record(z.string(), z.number()),
  votes: z.record(z.enum(['ann', 'bob']), z.boolean()),
  pair: z.tuple([z.string(), z.boolean()]),
  shape: z.discriminatedUnion('type', [
    z.object({ type: z.literal('circle'), radius: z.number().positive() }),
    z.object({ type: z.literal('square'), side: z.number().positive() }),
  ]),
  both: z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
  get replies() {
    return z.array(z.object({ text: z.string() }))
  },
})

t.test('zod accepts what its own JSON schema asked for', async (t) => {
  const schema = z.toJSONSchema(reply)
  for (const seed of SEEDS) {
    const { error } = reply.safeParse(sampleOf(schema, new Dice(seed, 'zod'), '[label]'))
    t.equal(error, undefined, String(error))
  }
})

/** Schemas that some value fits, of all that a schema is put together from. */
const { schema: anySchema } = fc.letrec<{
  schema: object
  leaf: object
  object: object
  list: object
  several: object
}>((tie) => ({
  schema: fc.oneof({ maxDepth: 3 }, tie('leaf'), tie('object'), tie('list'), tie('several')),
  leaf: fc.oneof(
    fc.constant({ type: 'boolean' }),
    fc.constant({ type: 'null' }),
    fc.record({ const: fc.jsonValue({ maxDepth: 1 }) }),
    fc.record({ enum: fc.array(fc.jsonValue({ maxDepth: 1 }), { minLength: 1 }) }),
    fc
      .record({
        type: fc.constantFrom('integer', 'number'),
        minimum: fc.integer({ min: -1e6, max: 1e6 }),
        more: fc.nat(1e6),
      })
      .map(({ more, ...rest }) => ({ ...rest, maximum: rest.minimum + more })),
    fc
      .record({ multipleOf: fc.constantFrom(2, 5, 0.5, 0.25), minimum: fc.integer({ min: -100, max: 100 }) })
      .map((rest) => ({ type: 'number', ...rest, maximum: rest.minimum + 10 })),
    fc
      .record({ minLength: fc.nat(40), more: fc.nat(40) })
      .map(({ minLength, more }) => ({ type: 'string', minLength, maxLength: minLength + more })),
    fc.record({ type: fc.constant('string'), format: fc.constantFrom('date-time', 'email', 'uuid', 'ipv4', 'uri') }),
    fc.record({ type: fc.constant('string'), pattern: fc.constantFrom('^a*$', '^(x|yy)+$', '^\\w{3}$', '\\d') }),
  ),
  object: fc
    .record({
      properties: fc.dictionary(fc.string({ maxLength: 8 }), tie('schema'), { maxKeys: 4 }),
      additionalProperties: fc.oneof(fc.constantFrom(true, false), tie('schema')),
      needs: fc.nat(4),
    })
    .map(({ needs, ...rest }) => ({ type: 'object', ...rest, required: Object.keys(rest.properties).slice(0, needs) })),
  list: fc
    .record({
      prefixItems: fc.array(tie('schema'), { maxLength: 2 }),
      items: tie('schema'),
      minItems: fc.nat(4),
      more: fc.nat(4),
    })
    .map(({ more, prefixItems, ...rest }) => ({
      type: 'array',
      ...(prefixItems.length > 0 && { prefixItems }),
      ...rest,
      maxItems: rest.minItems + more,
    })),
  several: fc.oneof(
    fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
    tie('schema').map((schema) => ({ allOf: [schema, {}] })),
    tie('schema').map((schema) => ({ oneOf: [schema, false] })),
    tie('schema').map((schema) => ({ type: 'object', properties: { nested: schema }, required: ['nested'] })),
  ),
}))

t.test('values fit schemas made by chance', async () => {
  const property = fc.property(anySchema, fc.nat(), (schema, seed) => {
    const value = sampleOf(schema, new Dice(seed, 'test'), '[label]')
    if (!ajv.validate(schema, value)) throw new Error(`${JSON.stringify(value)}: ${ajv.errorsText()}`)
  })
  fc.assert(property, { numRuns: 300, seed: 1 })
})

t.test('the same dice draw the same value, others another', async (t) => {
  const schema = z.toJSONSchema(reply)
  const drawn = (seed: number, purpose: string) => JSON.stringify(sampleOf(schema, new Dice(seed, purpose), '[label]'))
  t.equal(drawn(3, 'a'), drawn(3, 'a'))
  t.not(drawn(3, 'a'), drawn(4, 'a'))
  t.not(drawn(3, 'a'), drawn(3, 'b'))
})

t.test('words are labelled, and say what they are for', async (t) => {
  const properties = { plan: { type: 'string' }, risk: { type: 'string', description: 'what can go wrong' } }
  const schema = { type: 'object', properties, required: ['plan', 'risk'] }
  t.same(sampleOf(schema, new Dice(1, ''), '[label]'), { plan: '[label] plan', risk: '[label] what can go wrong' })
})

t.test("a schema's own examples are taken where they fit", async (t) => {
  const schema = { type: 'string', examples: ['Berlin', 'Paris'] }
  const drawn = new Set(SEEDS.map((seed) => sampleOf(schema, new Dice(seed, ''), '[label]')))
  t.ok(drawn.has('Berlin') && drawn.has('Paris'), [...drawn].join())
  t.same(misses({ type: 'integer', examples: ['no number'], default: 'nor this' }), [])
})

t.test('a schema is left as it was', async (t) => {
  const schema = { $ref: '#/$defs/a', $defs: { a: { type: 'object', additionalProperties: false } } }
  for (const part of [schema, schema.$defs, schema.$defs.a]) Object.freeze(part)
  t.same(sampleOf(schema, new Dice(1, ''), '[label]'), {})
})

t.test('a schema that nothing fits is an error that says what to do', async (t) => {
  const impossible = [
    { type: 'integer', minimum: 2, maximum: 1 },
    { enum: [] },
    { type: 'string', minLength: 3, maxLength: 2 },
    { type: 'array', items: { enum: [1] }, uniqueItems: true, minItems: 2 },
    { type: 'object', properties: { a: false }, required: ['a'] },
    { $ref: '#/$defs/none' },
    { $ref: 'https://example.com/schema' },
    { $ref: '#' },
    node({ $ref: '#/$defs/node' }),
    { allOf: [{ type: 'string' }, { type: 'number' }] },
  ]
  for (const schema of impossible)
    t.throws(
      () => sampleOf(schema, new Dice(1, ''), '[label]'),
      { code: 'MODEL', message: /"examples"/ },
      JSON.stringify(schema),
    )
})

t.test('a pattern that is no regular expression, or that nobody can draw by, costs no value', async (t) => {
  for (const pattern of ['(?i)abc', '(?P<y>\\d)', '[a', 'a++']) {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern, minLength: 2 } }, required: ['a'] }
    for (const seed of SEEDS) t.match(sampleOf(schema, new Dice(seed, 'test'), '[label]'), { a: /../ }, pattern)
  }
})

// Which models a rehearsal asks: none that cost money, unless that is wanted.

const agents = [{ name: 'ann' }, { name: 'bob', model: 'other' }, { name: 'cat', model: 'huge' }]
const orchestration = { strategy: 'sequential' } as const
const plan = { query: 'REST or GraphQL?', seeds: 5, faults: ['crash', 'delay'] } as const

t.test('nobody is asked but the rehearsal model, whatever models the team has', async (t) => {
  const server = await modelServer(t)
  const { baseURL } = server
  let keys = 0
  const apiKey = () => {
    keys += 1
    return 'secret'
  }
  const asks = defineAgent({
    receive: async ({ content }, context) => (await context.think({ prompt: content, model: 'other' })).text,
  })
  const script = async (run: AgentContext, query: string) => {
    const said = [await run.complete({ prompt: query, model: 'own' })]
    said.push(await run.complete({ prompt: query, model: 'careful' }))
    for (const name of ['ann', 'bob', 'cat', 'dan'])
      said.push({ ...said[0]!, text: (await run.request(name, query)).content })
    return said.map(({ text }) => text).join('\n')
  }
  let calls = 0
  const own: ModelClient = {
    async *complete() {
      calls += 1
      yield { text: 'Mine.' }
    },
  }
  const options: MultiAgentPatternOptions = {
    agents: [...agents, { name: 'dan' }],
    orchestration: { strategy: 'custom', run: script },
    models: {
      default: { model: 'large', baseURL, apiKey },
      other: { model: 'small', baseURL, apiKeyEnv: 'A_VARIABLE_THAT_NOBODY_SETS' },
      own,
      careful: { client: own, temperature: 0.1 },
    },
    logger: silent,
  }
  const answers: string[] = []
  const { outcomes, standsInFor } = await rehearse(options, {
    ...plan,
    modules: { dan: asks },
    check: (outcome) => void answers.push(outcome.ok ? outcome.message.content : outcome.error.message),
  })
  t.match(outcomes, { done: 5 }, answers.join('\n'))
  t.same(standsInFor, ['default', 'other', 'own', 'careful'])
  t.ok(answers.every((answer) => answer.split('\n').every((line) => line.startsWith('[rehearsal]'))))
  t.same([server.calls.length, keys, calls], [0, 0, 0])
})

t.test('the model of the environment is not asked either', async (t) => {
  const server = await modelServer(t)
  const before = { ...process.env }
  Object.assign(process.env, { OPENAI_API_KEY: 'key', OPENAI_BASE_URL: server.baseURL, DRAMATIS_MODEL: 'large' })
  t.teardown(() => {
    for (const name of ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'DRAMATIS_MODEL'])
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
  })
  const { outcomes, standsInFor } = await rehearse({ agents: [{ name: 'ann' }], orchestration }, plan)
  t.match(outcomes, { done: 5 })
  t.same(standsInFor, ['default'])
  t.equal(server.calls.length, 0)
})

t.test('a name that no model has is refused as in life', async (t) => {
  const own: ModelClient = { async *complete() {} }
  const wrong = { agents: [{ name: 'ann', model: 'ownn' }], orchestration, models: { own } }
  await t.rejects(rehearse(wrong, plan), { code: 'CONFIGURATION', message: /no model of this team is named "ownn"/ })
})

t.test(
  "realModels asks the team's own models; what they take is no time of the run, and their pauses are",
  async (t) => {
    const server = await modelServer(t)
    let failures = 1
    server.always(() => (failures-- > 0 ? { status: 429, headers: { 'retry-after': '3' } } : 'Certainly.'))
    const answers: string[] = []
    const tookMs: number[] = []
    const options = {
      agents: [{ name: 'ann' }],
      orchestration,
      models: { default: { model: 'large', baseURL: server.baseURL, apiKey: 'key' } },
    }
    const {
      outcomes,
      standsInFor,
      failures: failed,
    } = await rehearse(options, {
      query: 'go',
      seeds: 3,
      realModels: true,
      check: (outcome) => {
        answers.push(outcome.ok ? outcome.message.content : outcome.error.message)
        if (outcome.ok) tookMs.push(outcome.message.sentAt - Date.UTC(2025, 0, 1))
      },
    })
    t.ok(tookMs[0]! >= 3_000)
    t.same(tookMs.slice(1), [0, 0])
    t.same([outcomes.done, standsInFor, failed], [3, [], []], answers.join('\n'))
    t.same(answers, Array(3).fill('Certainly.'))
    t.equal(server.calls.length, 4)
  },
)

t.test('a line that plays a failure again asks the same models', async (t) => {
  const server = await modelServer(t)
  server.always('Certainly.')
  const { failures } = await rehearse(
    {
      agents: [{ name: 'ann' }],
      orchestration,
      models: { default: { model: 'large', baseURL: server.baseURL, apiKey: 'key' } },
    },
    {
      query: 'go',
      seeds: 1,
      realModels: true,
      check() {
        throw new Error('no')
      },
    },
  )
  t.equal(failures[0]?.replay, 'await rehearse(options, {"query":"go","seeds":[1],"realModels":true})')
})

t.test('a model that asks nobody stays in its place', async (t) => {
  const answers: string[] = []
  const check = (outcome: { ok: boolean; message?: { content: string } }) =>
    void answers.push(outcome.message?.content ?? '')
  const make = () => ({
    agents: [{ name: 'ann' }],
    orchestration,
    models: { default: scriptedModel([{ fail: 'rate_limit' }, { reply: 'As written.', delayMs: 5_000 }]) },
  })
  const { outcomes, standsInFor } = await rehearse(make, { query: 'go', seeds: 3, check })
  t.same([outcomes.done, standsInFor], [3, []])
  t.same(answers, Array(3).fill('As written.'))
})

// The fault `model`: calls of models fail at random, and another model of the list answers.

const TEAM_SEEDS = howMany(8, 300)
const ROUNDS = 3

/** Asks for the tool three times, once in each round, and then answers: by what the conversation has. */
const inRounds = () =>
  Object.assign(
    new FakeModel(({ messages }) => {
      const results = messages.filter(({ role }) => role === 'tool').length
      return results < ROUNDS ? calls(['count', { round: results }]) : 'done'
    }),
    { offline: true },
  )

function teamOf(counted: Map<string, number>, switchOn?: readonly string[]): MultiAgentPatternOptions {
  const count = defineTool({
    name: 'count',
    description: 'Counts.',
    input: z.object({ round: z.number() }),
    readOnly: true,
    run({ round }, { idempotencyKey }) {
      counted.set(idempotencyKey, (counted.get(idempotencyKey) ?? 0) + 1)
      return round
    },
  })
  const list = { anyOf: ['fast', 'spare'], ...(switchOn && { switchOn }) }
  return {
    agents: [{ name: 'ann', systemPrompt: 'You count.', tools: [count] }],
    models: { default: list, fast: inRounds(), spare: inRounds() } as never,
    orchestration: { strategy: 'sequential' },
  }
}

t.test('whatever fails, each round of tools runs once and the answer comes', async (t) => {
  const all = new Map<string, number>()
  const switchOn = ['rate_limit', 'broken_off', 'filtered']
  const { outcomes, failures } = await rehearse(() => teamOf(all, switchOn), {
    query: 'Count.',
    seeds: TEAM_SEEDS,
    faults: ['model'],
  })
  const bothWithhold = /answered: \w+ \(filtered\), \w+ \(filtered\)\./ // nobody is left who may answer
  t.same(
    failures.filter(({ error }) => !bothWithhold.test(error?.message ?? '')),
    [],
  )
  t.ok(failures.length <= TEAM_SEEDS / 50, `${failures.length} of ${TEAM_SEEDS}`)
  t.equal(outcomes.done, TEAM_SEEDS - failures.length)
  t.ok(all.size >= outcomes.done * ROUNDS)
  t.ok([...all.values()].every((times) => times === 1))
})

t.test(
  'without a reason to switch a filter ends the run, in some of the seeds and in the same ones again',
  async (t) => {
    const play = () => rehearse(() => teamOf(new Map()), { query: 'Count.', seeds: 40, faults: ['model'] })
    const [one, other] = [await play(), await play()]
    t.ok(one.failures.length > 0 && one.failures.length < 40)
    t.same(
      one.failures.map(({ seed }) => seed),
      other.failures.map(({ seed }) => seed),
    )
    for (const { error, replay } of one.failures) {
      t.match(JSON.stringify(error), /filtered/)
      t.match(replay, /"faults":\["model"\]/)
    }
  },
)

// Steps that reach outside: done once, recorded, and answered from the recording ever after.

const module = new URL('../../fixtures/rehearsal/steps.js', import.meta.url)
const options: MultiAgentPatternOptions = {
  agents: [{ name: 'steps', module }],
  orchestration: { strategy: 'sequential' },
}

/** A file to read, and where to record. */
function files(t: Test) {
  const folder = t.testdir({ word: 'one' })
  return { word: join(folder, 'word'), record: join(folder, 'record.json') }
}

/** What came of three runs. */
async function answers(query: string, record?: string): Promise<string[]> {
  const seen: string[] = []
  await rehearse(options, {
    query,
    seeds: 3,
    ...(record !== undefined && { record }),
    check: (outcome) => void seen.push(outcome.ok ? outcome.message.content : outcome.error.message),
  })
  return seen
}

const three = (answer: string) => [answer, answer, answer]
const keysOf = (record: string) => Object.keys(JSON.parse(readFileSync(record, 'utf8')))

t.test('each step is recorded by its agent, its name, its place in the turn, and the message', async (t) => {
  const { word, record } = files(t)
  t.same(await answers(`twice ${word}`, record), three('one one 0'), 'it took no time of the run')
  const key = (nth: number) => `step ${JSON.stringify(['steps', 'read', nth, `twice ${word}`, null])}`
  t.same(keysOf(record), [key(1), key(2)])
  rmSync(word)
  t.same(await answers(`twice ${word}`, record), three('one one 0'))
  writeFileSync(word, 'two')
  t.same(await answers(`twice ${word} `, record), three('two two 0'), 'of another message')
  t.equal(keysOf(record).length, 4)
})

t.test('what a step came to may be nothing', async (t) => {
  const { word, record } = files(t)
  t.same(await answers(`nothing ${word}`, record), three('undefined'))
  rmSync(word)
  t.same(await answers(`nothing ${word}`, record), three('undefined'))
})

t.test('time stands still for a connection, with all that goes on in it', async (t) => {
  const { record } = files(t)
  const server = createServer((_request, response) => void setTimeout(() => response.end('a page'), 20))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const query = `page http://127.0.0.1:${port}/`
  t.same(await answers(query, record), three('a page'))
  await new Promise((resolve) => server.close(resolve))
  t.same(await answers(query, record), three('a page'))
})

t.test('a step that fails is not recorded, and one that does not reach outside is none of it', async (t) => {
  const { word, record } = files(t)
  rmSync(word)
  for (const answer of await answers(`twice ${word}`, record)) t.match(answer, /ENOENT/)
  t.same(await answers('pure', record), three('1000'))
  t.notOk(existsSync(record))
  writeFileSync(word, 'one')
  t.same(await answers(`twice ${word}`, record), three('one one 0'))
})

t.test('without a recording, outside of a step and after it, real input is refused', async (t) => {
  const { word, record } = files(t)
  for (const answer of await answers(`twice ${word}`))
    t.match(answer, /agent "steps": node:fs\/promises\.readFile is real input.*context\.step.*--record <file>/)
  for (const way of ['outside', 'later'])
    t.match((await answers(`${way} ${word}`, record))[0], /"steps": node:fs\.readFileSync is real/, way)
})

t.test('a step that waits for virtual time, which waits for it, ends with an error', async (t) => {
  const reach = new Reach(new SteppedClock(1, 0), 'read and ask', 5)
  const asks = () => {
    t.ok(reach.begin())
    return never
  }
  const message = /^Step "read and ask" did not end within 5 ms .* ask other agents, and sleep, outside of the step/
  await t.rejects(reach.run(asks), { code: 'AGENT_FAILED', message })
  reach.end()
  t.notOk(reach.begin(), 'it is over')
})
