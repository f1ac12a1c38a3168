/** Runs that are read from a log while its compaction carries their entries to another place, or its team is closed. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { RecoveredLog } from '../../src/runtime/durability/recovered-log.ts'
import { PastRunReader } from '../../src/runtime/durability/trace-archive.ts'
import { whileMoved } from '../../src/runtime/log/read-entries.ts'
import type { HostRecord } from '../../src/runtime/log/records.ts'
import type { ReadOptions, StoredBlock } from '../../src/runtime/store/log-files.ts'
import { silent } from '../kit/team.ts'
import { encoded } from './log-entries.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

/** Store whose blocks are carried when they were read once. */
class MovingStore extends MemoryStore {
  carry: (() => Promise<void>) | undefined

  override async *read(options?: ReadOptions): AsyncGenerator<StoredBlock> {
    yield* super.read(options)
    const { carry } = this
    this.carry = undefined
    await carry?.()
  }
}

const QUERY = 'a long query '.repeat(100)

async function logged() {
  const disk = new MemoryDisk()
  const store = new MovingStore(disk)
  await store.open()
  const of = { run: 1, at: 1_000 }
  const launched = { id: 'one', query: QUERY, startedAt: 1_000, metadata: {}, models: {}, timeoutMs: 1, priority: 0 }
  const entries: HostRecord[] = [
    { kind: 'run.launched', seq: 1, ...of, ...launched, target: 1, own: false },
    { kind: 'run.finished', seq: 9, ...of, error: null },
  ]
  const block = { firstSeq: 1, lastSeq: 16, runs: [1], entries: encoded(entries) }
  await store.append({ ...block, carried: false })
  const old = await RecoveredLog.from(() => store.read())
  const { index } = old
  store.carry = async () => {
    index.step += 1
    index.carriedTo(await store.append({ ...block, carried: true }), [1])
  }
  return new PastRunReader(store, old)
}

t.test('a run is read whole while its entries are carried', async (t) => {
  const past = await logged()
  const run = await past.read(past.find('one')!)
  t.match(run, { launched: { query: QUERY }, finished: { seq: 9 } })
})

t.test('the list of the runs takes no reading, and has the begin of a long query', async (t) => {
  const past = await logged()
  t.match([...past.newest()], [{ index: 1, isCut: true, id: 'one', query: QUERY.slice(0, 511) }])
})

t.test('a log that is compacted each time that it is read is given up after pauses, with the reason', async (t) => {
  const pauses: number[] = []
  const clock = { sleep: async (ms: number) => void pauses.push(ms) }
  const removed = () => Promise.reject(Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT' }))
  await t.rejects(whileMoved(removed, clock), { code: 'LOG_HELD', message: /is not damaged.*Try again/ })
  t.same(pauses, [20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120])
})

/** Store that reads nothing from a moment on, until the reading is ended. */
class StuckStore extends MemoryStore {
  isStuck = false

  override async *read(options: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    const { signal } = options
    if (this.isStuck)
      await new Promise((_, reject) => {
        if (signal?.aborted) reject(signal.reason)
        signal?.addEventListener('abort', () => reject(signal.reason))
      })
    yield* super.read(options)
  }
}

t.test(
  'an ended run whose team is closed while it is read does not look as if it had ended without an answer',
  async (t) => {
    const disk = new MemoryDisk()
    const teamOf = (store: MemoryStore) =>
      createTeam({
        agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
        orchestration: { strategy: 'custom', name: 'an answer', run: async () => 'answered' },
        models: { default: { offline: true, async *complete() {} } },
        stateManagement: { store },
        logger: silent,
      })
    const before = teamOf(new MemoryStore(disk))
    t.match(await before.execute('go', { runId: 'one' }), { finalOutput: 'answered' })
    await before.close()

    const store = new StuckStore(disk)
    const after = teamOf(store)
    await after.start()
    store.isStuck = true
    const run = after.getRun('one')!
    await after.close()
    t.match(await run.result, { success: false, error: { code: 'TEAM_CLOSED' } })
    t.equal(run.status, 'interrupted')
  },
)
