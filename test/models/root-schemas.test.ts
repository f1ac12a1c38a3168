/** Answers whose schema is no object at its root, and answers around which a model has put words. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'

async function open(t: Test) {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  return { server, team }
}

type Tree = { name: string; parts: Tree[] }
const tree: z.ZodType<Tree> = z.lazy(() => z.object({ name: z.string(), parts: z.array(tree) }))
const roots: [what: string, schema: z.ZodType, data: unknown][] = [
  ['a list', z.array(z.number()), [1, 2]],
  ['a string', z.string(), 'four'],
  ['a number', z.number(), 4],
  ['one of some words', z.enum(['yes', 'no']), 'yes'],
  ['a union', z.union([z.object({ a: z.number() }), z.object({ b: z.string() })]), { b: 'x' }],
  ['null or an object', z.object({ a: z.number() }).nullable(), null],
  ['anything', z.any(), { value: 3 }],
  ['a list of trees', z.array(tree), [{ name: 'a', parts: [{ name: 'b', parts: [] }] }]],
]

for (const [what, output, data] of roots)
  t.test(`the answer to a schema that is ${what} is asked for in an object, and taken out of it`, async (t) => {
    const { server, team } = await open(t)
    server.answer(
      JSON.stringify({ value: data }),
      `Here it is:\n\`\`\`json\n${JSON.stringify({ value: data })}\n\`\`\``,
    )
    for (const _ of ['plain', 'fenced']) t.same((await team.execute('Go', { output })).data, data)
    const { schema } = Object(server.calls[0]!.body.response_format).json_schema
    t.equal(schema.type, 'object')
    const references = [...JSON.stringify(schema).matchAll(/"\$ref":"#\/([^"]*)"/g)].map(([, path]) => path!.split('/'))
    for (const path of references)
      t.ok(
        path.reduce<unknown>((part, key) => Object(part)[key], schema),
        `${path.join('/')} is there`,
      )
  })

t.test('a list grows in the stream of its run, without the object around it', async (t) => {
  const { server, team } = await open(t)
  server.answer({ text: ['{', '"value":[1,', '2,3', ']}'] })
  const objects: unknown[] = []
  for await (const part of team.launch('Go', { output: z.array(z.number()), stream: true }).stream())
    if (part.type === 'object') objects.push(part.object)
  t.same(objects[0], [1])
  t.same(objects.at(-1), [1, 2, 3])
})

for (const [what, output] of Object.entries<z.ZodType>({
  'a date': z.object({ on: z.date() }),
  'a bigint': z.bigint(),
  'a map': z.map(z.string(), z.number()),
}))
  t.test(`a run that wants ${what}, which no JSON can be, is refused at its start`, async (t) => {
    const { server, team } = await open(t)
    await t.rejects(team.execute('Go', { output }), {
      code: 'CONFIGURATION',
      message: /^output: got what cannot be asked of a model \(.*represented/,
    })
    t.equal(server.calls.length, 0)
  })

t.test('a model that leaves the object out is understood', async (t) => {
  const { server, team } = await open(t)
  server.answer('[1,2]')
  t.same((await team.execute('Go', { output: z.array(z.number()) })).data, [1, 2])
  t.equal(server.calls.length, 1)
})

t.test('JSON with words around it is read when it is the only one', async (t) => {
  const { server, team } = await open(t)
  const output = z.object({ n: z.number() })
  server.answer('It is {"n":1}, I think [as far as I know].')
  t.same((await team.execute('Go', { output })).data, { n: 1 })
  server.answer('Either {"n":1} or {"n":2}.', '{"n":2}')
  t.same((await team.execute('Go', { output })).data, { n: 2 })
  t.equal(server.calls.length, 3, 'of two neither counts')
})

t.test('a refusal is told in its words, and is not asked again', async (t) => {
  const { server, team } = await open(t)
  const refused = {
    choices: [{ message: { content: null, refusal: 'I cannot help with that.' }, finish_reason: 'stop' }],
  }
  server.answer({ body: refused })
  const { error } = await team.execute('Go', { output: z.object({ n: z.number() }) })
  t.match(error, { message: /I cannot help with that/, modelFailure: { reason: 'filtered' } })
  t.equal(server.calls.length, 1)
})
