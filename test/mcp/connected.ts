/** A connection to an MCP server, without a team. */
import type t from 'tap'
import type { Logger, ToolContext } from '../../src/actors/definition/tool.ts'
import { connect } from '../../src/mcp/connection.ts'
import type { McpServer } from '../../src/mcp/index.ts'

type Test = Pick<typeof t, 'teardown'>

/** Ends with the test. */
export async function connected(t: Test, server: McpServer, logger?: Logger) {
  const connection = await connect(server, { timeoutMs: 120_000, logger })
  t.teardown(() => connection.close())
  const { signal } = new AbortController()
  const call = (tool: string, input: object = {}, more: Partial<ToolContext> = {}, timeoutMs?: number) =>
    connection.call(tool, input, { signal, progress: () => {}, ...more } as unknown as ToolContext, timeoutMs)
  return { connection, call }
}
