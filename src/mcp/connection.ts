/** A connection to an MCP server: started here or reached by HTTP, with what it offers, and calls of that. */
import { setMaxListeners } from 'node:events'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { JsonSchemaValidator, jsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/types.js'
import type { Logger } from '../actors/definition/logger.ts'
import type { ToolContext } from '../actors/definition/tool.ts'
import type { Refuse } from '../bounded-answer.ts'
import { systemClock } from '../clock.ts'
import { ConfigurationError, DramatisError, describe, shown, ToolFailedError } from '../errors.ts'
import { anyAborted } from '../on-abort.ts'
import { visible } from '../visible.ts'
import { httpTransport } from './http.ts'
import { inTime } from './in-time.ts'
import { printedOn } from './printed.ts'
import { type Sdk, sdk } from './sdk.ts'
import type { McpServer } from './server-address.ts'
import { StdioTransport } from './stdio.ts'

export interface OfferedTool {
  name: string
  description?: string | undefined
  inputSchema: object
  outputSchema?: object | undefined
  annotations?: { readOnlyHint?: boolean | undefined; idempotentHint?: boolean | undefined } | undefined
}

export interface Connection {
  /** The server in words, without what may be a secret: arguments, environment, headers, the query of its URL. */
  readonly name: string
  readonly offered: readonly OfferedTool[]
  /** A JSON schema as one that checks. Throws for one that is none. */
  /** Rejects with `ToolFailedError` for what the server refuses, or when it is gone. */
  call(tool: string, input: unknown, context: ToolContext): Promise<CallToolResult>
  close(): Promise<void>
}

/** In pages: a server that always has another one is not asked for ever. */
const MOST_PAGES = 100
/** Maximum number of tools of a server: ten times as many as a model can choose from. */
const MOST_TOOLS = 1_024
/** The caller of a tool has its own time limit, which ends the wait by its signal. */
const NO_LIMIT = 2 ** 31 - 1
const LEAVE_MS = 1_000
const LONGEST_OWN_NAME = 64
const LONGEST_LOOK_MS = 2_000
/** Field of `params._meta` in a call: the protocol has no field of its own for a key. */
const KEY_FIELD = 'dramatis/idempotencyKey'

/** The package would check by a schema in whatever time it takes. The output of a tool is checked by the tool. */
const unchecked: jsonSchemaValidator = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (input) => ({ valid: true, data: input as T, errorMessage: undefined })
  },
}

/** Connects, and asks which tools there are. Rejects with `ConfigurationError`. */
export async function connect(server: McpServer, timeoutMs: number, logger: Logger | undefined): Promise<Connection> {
  const address = nameOf(server)
  checkParts(server)
  let name = address
  const kit = await sdk()
  const client: Client = new kit.Client(
    { name: 'dramatis', version: '1' },
    { capabilities: {}, jsonSchemaValidator: unchecked },
  )
  client.onerror = (error) =>
    logger?.warn({ server: name, error: describe(error) }, 'an MCP server or the connection to it failed')
  let refusal: Error | undefined
  const ended = new AbortController()
  const refuse = (what: string) => {
    refusal ??= new Error(`it ${what}, so the connection to it was ended`)
    ended.abort(refusal) // a call whose answer was not looked at to its end hears of nothing else
    return refusal
  }
  let line: Line | undefined
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= hangUp(client, line)
    return closing
  }
  const late = new AbortController()
  const timer = systemClock.timer(timeoutMs, () => late.abort(new Error('The time is up.')))
  const enough = anyAborted([late.signal, ended.signal])
  setMaxListeners(0, enough.signal) // the package listens once more for each page of the list
  try {
    const options = { signal: enough.signal, timeout: NO_LIMIT }
    line = lineTo(kit, server, name, logger, refuse)
    boundLooks(line)
    await client.connect(line.transport, options)
    name = withOwnName(address, client.getServerVersion()?.name)
    const offered = await toolsOf(client, options)
    return {
      name,
      offered,
      close,
      call: (tool, input, context) => call({ client, name, ended: ended.signal }, tool, input, context),
    }
  } catch (error) {
    await close().catch(() => {})
    if (error instanceof DramatisError) throw error
    const why = late.signal.aborted
      ? `it did not say which tools it has within ${timeoutMs} ms (connectTimeoutMs)`
      : (refusal?.message ?? wordsOf(error, server))
    const path = 'command' in server ? 'command' : 'url'
    throw new ConfigurationError(`mcpTools: ${name} cannot be used: ${why}.`, { path, server: name }, error)
  } finally {
    timer.cancel()
    enough.forget()
  }
}

/** A server that keeps sessions is told that this one is over; one that does not answer is not waited for. */
async function hangUp(client: Client, line: Line | undefined): Promise<void> {
  const enough = new AbortController()
  const left = line?.leave?.().catch(() => {}) // it is gone, or knows no sessions
  await Promise.race([left, systemClock.sleep(LEAVE_MS, enough.signal).catch(() => {})])
  enough.abort()
  await client.close()
  await line?.ended?.()
}

async function toolsOf(client: Client, options: { signal: AbortSignal; timeout: number }): Promise<OfferedTool[]> {
  const offered: OfferedTool[] = []
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page++) {
    const { tools, nextCursor } = await client.listTools(cursor === undefined ? {} : { cursor }, options)
    if (offered.length + tools.length > MOST_TOOLS) throw new Error(`it has more than ${MOST_TOOLS} tools`)
    offered.push(...tools)
    if (nextCursor === undefined) return offered
    cursor = nextCursor
  }
  throw new Error(`its list of tools has more than ${MOST_PAGES} pages`)
}

async function call(
  { client, name, ended }: { client: Client; name: string; ended: AbortSignal },
  tool: string,
  input: unknown,
  { idempotencyKey, signal, progress }: ToolContext,
): Promise<CallToolResult> {
  const either = anyAborted([signal, ended])
  const params = { name: tool, arguments: input as Record<string, unknown>, _meta: { [KEY_FIELD]: idempotencyKey } }
  try {
    const result = await client.callTool(params, undefined, {
      signal: either.signal,
      timeout: NO_LIMIT,
      onprogress: (said) =>
        progress(said.message ?? `${said.progress}${said.total === undefined ? '' : ` of ${said.total}`}`),
    })
    return result as CallToolResult
  } catch (error) {
    const isGone = client.transport === undefined || ended.aborted
    const what = ended.aborted ? (ended.reason as Error).message : 'the server is gone'
    const why = isGone ? `${what}; connect to it again with mcpTools` : describe(error)
    throw new ToolFailedError(`The tool "${tool}" of ${name} failed: ${why}`, { tool, server: name }, error)
  } finally {
    either.forget()
  }
}

/**
 * Transport of a connection: it carries messages, and says what to do before it is closed and what to wait for then.
 */
interface Line {
  transport: Transport
  /** Ends it at once. */
  end: Refuse
  leave?: () => Promise<void>
  ended?: () => Promise<void>
}

function lineTo(kit: Sdk, server: McpServer, name: string, logger: Logger | undefined, refuse: Refuse): Line {
  if ('command' in server) {
    const printed = logger && printedOn((text) => logger.info({ server: name }, text))
    const transport = new StdioTransport(server, { kit, refuse, printed })
    return { transport, end: (what) => transport.end(what), ended: () => transport.close() }
  }
  const { transport, end } = httpTransport(kit, server, refuse)
  return { transport, end, leave: () => transport.terminateSession() }
}

/** The package's schemas say of each wrong part of an answer what is wrong, and there can be millions. */
function boundLooks({ transport, end }: Line): void {
  const late = () => end(`sends an answer that takes longer than ${LONGEST_LOOK_MS} ms to check`)
  let listener: Transport['onmessage']
  const bounded: Transport['onmessage'] = (message, extra) => {
    if ('method' in message) return listener?.(message, extra) // what a server asks has few parts
    inTime(LONGEST_LOOK_MS, late, () => listener?.(message, extra))
  }
  Object.defineProperty(transport, 'onmessage', {
    get: () => listener && bounded,
    set: (given: Transport['onmessage']) => {
      listener = given
    },
  })
}

function nameOf(server: unknown): string {
  const { command, url }: { command?: unknown; url?: unknown } = Object(server)
  if (typeof command === 'string' && command !== '' && url === undefined) return `the MCP server "${command}"`
  const at = String(url)
  if (command === undefined && URL.canParse(at) && /^https?:$/.test(new URL(at).protocol)) {
    const { origin, pathname, username, password } = new URL(at)
    if (username + password !== '')
      throw new ConfigurationError('mcpTools: the URL has a name or a password in it; send them in headers.', {
        path: 'url',
      })
    return `the MCP server at ${origin}${pathname}`
  }
  throw new ConfigurationError(
    `mcpTools: got ${shown(server)}; accepted: { command, args?, env?, cwd? } or { url, headers? } with an http: or https: URL.`,
    { path: 'server', got: shown(server) },
  )
}

/** Adds how the server calls itself: several may be started by one command. */
function withOwnName(address: string, own: unknown): string {
  if (typeof own !== 'string' || own === '') return address
  return `${address} ("${visible(own.slice(0, LONGEST_OWN_NAME))}")`
}

function checkParts(server: object): void {
  const { args, env }: { args?: unknown; env?: unknown } = server
  if (args !== undefined && !(Array.isArray(args) && args.every(isText)))
    throw new ConfigurationError(`mcpTools: args: got ${shown(args)}; accepted: a list of texts.`, { path: 'args' })
  if (env === undefined) return
  const isObject = typeof env === 'object' && env !== null
  const wrong = isObject ? Object.entries(env).find(([, value]) => value !== undefined && !isText(value))?.[0] : ''
  if (wrong === undefined) return
  const path = isObject ? `env.${wrong}` : 'env'
  // A value may be a secret, also one of another type: it is not shown.
  throw new ConfigurationError(`mcpTools: ${path}: no text; accepted: variables whose values are texts.`, { path })
}

const isText = (value: unknown): boolean => typeof value === 'string'

function wordsOf(error: unknown, server: McpServer): string {
  const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
  if ('url' in server) return describe(error).replaceAll(String(server.url), 'its URL')
  if (!isMissing) return describe(error)
  return 'there is no such command; it is looked for in the PATH of its own environment (env.PATH), or by an absolute path'
}
