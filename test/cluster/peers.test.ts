/** Trust between the processes of a cluster: a request in the name of another process is believed only if it is one. */
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { keyOf } from '../../src/runtime/cluster/address.ts'
import { digestOf, Peers } from '../../src/runtime/cluster/peers.ts'
import { EVERYTHING } from '../service/http/stage.ts'
import { clusterTeam, idAt, served, sharedBy } from './served.ts'

const bin = postgresFolder()
const url = 'postgres://ann:word@127.0.0.1:1/none'
const SECRET = {
  SECRET: 'a secret of thirty-two characters',
  SHORT: 'too short',
  OTHER: 'another one of more than 32 characters',
}
Object.assign(process.env, SECRET)

const refusals: Record<string, { cluster: object; path: string; message: RegExp }> = {
  'an address of the network without a secret': {
    cluster: { url, address: 'http://10.0.0.5:4747' },
    path: 'cluster.address',
    message: /a loopback address without cluster.secretEnv\. Put a secret of at least 32 characters/,
  },
  'an address without a secret or a password': {
    cluster: { url: 'postgres://ann@127.0.0.1:1/none', address: 'http://127.0.0.1:4747' },
    path: 'cluster.address',
    message: /none without cluster.secretEnv or a password in cluster.url/,
  },
  'no address': { cluster: { url, address: 'here' }, path: 'cluster.address', message: /an http: or https: URL/ },
  'an address with a query': {
    cluster: { url, address: 'http://localhost/?a=1' },
    path: 'cluster.address',
    message: /URL/,
  },
  'a short secret': {
    cluster: { url, secretEnv: 'SHORT' },
    path: 'cluster.secretEnv',
    message: /a secret of 9 characters/,
  },
  'a secret that is not set': {
    cluster: { url, secretEnv: 'NONE' },
    path: 'cluster.secretEnv',
    message: /NONE that is not set/,
  },
}

for (const [name, { cluster, path, message }] of Object.entries(refusals))
  t.test(`refused: ${name}`, async (t) => {
    const error = thrownBy(() => clusterTeam(cluster))
    t.match(error, { code: 'CONFIGURATION', details: { path }, message })
    for (const secret of Object.values(SECRET)) t.notMatch(JSON.stringify(error), secret)
  })

t.test('with a secret a process may have any address', async (t) => {
  const cluster = { url, secretEnv: 'SECRET', address: 'https://desk-0.desk:4747' }
  t.ok(clusterTeam(cluster))
})

t.test('a request is believed once, for half a minute, as it was signed, by whom it is for', async (t) => {
  let now = 1_000_000
  const key = keyOf({ url })
  const peers = new Peers(key, () => now)
  const request = { method: 'POST', path: '/api/tasks/a?wait=1', body: Buffer.from('{"a":1}') }
  const said = { caller: { id: 'ann', may: ['run'], tenant: 'acme' } }
  const signed = () => peers.sign('two', request, said)
  const digest = digestOf(request.body)
  t.same(peers.read('two', signed(), request), { said, digest })
  const given = signed()
  t.same(peers.read('two', given, request), { said, digest })
  t.match(peers.read('two', given, request), { refusal: /sent before/ })
  t.match(peers.read('three', signed(), request), { refusal: /another process/ })
  const changes = { method: 'DELETE', path: '/api/tasks/b?wait=1' }
  for (const [field, value] of Object.entries(changes))
    t.match(peers.read('two', signed(), { ...request, [field]: value }), { refusal: /not signed/ }, field)
  const [text, mark] = signed().split('.') as [string, string]
  const letter = JSON.parse(Buffer.from(text, 'base64url').toString())
  const forged = { ...letter, said: { caller: { id: 'ann', may: ['run', 'operate'] } } }
  const changed = Buffer.from(JSON.stringify(forged)).toString('base64url')
  t.match(peers.read('two', `${changed}.${mark}`, request), { refusal: /not signed/ }, 'the caller')
  for (const bad of ['', '.', 'a', `${text}.`, `${text}.${mark}0`, `.${mark}`])
    t.match(peers.read('two', bad, request), { refusal: /not signed/ }, bad)
  const urls = [
    'postgres://ann:secret@127.0.0.1:1/none',
    'postgres://ann@127.0.0.1:1/none?password=a',
    'postgres://ann@127.0.0.1:1/none',
    'nats://127.0.0.1:1?creds=ann@desk', // a name of a file, that is no secret
  ]
  const others = [keyOf({ url, name: 'other' }), ...urls.map((url) => keyOf({ url }))]
  t.equal(others.at(-1), undefined)
  const secrets = ['SECRET', 'OTHER'].map((secretEnv) => keyOf({ url, secretEnv }))
  for (const other of [...others, ...secrets])
    t.match(new Peers(other, () => now).read('two', signed(), request), { refusal: /not signed/ })
  const old = signed()
  now += 30_001
  t.match(peers.read('two', old, request), { refusal: /30 s ago: do the clocks/ })
  now -= 60_002
  t.match(peers.read('two', old, request), { refusal: /clocks/ })
})

t.test(
  'the owner of a run believes the processes of its cluster alone',
  { skip: !bin && 'no PostgreSQL' },
  async (t) => {
    const database = await PostgresServer.start(bin!)
    t.teardown(() => database.remove())
    const cluster = { url: database.url, name: 'trust' }
    const one = await served(t, cluster)
    while (one.team.held.size < 4) await one.team.execute('slow')
    const id = idAt(one, 'run')
    const run = await one.team.launch('order', { runId: id })
    while ((await run.questions()).length === 0);
    const path = `/api/tasks/${encodeURIComponent(id)}`
    const shard = one.team.shardOf(id)
    const body = Buffer.alloc(0)
    const sign = (key: Buffer | undefined, caller: object, at = Date.now()) =>
      new Peers(key, () => at).sign(one.team.id, { method: 'GET', path, body }, { caller, shard })
    const ask = (given: string) => one.send('GET', path, { headers: { 'x-dramatis-peer': given } })
    const watcher = { id: 'ann', may: ['watch'] }
    t.match(await ask(sign(keyOf(cluster), watcher)), { status: 200, body: { id } })
    t.equal((await ask(sign(keyOf(cluster), { id: 'bob', may: ['run'] }))).status, 404, 'rights are checked again')
    t.equal((await ask(sign(keyOf(cluster), { id: 'bob', may: [] }))).status, 403)
    t.match(await ask(sign(keyOf({ ...cluster, name: 'other' }), watcher)), {
      status: 401,
      body: { code: 'UNAUTHORIZED' },
    })
    t.match(await ask(sign(keyOf(cluster), watcher, Date.now() - 31_000)), {
      status: 401,
      body: { detail: /31 s ago/ },
    })
    t.equal((await ask('')).status, 401)
    const events = { path: `${path}/events`, method: 'GET' }
    const toBob = new Peers(keyOf(cluster), Date.now).sign(
      one.team.id,
      { ...events, body },
      { caller: { id: 'bob', may: ['run'] }, shard },
    )
    t.equal(
      (await one.send('GET', events.path, { headers: { 'x-dramatis-peer': toBob } })).status,
      404,
      'nor are events told',
    )
    const answer = { path: `${path}/answers`, method: 'POST', body: '{"questionId":"a","answer":"b"}' }
    const signed = new Peers(keyOf(cluster), Date.now).sign(
      one.team.id,
      { ...answer, body: Buffer.from(answer.body) },
      { caller: EVERYTHING, shard },
    )
    const altered = await one.send('POST', answer.path, {
      body: { questionId: 'a', answer: 'c' },
      headers: { 'x-dramatis-peer': signed },
    })
    t.match(altered, { status: 401, body: { detail: /body is not what was signed/ } })
    await run.cancel()
  },
)

t.test(
  'processes with different secrets do not answer for each other',
  { skip: !bin && 'no PostgreSQL' },
  async (t) => {
    const database = await PostgresServer.start(bin!)
    t.teardown(() => database.remove())
    const member = (secretEnv: string) => served(t, { url: database.url, name: 'secrets', secretEnv })
    const [one, two] = await Promise.all([member('SECRET'), member('OTHER')])
    await sharedBy(one, two)
    await one.team.launch('order', { runId: idAt(two, 'a') })
    const answer = await one.send('GET', `/api/tasks/${encodeURIComponent(idAt(two, 'a'))}`)
    t.match(answer, { status: 503, body: { code: 'SHARD_AWAY', detail: /do not believe each other/ } })
    t.equal(answer.headers.get('retry-after'), '2')
  },
)

t.test('lists leave out processes that cannot be reached', { skip: !bin && 'no PostgreSQL' }, async (t) => {
  const database = await PostgresServer.start(bin!)
  t.teardown(() => database.remove())
  const cluster = { url: database.url, name: 'lists' }
  const one = await served(t, cluster)
  const two = await served(t, cluster)
  const gone = [1, 2].map(() => clusterTeam({ ...cluster, address: 'http://127.0.0.1:1' }))
  t.teardown(() => Promise.all(gone.map((team) => team.close())))
  await Promise.all(gone.map((team) => team.start()))
  await sharedBy(one, two, ...gone.map((team) => ({ team })))
  await one.team.execute('slow', { runId: idAt(two, 'a') })
  for (let i = 0; i < 5; i++) t.match((await one.send('GET', '/api/tasks')).body.tasks, [{ id: idAt(two, 'a') }])
  t.equal((await one.send('GET', '/api/tasks/none')).status, 404)
})

t.test('processes tell each other what is new of the engine', { skip: !bin && 'no PostgreSQL' }, async (t) => {
  const database = await PostgresServer.start(bin!)
  t.teardown(() => database.remove())
  class Telling extends PostgresStore {
    readonly heard = new Set<string>()
    readonly #own: string
    constructor(own: string) {
      super({ url: database.url, name: 'news', shards: 4, times: { beatMs: 200, suspectMs: 1_000 } })
      this.#own = own
    }
    override get news(): string {
      return this.#own
    }
    override hear(news: string): void {
      this.heard.add(news)
    }
  }
  const stores = ['one', 'two'].map((own) => new Telling(own))
  await Promise.all(stores.map((store) => served(t, { store, secretEnv: 'SECRET' })))
  while (stores.some(({ heard }) => heard.size === 0)) await new Promise((resolve) => setTimeout(resolve, 50))
  t.same(
    stores.map(({ heard }) => [...heard]),
    [['two'], ['one']],
  )
})

function thrownBy(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  return undefined
}
