/** How much of a shard is read when it is taken on JetStream, counted from what the brokers are asked for. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import { CuttingProxy } from '../postgres/cutting-proxy.ts'
import { NatsBrokers, natsServer, WHY_NOT } from './nats-brokers.ts'

const program = natsServer()
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
