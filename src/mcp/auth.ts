/**
 * Tokens for an MCP server (OAuth 2.1). Whatever refuses a token has it renewed once for all requests under way. The
 * protocol's own package finds the authorization server and checks it; where that may be is bounded here, since the MCP
 * server names it.
 */
import { randomBytes } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import type {
  AuthResult,
  OAuthClientInformationMixed,
  OAuthClientProvider,
  OAuthDiscoveryState,
  OAuthTokens,
} from '@modelcontextprotocol/client'
import { boundedAnswer, MIB } from '../shared/answers.ts'
import { systemClock } from '../shared/clock.ts'
import { environment } from '../shared/environment.ts'
import { describe, shown } from '../shared/errors.ts'
import { unlessAborted } from '../shared/on-abort.ts'
import { visible } from '../shared/text.ts'
import { own } from '../shared/values.ts'
import type { Sdk } from './sdk.ts'
import {
  type HttpServer,
  type InteractiveLogin,
  isProvider,
  type McpAuth,
  type OAuthProvider,
  wrong,
} from './server-address.ts'

type Given = Exclude<McpAuth, OAuthProvider>

/** No token is to be had. */
export class AuthError extends Error {
  override readonly name = 'UnauthorizedError' // the package passes it on where it asks which years a server speaks
}

/** A person has to log in. */
export class LoginError extends AuthError {
  readonly url: string
  /** Resolves when somebody has, and rejects when they could not. */
  readonly done: Promise<void>

  constructor(url: string, done: Promise<void>) {
    super(`nobody is logged in: a person has to open ${url}`)
    this.url = url
    this.done = done
  }
}

/** All that a later process needs. */
interface Kept {
  tokens?: OAuthTokens | undefined
  client?: OAuthClientInformationMixed | undefined
  discovery?: OAuthDiscoveryState | undefined
  resource?: string | undefined
  login?: { readonly state: string; readonly url?: string; readonly verifier?: string } | undefined
}

const TOKEN_MS = 30_000
const MOST_SECRETS = 50
const LONGEST_WORDS = 300

export class Auth {
  readonly #kit: Sdk
  readonly #url: URL
  readonly #given: McpAuth
  readonly #provider: OAuthClientProvider | undefined
  readonly #own: OwnProvider | undefined
  /** Tokens and secrets so far: no text of the server shows them. */
  readonly #secrets = new Set<string>()
  #token: string | undefined
  #renewing: Promise<void> | undefined
  /** The open login: calls wait for it. */
  #login: { done: Promise<void>; resolve(): void; reject(error: Error): void } | undefined

  /** @throws ConfigurationError where it is no source of tokens, or a variable of the environment is not set. */
  constructor(kit: Sdk, { url, auth }: HttpServer & { auth: McpAuth }) {
    this.#kit = kit
    this.#url = new URL(url)
    this.#given = auth
    if (typeof auth === 'function') return
    if (isProvider(auth)) {
      if ('dpop' in auth && auth.dpop) throw wrong('auth.dpop', 'tokens that are bound to a key are not sent')
      this.#provider = auth as OAuthClientProvider
      return
    }
    this.#own = new OwnProvider(kit, auth as Exclude<Given, () => unknown>, (secret) => this.#hide(secret))
    this.#provider = this.#own
  }

  /** Sends a request with the token; once more with a new one where it is refused. */
  async send(fetch: typeof globalThis.fetch, input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const token = await this.#current()
    const response = await fetch(input, authorized(init, token))
    const challenge = this.#kit.extractWWWAuthenticateParams(response)
    const needsMore = response.status === 403 && challenge.error === 'insufficient_scope'
    if (response.status !== 401 && !needsMore) return response
    await response.body?.cancel()
    const renewed = this.#renewed(token, { ...challenge, needsMore })
    await (init.signal ? unlessAborted(init.signal, renewed) : renewed)
    return fetch(input, authorized(init, await this.#current()))
  }

  /** Takes the query with which a person comes back from the authorization server. */
  async finish(params: URLSearchParams): Promise<void> {
    const own = this.#own
    if (!own?.login) throw wrong('auth', 'it has no "interactive", so nobody logs in')
    await own.load()
    const { login } = own.kept
    if (!login?.url || params.get('state') !== login.state)
      throw wrong('state', 'it is not that of a login that is open here', 'finishLogin')
    const transport = new this.#kit.StreamableHTTPClientTransport(this.#url, { authProvider: own, fetch: this.#fetch })
    try {
      await transport.finishAuth(params)
      this.#login?.resolve()
    } catch (error) {
      const failed = new AuthError(`the login failed: ${this.#wordsOf(error)}`)
      this.#login?.reject(failed)
      throw wrong('params', failed.message, 'finishLogin')
    } finally {
      this.#login = undefined
      await own.keep({ login: undefined }) // no code is taken twice
    }
  }

  /** Returns a text without what opens the server. */
  clean(text: string): string {
    return [...this.#secrets].reduce((said, secret) => said.replaceAll(secret, '[token]'), text)
  }

  async #current(): Promise<string | undefined> {
    if (typeof this.#given === 'function') {
      if (this.#token === undefined) await this.#renewed(undefined, {})
      return this.#token
    }
    await this.#own?.loadOnce()
    const token = (await this.#provider!.tokens())?.access_token
    if (token !== undefined) this.#hide(token)
    return token
  }

  /** Resolves when there is another token than the refused one. */
  #renewed(refused: string | undefined, challenge: Challenge): Promise<void> {
    this.#renewing ??= this.#renew(refused, challenge)
      .catch((error: unknown) => {
        throw error instanceof AuthError ? error : new AuthError(`no token was given: ${this.#wordsOf(error)}`)
      })
      .finally(() => {
        this.#renewing = undefined
      })
    return this.#renewing
  }

  async #renew(
    refused: string | undefined,
    { needsMore = false, scope, resourceMetadataUrl }: Challenge,
  ): Promise<void> {
    if (typeof this.#given === 'function') {
      if (this.#token !== refused) return // another request was first
      const token: unknown = await this.#given()
      if (typeof token !== 'string' || token === '') throw new AuthError('auth() returned no token')
      this.#token = token
      this.#hide(token)
      return
    }
    const own = this.#own
    await own?.load() // another process may have renewed it
    if ((await this.#current()) !== refused) return
    if (own && !needsMore && (await this.#refreshed(own))) return
    const { url } = own?.kept.login ?? {}
    if (url !== undefined && !needsMore) throw this.#toLogIn(url)
    await own?.keep({ discovery: undefined, login: undefined }) // the server may name another one by now
    const all = this.#kit.computeScopeUnion((await this.#provider!.tokens())?.scope, scope)
    const result: AuthResult = await this.#kit.auth(this.#provider!, {
      serverUrl: this.#url,
      fetchFn: this.#fetch,
      forceReauthorization: needsMore,
      ...(all !== undefined && { scope: all }),
      ...(resourceMetadataUrl?.origin === this.#url.origin && { resourceMetadataUrl }),
    })
    if (result === 'AUTHORIZED') return
    const { login } = own?.kept ?? {}
    throw login?.url === undefined ? new AuthError('its provider wants a person to log in') : this.#toLogIn(login.url)
  }

  /** Returns false where a person has to log in again. One that cannot be reached keeps its refresh token. */
  async #refreshed(own: OwnProvider): Promise<boolean> {
    const { tokens, client, discovery, resource } = own.kept
    const { refresh_token: refreshToken } = tokens ?? {}
    if (refreshToken === undefined || !client || !discovery) return false
    try {
      const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery
      const renewed = await this.#kit.refreshAuthorization(authorizationServerUrl, {
        refreshToken,
        clientInformation: client,
        fetchFn: this.#fetch,
        ...(metadata && { metadata }),
        ...(resource !== undefined && { resource: new URL(resource) }),
      })
      await own.saveTokens({ ...tokens, ...renewed })
      return true
    } catch (error) {
      const { code }: { code?: unknown } = Object(error)
      if (
        !(error instanceof this.#kit.OAuthError) ||
        !/^(invalid_grant|invalid_client|unauthorized_client)$/.test(`${code}`)
      )
        throw error
      await own.load()
      if (own.kept.tokens?.refresh_token !== refreshToken) return true // another process was first
      await own.keep({ tokens: undefined, ...(code !== 'invalid_grant' && { client: undefined }) })
      return false
    }
  }

  #toLogIn(url: string): LoginError {
    this.#login ??= opened()
    return new LoginError(url, this.#login.done)
  }

  /** Asks an authorization server: one that the MCP server names, so not each address is one. */
  readonly #fetch: typeof fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    if (!mayAsk(url, this.#url, this.#own?.issuer))
      throw new AuthError(`it names ${url.origin} as its authorization server, which is no public https: address`)
    const late = new AbortController()
    const timer = systemClock.timer(TOKEN_MS, () => late.abort(new AuthError(`${url.origin} did not answer in time`)))
    try {
      const signal = init?.signal ? AbortSignal.any([init.signal, late.signal]) : late.signal
      const response = await fetch(input, { ...init, signal })
      const bounded = boundedAnswer(response, (what) => new AuthError(`${url.origin} ${what}`), { limits: LIMITS })
      const text = await bounded.text()
      const { status, statusText, headers } = response
      const body = response.ok ? text : this.clean(text)
      return new Response([204, 205, 304].includes(status) ? null : body, { status, statusText, headers })
    } finally {
      timer.cancel()
    }
  }

  #hide(secret: string): void {
    this.#secrets.delete(secret)
    this.#secrets.add(secret)
    if (this.#secrets.size > MOST_SECRETS) this.#secrets.delete([...this.#secrets][0]!)
  }

  #wordsOf(error: unknown): string {
    return visible(this.clean(describe(error)).slice(0, LONGEST_WORDS))
  }
}

interface Challenge {
  needsMore?: boolean
  scope?: string | undefined
  resourceMetadataUrl?: URL | undefined
}

function opened() {
  let [resolve, reject] = [() => {}, (_error: Error) => {}]
  const done = new Promise<void>((...settle) => {
    ;[resolve, reject] = settle
  })
  done.catch(() => {}) // nobody may wait for it
  return { done, resolve, reject }
}

const LIMITS = { body: MIB, stream: MIB, event: MIB, empty: MIB, events: 1 }

function authorized(init: RequestInit, token: string | undefined): RequestInit {
  if (token === undefined) return init
  const headers = new Headers(init.headers)
  headers.set('authorization', `Bearer ${token}`)
  return { ...init, headers }
}

const PRIVATE = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const)
  PRIVATE.addSubnet(net, bits)
for (const [net, bits] of [
  ['::', 127],
  ['::ffff:0:0', 96],
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  PRIVATE.addSubnet(net, bits, 'ipv6')

/** Checks an address by its words alone: no name is looked up. */
function isPrivate({ hostname }: URL): boolean {
  const host = hostname.replaceAll(/[[\]]|\.$/g, '')
  const version = isIP(host)
  if (version > 0) return PRIVATE.check(host, version === 6 ? 'ipv6' : 'ipv4')
  return /(^|\.)(localhost|local|internal)$/.test(host)
}

/** A server of a private network may name another one there, and whoever gave the issuer has chosen it. */
function mayAsk(url: URL, server: URL, issuer: string | undefined): boolean {
  if (url.origin === server.origin || (issuer !== undefined && url.origin === new URL(issuer).origin)) return true
  if (isPrivate(url)) return isPrivate(server)
  return url.protocol === 'https:'
}

/** The client of the authorization server that this program is. */
class OwnProvider implements OAuthClientProvider {
  readonly login: InteractiveLogin | undefined
  readonly issuer: string | undefined
  readonly redirectUrl: string | undefined
  readonly clientMetadata: OAuthClientProvider['clientMetadata']
  readonly clientMetadataUrl?: string
  readonly prepareTokenRequest?: (scope?: string) => URLSearchParams
  readonly addClientAuthentication?: NonNullable<OAuthClientProvider['addClientAuthentication']>
  kept: Kept = {}
  readonly #client: OAuthClientInformationMixed | undefined
  readonly #hide: (secret: string) => void
  #loading: Promise<void> | undefined

  constructor(kit: Sdk, given: Exclude<Given, () => unknown>, hide: (secret: string) => void) {
    this.#hide = hide
    const of =
      'interactive' in given
        ? given.interactive
        : 'privateKeyJwt' in given
          ? given.privateKeyJwt
          : given.clientCredentials
    const { clientId, scope, issuer } = of
    this.issuer = issuer
    const secret = 'secretEnv' in of && of.secretEnv !== undefined ? this.#secret(of.secretEnv) : undefined
    if (clientId !== undefined)
      this.#client = { client_id: clientId, ...(secret && { client_secret: secret }), ...(issuer && { issuer }) }
    const about = { client_name: 'dramatis', ...(scope && { scope }) }
    if ('interactive' in given) {
      this.login = given.interactive
      this.redirectUrl = given.interactive.redirectUrl
      this.clientMetadata = {
        ...about,
        redirect_uris: [this.redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
      }
      if (clientId === undefined) this.clientMetadata.token_endpoint_auth_method = 'none'
      const { clientMetadataUrl } = given.interactive
      if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl
      return
    }
    this.clientMetadata = { ...about, redirect_uris: [], grant_types: ['client_credentials'] }
    this.prepareTokenRequest = (wanted) =>
      new URLSearchParams({ grant_type: 'client_credentials', ...(wanted && { scope: wanted }) })
    if (!('privateKeyJwt' in given)) return
    const { keyEnv, algorithm: alg = 'RS256' } = given.privateKeyJwt
    const privateKey = this.#secret(keyEnv)
    this.addClientAuthentication = kit.createPrivateKeyJwtAuth({
      issuer: clientId!,
      subject: clientId!,
      privateKey,
      alg,
    })
  }

  loadOnce(): Promise<void> {
    this.#loading ??= this.load()
    return this.#loading
  }

  async load(): Promise<void> {
    const text = await this.login?.tokens.load()
    if (text === undefined) return
    try {
      this.kept = Object(JSON.parse(text)) as Kept
    } catch {
      this.kept = {} // a text that is none of ours: somebody logs in
    }
    this.#hideAll()
  }

  async keep(more: Kept): Promise<void> {
    this.kept = { ...this.kept, ...more }
    this.#hideAll()
    await this.login?.tokens.save(JSON.stringify(this.kept))
  }

  clientInformation = (): OAuthClientInformationMixed | undefined => this.#client ?? this.kept.client
  tokens = (): OAuthTokens | undefined => this.kept.tokens
  saveTokens = (tokens: OAuthTokens): Promise<void> => this.keep({ tokens })
  saveClientInformation = (client: OAuthClientInformationMixed): Promise<void> => this.keep({ client })
  discoveryState = (): OAuthDiscoveryState | undefined => this.kept.discovery
  saveDiscoveryState = (discovery: OAuthDiscoveryState): Promise<void> => this.keep({ discovery })
  saveResourceUrl = (resource: string): Promise<void> => this.keep({ resource })
  invalidateCredentials = (scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): Promise<void> =>
    scope === 'client'
      ? this.keep({ client: undefined })
      : scope === 'tokens'
        ? this.keep({ tokens: undefined })
        : Promise.resolve()

  async state(): Promise<string> {
    const state = randomBytes(32).toString('base64url')
    await this.keep({ login: { state } })
    return state
  }

  saveCodeVerifier = (verifier: string): Promise<void> => this.keep({ login: { ...this.kept.login!, verifier } })

  codeVerifier(): string {
    const { verifier } = this.kept.login ?? {}
    if (verifier === undefined) throw new AuthError('no login is open')
    return verifier
  }

  async redirectToAuthorization(url: URL): Promise<void> {
    if (!/^https?:$/.test(url.protocol))
      throw new AuthError(`a person would log in at ${shown(url.href)}, which is no address of the web`)
    await this.keep({ login: { ...this.kept.login!, url: url.href } })
  }

  #hideAll(): void {
    const { tokens, client, login } = this.kept
    const { client_secret: secret }: { client_secret?: unknown } = Object(client)
    for (const each of [tokens?.access_token, tokens?.refresh_token, tokens?.id_token, secret, login?.verifier])
      if (typeof each === 'string') this.#hide(each)
  }

  #secret(name: string): string {
    const secret = own(environment(), name)
    if (!secret) throw wrong('auth', `the variable ${name} of the environment is not set`)
    this.#hide(secret)
    return secret
  }
}
