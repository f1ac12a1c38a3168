/** A connection to an MCP server: started here or reached by HTTP, with what it offers, and calls of that. */
import type { CallToolResult, Progress } from '@modelcontextprotocol/sdk/types.js'
import type { Logger } from '../actors/definition/logger.ts'
import type { ToolContext } from '../actors/definition/tool.ts'
import { ConfigurationError, ToolFailedError } from '../errors.ts'
import { anyAborted } from '../on-abort.ts'
import { Endpoint } from './endpoint.ts'
import { listOf, type Offer, offerIn } from './offer.ts'
import { sdk } from './sdk.ts'
import { checkParts, type McpServer, nameOf } from './server-address.ts'
import { NO_LIMIT } from './session.ts'
import { Sessions } from './sessions.ts'

export interface Connection {
  /** The server in words, without what may be a secret: arguments, environment, headers, the query of its URL. */
  readonly name: string
  readonly offer: Offer
  /** Rejects with `ToolFailedError` for what the server refuses, or when it is gone. */
  call(tool: string, input: unknown, context: ToolContext): Promise<CallToolResult>
  close(): Promise<void>
}

export interface ConnectOptions {
  /** Time for a session to begin, and for the server to say which tools it has. */
  timeoutMs: number
  logger?: Logger | undefined
  /** Says whether a tool will be used, by its name. Default: all are. */
  isWanted?: (name: string) => boolean
}

/** Field of `params._meta` in a call: the protocol has no field of its own for a key. */
const KEY_FIELD = 'dramatis/idempotencyKey'
const GONE = 'the server is gone'

/** Connects, and asks which tools there are. Rejects with `ConfigurationError`. */
export async function connect(
  server: McpServer,
  { timeoutMs, logger, isWanted = () => true }: ConnectOptions,
): Promise<Connection> {
  const address = nameOf(server)
  checkParts(server)
  const kit = await sdk()
  const endpoint = new Endpoint(kit, server, address, timeoutMs, logger)
  const { ended } = endpoint
  const { first, offer } = await endpoint
    .inTime(async (signal) => {
      const first = await endpoint.begin(signal)
      try {
        const listed = await listOf(first, kit, { signal, timeout: NO_LIMIT })
        return { first, offer: await offerIn(listed, isWanted, signal) }
      } catch (error) {
        await first.close().catch(() => {})
        throw error
      }
    })
    .catch((error: unknown) => {
      const { name } = endpoint
      const text = `mcpTools: ${name} cannot be used: ${endpoint.wordsOf(error)}.`
      throw new ConfigurationError(text, { path: 'command' in server ? 'command' : 'url', server: name }, error)
    })
  const { name } = endpoint
  const sessions = new Sessions(first, () => endpoint.inTime((signal) => endpoint.begin(signal)), ended)
  return {
    name,
    offer,
    async call(tool, input, { idempotencyKey, signal, progress }) {
      const either = anyAborted([signal, ended])
      const params = {
        name: tool,
        arguments: input as Record<string, unknown>,
        _meta: { [KEY_FIELD]: idempotencyKey },
      }
      const options = {
        signal: either.signal,
        timeout: NO_LIMIT,
        onprogress: (said: Progress) =>
          progress(said.message ?? `${said.progress}${said.total === undefined ? '' : ` of ${said.total}`}`),
      }
      try {
        return await sessions.use(either.signal, ({ client }) =>
          client.request({ method: 'tools/call', params }, kit.CallToolResultSchema, options),
        )
      } catch (error) {
        const isGone = ended.aborted || sessions.current.client.transport === undefined
        const what = ended.aborted ? (ended.reason as Error).message : GONE
        const why = isGone ? `${what}; connect to it again with mcpTools` : endpoint.wordsOf(error)
        throw new ToolFailedError(`The tool "${tool}" of ${name} failed: ${why}`, { tool, server: name }, error)
      } finally {
        either.forget()
      }
    },
    close() {
      endpoint.end(new Error(GONE))
      return sessions.close()
    },
  }
}
