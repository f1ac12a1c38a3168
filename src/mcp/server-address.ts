/**
 * Addresses of MCP servers, as users give them. Nothing here names the protocol's own package: its declarations need a
 * browser's, and one of them does not compile, so a program that imports `dramatis/mcp` must not read them.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
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
  /** Source of the tokens. */
  auth?: McpAuth
}

/**
 * Source of the tokens for a server. The server's 401 has it renew the token once for all calls under way, and each of
 * them is sent once more.
 *
 * - A function that returns a token: it is called for the first request, and after a 401.
 * - `clientCredentials`, `privateKeyJwt`: this program is the client of an authorization server (OAuth 2.1). Its
 *   secret, or its key as PEM, is in the variable of the environment that `secretEnv` or `keyEnv` names.
 * - `interactive`: a person logs in, where a call asks them to.
 * - An `OAuthClientProvider` of `@modelcontextprotocol/client`, such as its `CrossAppAccessProvider`.
 */
export type McpAuth =
  | (() => string | Promise<string>)
  | { clientCredentials: ClientCredentials }
  | { privateKeyJwt: PrivateKeyJwt }
  | { interactive: InteractiveLogin }
  | OAuthProvider

export interface MachineClient {
  clientId: string
  scope?: string
  /** URL of the authorization server; no other one gets the secret. Default: the one that the server names. */
  issuer?: string
}

export interface ClientCredentials extends MachineClient {
  secretEnv: string
}

export interface PrivateKeyJwt extends MachineClient {
  keyEnv: string
  /** Default: 'RS256'. */
  algorithm?: string
}

export interface InteractiveLogin {
  /** URL that the person comes back to: what answers there passes its query to `finishLogin`. */
  redirectUrl: string
  /** Keeps tokens and open logins, for later processes too. */
  tokens: TokenStore
  scope?: string
  /** URL of the authorization server. Default: the one that the server names. */
  issuer?: string
  /** Client that the authorization server knows. Default: one that registers itself (RFC 7591). */
  clientId?: string
  /** Variable of the environment with the secret of that client. Default: it has none. */
  secretEnv?: string
  /** HTTPS URL of a document that describes the client, for servers that take one as its id. */
  clientMetadataUrl?: string
}

/** Query with which a person comes back from a login. */
export type LoginParams = URLSearchParams | string | Record<string, string>

/** Keeps a text that holds tokens: encrypt it, or keep it from others. */
export interface TokenStore {
  /** Returns what was saved last; undefined: nothing was. */
  load(): string | undefined | Promise<string | undefined>
  save(text: string): void | Promise<void>
}

/** Has the shape of the protocol's own package, whose types are not named here. */
export interface OAuthProvider {
  tokens(...args: never[]): unknown
  clientInformation(...args: never[]): unknown
}

/**
 * Address of a server. Either it is started here: `command` with `args`, in the folder `cwd`, with the environment
 * `env` and nothing else of this process's. Or it is reached by HTTP, with `headers` in each request, and tokens of
 * `auth`.
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
    `mcpTools: got ${shown(server)}; accepted: { command, args?, env?, cwd?, era? } or { url, headers?, auth?, era? } with an http: or https: URL.`,
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
  if ('auth' in server && server.auth !== undefined) checkAuth(server.auth)
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

/** Keeps tokens in a file that its owner alone can read. Whoever can read the file can log in with them. */
export function tokenFile(path: string): TokenStore {
  return {
    async load() {
      try {
        return await readFile(path, 'utf8')
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw error
      }
    },
    async save(text) {
      await mkdir(dirname(path), { recursive: true })
      const next = `${path}.${randomBytes(6).toString('hex')}`
      await writeFile(next, text, { mode: 0o600 })
      await rename(next, path)
    },
  }
}

export const isProvider = (auth: object): auth is OAuthProvider =>
  'tokens' in auth && typeof auth.tokens === 'function' && 'clientInformation' in auth

const KINDS = {
  clientCredentials: ['clientId', 'secretEnv'],
  privateKeyJwt: ['clientId', 'keyEnv'],
  interactive: ['redirectUrl'],
}

/** @throws ConfigurationError for what is no source of tokens. */
function checkAuth(auth: unknown): void {
  if (typeof auth === 'function' || (typeof auth === 'object' && auth !== null && isProvider(auth))) return
  const accepted = `a function, one of { ${Object.keys(KINDS).join(', ')} }, or an OAuthClientProvider`
  const [one, ...others] = Object.entries(Object(auth))
  const needed =
    one && others.length === 0 && Object.hasOwn(KINDS, one[0]) ? KINDS[one[0] as keyof typeof KINDS] : undefined
  if (!needed) throw wrong('auth', `accepted: ${accepted}`)
  const [kind, given] = one!
  for (const field of needed) {
    const value: unknown = Reflect.get(Object(given), field)
    if (typeof value !== 'string' || value === '')
      throw wrong(`auth.${kind}.${field}`, `got ${shown(value)}; accepted: a text`)
  }
  for (const field of ['redirectUrl', 'issuer', 'clientMetadataUrl']) {
    const value: unknown = Reflect.get(Object(given), field)
    if (value !== undefined && !URL.canParse(String(value)))
      throw wrong(`auth.${kind}.${field}`, `got ${shown(value)}; accepted: a URL`)
  }
  if (kind !== 'interactive') return
  const { load, save }: { load?: unknown; save?: unknown } = Object(Object(given).tokens)
  if (typeof load !== 'function' || typeof save !== 'function')
    throw wrong('auth.interactive.tokens', 'accepted: an object with load() and save(text), such as tokenFile(path)')
}

export const wrong = (path: string, why: string, what = 'mcpTools') =>
  new ConfigurationError(`${what}: ${path}: ${why}.`, { path })
