/** What every engine of a cluster does, on PostgreSQL. */
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { clusterStoreContract } from '../../src/runtime/cluster/contract.ts'

const bin = postgresFolder()

t.test('the contract', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())
  const times = { beatMs: 100, suspectMs: 1_000, ttlMs: 5_000, graceMs: 100 }
  const make = (name: string) => new PostgresStore({ url: server.url, name, shards: 8, times })
  for (const { name, run } of clusterStoreContract(make)) await t.test(name, run)
})
