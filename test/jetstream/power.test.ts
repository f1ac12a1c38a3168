/**
 * The power fails for all brokers at once. Each has a disk of its own, a file system in a file: what that file holds at
 * that moment is on the disk, and what the kernel or the broker still had to write is gone. Needs root, for the mounts.
 */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import type { ShardLog } from '../../src/runtime/cluster/cluster-store.ts'
import { blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import { howMany } from '../how-many.ts'
import { NatsBrokers, natsServer, WHY_NOT } from './nats-brokers.ts'

const program = natsServer()
const TRIES = Number(process.env.DRAMATIS_POWER_CUTS ?? howMany(0, 3))
const SECONDS = 20
const SHARDS = 4
/** Time in which brokers that have lost their power lead their streams again, if they ever do. */
const STUCK_MS = 240_000

const run = (file: string, ...args: string[]) => void execFileSync(file, args, { stdio: 'pipe' })

/** File systems in files. */
class Disks {
  readonly #folder = mkdtempSync(join(tmpdir(), 'dramatis-disks-'))
  readonly mounts: readonly string[]

  constructor(count: number) {
    this.mounts = Array.from({ length: count }, (_, i) => join(this.#folder, `disk${i}`))
    for (const mount of this.mounts) {
      mkdirSync(mount)
      run('truncate', '-s', '1G', `${mount}.img`)
      run('mkfs.ext4', '-q', `${mount}.img`)
      run('mount', '-o', 'loop', `${mount}.img`, mount)
    }
  }

  /** Keeps what the disks hold now. */
  copy(): void {
    for (const mount of this.mounts) run('cp', '--sparse=always', `${mount}.img`, `${mount}.copy`)
  }

  /** What was kept takes the place of the disks. */
  putBack(): void {
    for (const mount of this.mounts) {
      run('umount', mount)
      run('mv', `${mount}.copy`, `${mount}.img`)
      run('mount', '-o', 'loop', `${mount}.img`, mount)
    }
  }

  remove(): void {
    for (const mount of this.mounts) run('umount', mount)
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

function whyNot(): string | false {
  if (!program) return WHY_NOT
  if (TRIES === 0) return 'npm run test:deep plays it'
  try {
    new Disks(1).remove()
    return false
  } catch {
    return 'no file system can be mounted here'
  }
}

/** Owners of all shards that write under load when the power fails, and what was acknowledged before. */
async function powerFails(t: Test, settings: { sync?: 'always' }, seconds: number) {
  const disks = new Disks(3)
  t.teardown(() => disks.remove())
  const brokers = await NatsBrokers.start(program!, 3, { ...settings, stores: disks.mounts })
  t.teardown(() => brokers.remove())
  const times = { beatMs: 200, suspectMs: 1_000, ttlMs: 5_000 }
  const name = randomUUID()
  const warnings: string[] = []
  const join = async () => {
    const warn = (text: string) => warnings.push(text)
    const store = new JetStreamStore({ url: brokers.url, name, shards: SHARDS, times, warn })
    t.teardown(() => store.leave())
    await store.join({ id: randomUUID() }, () => {})
    return store
  }
  const store = await join()
  let isOn = true
  const tasks: string[] = []
  const open = async (shard: number) => {
    const log = store.log(shard, () => {})
    await log.open()
    return { log, last: 0 }
  }
  const owners = await Promise.all(Array.from({ length: SHARDS }, (_, shard) => open(shard)))
  const writes = owners.map(async (owner) => {
    while (isOn) {
      await owner.log.append(blockOf(owner.last + 1, [1], 200))
      owner.last += 1
    }
  })
  const submits = async () => {
    for (let n = 0; isOn; n++) {
      const id = `task ${n}`
      await store.submit({ id, shard: n % SHARDS, hash: 'h', body: Buffer.from(id) })
      tasks.push(id)
    }
  }
  const submitted = submits().catch(() => {})
  await sleep(seconds * 1_000)
  for (const { process } of brokers.all) process?.kill('SIGSTOP')
  const acknowledged = owners.map(({ log, last }) => ({ log, last }))
  const accepted = [...tasks]
  disks.copy()
  isOn = false
  await Promise.all(brokers.all.map((broker) => brokers.kill(broker)))
  disks.putBack()
  for (const broker of brokers.all) brokers.run(broker)
  await Promise.allSettled(writes)
  const total = acknowledged.reduce((sum, { last }) => sum + last, 0)
  t.comment(`acknowledged: ${total} entries, ${accepted.length} tasks`)
  return { acknowledged, accepted, join, store, submitted, total, warnings }
}

t.test('power lost by all brokers', { skip: whyNot(), timeout: 0 }, async (t) => {
  for (let n = 1; n <= TRIES; n++) {
    await t.test(`with sync_interval: always nothing is lost, ${n}`, async (t) => {
      const { acknowledged, accepted, join, store, submitted } = await powerFails(t, { sync: 'always' }, SECONDS)
      await submitted
      for (const { log, last } of acknowledged) {
        t.equal(log.state, 'open')
        const there = await textOf(log)
        t.same(there, entries(1, Math.max(last, there.length)))
        await log.close()
      }
      const next = await join()
      const missing = []
      for (const id of accepted) if (!(await next.outcome(id))) missing.push(id)
      t.same(missing, [])
      await store.leave()
    })

    await t.test(`by default what is lost is told, ${n}`, async (t) => {
      const { acknowledged, accepted, store, total, warnings } = await powerFails(t, {}, SECONDS)
      const looked = Promise.all(acknowledged.map((owner) => afterwards(t, store, owner)))
      const found = await Promise.race([looked, sleep(STUCK_MS, undefined, { ref: false })])
      if (!found) {
        t.match(warnings, [/has waited for 15 s: stream .* is led by/]) // brokers may never lead some of them again
        return
      }
      const forgotten = []
      for (const id of accepted) if (!(await insist(() => store.outcome(id)))) forgotten.push(id)
      const lost = found.reduce((sum, each) => sum + each.lost, 0)
      t.comment(`lost: ${lost} of ${total} entries, ${forgotten.length} of ${accepted.length} tasks, all of them told`)
      for (const { log } of found) {
        const id = `next ${log.shard}` // is accepted and given, wherever the numbers begin again
        await insist(() => store.submit({ id, shard: log.shard, hash: 'h', body: Buffer.from(id) }))
        for (let given: string[] = []; !given.includes(id); )
          given = (await insist(() => store.take(log))).map((task) => task.id)
      }
    })
  }
})

/** A log as its owner, or the next one, finds it: whole, or as the begin of what it was, which is told. */
async function afterwards(t: Test, store: JetStreamStore, { log, last }: { log: ShardLog; last: number }) {
  await log.append(blockOf(last + 2)).catch(() => {}) // behind what is there, or the loss is told
  if (log.state === 'open') {
    t.same((await textOf(log)).slice(0, last), entries(1, last))
    await insist(() => store.take(log))
    return { log, lost: 0 }
  }
  const next = store.log(log.shard, () => {})
  await insist(() => next.open())
  t.ok((next.lost ?? 0) > 0, `shard ${log.shard} is told to have lost its end`)
  const left = await textOf(next)
  t.same(left, entries(1, left.length), 'what is left is the begin')
  await insist(() => store.take(next)) // it finds out whether the tasks are gone, too
  return { log: next, lost: last - left.length }
}

async function insist<T>(act: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch {
      await sleep(50) // a broker begins to lead
    }
  }
}
