/** What `defineTool` takes and refuses, at once. */
import t from 'tap'
import { z } from 'zod'
import { ConfigurationError, defineTool, type Tool } from '../../src/index.ts'

const good = { name: 'search', description: 'Searches.', input: z.object({ query: z.string() }), run: () => 'found' }

function refusalOf(fields: object): ConfigurationError {
  try {
    defineTool({ ...good, ...fields } as typeof good)
  } catch (error) {
    if (error instanceof ConfigurationError) return error
    throw error
  }
  throw new Error('it was taken')
}

t.test('a tool is what it was defined as, and frozen', async (t) => {
  const tool: Tool<{ query: string }, string> = defineTool(good)
  t.match(tool, { name: 'search', description: 'Searches.', timeoutMs: 30_000, idempotent: false })
  t.ok(Object.isFrozen(tool))
  t.match(tool, {
    inputSchema: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
  })
  t.notOk('$schema' in (tool as { inputSchema?: object }).inputSchema!)
})

t.test('a name that some model does not take is refused', async (t) => {
  for (const name of ['', '1st', 'a b', 'a.b', 'größe', 'x'.repeat(65), 5, undefined])
    t.match(refusalOf({ name }), { details: { path: 'name' }, message: /^defineTool: "name": it is / })
  for (const name of ['a', '_', 'web_search', 'Web-Search2', 'x'.repeat(64)]) t.ok(defineTool({ ...good, name }))
})

t.test('every other field is checked too', async (t) => {
  const wrong: Record<string, unknown[]> = {
    description: ['', ' ', 5, undefined],
    input: [undefined, {}, { '~standard': { validate: () => ({ value: 1 }) } }, z.string(), z.object({ at: z.date() })],
    run: [undefined, 'code'],
    idempotent: [1, 'yes'],
    precondition: [true, 'installed'],
    timeoutMs: [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5'],
  }
  for (const [path, values] of Object.entries(wrong))
    for (const value of values) t.match(refusalOf({ [path]: value }), { details: { path } }, `${path} ${String(value)}`)
  t.match(refusalOf({ input: z.string() }).message, /"search" takes string; a tool takes an object/)
  t.match(refusalOf({ input: z.union([z.object({}), z.object({ a: z.string() })]) }).message, /takes something else/)
  t.match(refusalOf({ input: z.object({ at: z.date() }) }).message, /has no JSON schema for it: .*Date/)
  t.match(refusalOf({ timeoutMS: 5 }).message, /"timeoutMS": there is no such field; there are name, /)
  t.match(refusalOf({ inputSchema: z.object({}) }).message, /"inputSchema": .* \(did you mean "input"\?\)/)
  t.match(refusalOf({ execute: () => 1 }).message, /"execute": .* \(did you mean "run"\?\)/)
  t.throws(() => defineTool(null as unknown as typeof good), ConfigurationError)
})

t.test('a tool whose input has no properties is sent with none', (t) => {
  const inputs = [z.record(z.string(), z.number()), z.object({}), z.looseObject({})]
  for (const input of inputs)
    t.match(defineTool({ ...good, input, run: () => '' }), { inputSchema: { type: 'object', properties: {} } })
  t.end()
})
