/** Tokens for MCP servers: given, renewed once for all calls, and those of people who log in; they are shown nowhere. */
import { generateKeyPairSync } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { ClientCredentialsProvider } from '@modelcontextprotocol/client'
import t, { type Test } from 'tap'
import type { DramatisError, Logger } from '../../src/index.ts'
import { finishLogin, type McpAuth, type McpServer, mcpTools, tokenFile } from '../../src/mcp/index.ts'
import { pluck } from '../kit/lists.ts'
import { desk } from '../toolbox/desk.ts'
import { answering, called, outcomeOf } from './calling.ts'
import { knownClient, type OAuthServer, oauthServer } from './oauth-server.ts'

const REFRESHED = ['authorization_code ok', 'refresh_token ok']

/** A place in memory for the tokens of a person. */
function memory() {
  let kept: string | undefined
  return {
    load: () => kept,
    save(text: string) {
      kept = text
    },
    get kept() {
      return JSON.parse(kept ?? '{}') as { tokens?: object; login?: { url: string } }
    },
  }
}

const interactive = (tokens = memory()) => ({ interactive: { redirectUrl: 'https://desk.example/back', tokens } })

/** Rejects with the address at which a person logs in. */
const loginOf = async (server: McpServer): Promise<string> => {
  const error = (await mcpTools(server).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )) as DramatisError
  return error.details.url as string
}

async function loggedIn(t: Test) {
  const oauth = await oauthServer(t)
  const auth = interactive()
  const server = { url: oauth.url, auth }
  await finishLogin(server, oauth.login(await loginOf(server)))
  return { oauth, server, store: auth.interactive.tokens }
}

const { publicKey, privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2_048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
})

type Source = (t: Test, oauth: OAuthServer) => { auth: McpAuth; given?: () => number }
const sources: Record<string, Source> = {
  'a client with a secret': (t, { issuer }) => ({ auth: { clientCredentials: { ...knownClient(t), issuer } } }),
  'a client with a key': (t) => {
    process.env.DESK_KEY = privateKey
    t.teardown(() => delete process.env.DESK_KEY)
    return { auth: { privateKeyJwt: { clientId: 'desk', keyEnv: 'DESK_KEY' } } }
  },
  'a provider of the protocol’s own package': (t, { issuer: expectedIssuer }) => {
    const { clientId, secretEnv } = knownClient(t)
    const clientSecret = process.env[secretEnv]!
    return { auth: new ClientCredentialsProvider({ clientId, clientSecret, expectedIssuer }) }
  },
  'a function': (_t, oauth) => {
    let given = 0
    const auth = async () => {
      const token = `given-${++given}`
      oauth.valid.add(token)
      return token
    }
    return { auth, given: () => given }
  },
}

for (const [kind, source] of Object.entries(sources))
  t.test(`${kind}: a token that ends in a run is renewed once for 20 calls`, async (t) => {
    const oauth = await oauthServer(t, publicKey)
    const { auth, given = () => oauth.asked.length } = source(t, oauth)
    const { tools, close } = await mcpTools({ url: oauth.url, auth })
    t.teardown(close)
    const { call } = desk(t, tools)
    oauth.expire()
    const { outcomes } = await call('echo', { a: 1 }, 20)
    t.same(
      outcomes,
      Array.from({ length: 20 }, () => ({ output: '{"a":1}' })),
    )
    t.equal(given(), 2)
    t.ok(oauth.asked.every((asked) => asked === 'client_credentials ok'))
    t.equal(oauth.calls, 20)
  })

t.test('a secret goes to the authorization server that its owner names, and to no other one', async (t) => {
  const [oauth, other] = [await oauthServer(t), await oauthServer(t)]
  oauth.named = [other.issuer]
  const client = knownClient(t)
  const refused = { auth: { clientCredentials: { ...client, issuer: oauth.issuer } }, url: oauth.url }
  await t.rejects(mcpTools(refused), { code: 'CONFIGURATION', message: /no token was given/ })
  t.same(other.asked, [])
  oauth.named = ['http://login.example']
  await t.rejects(mcpTools({ ...refused, auth: { clientCredentials: client } }), {
    message: /names http:\/\/login\.example as its authorization server, which is no public https: address/,
  })
})

t.test('a token is refused once more, and a call is not made for ever', async (t) => {
  const oauth = await oauthServer(t)
  const { tools, close } = await mcpTools({ url: oauth.url, auth: { clientCredentials: knownClient(t) } })
  t.teardown(close)
  oauth.valid.add = () => oauth.valid // what is issued from now on is worth nothing
  oauth.expire()
  t.match((await desk(t, tools).call('echo', {})).outcomes, [
    { code: 'TOOL_FAILED', message: /it answered 401 Unauthorized/ },
  ])
  t.equal(oauth.asked.length, 2)
})

t.test('no token and no secret is told in an error or a line of the log', async (t) => {
  const lines: unknown[] = []
  const logger = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((level) => [level, (...line: unknown[]) => lines.push(line)]),
  ) as unknown as Logger
  const warned: unknown[] = []
  t.capture(console, 'warn', (...line: unknown[]) => warned.push(line))
  const { oauth, server } = await loggedIn(t)
  const { tools, close } = await mcpTools(server, { logger })
  t.teardown(close)
  const { call } = desk(t, tools, { logger })
  oauth.expire()
  oauth.fails = { status: 500, body: (form) => `the database has lost ${form.refresh_token}` }
  const { outcomes } = await call('echo', {})
  t.match(outcomes, [{ code: 'TOOL_FAILED', message: /no token was given: .*the database has lost \[token\]/ }])
  oauth.revoke()
  const again = await call('echo', {})
  t.match(again.outcomes, [{ code: 'TOOL_FAILED' }])
  const said = JSON.stringify([outcomes, again, lines, warned])
  t.same(
    [...oauth.secrets].filter((secret) => said.includes(secret)),
    [],
  )
})

t.test('without a login the tools are not there, and the error says where to log in', async (t) => {
  const oauth = await oauthServer(t)
  const auth = interactive()
  const server = { url: oauth.url, auth }
  const url = await loginOf(server)
  t.match(url, new RegExp(`^${oauth.issuer}/authorize\\?`))
  t.equal(await loginOf(server), url, 'a login that is open goes on')
  const back = oauth.login(url)
  const change = (name: string, value: string) => {
    const changed = new URLSearchParams(back)
    changed.set(name, value)
    return changed
  }
  await t.rejects(finishLogin(server, change('state', 'x')), {
    message: /finishLogin: state: it is not that of a login/,
  })
  await t.rejects(finishLogin(server, change('iss', 'https://other.example')), { message: /the login failed/ })
  await t.rejects(finishLogin(server, back), { message: /finishLogin: state/ }, 'no code is taken twice')
  const refused = await loginOf(server)
  t.not(refused, url)
  const { searchParams } = new URL(refused)
  const no = { error: 'access_denied', state: searchParams.get('state')!, iss: oauth.issuer }
  await t.rejects(finishLogin(server, no), { message: /the login failed: .*access_denied/ })
  await finishLogin(server, oauth.login(await loginOf(server)).toString())
  const { tools, close } = await mcpTools(server)
  t.same(pluck(tools, 'name'), ['echo'])
  await close()
  t.same(oauth.asked, ['authorization_code ok'])
})

t.test('a login is refreshed once for 20 calls, and kept for the next process', async (t) => {
  const { oauth, server, store } = await loggedIn(t)
  const { tools, close } = await mcpTools(server)
  oauth.expire()
  const { outcomes } = await desk(t, tools).call('echo', {}, 20)
  t.same(new Set(pluck(outcomes, 'code')), new Set([undefined]))
  t.same(oauth.asked, REFRESHED)
  await close()
  const later = await mcpTools({ url: oauth.url, auth: interactive(store) })
  await later.close()
  t.same(oauth.asked, REFRESHED)
})

t.test('of two processes with one store the second takes the tokens of the first', async (t) => {
  const { oauth, server, store } = await loggedIn(t)
  const [one, two] = [await mcpTools(server), await mcpTools({ url: oauth.url, auth: interactive(store) })]
  t.teardown(one.close)
  t.teardown(two.close)
  oauth.expire()
  for (const { tools } of [one, two]) t.match((await desk(t, tools).call('echo', {})).outcomes, [{ output: '{}' }])
  t.same(oauth.asked, REFRESHED)
})

t.test('of two processes that refresh at once the one that is late takes the tokens of the other', async (t) => {
  const { oauth, server, store } = await loggedIn(t)
  const { tools, close } = await mcpTools(server)
  t.teardown(close)
  oauth.expire()
  oauth.fails = {
    status: 400,
    body() {
      oauth.valid.add('of-the-other')
      const tokens = { access_token: 'of-the-other', refresh_token: 'next', token_type: 'Bearer' }
      store.save(JSON.stringify({ ...store.kept, tokens }))
      return '{"error":"invalid_grant"}'
    },
  }
  t.match((await desk(t, tools).call('echo', {})).outcomes, [{ output: '{}' }])
  t.match(store.kept, { tokens: { refresh_token: 'next' } })
})

t.test('an authorization server that is away costs nobody the login', async (t) => {
  const { oauth, server, store } = await loggedIn(t)
  const { tools, close } = await mcpTools(server)
  t.teardown(close)
  const { call } = desk(t, tools)
  oauth.expire()
  oauth.fails = { status: 503, body: () => 'back soon' }
  t.match((await call('echo', {})).outcomes, [{ code: 'TOOL_FAILED', message: /back soon/ }])
  t.match(store.kept, { login: undefined, tokens: { refresh_token: /^refresh-/ } })
  t.match((await call('echo', {})).outcomes, [{ output: '{}' }])
})

t.test('a login that has ended in a run is a question, and the calls go on when somebody has logged in', async (t) => {
  const { oauth, server } = await loggedIn(t)
  const { run, finishLogin: finish } = await called(t, server, 'echo', { a: 1 }, { times: 3 })
  oauth.revoke()
  const asked: string[] = []
  for await (const event of run.events({ types: ['question'] })) {
    if (event.type !== 'question') continue
    asked.push(event.text)
    if (asked.length === 3) await finish(oauth.login(/Open (\S+)/.exec(event.text)![1]!))
  }
  t.match(asked[0], /^the MCP server .* wants a person to log in\. Open http:/)
  t.equal(new Set(asked).size, 1, 'it is one login')
  t.match(await outcomeOf(run), { output: '{"a":1}' })
  t.same(run.questions, [])
  t.equal(oauth.calls, 3)
})

t.test('who does not log in, or comes back with a no, has the call fail', async (t) => {
  const { oauth, server } = await loggedIn(t)
  const { run } = await called(t, server, 'echo', {})
  oauth.revoke()
  await answering(run, ['declined'])
  t.match(await outcomeOf(run), { code: 'TOOL_FAILED', message: /the person does not log in/ })
  const next = await called(t, { ...server, auth: interactive() }, 'echo', {}).catch((error: DramatisError) => error)
  t.match(next, { code: 'CONFIGURATION', details: { path: 'auth' } })
})

t.test('a login over a restart: the next process asks for the same, and makes the call once', async (t) => {
  const { oauth, server } = await loggedIn(t)
  const path = t.testdir()
  const first = await called(t, server, 'echo', { a: 1 }, { path })
  oauth.revoke()
  let asked = ''
  for await (const event of first.run.events({ types: ['question'] })) {
    asked = event.type === 'question' ? event.text : ''
    break
  }
  await first.team.close()
  const next = { ...server, auth: interactive(server.auth.interactive.tokens) }
  const url = await loginOf(next)
  t.ok(asked.endsWith(url), 'it is the same login')
  await finishLogin(next, oauth.login(url))
  const second = await called(t, next, 'echo', { a: 1 }, { path })
  t.match(await outcomeOf(second.run), { output: '{"a":1}' })
  t.equal(oauth.calls, 1)
})

t.test('a call that needs more rights has the login asked for them', async (t) => {
  const { oauth, server } = await loggedIn(t)
  const { run, finishLogin: finish } = await called(t, server, 'echo', {})
  oauth.needs = 'write'
  for await (const event of run.events({ types: ['question'] })) {
    if (event.type !== 'question') continue
    const url = /Open (\S+)/.exec(event.text)![1]!
    t.equal(new URL(url).searchParams.get('scope'), 'write')
    await finish(oauth.login(url))
  }
  t.match(await outcomeOf(run), { output: '{}' })
})

t.test('tokens are kept in a file of their owner', async (t) => {
  const path = join(t.testdir(), 'a', 'tokens')
  const store = tokenFile(path)
  t.equal(await store.load(), undefined)
  await store.save('one')
  await store.save('two')
  t.equal(await store.load(), 'two')
  t.equal(statSync(path).mode & 0o777, 0o600)
})

t.test('what is no source of tokens is refused, with its path', async (t) => {
  const url = 'https://mcp.example'
  for (const [auth, path] of [
    ['token', 'auth'],
    [{}, 'auth'],
    [{ clientCredentials: {}, privateKeyJwt: {} }, 'auth'],
    [{ clientCredentials: { clientId: '' } }, 'auth.clientCredentials.clientId'],
    [{ clientCredentials: { clientId: 'a', secretEnv: 'NO_SUCH_VARIABLE' } }, 'auth'],
    [{ clientCredentials: { clientId: 'a', secretEnv: 'PATH', issuer: 'x' } }, 'auth.clientCredentials.issuer'],
    [{ interactive: { redirectUrl: 'https://a.example' } }, 'auth.interactive.tokens'],
  ] as [McpAuth, string][])
    await t.rejects(mcpTools({ url, auth }), { code: 'CONFIGURATION', details: { path } })
  await t.rejects(finishLogin({ url }, ''), { code: 'CONFIGURATION', details: { path: 'auth' } })
})
