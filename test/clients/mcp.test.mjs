/** Clients of the Model Context Protocol ask a team, each by the tools that it lists. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createMCPClient } from '@ai-sdk/mcp'
import { Client as Client2026, StreamableHTTPClientTransport as Http2026 } from '@modelcontextprotocol/client'
import { Client as Client2025 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as Http2025 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { MCPServerStreamableHttp } from '@openai/agents'
import { ANN, listen } from './shop.mjs'

const NAMES = ['ask_shop', 'task_status', 'answer_question', 'cancel_task']
const ASKED = { query: 'use find lamp' }
const ANSWER = 'result: {"done":"lamp"}'
const textOf = ({ content }) => content[0].text
const name = { name: 'test', version: '1' }

async function bySdk(client, transport) {
  await client.connect(transport)
  const { tools } = await client.listTools()
  const answer = await client.callTool({ name: 'ask_shop', arguments: ASKED })
  await client.close()
  return { names: tools.map((tool) => tool.name), answer: textOf(answer) }
}

const headers = { requestInit: { headers: ANN } }

const clients = {
  'SDK 1': (url) => bySdk(new Client2025(name), new Http2025(new URL(url), headers)),
  'SDK 2, 2025': (url) => bySdk(new Client2026(name), new Http2026(new URL(url), headers)),
  'SDK 2, 2026': (url) =>
    bySdk(new Client2026(name, { versionNegotiation: { mode: 'auto' } }), new Http2026(new URL(url), headers)),
  async 'AI SDK'(url) {
    const client = await createMCPClient({ transport: { type: 'http', url, headers: ANN } })
    const tools = await client.tools()
    const answer = await tools.ask_shop.execute(ASKED, { toolCallId: 'c', messages: [] })
    await client.close()
    return { names: Object.keys(tools), answer: textOf(answer) }
  },
  async 'OpenAI Agents'(url) {
    const server = new MCPServerStreamableHttp({ url, requestInit: { headers: ANN } })
    await server.connect()
    const tools = await server.listTools()
    const [answer] = await server.callTool('ask_shop', ASKED)
    await server.close()
    return { names: tools.map((tool) => tool.name), answer: answer.text }
  },
  async Inspector(url) {
    const run = async (...args) => {
      const all = ['--cli', url, '--transport', 'http', '--header', 'x-caller: ann:run', ...args]
      const program = ['node_modules/.bin/mcp-inspector', ...all]
      const { stdout } = await promisify(execFile)(process.execPath, program, { timeout: 60_000 })
      return JSON.parse(stdout)
    }
    const { tools } = await run('--method', 'tools/list')
    const called = await run('--method', 'tools/call', '--tool-name', 'ask_shop', '--tool-arg', 'query=use find lamp')
    return { names: tools.map((tool) => tool.name), answer: textOf(called) }
  },
}

for (const [client, play] of Object.entries(clients))
  test(`${client} lists the tools, and asks a team`, async (t) => {
    const { url, done, close } = await listen({ mcp: true })
    t.after(close)
    assert.deepEqual(await play(`${url}/mcp`), { names: NAMES, answer: ANSWER })
    assert.deepEqual(done, ['find lamp'])
  })
