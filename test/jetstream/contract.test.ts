/** What every engine of a cluster does, on three brokers of NATS. */
import t from 'tap'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import { clusterStoreContract } from '../../src/runtime/cluster/contract.ts'
import { NatsBrokers, natsServer, WHY_NOT } from './nats-brokers.ts'

const program = natsServer()

t.test('the contract', { skip: !program && WHY_NOT }, async (t) => {
  const brokers = await NatsBrokers.start(program!)
  t.teardown(() => brokers.remove())
  const times = { beatMs: 100, suspectMs: 1_000, ttlMs: 5_000 }
  const make = (name: string) => new JetStreamStore({ url: brokers.url, name, shards: 8, times })
  for (const { name, run } of clusterStoreContract(make)) await t.test(name, run)
})
