/** How processes share shards: by a model in memory of the engine, and a clock that the test moves. */
import fc from 'fast-check'
import t from 'tap'
import type { ClusterStore, ShardLog } from '../../src/runtime/cluster/cluster-store.ts'
import { ClusterProcess, type Shard } from '../../src/runtime/cluster/process.ts'
import { LogHeldError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'

/** Processes of one cluster. Each shard stands in the name of who opened it last, until that one closes it. */
class Cluster {
  readonly clock: ReturnType<typeof virtualClock>
  readonly processes = new Map<string, ClusterProcess>()
  readonly owners = new Map<number, string>()
  /** Shards that a process has open: the engine may think otherwise. */
  readonly open = new Map<number, string>()
  /** The engine is not told of shards that are closed, or does not tell of those that are claimed. */
  deaf: 'to closes' | 'to claims' | undefined
  /** A shard whose log nobody can read. */
  damaged: number | undefined
  readonly #shards: number
  /** Times that a shard was opened. */
  opened = 0

  constructor(shards: number, seed: number) {
    this.#shards = shards
    this.clock = virtualClock({ seed })
  }

  async join(id: string): Promise<void> {
    const store: ClusterStore = {
      join: async () => {},
      view: async () => ({
        members: Array.from(this.processes.keys(), (of) => ({ id: of, host: '', pid: 1, shards: this.ownedBy(of) })),
        free: Array.from({ length: this.#shards }, (_, shard) => shard).filter(
          (shard) => (this.owners.get(shard) ?? id) === id,
        ),
      }),
      log: (shard) => ({ shard, state: 'open', lost: undefined }) as ShardLog,
      submit: async () => 'fresh',
      take: async () => [],
      settle: async () => {},
      outcome: async () => undefined,
      tell: () => {},
      leave: async () => {
        this.processes.delete(id)
        for (const shard of this.ownedBy(id)) this.owners.delete(shard) // the dead hold nothing
      },
    }
    const hold = ({ shard }: ShardLog): Shard => ({
      start: async () => {
        if ((this.owners.get(shard) ?? id) !== id) throw new LogHeldError(`shard ${shard} has an owner`)
        this.owners.set(shard, id)
        if (this.deaf === 'to claims' || shard === this.damaged) throw new Error('no answer')
        this.open.set(shard, id)
        this.opened += 1
      },
      settle: async () => undefined,
      close: async () => {
        if (this.open.get(shard) === id && this.deaf !== 'to closes') this.owners.delete(shard)
        if (this.open.get(shard) === id) this.open.delete(shard)
      },
    })
    const { clock } = this
    const live = () => {}
    const options = { store, shards: this.#shards, id, handOverMs: 0, clock, logger: silent, hold, heard: live, live }
    const process = new ClusterProcess(options)
    this.processes.set(id, process)
    await process.start()
  }

  ownedBy(id: string): number[] {
    return [...this.owners].flatMap(([shard, owner]) => (owner === id ? [shard] : []))
  }

  heldBy(id: string): number[] {
    return [...this.open].flatMap(([shard, owner]) => (owner === id ? [shard] : []))
  }

  /** Lets all look at the cluster until that changes nothing. */
  async settle(): Promise<void> {
    for (let before = -1; before !== this.opened; ) {
      before = this.opened
      await this.clock.advance(5_000)
    }
  }

  async end(): Promise<void> {
    const all = [...this.processes.values()].map((process) => process.close())
    await this.clock.advance(5_000)
    await Promise.all(all)
  }
}

type Change = ({ joins: number } | { leaves: number }) & { deaf?: Cluster['deaf'] }

t.test('each process has its share, and only what another lacks is taken from one', async (t) => {
  const shards = fc.integer({ min: 1, max: 12 })
  const id = fc.integer({ min: 0, max: 5 })
  const deaf = fc.constantFrom(undefined, undefined, 'to closes' as const, 'to claims' as const)
  const change = fc.oneof(fc.record({ joins: id, deaf }), fc.record({ leaves: id, deaf }))
  const damaged = fc.option(fc.nat(11), { nil: undefined, freq: 3 })
  const changes = fc.array(change, { minLength: 2, maxLength: 8 })
  await fc.assert(
    fc.asyncProperty(shards, changes, damaged, fc.integer(), async (shards, changes: Change[], damaged, seed) => {
      const cluster = new Cluster(shards, seed)
      cluster.damaged = damaged
      for (const change of changes) {
        const [of, joins] = 'joins' in change ? [`p${change.joins}`, true] : [`p${change.leaves}`, false]
        if (joins === cluster.processes.has(of)) continue
        const before = new Map(cluster.open)
        const leaving = joins ? cluster.join(of) : cluster.processes.get(of)!.close()
        cluster.deaf = change.deaf
        await cluster.clock.advance(2_000)
        cluster.deaf = undefined
        await cluster.settle()
        await leaving
        const held = Array.from(cluster.processes.keys(), (each) => cluster.heldBy(each).length)
        if (held.length === 0) continue
        const [least, most] = [Math.floor(shards / held.length), Math.ceil(shards / held.length)]
        const lost = damaged !== undefined && damaged < shards ? 1 : 0 // it counts as one of somebody's share
        t.equal(cluster.open.size, shards - lost, 'each shard has an owner')
        t.ok(Math.max(...held) <= most && Math.min(...held) >= least - lost, `${held} of ${shards}`)
        for (const each of cluster.processes.keys()) {
          const had = [...before].flatMap(([shard, owner]) => (owner === each ? [shard] : []))
          const kept = had.filter((shard) => cluster.open.get(shard) === each).length
          const keeps = joins && least > 0 ? least : had.length // with none for each, who joins has to wait
          if (!change.deaf)
            t.ok(each === of || kept >= Math.min(had.length, keeps), `${each} keeps ${kept} of ${had.length}`)
        }
      }
      await cluster.end()
    }),
    { numRuns: 200 },
  )
})
