/** Promises of every engine of a cluster, as tests for any runner. They know no engine. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { LogHeldError, LogLostError } from '../../shared/errors.ts'
import { appendAll, blockOf, type ContractTest, entries, logStoreContract, textOf } from '../store/contract.ts'
import type { LogStore } from '../store/log-files.ts'
import type { ClusterNotice, ClusterStore, ClusterTask, ShardLog } from './cluster-store.ts'

/**
 * Tests of a `ClusterStore`, those of its logs among them:
 * `for (const { name, run } of clusterStoreContract(make)) test(name, run)`.
 *
 * @param make gives a store for a process of the cluster of that name, which has 8 shards. Its processes may be taken
 *   for dead after some hundred ms of silence, so that the tests do not take long.
 */
export function clusterStoreContract(make: (cluster: string) => ClusterStore): readonly ContractTest[] {
  const ofLogs = logStoreContract(randomUUID, (cluster) => shardLog(make(cluster)))
  const ofStore = Object.entries(promises).map(([name, test]) => ({
    name,
    async run() {
      const cluster = randomUUID()
      const members: Member[] = []
      const join = async () => {
        const member = await Member.join(make(cluster))
        members.push(member)
        return member
      }
      try {
        await test(join)
      } finally {
        for (const member of members) await member.leave()
      }
    },
  }))
  return [...ofStore, ...ofLogs.map(({ name, run }) => ({ name: `log of a shard: ${name}`, run }))]
}

/** A process of the cluster, as the tests have it. */
class Member {
  readonly id = randomUUID()
  readonly store: ClusterStore
  readonly notices: ClusterNotice[] = []
  readonly lost: Error[] = []
  readonly #logs: ShardLog[] = []

  private constructor(store: ClusterStore) {
    this.store = store
  }

  static async join(store: ClusterStore): Promise<Member> {
    const member = new Member(store)
    await store.join({ id: member.id, address: 'http://127.0.0.1:1', version: 'one' }, (notice) => {
      member.notices.push(notice)
    })
    return member
  }

  log(shard: number): ShardLog {
    const log = this.store.log(shard, (error) => this.lost.push(error))
    this.#logs.push(log)
    return log
  }

  async open(shard: number): Promise<ShardLog> {
    const log = this.log(shard)
    await log.open()
    return log
  }

  async leave(): Promise<void> {
    for (const log of this.#logs) await log.close()
    await this.store.leave()
  }
}

type Join = () => Promise<Member>

const promises: { readonly [name: string]: (join: Join) => Promise<void> } = {
  async 'a task is accepted once over the cluster, and another one under its id is a conflict'(join) {
    const members = [await join(), await join(), await join()]
    const said = await Promise.all(Array.from({ length: 30 }, (_, i) => members[i % 3]!.store.submit(taskOf('a', 1))))
    assert.deepEqual(
      [said.filter((each) => each === 'fresh').length, said.filter((each) => each === 'known').length],
      [1, 29],
    )
    assert.equal(await members[1]!.store.submit({ ...taskOf('a', 1), hash: 'other' }), 'conflict')
    assert.deepEqual(await members[1]!.store.outcome('a'), { shard: 1, outcome: undefined })
    assert.equal(await members[1]!.store.outcome('none'), undefined)
  },

  async 'an owner is given each task of its shard once, in the order of acceptance'(join) {
    const member = await join()
    for (const id of ['a', 'b', 'c']) await member.store.submit(taskOf(id, 2))
    await member.store.submit(taskOf('elsewhere', 3))
    const log = await member.open(2)
    const taken = await member.store.take(log)
    assert.deepEqual(
      taken.map(({ id, shard, hash, body, doubtful }) => [id, shard, hash, Buffer.from(body).toString(), doubtful]),
      ['a', 'b', 'c'].map((id) => [id, 2, `hash of ${id}`, `body of ${id}`, false]),
    )
    assert.deepEqual(await member.store.take(log), [])
    await member.store.submit(taskOf('d', 2))
    assert.deepEqual(idsOf(await member.store.take(log)), ['d'])
  },

  async 'an owner is given what it submits once, behind what was accepted before, and so is the next one'(join) {
    const [owner, other] = [await join(), await join()]
    const log = await owner.open(4)
    await other.store.submit(taskOf('a', 4))
    assert.equal(await owner.store.submit(taskOf('b', 4), log), 'fresh')
    assert.deepEqual(idsOf(await owner.store.take(log)), ['a', 'b'])
    assert.deepEqual(await owner.store.take(log), [])
    const given = (await owner.store.submit(taskOf('c', 4), log)) === 'given' ? ['c'] : []
    assert.deepEqual([...given, ...idsOf(await owner.store.take(log))], ['c'])
    await log.close()
    assert.deepEqual(idsOf(await other.store.take(await other.open(4))), ['a', 'b', 'c'])
  },

  async 'no task is passed over while others are accepted'(join) {
    const [owner, other] = [await join(), await join()]
    const log = await owner.open(0)
    const ids = Array.from({ length: 300 }, (_, i) => `task ${i}`)
    let isDone = false
    const submits = Promise.all(ids.map((id, i) => (i % 2 ? owner : other).store.submit(taskOf(id, 0)))).finally(() => {
      isDone = true
    })
    const taken: string[] = []
    for (let isLast = false; !isLast; ) {
      isLast = isDone
      for (let some = ['']; some.length > 0; taken.push(...some)) some = idsOf(await owner.store.take(log))
    }
    await submits
    assert.deepEqual(taken.sort(), ids.sort())
  },

  async 'the next owner is given what is not settled, and nothing else'(join) {
    const [first, second] = [await join(), await join()]
    for (const id of ['a', 'b', 'c']) await first.store.submit(taskOf(id, 5))
    const log = await first.open(5)
    await first.store.take(log)
    await first.store.settle('b', { status: 'finished', body: Buffer.from('done') })
    await log.close()
    assert.deepEqual(idsOf(await second.store.take(await second.open(5))), ['a', 'c'])
  },

  async 'the first outcome stays, and every process has it'(join) {
    const [owner, other] = [await join(), await join()]
    await other.store.submit(taskOf('a', 0))
    await owner.store.settle('a', { status: 'failed', body: Buffer.from('no') })
    await owner.store.settle('a', { status: 'finished', body: Buffer.from('yes') })
    for (const { store } of [owner, other]) {
      const state = await store.outcome('a')
      assert.ok(state?.outcome)
      const { status, body } = state.outcome
      assert.deepEqual([state.shard, status, Buffer.from(body).toString()], [0, 'failed', 'no'])
    }
    assert.equal(await other.store.submit(taskOf('a', 0)), 'known')
  },

  async 'a shard that somebody living holds is refused to others'(join) {
    const [owner, other] = [await join(), await join()]
    await owner.open(4)
    await assert.rejects(other.log(4).open(), LogHeldError)
  },

  async 'after a claim nothing of an earlier incarnation is written, nor read'(join) {
    const member = await join()
    const earlier = await member.open(6)
    await appendAll(earlier, 1, 20)
    const written: number[] = []
    const writes = Array.from({ length: 50 }, async (_, i) => {
      await earlier.append(blockOf(21 + i))
      written.push(21 + i)
    })
    const later = member.log(6)
    const { lastSeq } = await later.open()
    const results = await Promise.allSettled(writes)
    assert.ok(lastSeq >= Math.max(20, ...written), 'an append was acknowledged behind the claim')
    assert.ok(results.every((each) => each.status === 'fulfilled' || each.reason instanceof LogLostError))
    await assert.rejects(earlier.append(blockOf(lastSeq + 1)), LogLostError)
    assert.equal(member.lost.length, 1)
    await appendAll(later, lastSeq + 1, lastSeq + 10)
    assert.deepEqual(await textOf(later), entries(1, lastSeq + 10))
  },

  async 'an owner whose shard was claimed meanwhile shows no checkpoint'(join) {
    const member = await join()
    const earlier = await member.open(1)
    if (!earlier.checkpoint) return
    const position = await earlier.append(blockOf(1))
    const later = member.log(1)
    async function* pieces() {
      yield Buffer.from('a piece')
      await later.open()
      yield Buffer.from('and another')
    }
    await assert.rejects(earlier.checkpoint(position, 1, pieces()), LogLostError)
    await later.close()
    assert.equal((await member.log(1).open()).checkpoint, undefined)
  },

  async 'blocks of any size come back'(join) {
    const member = await join()
    const log = await member.open(0)
    const sizes = [10, 3_000_000, 20, 900_000, 900_000, 30]
    const positions = await Promise.all(sizes.map((bytes, i) => log.append(blockOf(i + 1, [1], bytes))))
    assert.deepEqual(await textOf(log), entries(1, sizes.length))
    for (const [i, from] of positions.entries())
      assert.deepEqual(await textOf(log, { from }), entries(i + 1, sizes.length))
    await log.dropBefore(positions[1]!)
    assert.deepEqual(await textOf(log, { from: positions[1]! }), entries(2, sizes.length))
  },

  async 'what waits is written before a log is closed'(join) {
    const member = await join()
    const log = await member.open(0)
    const appended = appendAll(log, 1, 200)
    await log.close()
    await appended
    assert.deepEqual(await textOf(await member.open(0)), entries(1, 200))
  },

  async 'members and free shards are seen'(join) {
    const [one, two] = [await join(), await join()]
    const log = await one.open(1)
    await one.open(3)
    const view = await seen(two.store, ({ free }) => free.length === 6)
    const found = view.members.find(({ id }) => id === one.id)
    assert.deepEqual(found, {
      ...found,
      id: one.id,
      address: 'http://127.0.0.1:1',
      version: 'one',
      pid: process.pid,
      shards: [1, 3],
    })
    await log.close()
    await seen(two.store, ({ free }) => free.includes(1))
    await one.leave()
    const after = await seen(two.store, ({ members }) => members.length === 1)
    assert.deepEqual(
      after.members.map(({ id }) => id),
      [two.id],
    )
  },

  async 'a shard that stands in the own name can be claimed again, and is free to nobody else'(join) {
    const [owner, other] = [await join(), await join()]
    await owner.open(2)
    await seen(owner.store, ({ free }) => free.includes(2))
    assert.ok(!(await other.store.view()).free.includes(2))
    await owner.open(2)
  },

  async 'processes tell each other'(join) {
    const [one, two] = [await join(), await join()]
    const has = (what: object) => two.notices.some((notice) => JSON.stringify(notice) === JSON.stringify(what))
    while (!has({ shard: 7 }) || !has({ settled: 'a task' })) {
      one.store.tell({ shard: 7 })
      one.store.tell({ settled: 'a task' })
      await one.store.view()
    }
  },
}

function taskOf(id: string, shard: number): ClusterTask {
  return { id, shard, hash: `hash of ${id}`, body: Buffer.from(`body of ${id}`) }
}

const idsOf = (tasks: readonly ClusterTask[]) => tasks.map(({ id }) => id)

async function seen(store: ClusterStore, isSo: (view: Awaited<ReturnType<ClusterStore['view']>>) => boolean) {
  for (;;) {
    const view = await store.view()
    if (isSo(view)) return view
  }
}

/** A log that joins by itself, as a process with one shard would. */
function shardLog(store: ClusterStore): LogStore {
  const log = store.log(0, () => {})
  return {
    get state() {
      return log.state
    },
    get bytes() {
      return log.bytes
    },
    async open(signal) {
      signal?.throwIfAborted()
      await store.join({ id: randomUUID() }, () => {})
      return log.open(signal).catch(async (error) => {
        await store.leave()
        throw error
      })
    },
    append: (block) => log.append(block),
    sync: () => log.sync(),
    read: (options) => log.read(options),
    dropBefore: (position) => log.dropBefore(position),
    ...(log.checkpoint && { checkpoint: (position, lastSeq, pieces) => log.checkpoint!(position, lastSeq, pieces) }),
    async close() {
      await log.close()
      await store.leave()
    },
  }
}
