/** A team by the Agent Client Protocol over two pipes, for the program at their other end. */
import { Readable, Writable } from 'node:stream'
import { sdk } from '../../remote/sdk.ts'
import { MIB } from '../../shared/answers.ts'
import { type Caller, type HttpApiOptions, readOptions } from '../http/options.ts'
import { ServedTeams, Tasks } from '../http/tasks.ts'
import type { Pipes } from '../mcp/stdio.ts'
import { agentOf } from './agent.ts'

const LONGEST_LINE = 16 * MIB

/**
 * Serves the first team of these options until `close`. `over` resolves when the other end has left.
 *
 * @throws ConfigurationError for a wrong option, and where the package of the protocol is not installed.
 */
export async function serveAcp(
  options: Omit<HttpApiOptions, 'authorize'>,
  caller: Caller,
  { stdin, answer }: Pipes,
): Promise<{ over: Promise<void>; close(): Promise<void> }> {
  const acp = await sdk('dramatis acp')
  const settings = readOptions({ ...options, authorize: () => caller })
  const teams = new ServedTeams(settings)
  const tasks = new Tasks(settings, teams)
  const ending = new AbortController()
  const stdout = new Writable({
    write: (chunk: Buffer, _encoding, done) => void answer.write(chunk.toString()).then(() => done(), done),
  })
  const stream = acp.ndJsonStream(
    Writable.toWeb(stdout) as Parameters<typeof acp.ndJsonStream>[0],
    Readable.toWeb(stdin as Readable) as Parameters<typeof acp.ndJsonStream>[1],
    { maxMessageBytes: LONGEST_LINE },
  )
  const connection = agentOf(acp, { tasks }, { served: teams.named(), caller, ending: ending.signal }).connect(stream)
  return {
    over: connection.closed,
    async close() {
      ending.abort()
      tasks.isDraining = true
      tasks.close()
      connection.close()
    },
  }
}
