/**
 * How fast a durable log is in files that are flushed, on PostgreSQL and on JetStream: appends, runs of a team, and the
 * wake-up of another process.
 *
 *   kept-log.js files <folder> | kept-log.js postgres|jetstream <url> <cluster>
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { createTeam } from 'dramatis'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import type { ClusterStore } from '../../src/runtime/cluster/cluster-store.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import type { LogStore } from '../../src/runtime/store/log-files.ts'
import { median } from '../statistics.ts'

export type Place = 'files' | 'postgres' | 'jetstream'

export interface Measured {
  /** Runs a second of a team with 32 open. */
  readonly runs: number
  /** Appends a second, each durable: of 4 KB by one and by eight writers, of 64 KB by eight. */
  readonly single: number
  readonly eight: number
  readonly large: number
  /** From the submit of a task until another process is told, p50. */
  readonly wokenMs: number
}

const WINDOW_MS = 1_500
const WARM_UP_MS = 500
const OPEN = 32
const WAKES = 200

const [place = '', at = '', cluster = 'bench'] = process.argv.slice(2)
const stores: ClusterStore[] = []

async function joined(name: string, told: () => void = () => {}): Promise<ClusterStore> {
  const options = { url: at, name, shards: 1 }
  const store = place === 'postgres' ? new PostgresStore(options) : new JetStreamStore(options)
  await store.join({ id: randomUUID() }, told)
  stores.push(store)
  return store
}

async function logOf(name: string): Promise<LogStore> {
  return place === 'files' ? new FileStore(join(at, name)) : (await joined(`${cluster} ${name}`)).log(0, () => {})
}

/** Counts what so many do a second, one after the other each. */
async function rate(doers: number, act: () => Promise<unknown>): Promise<number> {
  let [done, until] = [0, performance.now() + WARM_UP_MS]
  const work = async () => {
    while (performance.now() < until) {
      await act()
      done += 1
    }
  }
  const all = () => Promise.all(Array.from({ length: doers }, work))
  await all()
  const began = performance.now()
  ;[done, until] = [0, began + WINDOW_MS]
  await all()
  return (done * 1_000) / (performance.now() - began)
}

async function appends(name: string, doers: number, bytes: number): Promise<number> {
  const log = await logOf(name)
  await log.open()
  const entries = Buffer.alloc(bytes, 'x')
  let seq = 0
  const perSecond = await rate(doers, async () => {
    seq += 1
    await log.append({ firstSeq: seq, lastSeq: seq, carried: false, runs: [1], entries })
    await log.sync()
  })
  await log.close()
  return perSecond
}

async function runs(): Promise<number> {
  const state = place === 'files' ? { path: join(at, 'team') } : { store: await logOf('team') }
  const team = createTeam({
    agents: [{ name: 'ann', module: new URL('../agents/greeter.js', import.meta.url), concurrency: OPEN }],
    orchestration: { strategy: 'sequential' },
    maxConcurrentRuns: OPEN,
    stateManagement: { ...state, durability: 'commit' },
  })
  const perSecond = await rate(OPEN, async () => {
    const { error } = await team.execute('go')
    if (error) throw error
  })
  await team.close()
  return perSecond
}

async function woken(): Promise<number> {
  if (place === 'files') return Number.NaN
  let tell = () => {}
  const name = `${cluster} woken`
  const one = await joined(name)
  await joined(name, () => tell())
  const took: number[] = []
  for (let i = 0; i < WAKES; i++) {
    const told = new Promise<void>((resolve) => {
      tell = resolve
    })
    const began = performance.now()
    await Promise.all([one.submit({ id: randomUUID(), shard: 0, hash: '', body: Buffer.from('x') }), told])
    took.push(performance.now() - began)
  }
  return median(took)
}

const measured: Measured = {
  single: await appends('single', 1, 4_096),
  eight: await appends('eight', 8, 4_096),
  large: await appends('large', 8, 65_536),
  runs: await runs(),
  wokenMs: await woken(),
}
for (const store of stores) await store.leave()
console.log(JSON.stringify(measured))
