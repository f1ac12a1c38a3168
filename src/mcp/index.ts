/** `dramatis/mcp`: the tools of an MCP server, for agents. Source: modelcontextprotocol.io. */

import { checkBySchema } from '../actors/definition/schema.ts'
import { defineTool, type Logger, type ModelSchema, type Tool, type ToolContext } from '../actors/definition/tool.ts'
import { laterSchema } from '../json-schema/later-schema.ts'
import { ConfigurationError, shown, ToolFailedError } from '../shared/errors.ts'
import { Changes } from './changes.ts'
import { type Connection, connect, finishLogin as finished, mayRepeat } from './connection.ts'
import { namesFor, type OfferedTool, outputOf } from './loose.ts'
import type { McpPrompt, McpResource, ToolChanges } from './offer.ts'
import { promptOf, resourcesOf, resourceTools } from './resources.ts'
import type { LoginParams, McpServer } from './server-address.ts'

export type { McpPrompt, McpResource, ToolChanges } from './offer.ts'
export type {
  ClientCredentials,
  Era,
  HttpServer,
  InteractiveLogin,
  LoginParams,
  MachineClient,
  McpAuth,
  McpServer,
  OAuthProvider,
  PrivateKeyJwt,
  StdioServer,
  TokenStore,
} from './server-address.ts'
export { tokenFile } from './server-address.ts'

/** Options for the tools of a server. Durations in ms. */
export interface McpToolsOptions {
  /** Stands before each name, so that tools of several servers can be told apart. */
  prefix?: string
  /** These alone, by the names that the server has for them. All by default. */
  only?: readonly string[]
  /** Effect of a tool that cannot be used, among others that can. Default: 'warn', which leaves it out. */
  onBadTool?: 'warn' | 'throw'
  /** How long each call may take; 30,000. */
  timeoutMs?: number
  /**
   * How long a task of the server may take, without the time in which people are asked; 86,400,000 (a day). A run that
   * ends before ends it too.
   */
  taskTimeoutMs?: number
  /**
   * True: agents read the server's resources themselves, by the tools `list_resources` and `read_resource`. Default:
   * false.
   */
  resourceTools?: boolean
  /** True: each call runs alone among those that a model asks for in one answer (`defineTool`). Default: false. */
  sequential?: boolean
  /** How long it may take until the server has said which tools it has; 30,000. */
  connectTimeoutMs?: number
  /** Takes what a server that was started here prints on stderr, and errors that belong to no call. */
  logger?: Logger
}

/** Tools of a server, and the connection to it. */
export interface McpTools extends AsyncDisposable {
  /** The tools that the server has now. Those of a team are fixed: give new ones to a new team. */
  readonly tools: Tool[]
  /**
   * News of the tools, as long as it is read and the connection is open: from the server where it tells of them, and
   * from each new list. Readers do not get in each other's way; a slow one gets what has changed since it last read.
   */
  readonly changes: AsyncIterable<ToolChanges>
  /** Returns the resources of the server, at most 1,024. Rejects with `ToolFailedError` where it does not say them. */
  resources(): Promise<McpResource[]>
  /** Returns a prompt of the server. Rejects with `ToolFailedError` where it has none of that name, or wants more. */
  prompt(name: string, args?: Readonly<Record<string, string>>): Promise<McpPrompt>
  /**
   * Takes the query of the URL at which a person comes back who has logged in (`auth: { interactive }`): calls that
   * wait for it go on. Rejects with `ConfigurationError` for a state of no open login, an answer of another
   * authorization server than it was begun with, and where that says no.
   */
  finishLogin(params: LoginParams): Promise<void>
  /** Ends the connection, and the server where it was started here. Calls under way fail. Twice is fine. */
  close(): Promise<void>
}

/**
 * Connects to an MCP server, and gives its tools as tools of this library: for `tools` of a team or of a role. They run
 * in the host. A server is started by its `command`, over stdio, or reached at its `url`, over streamable HTTP. One
 * that is started has no environment but `env`, so give it `PATH` there, or name the command by an absolute path.
 * Redirects to another origin are refused, since the headers would go along. Close it after the team: nobody else does.
 *
 * Servers of the protocol's years 2025 and 2026 are asked which they speak; `era` of the server says it instead.
 *
 * A name that models do not take is changed: what is no letter of ASCII, digit, '_' or '-' becomes '_', and the rest
 * beyond 64 characters is cut. The second of two names that become one gets '_' and four hex digits of its own name.
 * Input is checked by the server's JSON schema before it is sent, in a bounded number of steps. The output is the
 * structured content of the result, else its text, else the list of its parts; a result that is an error is a
 * `ToolFailedError` with its text. Structured content that misses its schema is passed on, and noted as progress.
 *
 * A tool is `readOnly` if the server says so (`readOnlyHint`), and `idempotent` if it says that (`idempotentHint`) or
 * the former. Each call carries its `idempotencyKey` as `_meta['dramatis/idempotencyKey']`. The tools are those
 * of the first list.
 *
 * Schemas of draft 4, and patterns that hold only without the flag `u`, are put in today's words. The check goes
 * without keywords that it cannot check by; models and the server get them. A tool that cannot be used is left out.
 * `logger` is told of both once, with the reasons; without it, they are warnings of the process.
 *
 * A server that asks in a call asks a person, by `ask` of the tool's context, in at most 10 rounds; one that answers
 * with a task is asked until the task ends. Both cost none of `timeoutMs`, and go on in a later process. At most 20
 * questions of a call are put to people at once.
 *
 * A connection that is lost is begun anew by the next call, which is made once more where it was not made, or where the
 * tool is `idempotent`; else a call that may have been made rejects with `OutcomeUnknownError`. The list of tools is
 * read again then: a tool that is gone fails, and a changed schema counts.
 *
 * A server that sends more than 16 MiB in one line, event or body, a million JSON values in one of them, 128 MiB as the
 * stream of one answer, or 10,000 lines that are no message, that leaves 1,000 answers unread, or that begins with
 * more than 262,144 characters of itself, is given up: one that was started here is ended, and calls under way and
 * later ones fail with what it sent. Of its stderr 1 MiB a minute is passed on.
 *
 * Needs the package `@modelcontextprotocol/client` beside this one.
 *
 * Rejects with `ConfigurationError` for a wrong option, a server that cannot be reached or does not answer in time, and
 * one none of whose tools can be used.
 *
 * @example
 * const server = { command: process.execPath, args: ['server.js'], env: { ROOT: '/data' } }
 * const files = await mcpTools(server, { prefix: 'files_' })
 * const team = createTeam({ agents, orchestration, tools: files.tools })
 * // ...
 * await team.close()
 * await files.close()
 */
export async function mcpTools(server: McpServer, options: McpToolsOptions = {}): Promise<McpTools> {
  checkOptions(options)
  const { connectTimeoutMs: timeoutMs = DEFAULT_MS, timeoutMs: callMs = DEFAULT_MS, logger, only } = options
  const isWanted = (name: string) => only?.includes(name) ?? true
  const connection = await connect(server, { timeoutMs, logger, isWanted })
  try {
    let of = connection.offer
    let tools = toolsOf(connection, options)
    const now = () => wantedIn(connection, options)
    const changes: Changes = new Changes(now, connection.ended, (until) =>
      connection.watch(until, () => changes.look()),
    )
    const close = () => connection.close()
    return {
      get tools() {
        if (of !== connection.offer) tools = madeOf(connection, options)
        of = connection.offer
        return tools
      },
      changes,
      resources: () => resourcesOf(connection, callMs),
      prompt: (name, args = {}) => promptOf(connection, name, args, callMs),
      finishLogin: (params) => connection.finishLogin(params),
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await connection.close()
    throw error
  }
}

/**
 * Ends a login with a server that has no tools yet, since `mcpTools` rejected: `details.url` of that
 * `ConfigurationError` is where a person logs in, and `params` is the query with which they come back. Then call
 * `mcpTools` again. Rejects as `finishLogin` of the tools does.
 */
export const finishLogin = (server: McpServer, params: LoginParams): Promise<void> => finished(server, params)

const DEFAULT_MS = 30_000
const MOST_TOLD = 20

const OPTIONS: Readonly<
  Record<keyof McpToolsOptions, readonly [accepted: string, passes: (value: unknown) => boolean]>
> = {
  prefix: ['a string', (value) => typeof value === 'string'],
  only: ['a list of names', (value) => Array.isArray(value) && value.every((name) => typeof name === 'string')],
  onBadTool: ['warn, throw', (value) => value === 'warn' || value === 'throw'],
  timeoutMs: ['milliseconds above 0', isDuration],
  taskTimeoutMs: ['milliseconds above 0', isDuration],
  resourceTools: ['true or false', (value) => typeof value === 'boolean'],
  sequential: ['true or false', (value) => typeof value === 'boolean'],
  connectTimeoutMs: ['milliseconds above 0', isDuration],
  logger: ['a logger', (value) => typeof value === 'object' && value !== null],
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value > 0 && value <= 2 ** 31 - 1
}

function checkOptions(options: object): void {
  for (const [path, value] of Object.entries(options)) {
    const [accepted, passes] = OPTIONS[path as keyof McpToolsOptions] ?? [`one of ${Object.keys(OPTIONS).join(', ')}`]
    if (value === undefined || passes?.(value)) continue
    const message = `mcpTools options.${path}: got ${shown(value)}; accepted: ${accepted}.`
    throw new ConfigurationError(message, { path, accepted })
  }
}

/** Returns the tools of the server that are wanted, by their names in a team. */
function wantedIn({ offer }: Connection, { prefix = '', only }: McpToolsOptions): Map<string, OfferedTool> {
  const wanted = offer.tools.filter(({ name }) => only?.includes(name) ?? true)
  const names = namesFor(
    wanted.map(({ name }) => name),
    prefix,
  )
  return new Map(wanted.map((tool, at) => [names[at]!, tool]))
}

function madeOf(connection: Connection, options: McpToolsOptions): Tool[] {
  const { prefix = '', timeoutMs = DEFAULT_MS, sequential = false, taskTimeoutMs: taskMs } = options
  const wanted = wantedIn(connection, options)
  const tools = [...wanted].map(([name, tool]) => toolOf(connection, tool, name, { timeoutMs, sequential }, taskMs))
  if (!options.resourceTools || !connection.offers('resources')) return tools
  const all = [...[...wanted.values()].map(({ name }) => name), 'list_resources', 'read_resource']
  const schemaOf = (schema: object) => laterSchema(schema, unreadable, toldBefore)
  return [...tools, ...resourceTools(connection, namesFor(all, prefix).slice(-2), timeoutMs, schemaOf)]
}

/** The first tools. Tells of those that cannot be used. */
function toolsOf(connection: Connection, options: McpToolsOptions): Tool[] {
  const { only, onBadTool = 'warn', logger } = options
  const { offer, name: server } = connection
  const { tools: offered, refused } = offer
  for (const name of only ?? []) {
    if (offered.some((tool) => tool.name === name)) continue
    const why = refused.get(name)
    const text = why
      ? `the tool "${name}" of ${server} cannot be used: ${why}`
      : `${server} has no tool "${name}"; it has ${offered.map((tool) => tool.name).join(', ')}`
    throw new ConfigurationError(`mcpTools options.only: ${text}.`, { path: 'only', got: name })
  }
  const [one] = refused
  if (one && (offered.length === 0 || (onBadTool === 'throw' && !only))) {
    const [path, why] = one
    const what = offered.length === 0 ? `no tool of ${server} can be used` : `a tool of ${server} cannot be used`
    throw new ConfigurationError(`mcpTools: ${what}. The tool "${path}": ${why}.`, { path })
  }
  const tell = (text: string) =>
    logger ? logger.warn({ server }, text) : process.emitWarning(`mcpTools: ${server}: ${text}`)
  if (!only) for (const [name, why] of refused) tell(`the tool "${name}" cannot be used, and is left out: ${why}`)
  const { leftOut, oddity } = offer
  if (oddity) tell(oddity)
  if (leftOut.length > 0) {
    const more = leftOut.length > MOST_TOLD ? `; and ${leftOut.length - MOST_TOLD} more` : ''
    tell(`keywords of its tools are not checked here: ${leftOut.slice(0, MOST_TOLD).join('; ')}${more}`)
  }
  return madeOf(connection, options)
}

function toolOf(
  connection: Connection,
  tool: OfferedTool,
  name: string,
  limits: { timeoutMs: number; sequential: boolean },
  taskMs: number | undefined,
): Tool {
  const { name: theirs, description, inputSchema, outputSchema, annotations } = tool
  const input = newestSchema(
    inputSchema,
    () => connection.offer.tools.find((each) => each.name === theirs)?.inputSchema,
  )
  const output = outputSchema && laterSchema(outputSchema, unreadable, toldBefore)
  return defineTool({
    name,
    description: description?.trim() || `The tool "${theirs}" of an MCP server.`,
    input,
    ...(output && { output }),
    readOnly: annotations.readOnlyHint === true,
    idempotent: mayRepeat(tool),
    outside: true,
    ...limits,
    async run(given, context) {
      const result = await connection.call(theirs, given, context, limits.timeoutMs, taskMs)
      const said = outputOf(name, result, connection.clean)
      if (output && (result.structuredContent ?? undefined) !== undefined) await noteMisfit(output, said, context)
      return said
    },
  })
}

/** Checks by the newest schema of its tool; models get the first one, since the tools of a team are fixed. */
function newestSchema(first: object, newest: () => object | undefined): ModelSchema {
  let of = first
  let read = laterSchema(first, unreadable, toldBefore)
  return {
    '~standard': {
      ...read['~standard'],
      validate(value) {
        const now = newest() ?? of
        if (now !== of) read = laterSchema(now, unreadable, toldBefore)
        of = now
        return read['~standard'].validate(value)
      },
    },
  }
}

/** Passes it on, since the call has been made: an error would have a model make it again. */
async function noteMisfit(schema: ModelSchema, said: unknown, { log, progress }: ToolContext): Promise<void> {
  await checkBySchema(schema, said, (issues) => {
    log.warn({ issues }, 'what the tool of an MCP server said misses its output schema')
    progress(`what it said misses its output schema: ${issues}`)
    return new ToolFailedError(issues, {})
  }).catch(() => {})
}

/** Keywords that are left out were told of when the connection began. */
const toldBefore = (): void => {}

/** A schema that cannot be checked by accepts nothing. */
const unreadable = (error: unknown) => [
  { path: [], message: `its schema cannot be used: ${error instanceof Error ? error.message : String(error)}` },
]
