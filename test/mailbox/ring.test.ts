import { deepStrictEqual, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import t from 'tap'
import type { Ring } from '../../src/mailbox/channel.ts'
import type { RingPeer } from '../fixtures/ring-peer.ts'
import {
  dice,
  hashOf,
  readNumbered,
  readTraffic,
  ringPair,
  SMALLEST,
  type Traffic,
  takeTraffic,
  writeNumbered,
  writeTraffic,
} from './ring-traffic.ts'

const CAPACITY = 256
const nobody = new Int32Array(new SharedArrayBuffer(4))

// Counters are 32 bits wide and wrap; each line is where they begin.
const starts: Record<string, number> = {
  'from 0': 0,
  'across 2^31': (2 ** 31 - 96) | 0,
  'across 2^32': (2 ** 32 - 96) | 0,
}

const priorityAt = (ring: Ring, at: number) => ring.memory.i32[(at >> 2) + 2]!

t.test('a frame is read as it was written', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 64, 1)
  writer.publish()
  t.match(readNumbered(reader, reader.peek()), { number: 1, bytes: 64 })
})

t.test('what is not published is not there', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 64, 1)
  t.equal(reader.peek(), -1)
  t.notOk(reader.more())
  t.equal(reader.used(), 0)
  writer.publish()
  t.equal(reader.peek(), 0)
  t.ok(reader.more())
  t.equal(reader.used(), 64)
})

t.test('a frame stays until it is released', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 256, 1)
  writer.publish()
  reader.peek()
  reader.pass(256)
  t.equal(writer.free(), 0)
  t.equal(writeNumbered(writer, SMALLEST, 2), -1)
  reader.release()
  t.equal(writer.free(), 256)
  t.not(writeNumbered(writer, SMALLEST, 2), -1)
})

t.test('a frame never straddles the end: the rest of the lap is skipped, and counts as used', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  for (const number of [1, 2, 3]) writeNumbered(writer, 64, number)
  writer.publish()
  for (let i = 0; i < 3; i++) reader.pass(readNumbered(reader, reader.peek()).bytes)
  reader.release()
  t.equal(writeNumbered(writer, 96, 4), 0)
  writer.publish()
  t.equal(writer.free(), CAPACITY - 96 - 64)
  t.equal(reader.peek(), 0)
  reader.pass(96)
  reader.release()
  t.equal(writer.free(), CAPACITY)
})

t.test('a frame may end where the lap ends', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 128, 1)
  t.equal(writeNumbered(writer, 128, 2), 128)
  writer.publish()
  reader.pass(readNumbered(reader, reader.peek()).bytes)
  t.equal(readNumbered(reader, reader.peek()).number, 2)
  t.equal(reader.limit(), 256)
})

t.test('an empty ring takes a frame of half its capacity wherever it stands', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  for (let number = 0; number < 200; number++) {
    for (const bytes of [SMALLEST + 8 * (number % 5), CAPACITY / 2]) {
      t.not(writeNumbered(writer, bytes, number), -1)
      writer.publish()
      t.equal(readNumbered(reader, reader.peek()).number, number)
      reader.pass(bytes)
      reader.release()
    }
  }
})

t.test('limit says how far frames stand one after the other', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 64, 1)
  writeNumbered(writer, 32, 2)
  writer.publish()
  t.equal(reader.peek(), 0)
  t.equal(reader.limit(), 96)
  reader.pass(64)
  t.equal(reader.peek(), 64)
  t.equal(reader.limit(), 96)
})

t.test('limit ends where the lap ends, although frames go on at its beginning', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 128, 1)
  writer.publish()
  reader.peek()
  reader.pass(128)
  reader.release()
  for (const number of [2, 3]) writeNumbered(writer, 128, number)
  writer.publish()
  t.equal(reader.peek(), 128)
  t.equal(reader.limit(), CAPACITY)
})

t.test('frames that stand one after the other are copied as one', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  const other = ringPair(CAPACITY)
  for (const number of [1, 2]) writeNumbered(other.writer, 64, number)
  t.ok(writer.copy(other.writer.memory.u8, 64, 128))
  t.notOk(writer.copy(new Uint8Array(256), 0, 256))
  writer.publish()
  t.equal(readNumbered(reader, reader.peek()).number, 2)
})

t.test('a new reader goes on where the last one released', async (t) => {
  const { writer, reader, buffer } = ringPair(CAPACITY)
  for (const number of [1, 2]) writeNumbered(writer, 64, number)
  writer.publish()
  reader.pass(readNumbered(reader, reader.peek()).bytes)
  reader.release()
  const { Ring } = await import('../../src/mailbox/channel.ts')
  const next = new Ring(buffer, 0, CAPACITY)
  t.equal(readNumbered(next, next.peek()).number, 2)
})

// ---- out of turn

t.test('the best is taken first, and of equals the first', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  const priorities = [1, 3, 2, 3, -1]
  priorities.forEach((priority, number) => {
    writeNumbered(writer, 32, number, priority)
  })
  writer.publish()
  t.same(takeAll(reader), [1, 3, 2, 0, 4])
  t.equal(writer.free(), CAPACITY)
})

t.test('best sees what was published since the last look', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  writeNumbered(writer, 32, 1, 1)
  writer.publish()
  reader.peek()
  writeNumbered(writer, 32, 2, 2)
  writer.publish()
  t.equal(bestOf(reader), 2)
})

t.test('a gap is no message, and is passed when it is at the head', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  for (const [number, priority] of [1, 3, 2].entries()) writeNumbered(writer, 32, number, priority)
  writer.publish()
  reader.take(reader.best((at, than) => priorityAt(reader, at) > priorityAt(reader, than)))
  reader.release()
  t.equal(writer.free(), CAPACITY - 96) // it lies behind a frame that is still there
  t.ok(reader.more())
  t.equal(readNumbered(reader, reader.peek()).number, 0)
  reader.take(reader.peek())
  reader.release()
  t.equal(writer.free(), CAPACITY - 32) // both are gone, only the last is left
  reader.take(reader.peek())
  t.notOk(reader.more())
})

t.test('the writer can tell what was taken out of turn from what was not', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  const places = [1, 3, 2].map((priority, number) => {
    const at = writeNumbered(writer, 32, number, priority)
    return { at, end: writer.written }
  })
  writer.publish()
  const taken = () => places.map(({ at, end }) => writer.taken(at, end))
  t.same(taken(), [false, false, false])
  const at = reader.best((one, than) => priorityAt(reader, one) > priorityAt(reader, than))
  reader.take(at)
  t.same(taken(), [false, true, false])
})

t.test('what was passed counts as taken when it is released', async (t) => {
  const { writer, reader } = ringPair(CAPACITY)
  const at = writeNumbered(writer, 32, 1)
  const end = writer.written
  writer.publish()
  reader.peek()
  reader.pass(32)
  t.notOk(writer.taken(at, end))
  reader.release()
  t.ok(writer.taken(at, end))
  t.equal(writer.readTo(), end)
})

// ---- against a naive model

type Op = ['write', number, number] | ['publish'] | ['pass'] | ['take'] | ['release'] | ['look']

const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 5, arbitrary: fc.tuple(fc.constant('write' as const), fc.integer({ min: 2, max: 16 }), fc.nat(3)) },
  { weight: 3, arbitrary: fc.constant<Op>(['publish']) },
  { weight: 4, arbitrary: fc.constant<Op>(['pass']) },
  { weight: 2, arbitrary: fc.constant<Op>(['take']) },
  { weight: 3, arbitrary: fc.constant<Op>(['release']) },
  { weight: 1, arbitrary: fc.constant<Op>(['look']) },
)

for (const [title, start] of Object.entries(starts)) {
  t.test(`does what a list of frames would do, with counters ${title}`, async () => {
    fc.assert(
      fc.property(fc.array(op, { minLength: 1, maxLength: 300, size: 'max' }), (ops) => {
        const model = new Model(start)
        for (const one of ops) model.step(one)
        model.drain()
      }),
      { numRuns: 150 },
    )
  })
}

interface Entry {
  number: number
  bytes: number
  priority: number
  at: number
  end: number
  gone: boolean
}

/** The frames as a list, and positions as numbers that never wrap. */
class Model {
  readonly writer: Ring
  readonly reader: Ring
  readonly all: Entry[] = []
  /** Published, not read; and not published yet. */
  seen: Entry[] = []
  unseen: Entry[] = []
  /** Passed, not released yet. */
  passed: Entry[] = []
  start: number
  tail = 0
  published = 0
  head = 0
  released = 0
  count = 0

  constructor(start: number) {
    this.start = start
    const { writer, reader } = ringPair(CAPACITY, start)
    this.writer = writer
    this.reader = reader
  }

  offset(position: number): number {
    return (position + (this.start >>> 0)) % CAPACITY
  }

  step(one: Op): void {
    switch (one[0]) {
      case 'write':
        this.write(one[1] * 8, one[2])
        break
      case 'publish':
        this.writer.publish()
        this.published = this.tail
        this.seen.push(...this.unseen.splice(0))
        break
      case 'pass':
        this.pass()
        break
      case 'take':
        this.take()
        break
      case 'release':
        this.reader.release()
        this.released = this.head
        for (const entry of this.passed.splice(0)) entry.gone = true
        break
      case 'look':
        this.look()
        break
    }
    for (const { at, end, gone } of this.all.slice(-CAPACITY / SMALLEST))
      deepStrictEqual(this.writer.taken(at, end), gone)
  }

  write(bytes: number, priority: number): void {
    const lap = CAPACITY - this.offset(this.tail)
    const needed = lap < bytes ? lap + bytes : bytes
    const fits = CAPACITY - (this.tail - this.released) >= needed
    const number = this.count
    const at = writeNumbered(this.writer, bytes, number, priority)
    deepStrictEqual(at >= 0, fits)
    if (at < 0) return
    this.count += 1
    if (lap < bytes) this.tail += lap
    deepStrictEqual(at, this.offset(this.tail))
    this.tail += bytes
    deepStrictEqual(this.writer.written, (this.tail + this.start) | 0)
    const entry = { number, bytes, priority, at, end: this.writer.written, gone: false }
    this.unseen.push(entry)
    this.all.push(entry)
  }

  pass(): void {
    const at = this.reader.peek()
    const entry = this.seen.shift()
    deepStrictEqual(at, entry?.at ?? -1)
    if (!entry) {
      this.head = this.published // nothing but gaps was left
      return
    }
    const { number, bytes, priority } = entry
    deepStrictEqual(readNumbered(this.reader, at), { number, bytes, priority })
    this.reader.pass(bytes)
    this.passed.push(entry)
    this.head = this.positionOf(entry) + bytes
  }

  take(): void {
    const at = this.reader.best((one, than) => priorityAt(this.reader, one) > priorityAt(this.reader, than))
    const highest = Math.max(...this.seen.map(({ priority }) => priority))
    const entry = this.seen.find(({ priority }) => priority === highest)
    deepStrictEqual(at, entry?.at ?? -1)
    if (entry) {
      readNumbered(this.reader, at)
      this.reader.take(at)
      entry.gone = true
      this.seen.splice(this.seen.indexOf(entry), 1)
    }
    const first = this.seen[0]
    this.head = first ? this.positionOf(first) : this.published
  }

  look(): void {
    deepStrictEqual(this.writer.free(), CAPACITY - (this.tail - this.released))
    deepStrictEqual(this.writer.readTo(), (this.released + this.start) | 0)
    deepStrictEqual(this.reader.used(), this.published - this.head)
    deepStrictEqual(this.reader.more(), this.published !== this.head)
  }

  drain(): void {
    this.step(['publish'])
    while (this.seen.length > 0) this.pass()
    this.pass()
    this.step(['release'])
    this.look()
    deepStrictEqual(this.writer.free(), CAPACITY)
    ok(this.all.every(({ gone }) => gone))
  }

  positionOf({ end, bytes }: Entry): number {
    return ((end - this.start) >>> 0) - bytes
  }
}

// ---- across a thread

const FRAMES = 6_000

for (const [title, start] of Object.entries(starts)) {
  const near = start === 0 ? 0 : (start - 2 ** 19) | 0 // a good way before the limit, so that it is crossed under way
  const traffic = (seed: number, priorities = 1): Traffic => ({ seed, frames: FRAMES, largest: 512, priorities })

  t.test(`another thread reads what this one writes, in order and whole, with counters ${title}`, async (t) => {
    for (const seed of [1, 2]) {
      const { writer, buffer } = ringPair(2_048, near)
      const peer = startPeer({ buffer, capacity: 2_048, role: 'read', traffic: traffic(seed) })
      writeTraffic(writer, traffic(seed), pause)
      t.equal(await peer, hashOf(traffic(seed)))
    }
  })

  t.test(`this thread reads what another one writes, in order and whole, with counters ${title}`, async (t) => {
    for (const seed of [3, 4]) {
      const { reader, buffer } = ringPair(2_048, near)
      const peer = startPeer({ buffer, capacity: 2_048, role: 'write', traffic: traffic(seed) })
      t.equal(readTraffic(reader, traffic(seed), pause), hashOf(traffic(seed)))
      await peer
    }
  })

  t.test(`another thread takes frames by priority, each once and in order, with counters ${title}`, async (t) => {
    for (const seed of [5, 6]) {
      const { writer, buffer } = ringPair(2_048, near)
      const peer = startPeer({ buffer, capacity: 2_048, role: 'take', traffic: traffic(seed, 3) })
      writeTraffic(writer, traffic(seed, 3), pause)
      t.equal(await peer, hashOf(traffic(seed, 3)))
    }
  })
}

t.test('dice, and so the traffic, follow from the seed', async (t) => {
  const rolls = (seed: number) => Array.from({ length: 50 }, dice(seed).bind(null, 1_000))
  t.same(rolls(1), rolls(1))
  t.strictNotSame(rolls(1), rolls(2))
  const { writer, reader } = ringPair(2 ** 16)
  const all = { seed: 9, frames: 40, largest: 512, priorities: 3 }
  writeTraffic(writer, all, () => t.fail('there is room for all'))
  t.equal(
    takeTraffic(reader, all, () => t.fail('all is there')),
    hashOf(all),
  )
})

/** Resolves with what the peer posts, or with undefined when it has ended without a word. */
async function startPeer(workerData: RingPeer): Promise<unknown> {
  const worker = new Worker(new URL('../fixtures/ring-peer.js', import.meta.url), { workerData })
  let posted: unknown
  worker.on('message', (message) => {
    posted = message
  })
  await once(worker, 'exit')
  return posted
}

function pause(): void {
  Atomics.wait(nobody, 0, 0, 0.05) // leaves the processor to the other end
}

function bestOf(ring: Ring): number {
  const at = ring.best((one, than) => priorityAt(ring, one) > priorityAt(ring, than))
  return at < 0 ? -1 : readNumbered(ring, at).number
}

function takeAll(ring: Ring): number[] {
  const taken: number[] = []
  for (;;) {
    const at = ring.best((one, than) => priorityAt(ring, one) > priorityAt(ring, than))
    if (at < 0) return taken
    taken.push(readNumbered(ring, at).number)
    ring.take(at)
    ring.release()
  }
}
