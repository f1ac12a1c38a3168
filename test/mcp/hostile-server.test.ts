/** A server whose schemas and lists are made to hold the host. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { mcpTools } from '../../src/mcp/index.ts'
import { desk } from '../toolbox/desk.ts'

const program = fileURLToPath(new URL('../fixtures/mcp/hostile-server.js', import.meta.url))
const server = (tools: number) => ({ command: process.execPath, args: [program, String(tools)] })

t.test('a pattern that would take for ever is checked in a moment', async (t) => {
  const { tools, close } = await mcpTools(server(2))
  t.teardown(close)
  const { call } = desk(t, tools)
  const missed = /must match the pattern/
  t.match((await call('tool_0', { word: `${'a'.repeat(40)}!` })).outcomes, [{ code: 'TOOL_INPUT', message: missed }])
  t.match((await call('tool_0', { word: 'aaaa' })).outcomes, [{ output: { said: /^a+!$/ } }])
  t.match((await call('tool_1', {})).outcomes, [{ code: 'TOOL_FAILED', message: missed }])
})

t.test('a server with more than 1,024 tools is refused', async (t) => {
  await t.rejects(mcpTools(server(1_025)), { code: 'CONFIGURATION', message: /it has more than 1024 tools/ })
  const { tools, close } = await mcpTools(server(1_024))
  t.teardown(close)
  t.equal(tools.length, 1_024)
})
