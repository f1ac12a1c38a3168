/** Rings and windows: frames of any size between two threads, and who wakes whom. */

import { deepStrictEqual, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { createTeam } from 'dramatis'
import fc from 'fast-check'
import t from 'tap'
import { Link, Outbox, SendQueue } from '../../src/actors/turn/link.ts'
import { Settlements, Waits } from '../../src/actors/turn/open-turn.ts'
import {
  ASLEEP,
  BEAT,
  Channel,
  CLAIM,
  FrameJoiner,
  FrameWriter,
  OUT_BLOCKED,
  PARKED,
  type Ring,
  ROOM_WANTED,
} from '../../src/mailbox/channel.ts'
import {
  ASKS,
  allocate,
  correlationOf,
  END,
  FRAGMENT,
  type FrameFields,
  flagsOf,
  HEADER,
  kindOf,
  lengthOf,
  type Memory,
  plainFrameBytes,
  SEND,
  sameStep,
  writeControl,
  writeFrame,
} from '../../src/mailbox/frame.ts'
import { HOST_ASLEEP, HOST_CALLED, TeamMemory } from '../../src/mailbox/team-memory.ts'
import { virtualClock } from '../../src/testing.ts'
import type { PingPong } from '../fixtures/ping-pong.ts'
import type { RingPeer } from '../fixtures/ring-peer.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
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

const FRAMES = howMany(3_000, 6_000)

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

const RING_BYTES = 1_024
const LIMIT = RING_BYTES / 4

/** A frame of that many bytes that says its number in every byte of its body. */
function frameOf(number: number, bytes: number): Memory {
  const memory = allocate(bytes)
  writeControl(memory, 0, SEND, 0, 0, number, 0, 0, 0)
  memory.i32[0] = bytes
  memory.u8.fill(number, HEADER)
  return memory
}

/** Takes frames as the other side does: whole ones where they stand, parts by the joiner. */
class Reader {
  readonly ring: Ring
  readonly joiner = new FrameJoiner()
  readonly taken: { number: number; bytes: number }[] = []

  constructor(ring: Ring) {
    this.ring = ring
  }

  read(parts = Number.POSITIVE_INFINITY): void {
    for (; parts > 0; parts--) {
      const at = this.ring.peek()
      if (at < 0) return
      const bytes = lengthOf(this.ring.memory, at)
      if (kindOf(this.ring.memory, at) === FRAGMENT) {
        const whole = this.joiner.join(this.ring.memory, at)
        if (whole) this.#take(whole, 0)
      } else this.#take(this.ring.memory, at)
      this.ring.pass(bytes)
      this.ring.release()
    }
  }

  #take(memory: Memory, at: number): void {
    const bytes = lengthOf(memory, at)
    const number = memory.i32[(at >> 2) + 3]!
    ok(memory.u8.subarray(at + HEADER, at + bytes).every((byte) => byte === (number & 0xff)))
    this.taken.push({ number, bytes })
  }
}

function channel() {
  const { writer, reader } = ringPair(RING_BYTES)
  const frames = new FrameWriter(writer)
  const write = (number: number, bytes: number) => {
    const whole = frames.write(frameOf(number, bytes).u8, 0, bytes)
    writer.publish()
    return whole
  }
  return { write, writer, reader: new Reader(reader) }
}

t.test('a frame up to a quarter of the ring crosses as one, a larger one in parts', async (t) => {
  const { write, writer, reader } = channel()
  t.equal(writer.inlineLimit, LIMIT)
  t.ok(write(1, LIMIT))
  t.equal(kindOf(reader.ring.memory, reader.ring.peek()), SEND)
  reader.read()
  t.ok(write(2, LIMIT + 8))
  t.equal(kindOf(reader.ring.memory, reader.ring.peek()), FRAGMENT)
  reader.read()
  t.same(reader.taken, [
    { number: 1, bytes: LIMIT },
    { number: 2, bytes: LIMIT + 8 },
  ])
})

t.test('a frame much larger than the ring crosses as the reader makes room', async (t) => {
  const { write, reader } = channel()
  const bytes = 50 * RING_BYTES + 8
  let offers = 1
  for (; !write(7, bytes); offers++) reader.read()
  reader.read()
  t.same(reader.taken, [{ number: 7, bytes }])
  t.ok(offers > 40)
})

t.test('a large frame is no frame before its last part', async (t) => {
  const { write, reader } = channel()
  t.notOk(write(1, 3 * RING_BYTES))
  reader.read()
  t.notOk(write(1, 3 * RING_BYTES))
  reader.read()
  t.same(reader.taken, [])
})

t.test('what a dead writer left half-written never becomes a frame', async (t) => {
  const { write, writer, reader } = channel()
  const bytes = 3 * RING_BYTES
  t.notOk(write(1, bytes))
  reader.read()
  const next = new FrameWriter(writer) // the dead one's parts are still the last that was seen
  for (const [number, size] of [2 * RING_BYTES, HEADER, bytes].entries()) {
    while (!next.write(frameOf(number + 2, size).u8, 0, size)) {
      writer.publish()
      reader.read()
    }
    writer.publish()
    reader.read()
  }
  t.same(reader.taken, [
    { number: 2, bytes: 2 * RING_BYTES },
    { number: 3, bytes: HEADER },
    { number: 4, bytes },
  ])
})

/** Where the parts of a frame of that many bytes stand. */
function partsOf(bytes: number) {
  const { write, reader } = channel()
  write(1, bytes)
  const { memory } = reader.ring
  const parts: number[] = []
  for (let at = reader.ring.peek(); at < reader.ring.limit(); at += lengthOf(memory, at)) parts.push(at)
  return { memory, parts }
}

t.test('parts without the first one are dropped, and so is the last one again', async (t) => {
  const { memory, parts } = partsOf(LIMIT + 8)
  const joiner = new FrameJoiner()
  const joined = (places: number[]) => places.map((at) => joiner.join(memory, at) !== undefined)
  t.same(joined(parts.slice(1)), [false, false])
  t.same(joined(parts), [false, false, true])
  t.same(joined(parts.slice(2)), [false])
})

t.test('the parts of two frames never become one', async (t) => {
  const one = partsOf(LIMIT + 8)
  const other = partsOf(LIMIT + 16)
  const joiner = new FrameJoiner()
  t.equal(joiner.join(one.memory, one.parts[0]!), undefined)
  t.same(
    other.parts.slice(1).map((at) => joiner.join(other.memory, at)),
    [undefined, undefined],
  )
})

t.test('frames of all sizes keep their order, however the reader comes along', async () => {
  const size = fc.oneof(
    fc.integer({ min: HEADER / 8, max: LIMIT / 8 }),
    fc.constantFrom(LIMIT / 8 - 1, LIMIT / 8, LIMIT / 8 + 1, RING_BYTES / 8, RING_BYTES / 8 + 1),
    fc.integer({ min: LIMIT / 8, max: RING_BYTES / 2 }),
  )
  const steps = fc.array(fc.tuple(size, fc.nat(5)), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(steps, (frames) => {
      const { write, reader } = channel()
      for (const [number, [words, parts]] of frames.entries()) {
        while (!write(number + 1, words * 8)) reader.read(parts + 1)
        reader.read(parts)
      }
      reader.read()
      deepStrictEqual(
        reader.taken,
        frames.map(([words], number) => ({ number: number + 1, bytes: words * 8 })),
      )
    }),
  )
})

t.test('a frame is written from where it stands in memory', async (t) => {
  const { writer, reader } = channel()
  const bytes = 2 * LIMIT
  const memory = allocate(bytes + 128)
  memory.u8.set(frameOf(9, bytes).u8, 64)
  t.ok(new FrameWriter(writer).write(memory.u8, 64, 64 + bytes))
  writer.publish()
  reader.read()
  t.same(reader.taken, [{ number: 9, bytes }])
})

// ---- the window as a whole

t.test('both sides of a window see the same four rings', async (t) => {
  const host = new Channel()
  const thread = new Channel(host.buffer)
  for (const lane of ['outbox', 'plain', 'ranked', 'replies'] as const) {
    t.ok(host[lane].copy(frameOf(1, HEADER).u8, 0, HEADER))
    host[lane].publish()
    t.ok(thread[lane].more(), lane)
    t.equal(thread[lane].used(), HEADER)
  }
})

t.test('rings and words share no byte', async (t) => {
  const { buffer, words, outbox, plain, ranked, replies } = new Channel()
  const marks = [ASLEEP, PARKED, BEAT, ROOM_WANTED, OUT_BLOCKED, CLAIM, CLAIM + 1, CLAIM + 2, CLAIM + 3]
  t.equal(new Set(marks).size, marks.length)
  for (const mark of marks) words[mark] = -1
  for (const ring of [outbox, plain, ranked, replies]) {
    const { memory, capacity } = ring
    t.ok(memory.u8.every((byte) => byte === 0))
    memory.u8.fill(0xff)
    t.equal(ring.readTo(), 0)
    t.equal(ring.free(), capacity)
  }
  const used = marks.length * 4 + outbox.capacity + plain.capacity + ranked.capacity + replies.capacity
  t.equal(
    new Uint8Array(buffer).reduce((sum, byte) => sum + (byte === 0xff ? 1 : 0), 0),
    used,
  )
})

t.test('a life begins with nothing in its window', async (t) => {
  const { words, outbox, plain, ranked, replies } = new Channel()
  t.ok(words.every((word) => word === 0))
  for (const ring of [outbox, plain, ranked, replies]) t.equal(ring.peek(), -1)
})

// * Who sleeps announces it and looks again; who writes publishes and then looks whether the other sleeps. One frame
// at a time and no timer anywhere, so a wake-up that is lost is never made up for: the test stands still until its
// deadline.

const ROUNDS = howMany(8_000, 20_000)
const DEADLINE = { timeout: 45_000 }

for (const lane of ['plain', 'replies'] as const) {
  t.test(`host and thread alternate over ${lane} and never sleep through a frame`, DEADLINE, async (t) => {
    const rounds = ROUNDS / 4
    for (const patience of [0, 20, 300, 3_000]) t.equal(await pingPong(lane, rounds, patience), rounds)
  })
}

t.test('a team and its agent alternate and never sleep through a message', DEADLINE, async (t) => {
  const team = createTeam({
    agents: [{ name: 'echo', module: new URL('../fixtures/transport/echo.js', import.meta.url) }],
    orchestration: {
      strategy: 'custom',
      async run(orchestrator) {
        let round = 0
        for (; round < ROUNDS / 2; round++) {
          const { content } = await orchestrator.request('echo', String(round))
          if (content !== String(round)) break
        }
        return String(round)
      },
    },
    supervision: { watchdogMs: false }, // it rings now and then, which would wake who slept through a message
  })
  t.teardown(() => team.close())
  const result = await team.execute('go')
  t.equal(result.finalOutput, String(ROUNDS / 2))
})

/** Sends frames 1 to `rounds`, each when the one before it was answered. Resolves with the last answer. */
async function pingPong(lane: PingPong['lane'], rounds: number, patience: number): Promise<number> {
  const window = new Channel()
  const team = new TeamMemory(1)
  const workerData: PingPong = { channel: window.buffer, team: team.buffer, rounds, lane, patience, seed: patience + 1 }
  const worker = new Worker(new URL('../fixtures/ping-pong.js', import.meta.url), { workerData })
  const roll = dice(patience + 2)
  let answered = 0

  const send = (number: number) => {
    const ring = window[lane]
    const at = ring.reserve(HEADER)
    writeControl(ring.memory, at, SEND, 0, 0, 0, 0, number, 0)
    ring.advance(HEADER)
    ring.publish()
    const state = Atomics.load(window.words, ASLEEP)
    if (state > 0 && Atomics.compareExchange(window.words, ASLEEP, state, 0) === state) worker.postMessage(0)
  }

  const tick = () => {
    do {
      Atomics.store(team.words, HOST_ASLEEP, 0)
      Atomics.store(team.words, HOST_CALLED, 0)
      for (let at = window.outbox.peek(); at >= 0; at = window.outbox.peek()) {
        answered = correlationOf(window.outbox.memory, at)
        window.outbox.pass(HEADER)
        window.outbox.release()
        if (answered < rounds) send(answered + 1)
      }
      for (let looks = roll(patience + 1); looks > 0 && !window.outbox.more(); looks--);
      Atomics.store(team.words, HOST_ASLEEP, 1)
    } while (Atomics.load(team.words, HOST_CALLED) === 1)
  }

  worker.on('message', tick)
  send(1)
  tick()
  await once(worker, 'exit')
  tick() // a thread that is gone may have published before it went
  return answered
}

// A message that has to wait for the outbox claims its room in the mailbox when the outbox has room again.

const [ME, OTHER] = [1, 2]
const LARGE = 'x'.repeat(60_000)

/** An agent with a full outbox, and a mailbox with `room` for so many messages that it sends to. */
function stage(room: number) {
  const team = new TeamMemory(4)
  team.open(OTHER, room, 2 ** 20, 2 ** 20)
  const window = new Channel()
  const link = new Link(window, team, { wake() {}, onWake() {}, scheduler: virtualClock() }, ME)
  const outbox = new Outbox(link, ME, 2 ** 20, () => 0, Math.random)
  const waits = new Waits(0, 1)
  const sends = new SendQueue(outbox, waits)
  const fill = (kind: number, content = LARGE) => {
    const fields = outbox.begin(kind, 1, 1, 1, content, undefined)
    fields.recipient = OTHER
    return outbox.size()
  }
  let bytes = fill(SEND)
  for (; link.reserve(bytes) >= 0; bytes = fill(SEND)) outbox.write(bytes, 'soon')
  const settled: number[] = []
  const send = () => {
    const size = fill(SEND)
    const correlation = waits.next()
    outbox.fields.correlation = correlation
    const order = new Settlements({ script: undefined, held() {}, settled() {} })
    const state = { order, isAnswered: false, pieces: 0, stream: undefined }
    const verdict = new Promise<void>((resolve) => {
      waits.set(correlation, { kind: 'send', correlation, ...state, settle: () => resolve() })
    })
    void verdict.then(() => settled.push(correlation))
    sends.add('send', size, verdict, () => waits.get(correlation)?.settle(undefined))
  }
  /** What the host finds in the outbox; it wakes the thread when half is free. */
  const read = () => {
    const found: { kind: number; asks: boolean; correlation: number }[] = []
    for (let at = window.outbox.peek(); at >= 0; at = window.outbox.peek()) {
      const { memory } = window.outbox
      const asks = (flagsOf(memory, at) & ASKS) !== 0
      found.push({ kind: kindOf(memory, at), asks, correlation: correlationOf(memory, at) })
      window.outbox.pass(lengthOf(memory, at))
    }
    window.outbox.release()
    if (Atomics.exchange(window.words, OUT_BLOCKED, 0) === 1) link.woken()
    return found
  }
  return { team, link, waits, fill, outbox, send, settled, read }
}

t.test('it does not ask the host, and its sender goes on at once', async (t) => {
  const { team, send, settled, read } = stage(10)
  const before = team.taken(OTHER)
  send()
  t.equal(team.taken(OTHER), before, 'no room is taken while the frame could be lost with its thread')
  read()
  t.same(read(), [{ kind: SEND, asks: false, correlation: 0 }])
  t.equal(team.taken(OTHER), before + 1)
  await new Promise(setImmediate)
  t.same(settled, [1])
})

t.test('it asks if the mailbox has no room then', async (t) => {
  const { send, settled, read } = stage(0)
  send()
  read()
  t.same(read(), [{ kind: SEND, asks: true, correlation: 1 }])
  await new Promise(setImmediate)
  t.same(settled, [], 'the host will say when it has room')
})

t.test('it keeps its place before the end of its turn', async (t) => {
  const { send, fill, outbox, read } = stage(10)
  send()
  outbox.write(fill(END, ''), 'later')
  read()
  t.same(pluck(read(), 'kind'), [SEND, END])
})

t.test('it takes no room if its sender has given up', async (t) => {
  const { team, send, waits, read } = stage(10)
  const before = team.taken(OTHER)
  send()
  waits.delete(1)
  read()
  t.same(read(), [{ kind: SEND, asks: true, correlation: 1 }], 'its withdrawal is behind it')
  t.equal(team.taken(OTHER), before)
})

// A step that is asked for again is known by its bytes, whatever stood in the memory before.

const fields = (content: string, data?: string): FrameFields => ({
  kind: SEND,
  flags: 0,
  type: 'request',
  sender: 3,
  recipient: 4,
  run: 1,
  turn: 1,
  correlation: 0,
  step: 1,
  attempt: 1,
  content,
  data,
  metadata: undefined,
  threadId: undefined,
  name: undefined,
  limit: -1,
  priority: 0,
  waiting: 0,
  polling: false,
})

function written(content: string, data: string | undefined, garbage: number): Memory {
  const memory = allocate(plainFrameBytes(content, data))
  memory.u8.fill(garbage)
  writeFrame(memory, 0, fields(content, data), 0)
  return memory
}

t.test('the same content is the same step at every length, narrow and wide', async (t) => {
  for (const letter of ['x', 'ж', '🐟'])
    for (let length = 0; length < 12; length++) {
      const content = letter.repeat(length)
      const [one, other] = [written(content, content, 0x00), written(content, content, 0xff)]
      t.ok(sameStep(one, 0, other, 0), `${length} times ${letter}`)
    }
})

t.test('another content, other data or no data is another step', async (t) => {
  const step = written('go', '{"n":1}', 0)
  for (const [content, data] of [
    ['gx', '{"n":1}'],
    ['go', '{"n":2}'],
    ['go', undefined],
    ['go ', '{"n":1}'],
  ] as const)
    t.notOk(sameStep(step, 0, written(content, data, 0), 0), `${content} ${data}`)
})
