/** What brokers can come to under a cluster. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from '../cluster/nemesis.ts'
import type { Broker, NatsBrokers } from './nats-brokers.ts'

export function brokerFaults(brokers: NatsBrokers, cluster: string, frozenMs: number): readonly Fault[] {
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
  ]
}
