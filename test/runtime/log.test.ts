import t from 'tap'
import { allocate, type Memory } from '../../src/mailbox/frame.ts'
import { type FrameBlock, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { RunLog } from '../../src/runtime/log/run-log.ts'

const FRAME = 1_000 // bytes
const BLANK_ENTRY = {
  key: 'k',
  author: 'a',
  timestamp: 0,
  entryType: 'fact',
  confidence: 1,
  supersedes: null,
  references: [],
  version: 1,
}

function logOf(count: number): RunLog {
  const log = new RunLog()
  for (let n = 0; n < count; n++) log.appendOwned(n * SEQ_STEP, 0, 1, allocate(FRAME), FRAME)
  return log
}

t.test('a reader misses nothing that is still there when the oldest are given up behind it', async (t) => {
  const log = logOf(10)
  const seen: number[] = []
  for (const { seq } of log.entries()) {
    seen.push(seq / SEQ_STEP)
    if (seq === 4 * SEQ_STEP) log.trim(8 * FRAME)
  }
  t.same(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  t.equal(log.forgotten, 3)
})

t.test('a reader goes on with the oldest that is left when it was itself too slow', async (t) => {
  const log = logOf(10)
  const seen: number[] = []
  for (const { seq } of log.entries()) {
    seen.push(seq / SEQ_STEP)
    if (seq === 0) log.trim(4 * FRAME)
  }
  t.same(seen, [0, 7, 8, 9])
})

t.test('a reader ends where it was told to, whatever is given up meanwhile', async (t) => {
  const log = logOf(10)
  const seen: number[] = []
  for (const { seq } of log.entries(-1, 6)) {
    seen.push(seq / SEQ_STEP)
    if (seq === 2 * SEQ_STEP) log.trim(8 * FRAME)
    if (seq === 4 * SEQ_STEP) log.trim(2 * FRAME)
  }
  t.same(seen, [0, 1, 2, 3, 4])
})

t.test('records count too, those with a text by its length', async (t) => {
  const log = new RunLog()
  const record = (n: number) => ({
    kind: 'decision' as const,
    seq: n * SEQ_STEP,
    at: 0,
    run: 1,
    question: '',
    choice: '',
    reason: '',
  })
  for (let n = 0; n < 10; n++) log.append(record(n))
  const each = log.bytes / 10
  t.ok(each > 0)
  log.trim(8 * each)
  t.equal(log.forgotten, 3)
  t.equal(log.bytes, 7 * each)
  log.append({ ...record(10), kind: 'blackboard', entry: { ...BLANK_ENTRY, value: 'x'.repeat(1_000) } })
  t.equal(log.bytes, 8 * each + 2_000)
})

const MIB = 2 ** 20
const FILL = 2 ** 18 // four to a chunk, once chunks are large

/** Writes so many frames into the log, each of them all of one byte, and gives up what is beyond 4 MiB. */
function fill(log: RunLog, count: number, byte: number, held = () => new Set<Memory>()): FrameBlock[] {
  const from = allocate(FILL)
  from.u8.fill(byte)
  return Array.from({ length: count }, () => {
    const block = log.appendFrames(log.length * SEQ_STEP, 0, 1, from, 0, FILL, 1)
    log.trim(4 * MIB, held)
    return block
  })
}

const bytesOf = ({ memory, from, to }: FrameBlock) => new Set(memory.u8.subarray(from, to))

t.test('memory of what was given up is written again', async (t) => {
  const log = new RunLog()
  const buffers = new Set(fill(log, 400, 7).map(({ memory }) => memory.u8.buffer))
  t.ok(buffers.size < 20, `${buffers.size} chunks for 100 MiB`)
  const left = [...log.entries()].filter((entry) => entry.kind === 'frames')
  t.ok(left.length >= 14)
  for (const block of left) t.same(bytesOf(block), new Set([7]))
})

t.test('memory that a mailbox points to is not written again', async (t) => {
  const log = new RunLog()
  const waiting = fill(log, 20, 1).at(-1)!
  fill(log, 200, 2, () => new Set([waiting.memory]))
  t.notOk([...log.entries()].includes(waiting), 'it was given up')
  t.same(bytesOf(waiting), new Set([1]))
})

t.test('nothing is written where a reader stands, however long', async (t) => {
  const log = new RunLog()
  fill(log, 20, 1)
  const reader = log.entries()
  for (let i = 0; i < 10; i++) reader.next() // the first chunks are small, and never written again
  const stands = reader.next().value as FrameBlock
  fill(log, 200, 2)
  t.same(bytesOf(stands), new Set([1]))
  reader.return?.()
  const left = fill(log, 200, 3)
  t.ok(new Set(left.map(({ memory }) => memory.u8.buffer)).size < 40, 'and when it has gone memory is written again')
})

t.test('who still holds memory that is written again finds nothing there', async (t) => {
  const log = new RunLog()
  const stale = fill(log, 20, 1).at(-1)!
  fill(log, 200, 2)
  t.equal(stale.memory.u8.length, 0)
})
