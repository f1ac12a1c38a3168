/** Logs that were damaged on the disk, and their repair. */
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { examineLog, repairLog } from '../../src/runtime/durability/log-tools.ts'
import {
  BLOCK_HEADER_BYTES,
  encodeBlock,
  FORMAT,
  readBlock,
  SEGMENT_HEADER_BYTES,
} from '../../src/runtime/store/block-format.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { type LogFile, type LogFiles, realFiles } from '../../src/runtime/store/log-files.ts'
import { LogCorruptError, LogHeldError, LogVersionError } from '../../src/shared/errors.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { blockOf, entriesUpTo } from './blocks.ts'
import { copyOf, deskLog, deskOn, questionOf, runsIn } from './damaged-logs.ts'
import { encoded } from './log-entries.ts'
import { failureOf, folderOf, reopened, segmentsOf, written } from './log-folders.ts'

// A damaged log is repaired: it gives up the runs that may have lost something, and no others.

const ALL = { dropRuns: true, acceptLoss: true }
const SEEDS = howMany(2, 1_000)
const original = await deskLog(t)
const whole = await runsIn(original)
const indexOf = (id: string): number => Number(Reflect.get(whole.get(id)![0]!, 'run'))

/** Blocks of a log, with their place. */
function blocksOf(path: string) {
  return segmentsOf(path).flatMap((name) => {
    const segment = join(path, name)
    const bytes = readFileSync(segment)
    const blocks: { segment: string; at: number; bytes: number; runs: readonly number[]; carried: boolean }[] = []
    for (let at = SEGMENT_HEADER_BYTES; at < bytes.length; ) {
      const block = readBlock(bytes, at)!
      blocks.push({ segment, at, bytes: block.bytes, runs: block.runs, carried: block.carried })
      at += block.bytes
    }
    return blocks
  })
}

function change(segment: string, act: (bytes: Buffer) => Buffer | undefined): void {
  const bytes = readFileSync(segment)
  writeFileSync(segment, act(bytes) ?? bytes)
}

const opening = (path: string) => {
  const store = new FileStore(path)
  return failureOf(store.open().finally(() => store.close()))
}

/** Repairs the log, and checks that each run is either given up, and named, or has all that it had. */
async function repaired(t: Test, path: string, what: string) {
  const { tail } = await examineLog(path, realFiles) // opening cuts it
  const error = await opening(path)
  const { found, bytes } = await repairLog(path, ALL)
  const isDamaged = error instanceof LogCorruptError
  if (found.damages.length > 0 !== isDamaged)
    t.fail(`${what}: opening said ${error}, the repair found ${found.damages.length}`)
  const runs = await runsIn(path)
  for (const [id, entries] of runs) {
    const all = whole.get(id)!
    // Behind the last sync the machine may have died: what is cut off there is no damage.
    const expected = tail ? all.slice(0, entries.length) : all
    if (!isDeepStrictEqual(entries, expected)) t.fail(`${what}: run "${id}" is kept and lacks something`)
  }
  const lost = [...whole.keys()].filter((id) => !runs.has(id))
  const named = found.touched.map(({ id }) => id)
  const unnamed = lost.filter((id) => !named.includes(id))
  if (unnamed.length > found.headless && found.untold.places === 0 && !tail)
    t.fail(`${what}: ${unnamed} are lost, and neither named nor counted, and no place is said to hide any`)
  if (named.some((id) => runs.has(id))) t.fail(`${what}: ${named} are named, and not all of them are lost`)
  const again = await opening(path)
  if (again) t.fail(`${what}: afterwards ${again}`)
  t.same((await examineLog(path, realFiles)).damages, [])
  return { found, bytes, lost, kept: [...runs.keys()] }
}

t.test('a log without damage is left as it is', async (t) => {
  const path = copyOf(t, original)
  const before = segmentsOf(path).map((name) => readFileSync(join(path, name)))
  const { bytes, lost } = await repaired(t, path, 'nothing')
  t.same([bytes, lost], [undefined, []])
  t.same(
    segmentsOf(path).map((name) => readFileSync(join(path, name))),
    before,
  )
  t.ok(before.length > 4, `${before.length} segments`)
  t.ok(blocksOf(path).some(({ carried }) => carried))
})

t.test('a damaged block costs the runs that have entries there, and the others go on', async (t) => {
  const path = copyOf(t, original)
  const block = blocksOf(path).findLast(({ runs }) => runs.length === 1 && runs[0] === indexOf('ended 12'))!
  change(block.segment, (bytes) => {
    bytes[block.at + block.bytes - 9]! ^= 1
    return undefined
  })
  const { lost, found: damaged } = await repaired(t, path, 'a flipped byte')
  t.same(lost, ['ended 12'])
  t.match(damaged.damages, [{ offset: block.at, bytes: block.bytes, runs: [{ id: 'ended 12' }], ofTeam: false }])
  t.equal(damaged.damages.length, 1)

  const { team, server } = await deskOn(t, path)
  await team.start()
  t.equal(team.getRun('ended 12'), undefined)
  t.match(await team.getRun('ended 13')!.result, { success: true, finalOutput: /^13 was done/ })
  const [asks, talks] = [team.getRun('asks')!, team.getRun('talks')!]
  await asks.answer(await questionOf(asks), 'yes')
  const { finalOutput, error } = await asks.result
  const heard = Array.from({ length: 14 }, (_, n) => `step ${n + 1}`)
  t.equal(finalOutput, `one was done | yes | step one,${heard}`, error?.message ?? 'ann has the state that it had')
  await talks.answer(await questionOf(talks), 'yes')
  t.match(await talks.result, { success: true, finalOutput: /^yes: / })
  t.equal(server.calls.length, 1, 'no call of a model is made again')
  t.equal(await team.getAgent('bob')!.run('count up'), '15', 'shared values are there')
  t.match(await team.execute('ann step 12', { runId: 'ended 12' }), { success: true, finalOutput: '12 was done' })
})

t.test('runs that have copies of what a damaged run said are given up with it', async (t) => {
  for (const [damaged, expected] of [
    ['ended 8', ['ended 8', 'ended 9', 'ended 10']],
    ['ended 10', ['ended 10']],
  ] as const) {
    const path = copyOf(t, original)
    const block = blocksOf(path).find(({ runs }) => runs.length === 1 && runs[0] === indexOf(damaged))!
    change(block.segment, (bytes) => {
      bytes[block.at + block.bytes - 9]! ^= 1
      return undefined
    })
    const { lost } = await repaired(t, path, damaged)
    t.same(lost, expected)
  }
})

t.test('a run that stood in a damaged block alone is counted, or it is said that such may be', async (t) => {
  const original = join(folderOf(t), 'log')
  const store = new FileStore(original)
  await store.open()
  for (const run of [1, 2, 3]) {
    const of = { run, at: 1_000 }
    const launched = { id: `run ${run}`, query: 'go', startedAt: 1_000, metadata: {}, models: {}, timeoutMs: 1 }
    const firstSeq = run * 16 - 8
    const entries = encoded([
      { kind: 'run.launched', seq: firstSeq, ...of, ...launched, priority: 0, target: 1, own: false },
      { kind: 'run.finished', seq: firstSeq + 8, ...of, error: null },
    ])
    await store.append({ firstSeq, lastSeq: firstSeq + 15, carried: false, runs: [run], entries })
    await store.sync()
  }
  await store.close()
  const block = blocksOf(original)[1]!
  const judged = async (damage: (bytes: Buffer) => unknown) => {
    const path = copyOf(t, original)
    change(join(path, basename(block.segment)), (bytes) => void damage(bytes) as undefined)
    const { headless, touched, untold } = await examineLog(path, realFiles)
    return { headless, touched, untold }
  }
  t.same(await judged((bytes) => bytes.writeInt8(1, block.at + block.bytes - 9)), {
    headless: 1,
    touched: [],
    untold: { places: 0, bytes: 0 },
  })
  t.same(await judged((bytes) => bytes.fill(0, block.at, block.at + block.bytes)), {
    headless: 0,
    touched: [],
    untold: { places: 1, bytes: block.bytes },
  })
})

t.test('zeros, a shortened and a missing segment, a missing block and a late block are repaired', async (t) => {
  const blocks = blocksOf(original)
  const middle = blocks[Math.floor(blocks.length * 0.8)]!
  const segments = segmentsOf(original)
  const late = segments.at(-2)!
  const damages: Record<string, (path: string) => RegExp> = {
    'a page of zeros': (path) => {
      change(join(path, basename(middle.segment)), (bytes) =>
        bytes.fill(0, middle.at + 8, Math.min(bytes.length, middle.at + 1_500)),
      )
      return /^there are zeros|^a block is damaged/
    },
    'a segment that ends early': (path) => {
      truncateSync(join(path, late), 2_000)
      return /block is damaged|the segment ends after/
    },
    'a missing segment': (path) => {
      rmSync(join(path, late))
      return /the segment ends after/
    },
    'missing first segments': (path) => {
      for (const name of segments.slice(0, 2)) rmSync(join(path, name))
      return /bytes before it are missing/
    },
    'a missing block': (path) => {
      const at = blocks.findLastIndex(
        (block, i) => block.at > SEGMENT_HEADER_BYTES && !block.carried && blocks[i + 1]?.segment === block.segment,
      )
      const [gone, next] = [blocks[at]!, blocks[at + 1]!]
      const segment = join(path, basename(gone.segment))
      change(segment, (bytes) => Buffer.concat([bytes.subarray(0, gone.at), bytes.subarray(next.at)]))
      return /^entry \d+ was expected and \d+ follows/
    },
    'a block of a process that had lost the log': (path) => {
      change(join(path, segments.at(-1)!), (bytes) => {
        const entries = Buffer.alloc(0)
        const stale = encodeBlock({ firstSeq: 8, lastSeq: 15, carried: false, runs: [3], entries }, 1, 0, 0)
        return Buffer.concat([bytes, stale])
      })
      return /its process had lost the log/
    },
    'a damaged header of a segment': (path) => {
      change(join(path, late), (bytes) => bytes.fill(7, 12, 20))
      return /the header of the segment is damaged/
    },
  }
  for (const [what, damage] of Object.entries(damages)) {
    const path = copyOf(t, original)
    const says = damage(path)
    const { found, lost, kept } = await repaired(t, path, what)
    t.match(found.damages[0], { found: says }, what)
    t.ok(kept.length >= 6, `${what}: ${kept.length} runs are kept`)
    if (/late|lost the log|header/.test(what)) t.same(lost, [], what)
    else t.ok(lost.length > 0, `${what}: ${lost}`)
    t.comment(`${what}: ${lost.length} of ${whole.size} runs are given up`)
  }
})

t.test('whatever the damage, a run that is kept has all that it had', async (t) => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const dice = new Dice(seed)
    const path = copyOf(t, original)
    for (let n = dice.upTo(3); n >= 0; n--) {
      const name = dice.pick(segmentsOf(path))
      const segment = join(path, name)
      const { length } = readFileSync(segment)
      if (length < 200) continue
      const at = dice.upTo(length)
      const kind = dice.upTo(6)
      if (kind === 0) truncateSync(segment, at)
      else if (kind === 1) rmSync(segment)
      else
        change(segment, (bytes) => {
          if (kind === 2) return bytes.fill(0, at, Math.min(length, at + 1 + dice.upTo(4_096)))
          if (kind === 3) return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 8 * dice.upTo(200))])
          for (let i = dice.upTo(4); i >= 0; i--) bytes[Math.min(length - 1, at + dice.upTo(64))]! ^= 1 << dice.upTo(8)
          return undefined
        })
    }
    await repaired(t, path, `seed ${seed}`)
    rmSync(path, { recursive: true })
  }
})

/** File system of a process that dies at its nth act, in the middle of a write. */
class MortalFiles implements LogFiles {
  acts = 0
  readonly #dies: number

  constructor(dies: number) {
    this.#dies = dies
  }

  async #act<T>(act: () => Promise<T>, half: () => Promise<unknown> = async () => {}): Promise<T> {
    this.acts += 1
    if (this.acts === this.#dies) await half()
    if (this.acts >= this.#dies) throw new Error('the process is dead')
    return act()
  }

  folder = realFiles.folder
  list = realFiles.list
  read = realFiles.read
  statusOf = realFiles.statusOf
  rename = (from: string, to: string) => this.#act(() => realFiles.rename(from, to))
  remove = (path: string) => this.#act(() => realFiles.remove(path))
  syncFolder = (path: string) => this.#act(() => realFiles.syncFolder(path))
  create = async (path: string) => this.#around(await this.#act(() => realFiles.create(path)))
  openExisting = async (path: string) => this.#around(await this.#act(() => realFiles.openExisting(path)))

  #around(file: LogFile): LogFile {
    return {
      write: (bytes, position) =>
        this.#act(
          () => file.write(bytes, position),
          () => file.write(bytes.subarray(0, bytes.length >> 1), position),
        ),
      sync: () => this.#act(() => file.sync()),
      truncate: (bytes) => this.#act(() => file.truncate(bytes)),
      close: () => file.close(), // the system closes the files of a dead process
    }
  }
}

t.test('a repair that is killed at any moment leaves the damaged log or the repaired one', async (t) => {
  const damaged = copyOf(t, original)
  const block = blocksOf(damaged).findLast(({ runs }) => runs.length === 1 && runs[0] === indexOf('ended 12'))!
  change(block.segment, (bytes) => bytes.fill(1, block.at + BLOCK_HEADER_BYTES, block.at + block.bytes))
  const before = await opening(damaged)
  t.type(before, LogCorruptError)
  const calm = copyOf(t, damaged)
  await repairLog(calm, ALL)
  const after = await runsIn(calm)
  const seen = { old: 0, new: 0 }
  for (let dies = 1; ; dies++) {
    const path = copyOf(t, damaged)
    const files = new MortalFiles(dies)
    const error = await failureOf(repairLog(path, { ...ALL, files }))
    if (!error) break
    t.match(error, { message: 'the process is dead' })
    const found = await opening(path)
    if (found) {
      seen.old += 1
      t.type(found, LogCorruptError)
      t.equal((found as LogCorruptError).details.offset, (before as LogCorruptError).details.offset)
      t.same(
        readdirSync(path).filter((name) => name.endsWith('.tmp')),
        [],
        'what was begun is removed',
      )
      t.ok((await repairLog(path, ALL)).bytes)
    } else seen.new += 1
    t.same(await runsIn(path), after, `killed at act ${dies}`)
    rmSync(path, { recursive: true })
  }
  t.ok(seen.old > 5 && seen.new > 3, JSON.stringify(seen))
})

t.test('a log that a process has is not repaired', async (t) => {
  const path = copyOf(t, original)
  const store = new FileStore(path)
  await store.open()
  await t.rejects(repairLog(path, ALL), LogHeldError)
  await store.close()
})

// Logs that were damaged on the disk: what is an error, and what is the tail of a process or machine that died.

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
