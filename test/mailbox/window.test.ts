import { deepStrictEqual, ok } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import {
  ASLEEP,
  BEAT,
  CLAIM,
  FrameJoiner,
  FrameWriter,
  inlineLimit,
  OUT_BLOCKED,
  PARKED,
  type Ring,
  ROOM_WANTED,
  Window,
} from '../../src/mailbox/channel.ts'
import {
  allocate,
  FRAGMENT,
  HEADER,
  kindOf,
  lengthOf,
  type Memory,
  SEND,
  writeControl,
} from '../../src/mailbox/frame.ts'
import { ringPair } from './ring-traffic.ts'

const CAPACITY = 1_024
const LIMIT = CAPACITY / 4

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
  const { writer, reader } = ringPair(CAPACITY)
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
  t.equal(inlineLimit(writer), LIMIT)
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
  const bytes = 50 * CAPACITY + 8
  let offers = 1
  for (; !write(7, bytes); offers++) reader.read()
  reader.read()
  t.same(reader.taken, [{ number: 7, bytes }])
  t.ok(offers > 40)
})

t.test('a large frame is no frame before its last part', async (t) => {
  const { write, reader } = channel()
  t.notOk(write(1, 3 * CAPACITY))
  reader.read()
  t.notOk(write(1, 3 * CAPACITY))
  reader.read()
  t.same(reader.taken, [])
})

t.test('what a dead writer left half-written never becomes a frame', async (t) => {
  const { write, writer, reader } = channel()
  const bytes = 3 * CAPACITY
  t.notOk(write(1, bytes))
  reader.read()
  const next = new FrameWriter(writer) // the dead one's parts are still the last that was seen
  for (const [number, size] of [2 * CAPACITY, HEADER, bytes].entries()) {
    while (!next.write(frameOf(number + 2, size).u8, 0, size)) {
      writer.publish()
      reader.read()
    }
    writer.publish()
    reader.read()
  }
  t.same(reader.taken, [
    { number: 2, bytes: 2 * CAPACITY },
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
    fc.constantFrom(LIMIT / 8 - 1, LIMIT / 8, LIMIT / 8 + 1, CAPACITY / 8, CAPACITY / 8 + 1),
    fc.integer({ min: LIMIT / 8, max: CAPACITY / 2 }),
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
  const host = new Window()
  const thread = new Window(host.buffer)
  for (const lane of ['outbox', 'plain', 'ranked', 'replies'] as const) {
    t.ok(host[lane].copy(frameOf(1, HEADER).u8, 0, HEADER))
    host[lane].publish()
    t.ok(thread[lane].more(), lane)
    t.equal(thread[lane].used(), HEADER)
  }
})

t.test('rings and words share no byte', async (t) => {
  const { buffer, words, outbox, plain, ranked, replies } = new Window()
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
  const { words, outbox, plain, ranked, replies } = new Window()
  t.ok(words.every((word) => word === 0))
  for (const ring of [outbox, plain, ranked, replies]) t.equal(ring.peek(), -1)
})
