/** Lists of tools as servers of other languages and other years send them. */
import { once } from 'node:events'
import t from 'tap'
import type { Logger } from '../../src/index.ts'
import { type McpToolsOptions, mcpTools } from '../../src/mcp/index.ts'
import { pluck } from '../kit/lists.ts'
import { type Answers, calls } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { refusal } from '../toolbox/tools.ts'
import { plainHttp } from './plain-http-server.ts'

type Test = Pick<typeof t, 'teardown'>

async function toolsFrom(t: Test, url: string, options: McpToolsOptions = {}) {
  const told: string[] = []
  const write = (_fields: object, text: string) => void told.push(text)
  const logger: Logger = { debug: write, info: write, warn: write, error: write }
  const mcp = await mcpTools({ url }, { logger, ...options })
  t.teardown(() => mcp.close())
  return { tools: mcp.tools, names: mcp.tools.map(({ name }) => name), told }
}

const named = (name: unknown, fields: object = {}) => ({ name, inputSchema: { type: 'object' }, ...fields })

t.test('a keyword that cannot be checked by is told once, sent to the model, and its tool works', async (t) => {
  const inputSchema = {
    $schema: 'http://json-schema.org/draft-04/schema#',
    type: 'object',
    properties: {
      path: { type: 'string', pattern: '^[\\w-.]+$' },
      times: { type: 'integer', minimum: 0, exclusiveMinimum: true },
    },
    required: ['path'],
  }
  const outputSchema = { type: 'object', properties: { at: { type: 'string', pattern: '(?i)z$' } } }
  const server = await plainHttp(t, [named('read', { inputSchema, outputSchema }), named('other')])
  const { tools, told } = await toolsFrom(t, server.url)
  const answers: Answers = [calls(['read', { path: '!' }], ['read', { path: 'a.b', times: 2 }], ['read', {}]), 'done']
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools }])
  t.equal((await team.execute('go')).finalOutput, 'done')
  const { $schema: _version, ...sent } = inputSchema
  t.same(
    model.requests[0]!.tools?.map((tool) => tool.inputSchema),
    [sent, { type: 'object', properties: {} }],
  )
  t.match(pluck(model.requests[1]!.messages.slice(-3), 'content'), [
    '{"path":"!"}',
    '{"path":"a.b","times":2}',
    /must have required property 'path'/,
  ])
  t.equal(told.length, 1)
  t.match(
    told[0],
    /^keywords of its tools are not checked here: read: inputSchema\.properties\.times\.exclusiveMinimum \(/,
  )
  t.match(
    told[0],
    /; read: inputSchema\.properties\.path\.pattern \(the pattern .* is not possible: Invalid character class\)/,
  )
  t.match(told[0], /; read: outputSchema\.properties\.at\.pattern \(.*\)$/)
})

const bad: [given: unknown, label: string, why: RegExp][] = [
  [named(''), 'tool 1 of its list', /its name is ""/],
  [named(5), 'tool 1 of its list', /its name is 5/],
  [null, 'tool 1 of its list', /its name is nothing/],
  [{ name: 'bad' }, 'bad', /its inputSchema is nothing/],
  [named('bad', { inputSchema: { type: 'string' } }), 'bad', /accepted: a JSON Schema with the type "object"/],
  [named('bad', { inputSchema: [] }), 'bad', /its inputSchema is an empty list/],
  [named('bad', { outputSchema: 'text' }), 'bad', /its outputSchema is "text"/],
  [named('bad', { description: 5 }), 'bad', /its description is 5/],
  [named('bad', { annotations: 'none' }), 'bad', /its annotations are "none"/],
  [named('bad', { execution: { taskSupport: 'required' } }), 'bad', /only as a task/],
  [
    named('bad', { inputSchema: { type: 'object', enum: ['x'.repeat(300_000)] } }),
    'bad',
    /more than 262144 characters/,
  ],
  [named('good', { description: 'Another one.' }), 'good', /another tool has the same name/],
]

t.test('a bad tool among good ones is left out, with its name and the reason', async (t) => {
  for (const [given, label, why] of bad) {
    const isSecond = label === 'good'
    const server = await plainHttp(t, isSecond ? [named('good'), given] : [given, named('good')])
    const { names, told } = await toolsFrom(t, server.url)
    t.same(names, ['good'])
    t.equal(told.length, 1)
    t.ok(told[0]?.startsWith(`the tool "${label}" cannot be used, and is left out: `), told.join())
    t.match(told[0], why)
  }
})

t.test('a bad tool that is asked for by name, or that is the only one, refuses the connection', async (t) => {
  const server = await plainHttp(t, [{ name: 'bad' }, named('good')])
  const asked = await refusal(mcpTools({ url: server.url }, { only: ['bad'] }))
  t.match(asked, {
    code: 'CONFIGURATION',
    message: /only: the tool "bad" of .* cannot be used: its inputSchema is nothing/,
  })
  t.same((await toolsFrom(t, server.url, { only: ['good'] })).told, [])
  server.pages = { '': { tools: [{ name: 'bad' }] } }
  const alone = await refusal(mcpTools({ url: server.url }))
  t.match(alone, {
    code: 'CONFIGURATION',
    message: /no tool of .* can be used\. The tool "bad": its inputSchema is nothing/,
  })
})

t.test('without a logger, what is left out is a warning of the process', async (t) => {
  const server = await plainHttp(t, [{ name: 'bad' }, named('good')])
  const warned = once(process, 'warning')
  const mcp = await mcpTools({ url: server.url })
  t.teardown(() => mcp.close())
  const [warning] = (await warned) as [Error]
  t.match(warning.message, /^mcpTools: the MCP server at .*: the tool "bad" cannot be used, and is left out/)
})

t.test('fields without a value may be null', async (t) => {
  const nothing = { title: null, description: null, outputSchema: null, annotations: null, execution: null }
  const server = await plainHttp(t, [named('good', nothing)])
  const { names, told } = await toolsFrom(t, server.url)
  t.same([names, told], [['good'], []])
})

const pages: [what: string, pages: Record<string, { tools: unknown; nextCursor?: unknown }>, asked: number][] = [
  [
    'repeats its cursor',
    { '': { tools: [named('a')], nextCursor: 'x' }, x: { tools: [named('b')], nextCursor: 'x' } },
    2,
  ],
  [
    'goes round in a circle',
    {
      '': { tools: [named('a')], nextCursor: 'x' },
      x: { tools: [named('b')], nextCursor: 'y' },
      y: { tools: [], nextCursor: 'x' },
    },
    3,
  ],
  [
    'gives the same page whatever the cursor is',
    Object.fromEntries(['', 'x'].map((at) => [at, { tools: [named('a'), named('b')], nextCursor: 'x' }])),
    2,
  ],
  ['has an empty cursor', { '': { tools: [named('a'), named('b')], nextCursor: '' } }, 1],
  ['has no cursor but null', { '': { tools: [named('a'), named('b')], nextCursor: null } }, 1],
]

for (const [what, given, asked] of pages)
  t.test(`a list that ${what} ends`, async (t) => {
    const server = await plainHttp(t)
    server.pages = given
    const { names, told } = await toolsFrom(t, server.url)
    t.same([names, told], [['a', 'b'], []])
    t.equal(server.asked.filter((method) => method === 'tools/list').length, asked)
  })

t.test('a list that is none, and a cursor that is no text, are refused', async (t) => {
  const server = await plainHttp(t)
  for (const [page, why] of [
    [{ tools: 'none' }, /its list of tools is "none"/],
    [{ tools: [], nextCursor: 5 }, /the next page of its tools is 5/],
  ] as const) {
    server.pages = { '': page }
    t.match(await refusal(mcpTools({ url: server.url })), { code: 'CONFIGURATION', message: why })
  }
})
