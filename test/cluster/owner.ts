/**
 * A process that owns a shard and appends to its log, and says each entry that was acknowledged. An idle one does so 20
 * times, and only looks at the cluster then.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { blockOf } from '../../src/runtime/store/contract.ts'

const [url = '', name = '', idle] = process.argv.slice(2)
const times = { beatMs: 100, suspectMs: 300, ttlMs: 600, graceMs: 100 }
const options = { url, name, shards: 1, times }
const store = url.startsWith('nats:') ? new JetStreamStore(options) : new PostgresStore(options)
await store.join({ id: randomUUID() }, () => {})
const log = store.log(0, () => {
  console.log('lost')
  process.exit()
})
const { lastSeq } = await log.open()
for (let seq = lastSeq + 1; idle !== 'idle' || seq <= lastSeq + 20; seq++) {
  await log.append(blockOf(seq))
  console.log(seq)
}
for (;;) {
  await store.view().catch(() => {}) // asked again
  await sleep(50)
}
