/** An MCP server behind an authorization server, on the loopback: tokens end when a test wants it. */
import { createHash, createPublicKey, randomUUID, verify } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { plainHttp } from './plain-http-server.ts'

export interface OAuthServer {
  url: string
  issuer: string
  /** Requests for a token: what it was asked for by, and its outcome. */
  asked: string[]
  /** Bodies and headers of the requests for a token. */
  forms: Record<string, string>[]
  /** Tokens that are valid. */
  valid: Set<string>
  /** Tokens and secrets that no text may show. */
  secrets: Set<string>
  /** Ends all access tokens. */
  expire(): void
  /** Ends the refresh tokens, too. */
  revoke(): void
  /** Replaces the answer to the next request for a token. */
  fails: { status: number; body: (form: Record<string, string>) => string } | undefined
  /** Document that the MCP server has of its authorization servers. */
  named: string[]
  /** Scope without which calls are refused. */
  needs: string | undefined
  /** Logs a person in: the query with which they come back. */
  login(url: string): URLSearchParams
  /** Names of the tools that were called. */
  readonly calls: number
}

const SECRET = 'the-secret-of-the-client'

export async function oauthServer(t: Test, publicKey?: string): Promise<OAuthServer> {
  const plain = await plainHttp(t)
  plain.isModern = true
  const codes = new Map<string, URLSearchParams>()
  const refresh = new Set<string>()
  const scopes = new Map<string, string>()
  const issue = (form: Record<string, string>, withRefresh: boolean) => {
    const [token, again] = [`access-${randomUUID()}`, `refresh-${randomUUID()}`]
    server.valid.add(token)
    server.secrets.add(token)
    scopes.set(token, form.scope ?? '')
    if (withRefresh) server.secrets.add(again)
    if (withRefresh) refresh.add(again)
    return {
      access_token: token,
      token_type: 'Bearer',
      expires_in: 3_600,
      ...(form.scope && { scope: form.scope }),
      ...(withRefresh && { refresh_token: again }),
    }
  }
  const tokenFor = (form: Record<string, string>, basic: string): object => {
    const { grant_type: grant, code = '', code_verifier: verifier = '', refresh_token: given = '', resource } = form
    if (resource !== server.url) return { error: 'invalid_target' }
    if (grant === 'client_credentials') {
      const assertion = form.client_assertion?.split('.')
      const isSigned =
        publicKey !== undefined &&
        assertion?.length === 3 &&
        verify(
          'sha256',
          Buffer.from(assertion.slice(0, 2).join('.')),
          createPublicKey(publicKey),
          Buffer.from(assertion[2]!, 'base64url'),
        )
      const isKnown = isSigned || basic === `desk:${SECRET}`
      return isKnown ? issue(form, false) : { error: 'invalid_client' }
    }
    if (grant === 'authorization_code') {
      const asked = codes.get(code)
      codes.delete(code)
      const challenge = createHash('sha256').update(verifier).digest('base64url')
      if (!asked || asked.get('code_challenge') !== challenge) return { error: 'invalid_grant' }
      return issue({ ...form, scope: asked.get('scope') ?? '' }, true)
    }
    if (!refresh.delete(given)) {
      server.revoke() // one that was used twice is in the hands of others
      return { error: 'invalid_grant', error_description: `the token ${given} is not valid` }
    }
    return issue(form, true)
  }
  const http = createServer(async (request, response) => {
    const json = (status: number, body: object | string, headers = {}) => {
      const text = typeof body === 'string' ? body : JSON.stringify(body)
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text)
    }
    const body = (await request.toArray()).join('')
    const { pathname } = new URL(request.url!, server.issuer)
    if (pathname === '/mcp') {
      const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
      const metadata = `resource_metadata="${server.issuer}/.well-known/oauth-protected-resource/mcp"`
      if (!server.valid.has(token)) return json(401, {}, { 'www-authenticate': `Bearer ${metadata}` })
      const lacks = server.needs !== undefined && !scopes.get(token)!.split(' ').includes(server.needs)
      const isCall = body.includes('"tools/call"')
      if (isCall && lacks)
        return json(
          403,
          {},
          { 'www-authenticate': `Bearer error="insufficient_scope", scope="${server.needs}", ${metadata}` },
        )
      const answer = await fetch(plain.url, { method: 'POST', body })
      return json(answer.status, await answer.text())
    }
    if (pathname === '/.well-known/oauth-protected-resource/mcp')
      return json(200, { resource: server.url, authorization_servers: server.named })
    if (pathname === '/.well-known/oauth-authorization-server')
      return json(200, {
        issuer: server.issuer,
        authorization_endpoint: `${server.issuer}/authorize`,
        token_endpoint: `${server.issuer}/token`,
        registration_endpoint: `${server.issuer}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
      })
    if (pathname === '/register') return json(201, { ...JSON.parse(body), client_id: 'registered' })
    if (pathname !== '/token') return json(404, {})
    const form = Object.fromEntries(new URLSearchParams(body))
    const basic = Buffer.from(request.headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString()
    server.forms.push(form)
    const failed = server.fails
    server.fails = undefined
    if (failed) {
      server.asked.push(`${form.grant_type} ${failed.status}`)
      return json(failed.status, failed.body(form))
    }
    const said = tokenFor(form, basic) as { error?: string }
    server.asked.push(`${form.grant_type} ${said.error ?? 'ok'}`)
    json(said.error ? 400 : 200, said)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    http.closeAllConnections()
    return new Promise((resolve) => http.close(resolve))
  })
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const server: OAuthServer = {
    url: `${issuer}/mcp`,
    issuer,
    asked: [],
    forms: [],
    valid: new Set(),
    secrets: new Set([SECRET]),
    expire: () => server.valid.clear(),
    revoke() {
      refresh.clear()
      server.valid.clear()
    },
    fails: undefined,
    named: [issuer],
    needs: undefined,
    login(url) {
      const { pathname, searchParams } = new URL(url)
      if (pathname !== '/authorize' || searchParams.get('resource') !== server.url) throw new Error(`no login: ${url}`)
      if (searchParams.get('code_challenge_method') !== 'S256') throw new Error('a login without PKCE')
      const code = randomUUID()
      codes.set(code, searchParams)
      return new URLSearchParams({ code, state: searchParams.get('state')!, iss: issuer })
    },
    get calls() {
      return plain.asked.filter((method) => method === 'tools/call').length
    },
  }
  return server
}

/** The client that the server knows, with its secret in the environment. */
export function knownClient(t: Test): { clientId: string; secretEnv: string } {
  process.env.DESK_SECRET = SECRET
  t.teardown(() => {
    delete process.env.DESK_SECRET
  })
  return { clientId: 'desk', secretEnv: 'DESK_SECRET' }
}
