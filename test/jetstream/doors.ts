/** Brokers with a door for each process of a cluster before each of them, and the faults that they can have. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from '../cluster/nemesis.ts'
import { CuttingProxy } from '../postgres/cutting-proxy.ts'
import type { Broker, NatsBrokers } from './nats-brokers.ts'

export class Doors {
  readonly #brokers: NatsBrokers
  readonly #all: readonly (readonly CuttingProxy[])[]

  private constructor(brokers: NatsBrokers, all: readonly (readonly CuttingProxy[])[]) {
    this.#brokers = brokers
    this.#all = all
  }

  static async before(brokers: NatsBrokers, processes: number): Promise<Doors> {
    const doors = () => Promise.all(brokers.all.map(({ port }) => CuttingProxy.before(port)))
    return new Doors(brokers, await Promise.all(Array.from({ length: processes }, doors)))
  }

  /** Address of the brokers as a process has it. */
  urlOf(process: number): string {
    return this.#brokers.urlBy(this.#all[process]!.map(({ port }) => port))
  }

  close(): void {
    for (const door of this.#all.flat()) door.close()
  }

  /** Faults of brokers, and of the way to them. */
  faults(cluster: string, frozenMs: number): readonly Fault[] {
    const [brokers, all] = [this.#brokers, this.#all]
    const oneOf = <T>(some: readonly T[], random: () => number): T => some[Math.floor(random() * some.length)]!
    const streams = [`dramatis_${cluster}_tasks`, ...[0, 1, 2, 3].map((shard) => `dramatis_${cluster}_log_${shard}`)]
    const restart = async (some: readonly Broker[]) => {
      await Promise.all(some.map((broker) => brokers.kill(broker)))
      await sleep(300)
      for (const broker of some) brokers.run(broker)
      await brokers.ready()
    }
    return [
      { name: 'broker', act: (_, random) => restart([oneOf(brokers.all, random)]) },
      { name: 'all brokers', act: () => restart(brokers.all) },
      {
        name: 'leader',
        async act(_, random) {
          for (let n = 0; n < 4; n++) {
            await brokers.moveLeader(oneOf(streams, random))
            await sleep(200)
          }
        },
      },
      { name: 'leading broker', act: async () => restart([await brokers.leaderOf(streams[0]!)]) },
      {
        name: 'frozen broker',
        async act(_, random) {
          const { process } = oneOf(brokers.all, random)
          process?.kill('SIGSTOP')
          await sleep(frozenMs)
          process?.kill('SIGCONT')
          await brokers.ready()
        },
      },
      {
        name: 'cut',
        async act(_, random) {
          const doors = oneOf(all, random)
          for (const door of doors) if (random() < 0.7) random() < 0.5 ? door.fallSilent() : door.refuse()
          await sleep(frozenMs * (0.5 + random()))
          for (const door of doors) door.lead()
        },
      },
    ]
  }
}
