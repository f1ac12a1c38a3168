/** What every store of a log does. `place` is made once a test; `make` gives a new store on it, as a new process would. */

import type { Test } from 'tap'
import t from 'tap'
import type { LogStore, StoredBlock } from '../../src/runtime/store/log-files.ts'
import { LogHeldError, LogLostError } from '../../src/shared/errors.ts'
import { appendAll, blockOf, contentOf, entriesUpTo } from './blocks.ts'

export function storeContract<Place>(name: string, place: (t: Test) => Place, make: (place: Place) => LogStore) {
  t.test(`${name}: blocks come back in their order, with all that they were given`, async (t) => {
    const at = place(t)
    const store = make(at)
    t.same(await store.open(), { incarnation: 1, lastSeq: 0, cut: undefined })
    const entries = new Uint8Array([0, 1, 255, 3, 4])
    await store.append({ firstSeq: 1, lastSeq: 7, carried: false, runs: [3, 4_000_000_000], entries })
    await store.append({ firstSeq: 2, lastSeq: 3, carried: true, runs: [], entries: new Uint8Array() })
    const blocks = await allOf(store)
    t.match(blocks, [
      { firstSeq: 1, lastSeq: 7, carried: false, runs: [3, 4_000_000_000], incarnation: 1 },
      { firstSeq: 2, lastSeq: 3, carried: true, runs: [], incarnation: 1 },
    ])
    t.same([...blocks[0]!.entries], [...entries])
    t.equal(blocks[1]!.entries.byteLength, 0)
    await store.close()
  })

  t.test(`${name}: what is done to the entries of a block that is written changes nothing`, async (t) => {
    const store = make(place(t))
    await store.open()
    for (const seq of [1, 2, 3]) {
      const block = blockOf(seq)
      await store.append(block)
      block.entries.fill(0)
    }
    t.same(await contentOf(store.read()), entriesUpTo(3))
    await store.close()
  })

  t.test(`${name}: the next one to open it goes on where the log ends, as a higher incarnation`, async (t) => {
    const at = place(t)
    for (let incarnation = 1; incarnation <= 5; incarnation++) {
      const store = make(at)
      t.same(await store.open(), { incarnation, lastSeq: (incarnation - 1) * 10, cut: undefined })
      await appendAll(store, incarnation * 10 - 9, incarnation * 10)
      await store.close()
    }
    const last = make(at)
    await last.open()
    const blocks = await allOf(last)
    t.same(await contentOf(last.read()), entriesUpTo(50))
    t.same(
      blocks.map(({ incarnation }) => incarnation),
      blocks.map(({ firstSeq }) => Math.ceil(firstSeq / 10)),
    )
    await last.close()
  })

  t.test(`${name}: positions ascend, and reading can begin at one and be bound to runs`, async (t) => {
    const store = make(place(t))
    await store.open()
    const positions = await Promise.all([1, 2, 3, 4].map((seq) => store.append(blockOf(seq, [seq % 2, 10 + seq]))))
    t.same(
      positions,
      [...positions].sort((a, b) => a - b),
    )
    t.equal(new Set(positions).size, 4)
    t.same(
      (await allOf(store)).map(({ position }) => position),
      positions,
    )
    t.same(await contentOf(store.read({ from: positions[2]! })), ['entry 3', 'entry 4'])
    t.same(await contentOf(store.read({ runs: new Set([0]) })), ['entry 2', 'entry 4'])
    t.same(await contentOf(store.read({ from: positions[1]!, runs: new Set([1, 12]) })), ['entry 2', 'entry 3'])
    await store.close()
  })

  t.test(`${name}: what has been dropped is gone, what stands behind is not`, async (t) => {
    const at = place(t)
    const store = make(at)
    await store.open()
    await appendAll(store, 1, 30, 200)
    const before = store.bytes
    const { position } = (await allOf(store))[20]!
    await store.dropBefore(position)
    t.ok(store.bytes <= before)
    t.same((await contentOf(store.read())).slice(-10), entriesUpTo(30, 21))
    await store.close()
    const again = make(at)
    t.match(await again.open(), { lastSeq: 30, cut: undefined })
    t.same(await contentOf(again.read({ from: position })), entriesUpTo(30, 21))
    await again.close()
  })

  t.test(`${name}: a second one to open it is refused with pid and host, until the first has closed it`, async (t) => {
    const at = place(t)
    const [first, second, third] = [make(at), make(at), make(at)]
    await first.open()
    const error = await second.open().catch((error: unknown) => error)
    t.type(error, LogHeldError)
    t.match(error, { details: { pid: process.pid, host: String } })
    await first.append(blockOf(1))
    await first.close()
    t.match(await third.open(), { lastSeq: 1 })
    await third.close()
  })

  t.test(`${name}: a closed one refuses blocks and can be closed again`, async (t) => {
    const store = make(place(t))
    await store.open()
    const earlier = store.append(blockOf(1))
    await store.close()
    await earlier
    await store.close()
    t.equal(store.state, 'closed')
    await t.rejects(store.append(blockOf(2)), LogLostError)
  })

  t.test(`${name}: an aborted opening leaves the log free`, async (t) => {
    const at = place(t)
    await t.rejects(make(at).open(AbortSignal.abort(new Error('enough'))), { message: 'enough' })
    const store = make(at)
    t.match(await store.open(), { lastSeq: 0 })
    await store.sync()
    await store.close()
  })
}

async function allOf(store: LogStore): Promise<StoredBlock[]> {
  const all: StoredBlock[] = []
  for await (const block of store.read()) all.push(block)
  return all
}
