/** Looks at a cluster without being a member of it: for who operates it. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { type ClusterAt, type SeenCluster, type SeenShard, TIMES } from '../runtime/cluster/cluster-store.ts'
import type { StoredBlock } from '../runtime/store/log-files.ts'
import { systemClock } from '../shared/clock.ts'
import { Brokers } from './brokers.ts'
import { ANSWER_MS, type Beat, Members } from './members.ts'
import { claimIn, JetStreamLog } from './shard-log.ts'

/** @throws ConfigurationError, ClusterUnreachableError */
export async function lookAt({ url, name }: ClusterAt): Promise<SeenCluster> {
  const brokers = new Brokers({ url, cluster: name, replicas: 1, warn() {} })
  await brokers.connect()
  try {
    const names = await brokers.names()
    const info = await brokers.stateOf(brokers.streamOf('tasks'))
    if (!info) return { members: [], shards: [], names }
    const heard = await living(brokers)
    const open = await brokers.counted(brokers.streamOf('tasks'), brokers.subjectOf('task', 'open', '*', '*'))
    const all = Array.from({ length: Number(info.config.metadata?.shards) }, (_, shard) => shard)
    const shards = await Promise.all(
      all.map(async (shard): Promise<SeenShard> => {
        const stream = brokers.streamOf(`log_${shard}`)
        const log = await brokers.stateOf(stream)
        const last = log && (await brokers.message(stream, { last_by_subj: brokers.subjectOf('log', shard) }))
        const { incarnation, owner } = claimIn(last)
        const mine = brokers.subjectOf('task', 'open', shard, '')
        return {
          shard,
          owner: owner && heard.has(owner.id) ? owner.id : null,
          incarnation,
          bytes: log?.state.bytes ?? 0,
          open: Object.keys(open).filter((subject) => subject.startsWith(mine)).length,
        }
      }),
    )
    const members = Array.from(heard.values(), (member) => {
      const held = shards.filter(({ owner }) => owner === member.id)
      return { ...member, shards: held.map(({ shard }) => shard) }
    })
    return {
      members: members.sort((one, other) => (one.id < other.id ? -1 : 1)),
      shards,
      names: [...new Set([...names, name])],
    }
  } finally {
    await brokers.leave()
  }
}

/**
 * Yields the blocks of a shard, as far as its log goes now, beside its owner.
 *
 * @throws ConfigurationError, ClusterUnreachableError, LogCorruptError
 */
export async function* readShard({ url, name }: ClusterAt, shard: number): AsyncGenerator<StoredBlock> {
  const brokers = new Brokers({ url, cluster: name, replicas: 1, warn() {} })
  await brokers.connect()
  try {
    const log = new JetStreamLog(brokers, new Members(brokers, TIMES, () => []), shard, () => {})
    yield* log.look()
  } finally {
    await brokers.leave()
  }
}

/** Those who answer one who asks, and is no member. */
async function living(brokers: Brokers): Promise<ReadonlyMap<string, Beat['member']>> {
  const heard = new Map<string, Beat['member']>()
  const subject = brokers.subjectOf('beat')
  await brokers.hear(subject, (message) => {
    const { member, leaves } = message.json<Beat>()
    if (leaves) heard.delete(member.id)
    else heard.set(member.id, member)
  })
  const nobody = { id: randomUUID(), host: hostname(), pid: process.pid }
  brokers.connection.publish(
    subject,
    JSON.stringify({ member: nobody, held: [], asks: true, leaves: true } satisfies Beat),
  )
  await systemClock.sleep(ANSWER_MS)
  return heard
}
