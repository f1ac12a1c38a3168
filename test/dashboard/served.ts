/** A team in this thread, served with its dashboard at a port. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'
import { z } from 'zod'
import type { ModelClient } from '../../src/actors/definition/model.ts'
import { type AgentDefinition, defineAgent, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { type HttpApi, type HttpApiOptions, httpApi } from '../../src/service/api/index.ts'
import { type TestTeam, testTeam } from '../../src/testing.ts'

export interface Served {
  url: string
  team: TestTeam
  api: HttpApi
  /** What the tool `pay` was called with. */
  paid: unknown[]
  /** Cuts all connections, as a network does. */
  cut(): void
  /** Ends the service and its team. */
  stop(): Promise<void>
}

interface Given {
  agents?: Record<string, AgentDefinition>
  options?: Partial<MultiAgentPatternOptions>
  model?: ModelClient
  api?: Partial<HttpApiOptions>
  port?: number
}

const pay = (paid: unknown[]) =>
  defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ to: z.string(), euros: z.number() }),
    approval: true,
    run: (input) => {
      paid.push(input)
      return 'paid'
    },
  })

/** Does what it is told: pays when a person agrees, asks, or says what it heard. */
export const handy = defineAgent({
  async receive({ content }, context) {
    if (content.startsWith('pay')) {
      const end = await context.tool('pay', { to: 'ann', euros: 90 }).then(String, ({ message }) => String(message))
      return `pay: ${end}`
    }
    if (content === 'ask') return `you said ${await context.ask('Red or blue?', { choices: ['red', 'blue'] })}`
    return `heard: ${content}`
  },
})

const silent = { debug() {}, info() {}, warn() {}, error() {} }

export async function served(
  t: Test,
  { agents = { worker: handy }, options = {}, model, api = {}, port = 0 }: Given = {},
): Promise<Served> {
  const paid: unknown[] = []
  const team = testTeam(
    {
      orchestration: { strategy: 'sequential' },
      enableBlackboard: true,
      agents: Object.keys(agents).map((name) => ({ name })),
      tools: [pay(paid)],
      ...options,
    } as MultiAgentPatternOptions,
    { modules: agents, ...(model && { model }) },
  )
  const http = httpApi({
    teams: { desk: team },
    authorize: () => ({ id: 'me', may: ['run', 'watch', 'operate', 'approve'] }),
    approveOwn: true,
    logger: silent,
    dashboard: true,
    ...api,
    limits: { postsPerSecond: 10_000, getsPerSecond: 10_000, ...api.limits },
  })
  const server = createServer(http.node)
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const stop = () => end(http, server, team)
  t.teardown(stop)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    team,
    api: http,
    paid,
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    stop,
  }
}

async function end(api: HttpApi, server: Server, team: TestTeam): Promise<void> {
  await api.close()
  await team.close()
  const closed = new Promise((resolve) => server.close(resolve)) // at once if it is closed already
  server.closeAllConnections()
  await closed
}
