/** Logs that were damaged on the disk: what is an error, and what is the tail of a process or machine that died. */
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import type { Test } from 'tap'
import t from 'tap'
import { encodeBlock, FORMAT } from '../../src/runtime/store/block-format.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { LogCorruptError, LogVersionError } from '../../src/shared/errors.ts'
import { blockOf, entriesUpTo } from './blocks.ts'
import { failureOf, folderOf, reopened, segmentsOf, written } from './log-folders.ts'

t.test('a log that ends within a block is cut to its last whole block, and says so', async (t) => {
  const whole = await bytesOfLog(t, 4)
  const ends = blockEnds(whole)
  t.equal(ends.length, 5, 'header and four blocks')
  for (let length = 1; length < whole.length; length++) {
    const folder = withSegment(t, whole.subarray(0, length))
    const kept = ends.filter((end) => end <= length)
    const end = kept.length > 1 ? kept.at(-1)! : 0
    const isWhole = ends.includes(length)
    const blocks = Math.max(0, kept.length - 1)
    const found = await reopened(folder)
    t.same(found.content, entriesUpTo(blocks), `${length} bytes`)
    t.same(found.cut, isWhole ? undefined : { position: kept.at(-1) ?? 0, bytes: length - (kept.at(-1) ?? 0) })
    t.equal(found.lastSeq, blocks)
    if (end > 0) t.equal(statSync(join(folder, segmentsOf(folder)[0]!)).size, end)
    else t.same(segmentsOf(folder), [])
  }
})

t.test('zeros at the end, as a machine that went down leaves them, are cut', async (t) => {
  const whole = await bytesOfLog(t, 3)
  const folder = withSegment(t, Buffer.concat([whole, Buffer.alloc(5_000)]))
  const found = await reopened(folder)
  t.same(found, { lastSeq: 3, cut: { position: whole.length, bytes: 5_000 }, content: entriesUpTo(3) })
})

t.test('a flipped byte is an error, or costs nothing but a tail that is told of', async (t) => {
  const whole = await bytesOfLog(t, 4, { syncEach: true })
  const ends = blockEnds(whole)
  for (let at = 0; at < whole.length; at++) {
    const bytes = Buffer.from(whole)
    bytes[at]! ^= 0x40
    const folder = withSegment(t, bytes)
    const found = await reopened(folder).catch((error: unknown) => error)
    const inLast = at >= ends.at(-2)!
    if (inLast) t.match(found, { content: entriesUpTo(3), cut: { position: ends.at(-2)! } }, `byte ${at}`)
    else {
      t.type(found, LogCorruptError, `byte ${at}`)
      const offset = at < 64 ? 0 : ends.findLast((end) => end <= at)
      t.match(found, { details: { segment: join(folder, segmentsOf(folder)[0]!), offset } }, `byte ${at}`)
      t.same(readFileSync(join(folder, segmentsOf(folder)[0]!)), bytes, 'nothing was changed')
    }
  }
})

t.test('damage names the runs of the block', async (t) => {
  const whole = await bytesOfLog(t, 4, { syncEach: true })
  const at = blockEnds(whole)[1]! // the block of entry 2
  whole[at + 60]! ^= 1
  const error = await failureOf(reopened(withSegment(t, whole)))
  t.type(error, LogCorruptError)
  t.match(error, { details: { offset: at, runs: [2] } })
})

t.test('a bad block that was never synced is a tail, even where a later one reached the disk', async (t) => {
  const whole = await bytesOfLog(t, 4)
  const ends = blockEnds(whole)
  whole[ends[1]! + 50]! ^= 1
  const found = await reopened(withSegment(t, whole))
  t.match(found, { lastSeq: 1, cut: { position: ends[1]!, bytes: whole.length - ends[1]! }, content: ['entry 1'] })
})

t.test('a missing or shortened segment in the middle is an error', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, { segmentBytes: 1_000 })
  const [, second, third] = segmentsOf(folder)
  const bytes = readFileSync(join(folder, second!))
  writeFileSync(join(folder, second!), bytes.subarray(0, -8))
  const error = await failureOf(reopened(folder))
  t.type(error, LogCorruptError)
  t.match(error, { details: { segment: join(folder, second!) } })
  writeFileSync(join(folder, second!), bytes)
  t.match(await reopened(folder), { lastSeq: 50 })
  t.ok(third)
  rmSync(join(folder, second!))
  await t.rejects(reopened(folder), LogCorruptError)
})

t.test('missing first segments are an error, unless they were given up', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, { segmentBytes: 1_000 })
  const [first, second, third, fourth] = segmentsOf(folder)
  const store = new FileStore(folder)
  await store.open()
  await store.dropBefore(Number.parseInt(third!.slice(0, 16), 16))
  await store.close()
  t.same(segmentsOf(folder)[0], third)
  t.match(await reopened(folder), { lastSeq: 50 })
  const bytes = readFileSync(join(folder, third!))
  rmSync(join(folder, third!))
  const error = await failureOf(reopened(folder))
  t.type(error, LogCorruptError)
  const note = fourth!.replace('.log', '.begin')
  t.match(error, { message: `no file ${note} says`, details: { segment: join(folder, fourth!), offset: 0 } })
  writeFileSync(join(folder, third!), bytes)
  for (const early of [first!, second!])
    t.notOk(segmentsOf(folder).includes(early), 'they were given up one by one, behind one note')
  t.match(await reopened(folder), { lastSeq: 50 })
})

t.test('a process that dies when it has noted what it gives up loses nothing', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, { segmentBytes: 1_000 })
  const third = segmentsOf(folder)[2]!
  writeFileSync(join(folder, third.replace('.log', '.begin')), '')
  t.match(await reopened(folder), { lastSeq: 50, content: entriesUpTo(50) })
})

t.test('a missing block is an error that names its entry, also where all others are whole', async (t) => {
  const whole = await bytesOfLog(t, 4)
  const [, first, second] = blockEnds(whole)
  const bytes = Buffer.concat([whole.subarray(0, first), whole.subarray(second)])
  const error = await failureOf(reopened(withSegment(t, bytes)))
  t.type(error, LogCorruptError)
  t.match(error, { message: /entry 2 was expected and 3 follows/, details: { offset: first, runs: [3] } })
})

t.test('a missing segment of repeated entries is an error, although no number is missing', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 100 })
  await store.open()
  await store.append(blockOf(1, [1], 100))
  await store.append({ ...blockOf(1, [1], 100), carried: true })
  await store.append(blockOf(2, [1], 100))
  await store.close()
  const [, second] = segmentsOf(folder)
  rmSync(join(folder, second!))
  const error = await failureOf(reopened(folder))
  t.type(error, LogCorruptError)
  t.match(error, { message: /the segment ends after/ })
})

t.test('a missing block of repeated entries is an error, although no number is missing', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  for (const carried of [false, true, true, true, false])
    await store.append({ ...blockOf(carried ? 1 : store.bytes > 100 ? 2 : 1), carried })
  await store.close()
  const whole = readFileSync(join(folder, segmentsOf(folder)[0]!))
  const [, , second, third] = blockEnds(whole)
  const error = await failureOf(
    reopened(withSegment(t, Buffer.concat([whole.subarray(0, second), whole.subarray(third)]))),
  )
  t.type(error, LogCorruptError)
  t.match(error, { message: /1 of the blocks with repeated entries are missing/, details: { offset: second } })
})

t.test('a block of an earlier process behind one of a later process is an error', async (t) => {
  const header = (await bytesOfLog(t, 1)).subarray(0, 64)
  const blocks = [encodeBlock(blockOf(1), 2, 0, 0), encodeBlock(blockOf(2), 1, 0, 0)]
  const error = await failureOf(reopened(withSegment(t, Buffer.concat([header, ...blocks]))))
  t.type(error, LogCorruptError)
  t.match(error, { message: /incarnation 1 stands behind one of 2/ })
})

t.test('a log of a later format is refused with both versions', async (t) => {
  const whole = await bytesOfLog(t, 1)
  whole.writeUInt32LE(FORMAT + 1, 8)
  whole.writeUInt32LE(crc32(whole.subarray(16, 64), crc32(whole.subarray(0, 12))), 12)
  const error = await failureOf(reopened(withSegment(t, whole)))
  t.type(error, LogVersionError)
  t.match(error, { details: { format: FORMAT + 1, supported: FORMAT } })
})

const FORMATS = ['1', '2', '2-noted', '3', '4']
for (const format of FORMATS)
  t.test(`the bytes of format ${format} are those that were checked in`, async (t) => {
    const file = fileURLToPath(new URL(`../../../test/fixtures/durability/format-${format}.base64`, import.meta.url))
    const bytes = Buffer.from(readFileSync(file, 'utf8'), 'base64')
    t.same(await reopened(withSegment(t, bytes)), { lastSeq: 3, cut: undefined, content: entriesUpTo(3) })
    if (format === FORMATS.at(-1))
      t.same(withoutTime(await bytesOfLog(t, 3)).toString('hex'), withoutTime(bytes).toString('hex'))
  })

/** The bytes of a log of one segment whose blocks have an entry each, of a run with the entry's number. */
async function bytesOfLog(t: Test, blocks: number, { syncEach = false } = {}): Promise<Buffer> {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  for (let seq = 1; seq <= blocks; seq++) {
    await store.append(blockOf(seq, [seq]))
    if (syncEach) await store.sync()
  }
  await store.close()
  return readFileSync(join(folder, segmentsOf(folder)[0]!))
}

/** Ends of the header and of each block, by the format's own description. */
function blockEnds(segment: Buffer): number[] {
  const ends = [64]
  while (ends.at(-1)! < segment.length) {
    const at = ends.at(-1)!
    ends.push(at + Math.ceil((48 + segment.readUInt32LE(at + 8)) / 8) * 8)
  }
  return ends
}

function withSegment(t: Test, bytes: Buffer): string {
  const folder = folderOf(t)
  writeFileSync(join(folder, `${'0'.repeat(16)}.log`), bytes)
  return folder
}

/** Without the moment at which the segment was created, its marks, and the checksum over them. */
function withoutTime(segment: Buffer): Buffer {
  return Buffer.concat([
    segment.subarray(0, 12),
    segment.subarray(16, 24),
    segment.subarray(32, 40),
    segment.subarray(56),
  ])
}
