/** What every engine of a cluster does, on brokers of NATS; what is refused there; how much is read of a shard. */
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { JetStreamStore, type JetStreamStoreOptions } from '../../src/jetstream/index.ts'
import { clusterStoreContract } from '../../src/runtime/cluster/contract.ts'
import { CuttingProxy } from '../postgres/cutting-proxy.ts'
import { NatsBrokers, natsServer, WHY_NOT } from './nats-brokers.ts'

const program = natsServer()

t.test('the contract', { skip: !program && WHY_NOT }, async (t) => {
  const brokers = await NatsBrokers.start(program!)
  t.teardown(() => brokers.remove())
  const times = { beatMs: 100, suspectMs: 1_000, ttlMs: 5_000 }
  const make = (name: string) => new JetStreamStore({ url: brokers.url, name, shards: 8, times })
  for (const { name, run } of clusterStoreContract(make)) await t.test(name, run)
})

// Brokers, addresses and streams on which the promises of a cluster do not hold are refused, with the way out.

const refused = (pattern: RegExp, path = 'cluster.url') => ({
  code: 'CONFIGURATION',
  message: pattern,
  details: { path },
})

/** A broker that says what it is, and answers pings. */
async function claiming(t: Test, info: object): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.write(`INFO ${JSON.stringify({ server_id: 'a', max_payload: 2 ** 20, jetstream: true, ...info })}\r\n`)
    socket.on('data', (bytes) => bytes.includes('PING') && socket.write('PONG\r\n'))
    t.teardown(() => socket.destroy())
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return `nats://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function join(t: Test, options: JetStreamStoreOptions): Promise<JetStreamStore> {
  const store = new JetStreamStore({ shards: 4, ...options })
  t.teardown(() => store.leave())
  await store.join({ id: randomUUID() }, () => {})
  return store
}

t.test('brokers', async (t) => {
  for (const version of ['2.9.10', '2.10.27', '1.4.0'])
    await t.rejects(
      join(t, { url: await claiming(t, { version }) }),
      refused(new RegExp(`^cluster.url: the broker is nats-server ${version}: accepted is 2.11 and up`)),
    )
  await t.rejects(join(t, { url: await claiming(t, { version: '2.11.0', jetstream: false }) }), refused(/no JetStream/))
  await t.rejects(
    join(t, { url: await claiming(t, { version: '2.15.1', max_payload: 65_536 }) }),
    refused(/up to 65536 bytes \(max_payload\): accepted are 1048576 and more/),
  )
})

t.test('a team says so too, whose address names the engine', async (t) => {
  const team = createTeam({
    agents: [{ name: 'ann', module: new URL('../fixtures/cluster/patient.js', import.meta.url) }],
    orchestration: { strategy: 'sequential' },
    cluster: { url: await claiming(t, { version: '2.10.0' }) },
  })
  await t.rejects(team.start(), refused(/the broker is nats-server 2.10.0/))
  await team.close()
})

t.test('addresses', async (t) => {
  t.throws(
    () => new JetStreamStore({ url: 'nats://' }),
    refused(/accepted is nats:\/\/user:password@host:port,host:port/),
  )
  const away = join(t, { url: 'nats://ann:secret@127.0.0.1:1' })
  await t.rejects(away, {
    code: 'CLUSTER_UNREACHABLE',
    message: /^the brokers of the cluster, nats:\/\/\.\.\.@127.0.0.1:1,/,
  })
  t.throws(
    () => new JetStreamStore({ url: 'nats://127.0.0.1:1', replicas: 1, durability: 'replicated' }),
    refused(/needs 3 replicas or more/, 'cluster.durability'),
  )
})

t.test('streams', { skip: !program && WHY_NOT }, async (t) => {
  const brokers = await NatsBrokers.start(program!, 1)
  t.teardown(() => brokers.remove())
  const { url } = brokers
  await t.rejects(join(t, { url }), refused(/3 replicas need a cluster of as many brokers, and this one is alone/))

  await join(t, { url, replicas: 1 })
  await t.rejects(join(t, { url, replicas: 1, shards: 8 }), {
    code: 'CLUSTER_SHARDS_DIFFER',
    message: /has 4 shards and this process says 8/,
  })

  const { manager } = await brokers.admin()
  const wrong = async (config: object, pattern: RegExp) => {
    const name = randomUUID()
    await (await join(t, { url, name, replicas: 1 })).leave()
    await manager.streams.update(`dramatis_${name}_tasks`, config)
    await t.rejects(join(t, { url, name, replicas: 1 }), refused(pattern))
  }
  await wrong({ max_age: 60_000_000_000 }, /gives up messages by their age/)
  await wrong({ max_msgs: 100 }, /gives up messages by their age, number or size/)
  await wrong({ max_msgs_per_subject: 1 }, /gives up messages by their age, number or size/)
  const made = async (name: string, config: object, pattern: RegExp) => {
    const metadata = { shards: '4', version: '1' }
    await manager.streams.add({ name: `dramatis_${name}_tasks`, metadata, allow_msg_ttl: true, ...config })
    await t.rejects(join(t, { url, name, replicas: 1 }), refused(pattern))
  }
  await made('async', { subjects: ['dramatis.async.>'], persist_mode: 'async' }, /some time after it is acknowledged/)
  await made('mirror', { mirror: { name: 'dramatis_async_tasks' } }, /takes messages of other streams/)
  await t.rejects(join(t, { url, replicas: 3 }), refused(/has 1 replicas of 3/))
  const later = `dramatis_later_tasks`
  await manager.streams.add({ name: later, subjects: ['dramatis.later.>'], metadata: { shards: '4', version: '2' } })
  await t.rejects(join(t, { url, name: 'later', replicas: 1 }), { code: 'CLUSTER_VERSION' })
})

// How much of a shard is read when it is taken, counted from what the brokers are asked for.

const LOG = 'dramatis_kept_log_0'

t.test('a shard is taken by its checkpoint', { skip: !program && WHY_NOT, timeout: 0 }, async (t) => {
  const brokers = await NatsBrokers.start(program!, 1)
  t.teardown(() => brokers.remove())
  const { connection, manager } = await brokers.admin()
  const door = await CuttingProxy.before(brokers.all[0]!.port)
  t.teardown(() => door.close())
  const memberAt = (url: string) => {
    const times = { beatMs: 200, suspectMs: 1_000, ttlMs: 3_000 }
    const store = new JetStreamStore({ url, name: 'kept', shards: 1, replicas: 1, times })
    const team = createTeam({
      agents: [{ name: 'ann', module: new URL('../fixtures/cluster/echo.js', import.meta.url) }],
      orchestration: { strategy: 'sequential' },
      cluster: { store, shards: 1 },
      stateManagement: { keep: { runs: 10_000 } }, // nothing is given up meanwhile, which reads too
      threads: { warmSpares: 0 },
      logger: { debug() {}, info() {}, warn: (...said) => t.comment(...said), error: (...said) => t.comment(...said) },
    })
    t.teardown(() => team.close())
    return team
  }
  const last = async () => {
    const message = await manager.streams.getMessage(LOG, { last_by_subj: 'dramatis.kept.log.0' })
    const { position, made } = JSON.parse(message?.header.get('Checkpoint') || '{}') as {
      position: number
      made: string
    }
    return { seq: message!.seq, from: Math.floor((position ?? 0) / 4_096), made }
  }

  const first = memberAt(brokers.urlBy([door.port]))
  const checkpoints = new Set<string>()
  while (checkpoints.size < 2) {
    for (let n = 0; n < 20; n++) await first.execute(randomBytes(30_000).toString('hex'))
    const { made } = await last()
    if (made !== undefined) checkpoints.add(made)
  }
  for (let n = 0; n < 5; n++) await first.execute('one more')
  door.refuse()

  const asked = new Set<number>()
  connection.subscribe(`$JS.API.STREAM.MSG.GET.${LOG}`, {
    callback: (_, message) => void asked.add(message.json<{ seq?: number }>().seq ?? 0), // 0: the last one
  })
  const { seq, from } = await last()
  const next = memberAt(brokers.url)
  await next.start()
  while (next.held.size === 0) await sleep(20)
  const early = [...asked].filter((number) => number > 0 && number < from)
  t.comment(`asked for ${asked.size} messages of ${seq}, of which ${seq - from} stand behind the checkpoint`)
  t.ok(seq > 2 * (seq - from), 'the log is much longer')
  t.ok(early.length < 5, `${early.length} messages before it were read`)
  t.ok(asked.size > seq - from)
  t.equal((await next.held.get(0)!.listRuns({ limit: 1 })).length, 1)
  door.lead()
})
