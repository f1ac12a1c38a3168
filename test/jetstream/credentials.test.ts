/** Who a process is to the brokers: users of JWTs, keys and certificates, by files that an address names. */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { nkeys } from '@nats-io/transport-node'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import { main } from '../../src/service/commands/program.ts'
import { fakeSurroundings } from '../service/fake-team.ts'
import { NatsBrokers, natsServer, WHY_NOT } from './nats-brokers.ts'

const program = natsServer()
const folder = mkdtempSync(join(tmpdir(), 'dramatis-creds-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

type Pair = ReturnType<typeof nkeys.createUser>

const put = (name: string, text: string) => {
  const file = join(folder, name)
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
  return file
}

const seedOf = (pair: Pair) => Buffer.from(pair.getSeed()).toString()

/** A JWT of NATS, of one who is vouched for by another. */
function jwt(of: Pair, by: Pair, type: string, nats: object, rest: object = {}): string {
  const [iss, sub] = [by.getPublicKey(), of.getPublicKey()]
  const claims = { jti: randomUUID(), iat: Math.floor(Date.now() / 1_000), iss, sub, ...rest }
  const parts = [
    { typ: 'JWT', alg: 'ed25519-nkey' },
    { ...claims, nats: { version: 2, type, ...nats } },
  ]
  const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${text}.${Buffer.from(by.sign(Buffer.from(text))).toString('base64url')}`
}

/** What `nsc` writes for a user. */
const credsOf = (user: Pair, token: string) => `-----BEGIN NATS USER JWT-----
${token}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
${seedOf(user)}
------END USER NKEY SEED------

*************************************************************
`

async function joined(t: Test, url: string, name = 'default', warnings: string[] = []): Promise<JetStreamStore> {
  const times = { beatMs: 100, suspectMs: 1_000, ttlMs: 5_000 }
  const warn = (text: string) => warnings.push(text)
  const store = new JetStreamStore({ url, name, shards: 2, replicas: 1, times, warn })
  t.teardown(() => store.leave())
  await store.join({ id: randomUUID() }, () => {})
  return store
}

const refused = (message: RegExp) => ({ code: 'CONFIGURATION', message, details: { path: 'cluster.url' } })

t.test('addresses', async (t) => {
  for (const query of ['?cred=/run/a', '?creds=', '?creds=/run/a&password=secret'])
    t.throws(
      () => new JetStreamStore({ url: `nats://127.0.0.1:1${query}` }),
      refused(/^cluster.url is no address of NATS.* with files .*: creds, nkey, tlsca, tlscert, tlskey\.$/),
    )
  const seed = seedOf(nkeys.createUser())
  const wrong = { none: join(folder, 'none'), 'no creds': put('seed', seed), 'no seed': put('text', 'my-secret') }
  for (const [how, query] of [
    ['none', 'creds'],
    ['no creds', 'creds'],
    ['none', 'nkey'],
    ['no seed', 'nkey'],
  ] as const) {
    const file = wrong[how]
    const error = await joined(t, `nats://127.0.0.1:1?${query}=${file}`).catch((reason: Error) => reason)
    t.match(error, refused(new RegExp(`^cluster.url: ${query}=${file} cannot be used: `)))
    t.notMatch(String(error), new RegExp(`my-secret|${seed}`))
  }
})

t.test('users of JWTs', { skip: !program && WHY_NOT }, async (t) => {
  const [operator, system, account] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createAccount()]
  const without = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 }
  const limits = { ...without, mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }
  const of = (each: Pair, more: object) =>
    `${each.getPublicKey()}: "${jwt(each, operator, 'account', { limits: more })}"`
  const brokers = await NatsBrokers.start(program!, 1, {
    login: [
      `operator: "${jwt(operator, operator, 'operator', { system_account: system.getPublicKey() })}"`,
      `system_account: ${system.getPublicKey()}`,
      `resolver: MEMORY`,
      `resolver_preload: { ${of(system, without)}, ${of(account, limits)} }`,
    ].join('\n'),
  })
  t.teardown(() => brokers.remove())
  const userOf = (rights: object = {}, rest: object = {}) => {
    const user = nkeys.createUser()
    return credsOf(user, jwt(user, account, 'user', { subs: -1, data: -1, payload: -1, ...rights }, rest))
  }
  const at = (file: string) => `nats://127.0.0.1:${brokers.all[0]!.port}?creds=${file}`
  const good = put('good.creds', userOf())

  await t.test('a team, and who looks at it, come by the file', async (t) => {
    const team = createTeam({
      agents: [{ name: 'ann', module: new URL('../fixtures/cluster/echo.js', import.meta.url) }],
      orchestration: { strategy: 'sequential' },
      cluster: { store: new JetStreamStore({ url: at(good), name: 'team', shards: 2, replicas: 1 }), shards: 2 },
    })
    t.teardown(() => team.close())
    t.equal((await team.execute('order')).success, true)
    process.env.JWT_CLUSTER = at(put('short.creds', userOf().trim())) // as variables lose their last line end
    const { surroundings, stdout } = fakeSurroundings()
    const args = ['cluster', 'status', '--cluster-env', 'JWT_CLUSTER', '--cluster-name', 'team']
    t.equal(await main(args, surroundings), 0)
    t.match(stdout(), /^2 shards, 0 without an owner$/m)
  })

  await t.test('strangers, and users without the rights, are told', async (t) => {
    const stranger = nkeys.createUser()
    const unknown = credsOf(stranger, jwt(stranger, nkeys.createAccount(), 'user', {}))
    const error = await joined(t, at(put('unknown.creds', unknown))).catch((reason: Error) => reason)
    t.match(error, { code: 'CLUSTER_UNREACHABLE', message: /: Authorization Violation/i })
    t.notMatch(String(error), /-----|SU[A-Z0-9]{20}|eyJ/)
    for (const [rights, what] of [
      [{ pub: { deny: ['$JS.API.>'] } }, /Publish to "\$JS\.API\./],
      [{ sub: { deny: ['dramatis.>'] } }, /Subscription to "dramatis\./],
    ] as const) {
      const told = await joined(t, at(put('poor.creds', userOf(rights)))).catch((reason: Error) => reason)
      t.match(told, refused(what))
      t.match(told, refused(/It needs dramatis\.>, \$JS\.API\.> and _INBOX\.>/))
    }
  })

  await t.test('a user that expires is told, and replaced by what its file has then', async (t) => {
    const warnings: string[] = []
    const exp = Math.floor(Date.now() / 1_000) + 2
    const file = put('passing.creds', userOf({}, { exp }))
    const store = await joined(t, at(file), 'passing', warnings)
    const log = store.log(0, () => {})
    await log.open()
    const refusals = () => warnings.filter((text) => /a broker refuses this process: .*(expired|violation)/i.test(text))
    while (refusals().length < 2) await sleep(20) // the driver by itself gives up with the second one
    put('passing.creds', 'half a file')
    await sleep(300) // several tries: any number of them may see it
    put('passing.creds', userOf())
    const entry = { firstSeq: 1, lastSeq: 1, carried: false, runs: [], entries: Buffer.from('after') }
    await log.append(entry)
    t.equal(log.state, 'open')
  })
})

t.test('keys and certificates', { skip: !program && WHY_NOT }, async (t) => {
  const user = nkeys.createUser()
  const pem = (name: string) => join(folder, `${name}.pem`)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
  const issued = (name: string, by: string[]) =>
    openssl(
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:localhost', '-keyout', `${name}.key`],
      ...['-out', `${name}.pem`, ...by],
    )
  issued('ca', [])
  for (const name of ['server', 'client'])
    issued(name, ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-addext', 'basicConstraints=CA:FALSE'])
  const brokers = await NatsBrokers.start(program!, 1, {
    login: `authorization { users: [{ nkey: ${user.getPublicKey()} }] }
      tls { cert_file: "${pem('server')}", key_file: "${join(folder, 'server.key')}", ca_file: "${pem('ca')}", verify: true }`,
  })
  t.teardown(() => brokers.remove())
  const key = put('user.nk', `${seedOf(user)}\n`)
  const port = brokers.all[0]!.port
  const url = `tls://localhost:${port}?nkey=${key}&tlsca=${pem('ca')}`
  const client = `&tlscert=${pem('client')}&tlskey=${join(folder, 'client.key')}`
  const store = await joined(t, url + client)
  t.equal((await store.view()).members.length, 1)
  await t.rejects(joined(t, url), { code: 'CLUSTER_UNREACHABLE' })
  await t.rejects(joined(t, `tls://localhost:${port}?nkey=${key}${client}`), {
    code: 'CLUSTER_UNREACHABLE',
    message: /certificate/,
  })
  const other = put('other.nk', seedOf(nkeys.createUser()))
  await t.rejects(joined(t, (url + client).replace(key, other)), {
    code: 'CLUSTER_UNREACHABLE',
    message: /Authorization Violation/i,
  })
})
