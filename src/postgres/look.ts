/** Looks at a cluster without being a member of it: for who operates it. */
import type { Client } from 'pg'
import { type ClusterAt, type SeenCluster, type SeenShard, TIMES } from '../runtime/cluster/cluster-store.ts'
import type { StoredBlock } from '../runtime/store/log-files.ts'
import { hostsOf, loadPg, unreachable } from './database.ts'
import { MEMBERS, type MemberRow, memberOf } from './postgres-store.ts'
import { LIVES, readChunks } from './shard-log.ts'

const SHARDS = `select s.shard, s.incarnation, (s.position - s.first)::float8 as bytes,
    (select m.id from dramatis.member m where m.id = s.owner and $2::int > 0 and ${LIVES}) as owner,
    (select count(*)::int from dramatis.task t where t.cluster = $1 and t.shard = s.shard and t.settled is null) as open
  from dramatis.shard s where s.cluster = $1 order by s.shard`
const NAMES = 'select cluster from dramatis.cluster order by cluster'
const CONNECT_MS = 3_000

/** @throws ConfigurationError, ClusterUnreachableError */
export async function lookAt({ url, name }: ClusterAt): Promise<SeenCluster> {
  const client = await primaryAt(url)
  try {
    const { rows } = await client.query<{ made: boolean }>("select to_regclass('dramatis.member') is not null as made")
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
    throw unreachable(url, error)
  } finally {
    await client.end().catch(() => {})
  }
}

/**
 * Yields the blocks of a shard, as they are at one moment, beside its owner.
 *
 * @throws ConfigurationError, ClusterUnreachableError, LogCorruptError
 */
export async function* readShard({ url, name }: ClusterAt, shard: number): AsyncGenerator<StoredBlock> {
  const client = await primaryAt(url)
  const ask = <Row extends object>(text: string, values: readonly unknown[]) =>
    client.query<Row & Record<string, unknown>>(text, [...values]).catch((error: unknown) => {
      throw unreachable(url, error)
    })
  try {
    await ask('begin isolation level repeatable read, read only', [])
    const { rows } = await ask<{ first: number; position: number }>(BOUNDS, [name, shard])
    const [bounds] = rows
    if (bounds) yield* readChunks(ask, [name, shard], { first: () => bounds.first, until: bounds.position }, {})
  } finally {
    await client.end().catch(() => {})
  }
}

const BOUNDS = 'select first::float8, position::float8 from dramatis.shard where cluster = $1 and shard = $2'

/** Connects to the first host that is no standby. @throws ConfigurationError, ClusterUnreachableError */
async function primaryAt(url: string): Promise<Client> {
  const { Client } = await loadPg()
  let failure: unknown
  for (const connectionString of hostsOf(url)) {
    const client = new Client({ connectionString, connectionTimeoutMillis: CONNECT_MS, query_timeout: CONNECT_MS })
    client.on('error', () => {}) // whoever waits for an answer is told
    try {
      await client.connect()
      const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
      if (!rows[0]?.standby) return client
    } catch (error) {
      failure = error
    }
    await client.end().catch(() => {})
  }
  throw unreachable(url, failure ?? new Error('all of its hosts are standbys'))
}
