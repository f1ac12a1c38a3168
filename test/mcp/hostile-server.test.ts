/** A server whose schemas and lists are made to hold the host. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { mcpTools } from '../../src/mcp/index.ts'
import { boundedValidator } from '../../src/mcp/schema.ts'
import type { Sdk } from '../../src/mcp/sdk.ts'
import { desk } from '../toolbox/desk.ts'

const program = fileURLToPath(new URL('../fixtures/mcp/hostile-server.js', import.meta.url))
const server = (tools: number) => ({ command: process.execPath, args: [program, String(tools)] })

t.test('a check of input or output that takes too long is ended, and the call fails', async (t) => {
  const { tools, close } = await mcpTools(server(2))
  t.teardown(close)
  const { call } = desk(t, tools)
  const late = /its schema takes longer than 200 ms to check by/
  t.match((await call('tool_0', { word: `${'a'.repeat(40)}!` })).outcomes, [{ code: 'TOOL_INPUT', message: late }])
  t.match((await call('tool_0', { word: 'aaaa' })).outcomes, [{ output: { said: /^a+!$/ } }], 'a quick one is checked')
  t.match((await call('tool_1', {})).outcomes, [{ code: 'TOOL_FAILED', message: late }])
})

t.test('a check that was too late once is done again: this thread may have waited for a processor', async (t) => {
  let checks = 0
  const getValidator = () => (value: unknown) => {
    checks += 1
    while (checks === 1);
    return { valid: true, data: value, errorMessage: undefined }
  }
  const Validator = class {
    getValidator = getValidator
  }
  const check = boundedValidator({ Validator } as unknown as Pick<Sdk, 'Validator'>).getValidator({})
  t.match(check('said'), { valid: true, data: 'said' })
  t.equal(checks, 2)
})

t.test('a server with more than 1,024 tools is refused', async (t) => {
  await t.rejects(mcpTools(server(1_025)), { code: 'CONFIGURATION', message: /it has more than 1024 tools/ })
  const { tools, close } = await mcpTools(server(1_024))
  t.teardown(close)
  t.equal(tools.length, 1_024)
})
