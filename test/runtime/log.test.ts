import t from 'tap'
import { allocate } from '../../src/mailbox/memory.ts'
import { RunLog } from '../../src/runtime/log.ts'
import { SEQ_STEP } from '../../src/runtime/records.ts'

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
