/** What an agent or a tool throws is told with its causes, in the result, in events and in the log. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createTeam, type RuntimeEvent } from '../../src/index.ts'
import { inHost } from '../fixtures/team/refused-tools.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/team/${name}.js`, import.meta.url))

/** An address at which nobody listens. */
async function nobody(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `127.0.0.1:${port}`
}

t.test('a refused connection is told with its code and address, whoever met it', async (t) => {
  const lines: object[] = []
  const line = (fields: object) => void lines.push(fields)
  const module = fixture('refused-tools')
  const team = createTeam({
    agents: [
      {
        name: 'ann',
        module: fixture('refused'),
        tools: [inHost, { module, export: 'inThread' }, { module, export: 'inOwnThread', isolate: true }],
      },
    ],
    orchestration: { strategy: 'sequential' },
    logger: { debug() {}, info() {}, warn: line, error: line },
  })
  t.teardown(() => team.close())
  for (const by of ['agent', 'host', 'thread', 'isolated']) {
    const address = await nobody()
    const run = team.launch(`${by} http://${address}/${process.pid}`)
    const finished: RuntimeEvent[] = []
    for await (const event of run.events()) if (event.type === 'tool.finished') finished.push(event)
    const { error } = await run.result
    const why = {
      name: 'Error',
      code: 'ECONNREFUSED',
      address: '127.0.0.1',
      message: `connect ECONNREFUSED ${address}`,
    }
    const fetching = { name: 'TypeError', message: 'fetch failed', cause: why }
    t.match(error, { code: 'AGENT_FAILED', cause: by === 'agent' ? fetching : { name: 'ToolFailedError' } }, by)
    t.match(error?.message, `TypeError: fetch failed; cause: Error: connect ECONNREFUSED ${address}`, by)
    t.match(lines, [{ event: 'run.finished', error: error?.message }], by)
    if (by !== 'agent') t.match(finished, [{ error: { code: 'TOOL_FAILED', cause: fetching } }], by)
    lines.length = 0
  }
})
