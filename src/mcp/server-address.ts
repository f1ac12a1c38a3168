/**
 * Addresses of MCP servers, as users give them. Nothing here names the protocol's own package: its declarations need a
 * browser's, and one of them does not compile, so a program that imports `dramatis/mcp` must not read them.
 */
import { ConfigurationError, shown } from '../shared/errors.ts'

export const ERAS = ['auto', '2025', '2026'] as const

/** Years of the protocol that a server speaks: 'auto' asks it. */
export type Era = (typeof ERAS)[number]

export interface StdioServer {
  /** Years of the protocol that it speaks. Default: 'auto', which asks it at each begin. */
  era?: Era
  command: string
  args?: readonly string[]
  env?: Record<string, string>
  cwd?: string
}

export interface HttpServer {
  /** As for a server that is started here. */
  era?: Era
  url: URL | string
  headers?: Record<string, string>
}

/**
 * Address of a server. Either it is started here: `command` with `args`, in the folder `cwd`, with the environment
 * `env` and nothing else of this process's. Or it is reached by HTTP, with `headers` in each request.
 */
export type McpServer = StdioServer | HttpServer

/** Returns the server in words, without what may be a secret. Throws `ConfigurationError` for what is none. */
export function nameOf(server: unknown): string {
  const { command, url }: { command?: unknown; url?: unknown } = Object(server)
  if (typeof command === 'string' && command !== '' && url === undefined) return `the MCP server "${command}"`
  const at = String(url)
  if (command === undefined && URL.canParse(at) && /^https?:$/.test(new URL(at).protocol)) {
    const { origin, pathname, username, password } = new URL(at)
    const withName = 'mcpTools: the URL has a name or a password in it; send them in headers.'
    if (username + password !== '') throw new ConfigurationError(withName, { path: 'url' })
    return `the MCP server at ${origin}${pathname}`
  }
  throw new ConfigurationError(
    `mcpTools: got ${shown(server)}; accepted: { command, args?, env?, cwd?, era? } or { url, headers?, era? } with an http: or https: URL.`,
    { path: 'server', got: shown(server) },
  )
}

/** Returns where the server is, as the conventions of OpenTelemetry say it. */
export function placeOf(server: McpServer): Readonly<Record<string, string | number>> {
  if ('command' in server) return { 'network.transport': 'pipe' }
  const { hostname, port, protocol } = new URL(server.url)
  const standard = protocol === 'https:' ? 443 : 80
  return { 'network.transport': 'tcp', 'server.address': hostname, 'server.port': Number(port) || standard }
}

/** Throws `ConfigurationError` for what is no server, and for what a program cannot be given. */
export function checkServer(server: object): void {
  nameOf(server)
  const { args, env, era }: { args?: unknown; env?: unknown; era?: unknown } = server
  if (era !== undefined && !ERAS.some((each) => each === era))
    throw new ConfigurationError(`mcpTools: era: got ${shown(era)}; accepted: ${ERAS.join(', ')}.`, { path: 'era' })
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
