/**
 * The database fails over under load: to a synchronous standby nothing is lost and nothing done twice, to another one all
 * that is lost is told. DRAMATIS_FAILOVER names the ways that are played ('kill on'), DRAMATIS_FAILOVERS how often.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { MemberProcess } from '../../examples/cluster-demo/member-process.ts'
import { postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { randomOf, underNemesis } from '../cluster/nemesis.ts'
import { howMany } from '../how-many.ts'
import { type Loss, Replicas } from './replicas.ts'

const bin = postgresFolder()
const MEMBERS = [0, 1, 2]
const { DRAMATIS_FAILOVER, DRAMATIS_FAILOVERS } = process.env

interface Way {
  /** 'both': the primary, and a process with it. */
  readonly loss: Loss | 'both'
  readonly synchronous: boolean
  readonly rounds: number
}

const ways: readonly Way[] = [
  { loss: 'kill', synchronous: true, rounds: howMany(1, 10) },
  { loss: 'gone', synchronous: true, rounds: howMany(0, 10) },
  { loss: 'split', synchronous: true, rounds: howMany(0, 10) },
  { loss: 'both', synchronous: true, rounds: howMany(0, 10) },
  { loss: 'kill', synchronous: false, rounds: howMany(0, 10) },
  { loss: 'gone', synchronous: false, rounds: howMany(0, 10) },
  { loss: 'split', synchronous: false, rounds: howMany(0, 20) },
  { loss: 'both', synchronous: false, rounds: howMany(0, 20) },
]
const nameOf = ({ loss, synchronous }: Way) => `${loss} ${synchronous ? 'on' : 'off'}`
const played = DRAMATIS_FAILOVER
  ? ways
      .filter((way) => nameOf(way) === DRAMATIS_FAILOVER)
      .map((way) => ({ ...way, rounds: Number(DRAMATIS_FAILOVERS ?? 1) }))
  : ways.filter(({ rounds }) => rounds > 0)

for (const way of played)
  t.test(
    `${nameOf(way)}, ${way.rounds} times`,
    { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 },
    async (t) => {
      const { loss, synchronous, rounds } = way
      const replicas = await Replicas.start(bin!, MEMBERS.length, synchronous)
      t.teardown(() => replicas.remove())
      const random = randomOf(Number(process.env.DRAMATIS_NEMESIS_SEED ?? 1))
      let round = 0
      const failover = {
        name: nameOf(way),
        async act(member: MemberProcess) {
          if (round > 0) await replicas.restore()
          const apart = round++ % MEMBERS.length
          await sleep(3_000)
          replicas.fallBehind()
          await sleep(50 + 750 * random())
          if (loss === 'both') await member.signal('SIGKILL')
          await replicas.failOver(loss === 'both' ? 'kill' : loss, apart)
          if (loss === 'both') await member.run()
          if (loss === 'split') {
            await sleep(8_000)
            replicas.heal(apart)
          }
          await sleep(5_000)
        },
      }
      const { ends, ...report } = await underNemesis({
        members: MEMBERS.map((member) => ({
          url: replicas.urlOf(member),
          name: 'failover',
          shards: 4,
          ...(synchronous && { durability: 'replicated' as const }),
        })),
        rounds,
        rate: 3,
        seed: 1,
        faults: [failover],
        patienceMs: 60_000,
        once: true,
      })
      t.comment(JSON.stringify(report))
      // null: told from the log, and not kept before the processes were killed at the end
      const kept = await replicas.primary.query<{ id: string; success: boolean | null }>(
        "select id, status = 'finished' as success from dramatis.task",
      )
      const success = new Map(kept.map((row) => [row.id, row.success]))
      const told = [...ends].filter(
        ([id, end]) => end.code !== 'UNKNOWN_RUN' && success.get(id) !== null && success.get(id) !== end.success,
      )
      t.comment(JSON.stringify({ toldAndChanged: told }))
      t.ok(report.accepted > 0)
      t.same(report.lost, [], 'gone')
      t.same(await damages(replicas), [])
      t.same([report.wrong, report.missing], [[], []])
      if (synchronous)
        t.same(
          told.map(([id]) => id),
          [],
          'told a result, then another',
        )
      if (synchronous || loss !== 'split') t.same(report.doubled, [], 'an effect twice')
    },
  )

/** Chunks of a log that do not follow each other, or that an earlier owner wrote behind a later one. */
function damages({ primary }: Replicas) {
  return primary.query(`select * from (
      select cluster, shard, position, incarnation,
        lag(position + length(bytes)) over log as next, lag(incarnation) over log as before
      from dramatis.chunk window log as (partition by cluster, shard order by position)) c
    where position <> next or incarnation < before`)
}
