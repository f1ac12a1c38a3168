/** The log on disk: what it does beyond the contract, where disks and processes fail. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { LogCorruptError, LogHeldError, LogLostError, LogVersionError } from '../../src/errors.ts'
import { encodeBlock } from '../../src/runtime/store/block-format.ts'
import { FileStore, type FileStoreOptions } from '../../src/runtime/store/file-store.ts'
import { virtualClock } from '../../src/testing.ts'
import { appendAll, blockOf, contentOf, entriesUpTo } from './blocks.ts'
import { FaultyFiles } from './faulty-files.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'
import { storeContract } from './store-contract.ts'

const small = { segmentBytes: 1_000 }

storeContract(
  'in memory',
  () => new MemoryDisk(),
  (disk) => new MemoryStore(disk),
)
storeContract('on files', folderOf, (folder) => new FileStore(folder))
storeContract('on files of few blocks', folderOf, (folder) => new FileStore(folder, small))
storeContract('on files that take a few bytes a write', folderOf, (folder) => {
  const files = new FaultyFiles()
  files.shortest = 13
  return new FileStore(folder, { ...small, files })
})

t.test('a log of several segments is read as one, and each segment is for its owner alone', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, small)
  const segments = segmentsOf(folder)
  t.ok(segments.length > 3)
  t.same(await reopened(folder), { lastSeq: 50, cut: undefined, content: entriesUpTo(50) })
  if (process.platform !== 'win32')
    for (const name of segments) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600)
})

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
  const error = await reopened(withSegment(t, whole)).catch((error: unknown) => error)
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
  await written(folder, 50, small)
  const [, second, third] = segmentsOf(folder)
  const bytes = readFileSync(join(folder, second!))
  writeFileSync(join(folder, second!), bytes.subarray(0, -8))
  const error = await reopened(folder).catch((error: unknown) => error)
  t.type(error, LogCorruptError)
  t.match(error, { details: { segment: join(folder, second!) } })
  writeFileSync(join(folder, second!), bytes)
  t.match(await reopened(folder), { lastSeq: 50 })
  t.ok(third)
  rmSync(join(folder, second!))
  await t.rejects(reopened(folder), LogCorruptError)
})

t.test('a missing block is an error that names its entry, also where all others are whole', async (t) => {
  const whole = await bytesOfLog(t, 4)
  const [, first, second] = blockEnds(whole)
  const bytes = Buffer.concat([whole.subarray(0, first), whole.subarray(second)])
  const error = await reopened(withSegment(t, bytes)).catch((error: unknown) => error)
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
  const error = await reopened(folder).catch((error: unknown) => error)
  t.type(error, LogCorruptError)
  t.match(error, { message: /the segment ends after/ })
})

t.test('a block of an earlier process behind one of a later process is an error', async (t) => {
  const header = (await bytesOfLog(t, 1)).subarray(0, 64)
  const blocks = [encodeBlock(blockOf(1), 2, 0), encodeBlock(blockOf(2), 1, 0)]
  const error = await reopened(withSegment(t, Buffer.concat([header, ...blocks]))).catch((error: unknown) => error)
  t.type(error, LogCorruptError)
  t.match(error, { message: /incarnation 1 stands behind one of 2/ })
})

t.test('opening syncs what the process before had written last', async (t) => {
  const folder = folderOf(t)
  await written(folder, 3)
  const files = new FaultyFiles()
  files.syncFailure = 'EIO'
  const error = await new FileStore(folder, { files }).open().catch((error: unknown) => error)
  t.type(error, LogLostError)
  t.match(error, { message: /cannot be opened: .*EIO/ })
  t.match(await reopened(folder), { lastSeq: 3 })
})

t.test('a log of a later format is refused with both versions', async (t) => {
  const whole = await bytesOfLog(t, 1)
  whole.writeUInt32LE(2, 8)
  whole.writeUInt32LE(crc32(whole.subarray(16, 64), crc32(whole.subarray(0, 12))), 12)
  const error = await reopened(withSegment(t, whole)).catch((error: unknown) => error)
  t.type(error, LogVersionError)
  t.match(error, { details: { format: 2, supported: 1 } })
})

t.test('the bytes of format 1 are those that were checked in', async (t) => {
  const file = fileURLToPath(new URL('../../../test/fixtures/durability/format-1.base64', import.meta.url))
  const bytes = Buffer.from(readFileSync(file, 'utf8'), 'base64')
  t.same(await reopened(withSegment(t, bytes)), { lastSeq: 3, cut: undefined, content: entriesUpTo(3) })
  t.same(withoutTime(await bytesOfLog(t, 3)).toString('hex'), withoutTime(bytes).toString('hex'))
})

t.test('a full disk makes blocks wait, and nothing is lost', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const clock = virtualClock()
  const store = new FileStore(folder, { files, clock })
  await store.open()
  await appendAll(store, 1, 3)
  files.room = 20 // some of the block gets there
  let isWritten = false
  const waiting = appendAll(store, 4, 6).then(() => {
    isWritten = true
  })
  await until(() => store.state === 'full')
  const again = files.refused()
  await clock.advance(1_000)
  await again
  t.equal(store.state, 'full')
  files.room = Number.POSITIVE_INFINITY
  await until(
    () => isWritten,
    () => clock.advance(1_000),
  )
  await waiting
  t.equal(store.state, 'open')
  t.same(await contentOf(store.read()), entriesUpTo(6))
  await store.close()
  t.same(await reopened(folder), { lastSeq: 6, cut: undefined, content: entriesUpTo(6) })
})

t.test('a disk that is full from the first byte on leaves no segment behind', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const clock = virtualClock()
  const store = new FileStore(folder, { files, clock })
  await store.open()
  files.room = 0
  const refused = files.refused()
  const waiting = t.rejects(store.append(blockOf(1)), LogLostError)
  await refused
  await store.close()
  await waiting
  t.same(segmentsOf(folder), [])
})

t.test('a failed write is final: what was written stays, the rest is refused', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const store = new FileStore(folder, { files })
  await store.open()
  await appendAll(store, 1, 3)
  Object.assign(files, { room: 30, writeFailure: 'EIO' })
  const error = await store.append(blockOf(4)).catch((error: unknown) => error)
  t.type(error, LogLostError)
  t.match(error, { message: /EIO/, details: { path: folder } })
  files.room = Number.POSITIVE_INFINITY
  await t.rejects(store.append(blockOf(5)), LogLostError)
  await t.rejects(store.sync(), LogLostError)
  t.equal(store.state, 'lost')
  t.same(await contentOf(store.read()), entriesUpTo(3))
  await store.close()
  t.same(await reopened(folder), { lastSeq: 3, cut: undefined, content: entriesUpTo(3) })
})

t.test('a failed sync is final: nobody knows what the disk has', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const store = new FileStore(folder, { files })
  await store.open()
  await appendAll(store, 1, 3)
  files.syncFailure = 'EIO'
  await t.rejects(store.sync(), LogLostError)
  files.syncFailure = undefined
  await t.rejects(store.sync(), LogLostError)
  await t.rejects(store.append(blockOf(4)), LogLostError)
  await store.close()
  t.match(await reopened(folder), { lastSeq: 3, content: entriesUpTo(3) })
})

t.test('syncs that are asked for together are one', async (t) => {
  const files = new FaultyFiles()
  const store = new FileStore(folderOf(t), { files })
  await store.open()
  await appendAll(store, 1, 3)
  const before = files.syncs
  await Promise.all(Array.from({ length: 20 }, () => store.sync()))
  t.ok(files.syncs - before <= 2, `${files.syncs - before} syncs`)
  await store.close()
})

t.test('a process whose log was taken notices it with its next sync', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  await appendAll(store, 1, 3)
  await store.sync()
  const owner = JSON.parse(readFileSync(join(folder, 'owner'), 'utf8'))
  writeFileSync(join(folder, 'owner'), JSON.stringify({ ...owner, token: 'x', incarnation: 9, pid: 7, host: 'other' }))
  const error = await store.sync().catch((error: unknown) => error)
  t.type(error, LogLostError)
  t.match(error, { message: /process 7 on other/, details: { pid: 7, host: 'other' } })
  await store.close()
  const next = new FileStore(folder)
  t.match(await next.open(), { incarnation: 10, lastSeq: 3 })
  await next.close()
})

t.test(
  'a process that does not see the lock takes the log, and late blocks of the first one harm nothing',
  async (t) => {
    const folder = folderOf(t)
    const files = new FaultyFiles()
    files.folder = async () => 'another machine' // so that its lock has another name
    const [first, second] = [new FileStore(folder, { files }), new FileStore(folder)]
    await first.open()
    await appendAll(first, 1, 3)
    t.same(await second.open(), { incarnation: 2, lastSeq: 3, cut: undefined })
    await appendAll(first, 4, 5) // it does not know yet
    await appendAll(second, 4, 6, 100)
    await t.rejects(first.sync(), LogLostError)
    await t.rejects(first.append(blockOf(6)), LogLostError)
    await first.close()
    await appendAll(second, 7, 8)
    await second.sync()
    await second.close()
    t.same(await reopened(folder), { lastSeq: 8, cut: undefined, content: entriesUpTo(8) })
  },
)

t.test('a log is free again when its process was killed, and a living one keeps others out', async (t) => {
  const folder = folderOf(t)
  const writer = fileURLToPath(new URL('../fixtures/durability/writes-until-killed.js', import.meta.url))
  let last = 0
  for (let round = 1; round <= 5; round++) {
    const child = spawn(process.execPath, [writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = once(child, 'exit')
    t.teardown(() => child.kill('SIGKILL'))
    const [line] = await once(createInterface(child.stdout), 'line')
    t.match(JSON.parse(String(line)), { incarnation: round * 2 - 1 })
    const refused = await new FileStore(folder).open().catch((error: unknown) => error)
    t.type(refused, LogHeldError)
    t.match(refused, { details: { pid: child.pid! } })
    child.kill('SIGKILL')
    await exited
    const found = await reopened(folder)
    t.ok(found.lastSeq > last, 'what was told as written stands there')
    t.same(found.content, entriesUpTo(found.lastSeq))
    last = found.lastSeq
  }
})

t.test('a folder that cannot be used is an error that names it', async (t) => {
  const file = join(folderOf(t), 'file')
  writeFileSync(file, 'x')
  const error = await new FileStore(file).open().catch((error: unknown) => error)
  t.type(error, LogLostError)
  t.match(error, { message: /cannot be opened/, details: { path: file } })
})

t.test('a thousand openings leave one segment for each that wrote', async (t) => {
  const folder = folderOf(t)
  for (let round = 1; round <= 1_000; round++) {
    const store = new FileStore(folder)
    const { incarnation, lastSeq } = await store.open()
    if (incarnation !== round || lastSeq !== Math.floor((round - 1) / 100)) t.fail(`round ${round}`)
    if (round % 100 === 0) await store.append(blockOf(round / 100))
    await store.close()
  }
  t.equal(segmentsOf(folder).length, 10)
})

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'dramatis-log-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Lets the event loop turn until it is so. */
async function until(isSo: () => boolean, meanwhile = async () => {}): Promise<void> {
  while (!isSo()) {
    await meanwhile()
    await new Promise(setImmediate)
  }
}

async function written(folder: string, blocks: number, options: FileStoreOptions = {}, syncEach = false) {
  const store = new FileStore(folder, options)
  await store.open()
  for (let seq = 1; seq <= blocks; seq++) {
    await store.append(blockOf(seq))
    if (syncEach) await store.sync()
  }
  await store.close()
}

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

async function reopened(folder: string) {
  const store = new FileStore(folder)
  const { lastSeq, cut } = await store.open()
  try {
    return { lastSeq, cut, content: await contentOf(store.read()) }
  } finally {
    await store.close()
  }
}

function segmentsOf(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .sort()
}

/** Without the moment at which the segment was created, and the checksum over it. */
function withoutTime(segment: Buffer): Buffer {
  return Buffer.concat([segment.subarray(0, 12), segment.subarray(16, 24), segment.subarray(32)])
}
