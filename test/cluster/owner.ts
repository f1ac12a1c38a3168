/** A process that owns a shard and appends to its log, and says each entry that was acknowledged. */
import { randomUUID } from 'node:crypto'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { blockOf } from '../../src/runtime/store/contract.ts'

const [url = '', name = ''] = process.argv.slice(2)
const times = { beatMs: 100, suspectMs: 300, ttlMs: 600, graceMs: 100 }
const options = { url, name, shards: 1, times }
const store = url.startsWith('nats:') ? new JetStreamStore(options) : new PostgresStore(options)
await store.join({ id: randomUUID() }, () => {})
const log = store.log(0, () => {})
const { lastSeq } = await log.open()
try {
  for (let seq = lastSeq + 1; ; seq++) {
    await log.append(blockOf(seq))
    console.log(seq)
  }
} catch {
  console.log('lost')
  process.exit()
}
