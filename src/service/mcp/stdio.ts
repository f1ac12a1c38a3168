/** Teams by the Model Context Protocol over two pipes, for the program at their other end. */
import { type Readable, Writable } from 'node:stream'
import { describe } from '../../shared/errors.ts'
import { type Caller, type HttpApiOptions, readOptions } from '../http/options.ts'
import { IdempotencyKeys, ServedTeams, Tasks } from '../http/tasks.ts'
import type { Answer } from '../shared/screen.ts'
import { assertNames } from './handlers.ts'
import { sdk, sdkOfPipes } from './sdk.ts'
import { askTools, serverFor } from './server.ts'

export interface Pipes {
  readonly stdin: NodeJS.ReadableStream
  readonly answer: Pick<Answer, 'write'>
}

/**
 * Serves the teams of these options until `close`. `over` resolves when the other end has left.
 *
 * @throws ConfigurationError for a wrong option, and where the package of the protocol is not installed.
 */
export async function servePipes(
  options: Omit<HttpApiOptions, 'authorize'>,
  caller: Caller,
  { stdin, answer }: Pipes,
): Promise<{ over: Promise<void>; close(): Promise<void> }> {
  const [loaded, { serveStdio, StdioServerTransport }] = await Promise.all([sdk(), sdkOfPipes()])
  const settings = readOptions({ mcp: true, ...options, authorize: () => caller })
  const mcp = settings.mcp!
  const served = new ServedTeams(settings)
  const teams = served.own.filter(({ name }) => mcp.teams.includes(name))
  assertNames(askTools(teams, mcp).map(({ name }) => name))
  const tasks = new Tasks(settings, served)
  const service = { settings, tasks, keys: new IdempotencyKeys(settings.limits) }
  const gone = new AbortController()
  const over = new Promise<void>((resolve) => {
    for (const event of ['end', 'close', 'error']) stdin.once(event, () => resolve())
  })
  const stdout = new Writable({
    write: (chunk: Buffer, _encoding, done) => void answer.write(chunk.toString()).then(() => done(), done),
  })
  const request = { headers: new Headers(), signal: gone.signal }
  const handle = serveStdio(serverFor(loaded, service, mcp, { caller, teams, request, isPiped: true }), {
    transport: new StdioServerTransport(stdin as Readable, stdout),
    maxSubscriptions: 0, // tools do not change
    onerror: (error) => settings.logger.debug({ error: describe(error) }, 'a request of MCP was refused'),
  })
  return {
    over,
    async close() {
      gone.abort()
      tasks.isDraining = true
      tasks.close()
      await handle.close()
    },
  }
}
