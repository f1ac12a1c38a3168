/** Looks at a cluster without being a member of it: for who operates it. */
import { type SeenCluster, type SeenShard, TIMES } from '../runtime/cluster/cluster-store.ts'
import { hostsOf, loadPg, unreachable } from './database.ts'
import { MEMBERS, type MemberRow, memberOf } from './postgres-store.ts'
import { LIVES } from './shard-log.ts'

const SHARDS = `select s.shard, s.incarnation, (s.position - s.first)::float8 as bytes,
    (select m.id from dramatis.member m where m.id = s.owner and $2::int > 0 and ${LIVES}) as owner,
    (select count(*)::int from dramatis.task t where t.cluster = $1 and t.shard = s.shard and t.settled is null) as open
  from dramatis.shard s where s.cluster = $1 order by s.shard`
const NAMES = 'select cluster from dramatis.cluster order by cluster'
const CONNECT_MS = 3_000

/** @throws ConfigurationError, ClusterUnreachableError */
export async function lookAt({ url, name = 'default' }: { url: string; name?: string }): Promise<SeenCluster> {
  const { Client } = await loadPg()
  let failure: unknown
  for (const connectionString of hostsOf(url)) {
    const client = new Client({ connectionString, connectionTimeoutMillis: CONNECT_MS, query_timeout: CONNECT_MS })
    client.on('error', () => {}) // whoever waits for an answer is told
    try {
      await client.connect()
      const { rows } = await client.query<{ standby: boolean; made: boolean }>(
        "select pg_is_in_recovery() as standby, to_regclass('dramatis.member') is not null as made",
      )
      if (rows[0]?.standby) continue
      if (!rows[0]?.made) return { members: [], shards: [], names: [] }
      const values = [name, 1, TIMES.suspectMs, TIMES.ttlMs]
      const members = (await client.query<MemberRow>(MEMBERS, values)).rows
      const shards = (await client.query<SeenShard & Record<string, unknown>>(SHARDS, values)).rows
      const names = (await client.query<{ cluster: string }>(NAMES)).rows.map(({ cluster }) => cluster)
      const heldBy = (id: string) => shards.filter(({ owner }) => owner === id).map(({ shard }) => shard)
      return {
        members: members.map((row) => memberOf(row, heldBy(row.id))),
        shards,
        names,
      }
    } catch (error) {
      failure = error
    } finally {
      await client.end().catch(() => {})
    }
  }
  throw unreachable(url, failure ?? new Error('all of its hosts are standbys'))
}
