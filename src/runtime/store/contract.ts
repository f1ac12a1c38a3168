/** Promises of every store of a log, as tests for any runner. */
import assert from 'node:assert/strict'
import { LogHeldError, LogLostError } from '../../shared/errors.ts'
import type { Block, Checkpoint, LogStore, StoredBlock } from './log-files.ts'

/** A test that rejects where a store breaks its promise. */
export interface ContractTest {
  readonly name: string
  run(): Promise<void>
}

/**
 * Tests of a `LogStore`: `for (const { name, run } of logStoreContract(place, make)) test(name, run)`.
 *
 * @param place makes what outlives a store, such as a folder; it is called once a test, and holds nothing at first.
 * @param make gives a store on such a place that is not open yet, as a new process would.
 */
export function logStoreContract<Place>(
  place: () => Place | Promise<Place>,
  make: (place: Place) => LogStore,
): readonly ContractTest[] {
  return Object.entries(promises).map(([name, test]) => ({
    name,
    async run() {
      const at = await place()
      await test(() => make(at))
    },
  }))
}

const promises: { readonly [name: string]: (make: () => LogStore) => Promise<void> } = {
  async 'blocks come back in their order, with all that they were given'(make) {
    const store = make()
    assert.deepEqual(await store.open(), { incarnation: 1, lastSeq: 0, cut: undefined })
    const entries = new Uint8Array([0, 1, 255, 3, 4])
    await store.append({ firstSeq: 1, lastSeq: 7, carried: false, runs: [3, 4_000_000_000], entries })
    await store.append({ firstSeq: 2, lastSeq: 3, carried: true, runs: [], entries: new Uint8Array() })
    const blocks = await allOf(store)
    assert.deepEqual(
      blocks.map(({ position: _, entries: bytes, ...rest }) => ({ ...rest, entries: [...bytes] })),
      [
        { firstSeq: 1, lastSeq: 7, carried: false, runs: [3, 4_000_000_000], incarnation: 1, entries: [...entries] },
        { firstSeq: 2, lastSeq: 3, carried: true, runs: [], incarnation: 1, entries: [] },
      ],
    )
    await store.close()
  },

  async 'what is done to the entries of a block that is written changes nothing'(make) {
    const store = make()
    await store.open()
    for (const seq of [1, 2, 3]) {
      const block = blockOf(seq)
      await store.append(block)
      block.entries.fill(0)
    }
    assert.deepEqual(await textOf(store), entries(1, 3))
    await store.close()
  },

  async 'the next one to open it goes on where the log ends, as a higher incarnation'(make) {
    for (let incarnation = 1; incarnation <= 5; incarnation++) {
      const store = make()
      assert.deepEqual(await store.open(), { incarnation, lastSeq: (incarnation - 1) * 10, cut: undefined })
      await appendAll(store, incarnation * 10 - 9, incarnation * 10)
      await store.close()
    }
    const last = make()
    await last.open()
    const blocks = await allOf(last)
    assert.deepEqual(await textOf(last), entries(1, 50))
    assert.deepEqual(
      blocks.map(({ incarnation }) => incarnation),
      blocks.map(({ firstSeq }) => Math.ceil(firstSeq / 10)),
    )
    await last.close()
  },

  async 'positions ascend, and reading can begin at one and be bound to runs'(make) {
    const store = make()
    await store.open()
    const positions = await Promise.all([1, 2, 3, 4].map((seq) => store.append(blockOf(seq, [seq % 2, 10 + seq]))))
    assert.deepEqual(
      positions,
      [...new Set(positions)].sort((a, b) => a - b),
    )
    assert.deepEqual(
      (await allOf(store)).map(({ position }) => position),
      positions,
    )
    assert.deepEqual(await textOf(store, { from: positions[2]! }), entries(3, 4))
    assert.deepEqual(await textOf(store, { runs: new Set([0]) }), ['entry 2', 'entry 4'])
    assert.deepEqual(await textOf(store, { from: positions[1]!, runs: new Set([1, 12]) }), entries(2, 3))
    await store.close()
  },

  async 'what has been dropped is gone, what stands behind is not'(make) {
    const store = make()
    await store.open()
    await appendAll(store, 1, 30, 200)
    const before = store.bytes
    const { position } = (await allOf(store))[20]!
    await store.dropBefore(position)
    assert.ok(store.bytes <= before)
    assert.deepEqual((await textOf(store)).slice(-10), entries(21, 30))
    await store.close()
    const again = make()
    assert.equal((await again.open()).lastSeq, 30)
    assert.deepEqual(await textOf(again, { from: position }), entries(21, 30))
    await again.close()
  },

  async 'a checkpoint, if the store keeps any, comes back whole, in place of the one before'(make) {
    const store = make()
    assert.equal((await store.open()).checkpoint, undefined)
    await appendAll(store, 1, 10)
    const at = async (index: number) => (await allOf(store))[index]!.position
    if (!store.checkpoint) return store.close()
    await store.checkpoint(await at(3), 4, piecesOf('earlier'))
    const pieces = Array.from({ length: 20 }, (_, i) => `piece ${i} `.padEnd(1_000 * i, '.'))
    const given = await store.checkpoint(await at(7), 8, piecesOf(...pieces))
    await assert.rejects(store.checkpoint(await at(9), 10, brokenOff()), /broken off/)
    const { position } = given
    assert.deepEqual([position, await piecesIn(given)], [await at(7), pieces])
    await store.close()
    const again = make()
    const { checkpoint } = await again.open()
    assert.deepEqual([checkpoint?.position, await piecesIn(checkpoint)], [position, pieces])
    assert.deepEqual(await textOf(again, { from: position }), entries(8, 10))
    await again.close()
  },

  async 'a second one to open it is refused with pid and host, until the first has closed it'(make) {
    const [first, second, third] = [make(), make(), make()]
    await first.open()
    await assert.rejects(second.open(), (error) => {
      assert.ok(error instanceof LogHeldError)
      assert.equal(error.details.pid, process.pid)
      assert.equal(typeof error.details.host, 'string')
      return true
    })
    await first.append(blockOf(1))
    await first.close()
    assert.equal((await third.open()).lastSeq, 1)
    await third.close()
  },

  async 'a closed one refuses blocks and can be closed again'(make) {
    const store = make()
    await store.open()
    const earlier = store.append(blockOf(1))
    await store.close()
    await earlier
    await store.close()
    assert.equal(store.state, 'closed')
    await assert.rejects(store.append(blockOf(2)), LogLostError)
  },

  async 'an aborted opening leaves the log free'(make) {
    await assert.rejects(make().open(AbortSignal.abort(new Error('enough'))), /enough/)
    const store = make()
    assert.equal((await store.open()).lastSeq, 0)
    await store.sync()
    await store.close()
  },
}

async function* piecesOf(...pieces: string[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Buffer.from(piece)
}

async function* brokenOff(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('a piece')
  throw new Error('broken off')
}

async function piecesIn(checkpoint: Checkpoint | undefined): Promise<string[]> {
  const pieces: string[] = []
  for await (const piece of checkpoint?.read() ?? []) pieces.push(Buffer.from(piece).toString())
  return pieces
}

/** Block of one entry that says its number; `bytes` makes it as long as wanted. */
export function blockOf(seq: number, runs: readonly number[] = [1], bytes = 0): Block {
  return { firstSeq: seq, lastSeq: seq, carried: false, runs, entries: Buffer.from(`entry ${seq}`.padEnd(bytes, '.')) }
}

export async function appendAll(store: LogStore, first: number, last: number, bytes = 0): Promise<void> {
  const seqs = Array.from({ length: last - first + 1 }, (_, i) => first + i)
  await Promise.all(seqs.map((seq) => store.append(blockOf(seq, [seq % 3], bytes))))
}

export function entries(first: number, last: number): string[] {
  return Array.from({ length: last - first + 1 }, (_, i) => `entry ${first + i}`)
}

export async function textOf(store: LogStore, options?: Parameters<LogStore['read']>[0]): Promise<string[]> {
  return (await allOf(store, options)).map((block) => Buffer.from(block.entries).toString().replace(/\.+$/, ''))
}

async function allOf(store: LogStore, options?: Parameters<LogStore['read']>[0]): Promise<StoredBlock[]> {
  const all: StoredBlock[] = []
  for await (const block of store.read(options)) all.push(block)
  return all
}
