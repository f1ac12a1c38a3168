/** Spare threads: of which heap class, how many, and when they boot. Nobody needs a spare, so nobody is hurt by one. */
import t from 'tap'
import type { Logger } from '../../src/actors/logger.ts'
import { type SpareThread, WorkerSpawner } from '../../src/runtime/spawner.ts'
import { silent } from '../supervision/teams.ts'

type Heap = number | null

/** A thread that starts when the test says so. */
class FakeThread implements SpareThread {
  readonly isolated = true
  warm = false
  readonly heap: Heap
  readonly settled: Promise<void>
  started = () => {}
  #exit = () => {}

  constructor(heap: Heap) {
    this.heap = heap
    this.settled = new Promise((resolve) => {
      this.started = resolve
    })
  }
  onRing(): void {}
  onExit(listener: (exit: { code: number; error: undefined }) => void): void {
    this.#exit = () => listener({ code: 1, error: undefined })
  }
  onPrint(): void {}
  onForeignPost(): void {}
  ring(): void {}
  eventLoop() {
    return undefined
  }
  async start() {
    return { ok: true as const, state: undefined }
  }
  async stop(): Promise<void> {}
  terminate(): void {
    this.#exit()
  }
  async gone(): Promise<void> {}
}

const idle = () => new Promise((resolve) => setImmediate(resolve))

/** A spawner on a system that has threads as long as `has` says so, and what it warned of. */
function spawnerOf(warmSpares: number, system = { has: true }) {
  const warnings: object[] = []
  const made: FakeThread[] = []
  const logger: Logger = { ...silent, warn: (fields) => void warnings.push(fields) }
  const spawner = new WorkerSpawner(warmSpares, logger, (heap) => {
    if (!system.has) throw new Error('no more threads')
    const thread = new FakeThread(heap)
    made.push(thread)
    return thread
  })
  const take = (heap: Heap = null) => spawner.spawn(heap) as FakeThread
  /** Takes a thread of each, lets them start, and lets spares be made. */
  const takeStarted = async (...heaps: Heap[]) => {
    const taken = heaps.map(take)
    for (const thread of taken) thread.started()
    await idle()
    await idle()
    return taken.map(({ warm }) => warm)
  }
  return { spawner, warnings, made, take, takeStarted }
}

t.test('a spare that cannot be made is logged, and made when the next thread has started', async (t) => {
  const system = { has: true }
  const { warnings, take, takeStarted } = spawnerOf(1, system)
  const first = take()
  system.has = false
  first.started()
  await idle()
  await idle()
  t.match(warnings, [{ error: /no more threads/, spares: 0, wanted: 1 }])
  system.has = true
  t.same([await takeStarted(null), await takeStarted(null)], [[false], [true]])
})

t.test('who needs a thread where there is none is told', async (t) => {
  const { spawner } = spawnerOf(1, { has: false })
  t.throws(() => spawner.spawn(null), { message: 'no more threads' })
  t.throws(() => spawner.spawn(64), { message: 'no more threads' })
})

t.test('each heap class that was needed has spares of its own', async (t) => {
  const { takeStarted, made } = spawnerOf(1)
  t.same(await takeStarted(null, 64, 64, 128), [false, false, false, false])
  t.equal(made.length, 7)
  t.same(await takeStarted(64, null, 128), [true, true, true])
  t.same(await takeStarted(64, 256), [true, false])
})

t.test('no spare boots while somebody waits for a thread to start', async (t) => {
  const { take, made } = spawnerOf(1)
  const [first, second] = [take(), take()]
  first.started()
  await idle()
  await idle()
  t.equal(made.length, 2)
  second.started()
  await idle()
  await idle()
  t.equal(made.length, 3)
})

t.test('of many heap classes those needed last have spares, eight in all', async (t) => {
  const { takeStarted, made } = spawnerOf(1)
  const heaps = Array.from({ length: 12 }, (_, i) => 16 + i)
  await takeStarted(...heaps)
  t.equal(made.length, 12 + 8)
  t.same(await takeStarted(27), [true])
  t.same(await takeStarted(16), [false])
  t.same(await takeStarted(16), [true], 'at the cost of the one needed least lately')
  t.same(await takeStarted(20), [false])
})

t.test('warmSpares 0 keeps none', async (t) => {
  const { takeStarted, made } = spawnerOf(0)
  await takeStarted(null, 64)
  t.equal(made.length, 2)
})

t.test('a spare that dies by itself is replaced when the next thread has started', async (t) => {
  const { takeStarted, made } = spawnerOf(1)
  await takeStarted(null)
  made.at(-1)?.terminate()
  t.same([await takeStarted(null), await takeStarted(null)], [[false], [true]])
})

t.test('a closed spawner makes no more spares', async (t) => {
  const { spawner, take, made } = spawnerOf(1)
  const thread = take()
  await spawner.close()
  thread.started()
  await idle()
  await idle()
  t.equal(made.length, 1)
})
