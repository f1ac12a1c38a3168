/** The log on disk: where disks and processes fail, what others do to its files, and several processes of one log. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { logStoreContract } from '../../src/runtime/store/contract.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { realFiles } from '../../src/runtime/store/log-files.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { LogHeldError, LogLostError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'
import { appendAll, blockOf, contentOf, entriesUpTo } from './blocks.ts'
import { begin, type Depot, heard, type Line, live } from './depot.ts'
import { deskOf, first as firstOf, type Script } from './desk-team.ts'
import { FaultyFiles } from './faulty-files.ts'
import { failureOf, folderOf, reopened, segmentsOf, written } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

// The log on disk: what it does beyond the contract, where disks and processes fail.

const small = { segmentBytes: 1_000 }

const contracts = {
  'in memory': logStoreContract(
    () => new MemoryDisk(),
    (disk) => new MemoryStore(disk),
  ),
  'on files': onFiles((folder) => new FileStore(folder)),
  'on files of few blocks': onFiles((folder) => new FileStore(folder, small)),
  'on files that take a few bytes a write': onFiles((folder) => {
    const files = new FaultyFiles()
    files.shortest = 13
    return new FileStore(folder, { ...small, files })
  }),
}
for (const [where, tests] of Object.entries(contracts))
  for (const { name, run } of tests) t.test(`${where}: ${name}`, run)

function onFiles(make: (folder: string) => FileStore) {
  return logStoreContract(() => folderOf(t), make)
}

t.test('a log of several segments is read as one, and each segment is for its owner alone', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, small)
  const segments = segmentsOf(folder)
  t.ok(segments.length > 3)
  t.same(await reopened(folder), { lastSeq: 50, cut: undefined, content: entriesUpTo(50) })
  if (process.platform !== 'win32')
    for (const name of segments) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600)
})

t.test('who reads from a late position on does not read what stands before, also within a segment', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const store = new FileStore(folder, { files })
  await store.open()
  await appendAll(store, 1, 8, 2 ** 20)
  const position = await store.append(blockOf(9, [0], 3 * 2 ** 20)) // larger than what is read at once
  await store.append(blockOf(10))
  t.same(await contentOf(store.read()), entriesUpTo(10))
  files.readBytes = 0
  t.same(await contentOf(store.read({ from: position })), ['entry 9', 'entry 10'])
  t.ok(files.readBytes < 5 * 2 ** 20, `${files.readBytes} bytes were read`)
  await store.close()
})

t.test('who stops at a block does not read what stands behind', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const store = new FileStore(folder, { files })
  await store.open()
  await appendAll(store, 1, 8, 2 ** 20)
  files.readBytes = 0
  for await (const block of store.read()) if (block.firstSeq === 2) break
  t.ok(files.readBytes < 5 * 2 ** 20, `${files.readBytes} bytes were read`)
  await store.close()
})

t.test('opening syncs what the process before had written last', async (t) => {
  const folder = folderOf(t)
  await written(folder, 3)
  const files = new FaultyFiles()
  files.syncFailure = 'EIO'
  const error = await failureOf(new FileStore(folder, { files }).open())
  t.type(error, LogLostError)
  t.match(error, { message: /cannot be opened: .*EIO/ })
  t.match(await reopened(folder), { lastSeq: 3 })
})

t.test('a full disk makes blocks wait, and nothing is lost', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const clock = virtualClock()
  const rooms: boolean[] = []
  const store = new FileStore(folder, { files, clock, onRoom: (hasRoom) => rooms.push(hasRoom) })
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
  t.same(rooms, [false, true], 'each is told once, however often it was tried')
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
  const waiting = t.rejects(store.append(blockOf(1)), {
    code: 'LOG_LOST',
    message: /disk of the log in .* has no room/,
  })
  await refused
  await store.close()
  await waiting
  t.same(segmentsOf(folder), [])
})

t.test('a store for a command refuses blocks when the disk is full, and what stands in it stays', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const store = new FileStore(folder, { files, waitsForRoom: false })
  await store.open()
  await appendAll(store, 1, 3)
  files.room = 20
  await t.rejects(store.append(blockOf(4)), { code: 'LOG_LOST', message: /has no room: .*Make room/ })
  await store.close()
  t.match(await reopened(folder), { lastSeq: 3, cut: undefined })
})

t.test('a failed write is final: what was written stays, the rest is refused', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  const store = new FileStore(folder, { files })
  await store.open()
  await appendAll(store, 1, 3)
  Object.assign(files, { room: 30, writeFailure: 'EIO' })
  const error = await failureOf(store.append(blockOf(4)))
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

t.test('segments that lie wholly before a position are given up, the one that it is in is not', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, small)
  await store.open()
  await appendAll(store, 1, 50)
  const before = segmentsOf(folder)
  const positions = before.map((name) => Number.parseInt(name.slice(0, 16), 16))
  const bytes = store.bytes
  await store.dropBefore(positions[2]! - 1)
  t.same(segmentsOf(folder), before.slice(1))
  await store.dropBefore(positions[2]!)
  t.same(segmentsOf(folder), before.slice(2))
  t.equal(store.bytes, bytes - positions[2]!)
  await store.dropBefore(Number.MAX_SAFE_INTEGER)
  t.same(segmentsOf(folder), before.slice(-1), 'the last one stays')
  await store.close()
  t.match(await reopened(folder), { lastSeq: 50 })
})

t.test('blocks that are appended in one task go out with one write', async (t) => {
  const files = new FaultyFiles()
  const store = new FileStore(folderOf(t), { files })
  await store.open()
  await store.append(blockOf(1))
  await store.sync() // the segment is there, and nothing is being written
  const before = files.writes
  await appendAll(store, 2, 40)
  t.equal(files.writes - before, 1)
  await store.close()
})

t.test('syncs while segments end and begin harm nothing', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 200 })
  await store.open()
  let isWritten = false
  const writes = appendAll(store, 1, 300).then(() => {
    isWritten = true
  })
  await until(
    () => isWritten,
    () => Promise.all([store.sync(), store.sync()]).then(() => {}),
  )
  await writes
  await store.close()
  t.same(await reopened(folder), { lastSeq: 300, cut: undefined, content: entriesUpTo(300) })
})

t.test('a sync during the close of a segment is of no file that is being closed', async (t) => {
  const files = new FaultyFiles()
  const store = new FileStore(folderOf(t), { files, segmentBytes: 100 })
  await store.open()
  let synced: Promise<void> | undefined
  files.whileClosing = () => {
    synced ??= store.sync()
    return synced
  }
  await store.append(blockOf(1, [1], 100))
  await store.append(blockOf(2, [1], 100))
  t.ok(synced)
  await synced
  t.equal(store.state, 'open')
  await store.close()
})

t.test('a full store that is closed syncs what it had written', async (t) => {
  const files = new FaultyFiles()
  const store = new FileStore(folderOf(t), { files, clock: virtualClock() })
  await store.open()
  await appendAll(store, 1, 3)
  files.room = 0
  const waiting = failureOf(store.append(blockOf(4)))
  await until(() => store.state === 'full')
  const before = files.syncs
  await store.close()
  t.equal(files.syncs - before, 1)
  t.type(await waiting, LogLostError)
})

t.test('a store whose opening failed can be closed, and has given the log free', async (t) => {
  const folder = folderOf(t)
  await written(folder, 3)
  const files = new FaultyFiles()
  files.syncFailure = 'EIO'
  const store = new FileStore(folder, { files })
  t.type(await failureOf(store.open()), LogLostError)
  await store.close()
  await store.close()
  t.match(await reopened(folder), { lastSeq: 3 })
})

t.test('one that is closed while it opens gives the log free', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  const opened = store.open()
  t.type(await failureOf(store.append(blockOf(1))), LogLostError)
  await store.close()
  await opened
  t.equal(store.state, 'closed')
  t.match(await reopened(folder), { lastSeq: 0 })
  t.match(await failureOf(store.open()), { message: 'a store is opened once: make another one' })
})

t.test('an opening that fails leaves no half-written owner behind', async (t) => {
  const folder = folderOf(t)
  const files = new FaultyFiles()
  files.rename = async () => {
    throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
  }
  t.type(await failureOf(new FileStore(folder, { files }).open()), LogLostError)
  t.same(readdirSync(folder), [])
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
  writeFileSync(join(folder, 'owner'), JSON.stringify(owner))
  await store.sync() // somebody has touched the file, and no more
  writeFileSync(join(folder, 'owner'), JSON.stringify({ ...owner, token: 'x', incarnation: 9, pid: 7, host: 'other' }))
  const error = await failureOf(store.sync())
  t.type(error, LogLostError)
  t.match(error, { message: /process 7 on other/, details: { pid: 7, host: 'other' } })
  await store.close()
  const next = new FileStore(folder)
  t.match(await next.open(), { incarnation: 10, lastSeq: 3 })
  await next.close()
})

t.test('who has a log says so itself, also while the file still names the process before it', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  const owner = { token: 'x', incarnation: 1, pid: 7, host: 'other' }
  writeFileSync(join(folder, 'owner'), JSON.stringify(owner))
  const error = await failureOf(new FileStore(folder).open())
  t.type(error, LogHeldError)
  t.match(error, { details: { pid: process.pid } })
  await store.close()
})

t.test(
  'a process that does not see the lock takes the log, and late blocks of the first one harm nothing',
  async (t) => {
    const folder = folderOf(t)
    const files = new FaultyFiles()
    files.folder = async () => `another machine's ${folder}` // so that its lock has another name
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

t.test('who takes a log reads what its process has synced until then, also while the log was being read', async (t) => {
  for (const segmentBytes of [undefined, 1]) {
    const folder = folderOf(t)
    const elsewhere = new FaultyFiles()
    elsewhere.folder = async () => `another machine's ${folder}` // so that its lock has another name
    const first = new FileStore(folder, { files: elsewhere, ...(segmentBytes && { segmentBytes }) })
    await first.open()
    await appendAll(first, 1, 3)
    await first.sync()
    const files = new FaultyFiles()
    files.rename = async (from, to) => {
      await appendAll(first, 4, 5) // all segments are read, and the owner is not yet another
      await first.sync()
      await realFiles.rename(from, to)
    }
    const second = new FileStore(folder, { files })
    t.match(await second.open(), { incarnation: 2, lastSeq: 5 })
    await appendAll(second, 6, 7)
    await t.rejects(first.sync(), LogLostError)
    await Promise.all([first.close(), second.close()])
    t.same(await reopened(folder), { lastSeq: 7, cut: undefined, content: entriesUpTo(7) })
  }
})

t.test('a log is free again when its process was killed, and a living one keeps others out', async (t) => {
  const folder = folderOf(t)
  const writer = fileURLToPath(new URL('../fixtures/durability/writes-until-killed.js', import.meta.url))
  let last = 0
  for (let round = 1; round <= 5; round++) {
    const child = spawn(process.execPath, [writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = once(child, 'exit')
    t.teardown(() => child.kill('SIGKILL'))
    const [line] = await once(createInterface(child.stdout), 'line')
    const told = JSON.parse(String(line))
    t.equal(told.incarnation, round * 2 - 1)
    const refused = await failureOf(new FileStore(folder).open())
    t.type(refused, LogHeldError)
    t.match(refused, { details: { pid: child.pid! } })
    child.kill('SIGKILL')
    await exited
    const found = await reopened(folder)
    t.ok(found.lastSeq >= told.written && told.written > last, 'what was told as written stands there')
    t.same(found.content, entriesUpTo(found.lastSeq))
    last = found.lastSeq
  }
})

t.test('a folder that cannot be used is an error that names it', async (t) => {
  const file = join(folderOf(t), 'file')
  writeFileSync(file, 'x')
  const error = await failureOf(new FileStore(file).open())
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

/** Lets the event loop turn until it is so. */
async function until(isSo: () => boolean, meanwhile = async () => {}): Promise<void> {
  while (!isSo()) {
    await meanwhile()
    await new Promise(setImmediate)
  }
}

// Files of the log that cannot be read or written, or are none: errors name them, and nobody waits for ever.

const noPipes = process.platform === 'win32' && 'Windows has no named pipes in folders'

t.test('an error while a file is read or written names the file', async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, small)
  const segment = join(folder, segmentsOf(folder)[1]!)
  rmSync(segment)
  mkdirSync(segment) // its reads fail, as those of a disk that is broken
  const named = new RegExp(`illegal operation on a directory, read '.*${segmentsOf(folder)[1]}'`)
  t.match(await failureOf(new FileStore(folder).open()), { code: 'LOG_LOST', message: named })
  t.match(await failureOf(contentOf(readLog(folder))), { code: 'EISDIR', message: named })
  const file = await realFiles.create(join(folder, 'file'))
  await file.close()
  t.match(await failureOf(file.write(new Uint8Array(1), 0)), { message: /'.*file'$/ })
  t.match(await failureOf(file.sync()), { message: /'.*file'$/ })
})

t.test('a pipe in place of a file is refused, and nobody waits at it', { skip: noPipes }, async (t) => {
  const folder = folderOf(t)
  await written(folder, 50, small)
  const segment = join(folder, segmentsOf(folder)[1]!)
  rmSync(segment)
  execFileSync('mkfifo', [segment])
  const named = new RegExp(`not a regular file, open '.*${segmentsOf(folder)[1]}'`)
  t.match(await failureOf(new FileStore(folder).open()), { code: 'LOG_LOST', message: named })
  t.match(await failureOf(contentOf(readLog(folder))), { code: 'EINVAL', message: named })
})

// What others do to the files of a log while a process has it: a rotation of *.log files, a copy put over it, a
// clean-up.

/** Time within which a log that is not written to notices it. */
const NOTICED_MS = 5_000

const size = (path: string) => statSync(path).size
const deeds: Record<string, { does(path: string): void; says: RegExp }> = {
  'is removed': { does: (path) => rmSync(path), says: /\.log of the log was removed/ },
  'is renamed': { does: (path) => renameSync(path, `${path}.1`), says: /\.log of the log was removed/ },
  'is copied and truncated': {
    does(path) {
      copyFileSync(path, `${path}.1`)
      truncateSync(path)
    },
    says: /\.log of the log was cut: it should have \d+ bytes, and has \d+/,
  },
  'loses its last byte': { does: (path) => truncateSync(path, size(path) - 1), says: /of the log was cut/ },
  'is replaced by a copy': {
    does(path) {
      copyFileSync(path, `${path}.copy`)
      renameSync(`${path}.copy`, path)
    },
    says: /\.log of the log was replaced by another one/,
  },
  'is overwritten with something shorter': { does: (path) => writeFileSync(path, 'hello'), says: /of the log was cut/ },
}

async function opened(t: Test) {
  const folder = folderOf(t)
  const clock = virtualClock()
  const lost: string[] = []
  const onLost = ({ message }: Error) => void lost.push(message)
  const store = new FileStore(folder, { clock, segmentBytes: 1_000, onLost })
  await store.open()
  await appendAll(store, 1, 20) // the second segment is half full
  await store.sync()
  const file = (at: number) => join(folder, segmentsOf(folder).at(at)!)
  return { store, clock, folder, file, lost }
}

for (const [what, { does, says }] of Object.entries(deeds)) {
  t.test(`a segment that ${what} while it is written: the next sync fails`, async (t) => {
    const { store, file, lost } = await opened(t)
    does(file(-1))
    await store.append(blockOf(21)) // the file grows, wherever it goes
    await t.rejects(store.sync(), { code: 'LOG_LOST', message: says })
    await t.rejects(store.append(blockOf(22)), { code: 'LOG_LOST', message: says })
    t.match(lost, [says])
    t.equal(store.state, 'lost')
    await store.close()
  })

  for (const [which, at] of Object.entries({ newest: -1, oldest: 0 }))
    t.test(`the ${which} segment ${what} while nothing is written: it is noticed`, async (t) => {
      const { store, clock, file, lost } = await opened(t)
      await clock.advance(NOTICED_MS)
      does(file(at))
      while (store.state !== 'lost') {
        await clock.advance(NOTICED_MS)
        await new Promise(setImmediate)
      }
      t.match(lost, [says])
      await t.rejects(store.sync(), { code: 'LOG_LOST', message: says })
      await store.close()
    })
}

t.test('bytes that others add to the segment that is written are noticed', async (t) => {
  const { store, file } = await opened(t)
  appendFileSync(file(-1), 'hello')
  await t.rejects(store.sync(), { code: 'LOG_LOST', message: /others write there/ })
  await store.close()
})

t.test('what the log does itself is nothing to notice: new segments, old ones given up, a restart', async (t) => {
  const { store, clock, folder } = await opened(t)
  let isOver = false
  const looks = (async () => {
    while (!isOver) {
      await clock.advance(NOTICED_MS)
      await new Promise(setImmediate)
    }
  })()
  for (let seq = 21; seq <= 200; seq++) {
    const position = await store.append(blockOf(seq))
    if (seq % 3 === 0) await store.sync()
    if (seq % 40 === 0) await store.dropBefore(position)
  }
  await store.close()
  const next = new FileStore(folder, { clock, segmentBytes: 1_000 })
  await next.open()
  await appendAll(next, 201, 230)
  await clock.advance(NOTICED_MS)
  await next.sync()
  isOver = true
  await looks
  const content = await contentOf(next.read())
  t.same(content, entriesUpTo(230).slice(-content.length))
  await next.close()
})

t.test('the team of such a log is not ready, and interrupts its runs', async (t) => {
  const path = join(folderOf(t), 'log')
  const errors: string[] = []
  const team = createTeam({
    agents: [{ name: 'ann', module: new URL('../fixtures/durability/old-log-agent.js', import.meta.url) }],
    orchestration: { strategy: 'custom', run: async (script, query) => (await script.request('ann', query)).content },
    stateManagement: { path, syncMs: 1 },
    logger: { ...silent, error: (_fields: object, text: string) => void errors.push(text) },
  })
  t.teardown(() => team.close())
  await team.execute('step one')
  t.match(team.health(), { ready: true, log: { ok: true } })
  const segment = join(path, segmentsOf(path)[0]!)
  const before = readFileSync(segment)
  truncateSync(segment)
  await failureOf(team.execute('step two')) // the sync comes before its end or after
  while (team.health().ready) await new Promise((resolve) => setTimeout(resolve, 1))
  t.match(team.health(), { ready: false, log: { ok: false } })
  t.match(errors, [/the durable log is lost/])
  await t.rejects(team.execute('step three'), { code: 'LOG_LOST', message: /was cut/ })
  t.ok(before.length > size(segment))
})

// Several processes of one service, and one log: one has it, the others are told who, and take over when it is free.

async function depotOf(t: Test): Promise<() => Depot> {
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const killer = { asked: () => {}, answered: () => {} }
  return () => ({ folder: folderOf(t), baseURL: server.baseURL, runs: 1, killer })
}

type Process = ReturnType<typeof begin>

/** The next line with one of these events. Other lines before it are passed over. */
async function next({ lines }: Process, ...events: string[]): Promise<Line> {
  for (let line = await lines.next(); !line.done; line = await lines.next())
    if (events.includes(line.value.event ?? '')) return line.value
  throw new Error(`the process ended before it was ${events.join(' or ')}`)
}

t.test('of two processes at the same moment one has the log; the other is told who, and takes over', async (t) => {
  const depot = await depotOf(t)
  const undisturbed = await live(t, depot(), undefined)
  const here = depot()
  const both = [begin(t, here), begin(t, here)]
  const said = await Promise.all(both.map((each) => next(each, 'started', 'held')))
  t.same(said.map(({ event }) => event).sort(), ['held', 'started'])
  const first = both[said.findIndex(({ event }) => event === 'started')]!
  const second = both[said.findIndex(({ event }) => event === 'held')]!
  t.match(
    said.find(({ event }) => event === 'held'),
    { pid: first.child.pid, host: hostname() },
  )

  await next(first, 'accepted')
  second.child.stdin!.write('again\n')
  t.equal((await next(second, 'held', 'started')).event, 'held', 'as long as the first one lives')
  first.child.kill('SIGKILL')
  await first.exited
  second.child.stdin!.write('again\n')
  await next(second, 'started')
  t.same(await heard(second.lines), undisturbed)
  t.same(await second.exited, [0, null])
})

t.test('a process whose log is taken while it runs leaves its runs to the next one', async (t) => {
  const depot = await depotOf(t)
  const undisturbed = await live(t, depot(), undefined)
  const here = depot()
  const first = begin(t, here, { DEPOT_ANSWERS: 'no' })
  await next(first, 'question')
  const owner = { token: 'another', incarnation: 41, pid: 1, host: 'elsewhere' }
  writeFileSync(join(here.folder, 'log', 'owner'), JSON.stringify(owner))
  const { results, closed } = await heard(first.lines)
  t.same([closed, await first.exited], [true, [0, null]])
  t.match(results.get('day-0'), { success: false, error: /process 1 on elsewhere/ }, 'it says who has taken it')
  t.same(await live(t, here, undefined), undisturbed)
})

const script: Script = async (desk) => (await desk.request('bob', 'ask really')).content

/** A team that waits for a log, and what resolves when it has said so. */
function waiter(t: Test, path: string, waitForLogMs: number) {
  let told = (_fields: object) => {}
  const waits = new Promise<object>((resolve) => {
    told = resolve
  })
  const info = (fields: object, text: string) => {
    if (text.startsWith('another process has the durable log')) told(fields)
  }
  const none = () => {}
  const logger = { debug: none, info, warn: none, error: none }
  return { team: deskOf(t, path, script, { stateManagement: { path, waitForLogMs }, logger }), waits }
}

t.test('with waitForLogMs a start waits for the process that has the log, and goes on with its runs', async (t) => {
  const path = join(folderOf(t), 'log')
  const old = deskOf(t, path, script)
  await old.start()
  const { team, waits } = waiter(t, path, 600_000)
  let isOver = false
  const early = team.launch('go', { runId: 'one' }) // before the log is its own
  const started = team.start().then(() => {
    isOver = true
  })
  t.match(await waits, { pid: process.pid, host: hostname(), waitForLogMs: 600_000 }, 'it says for whom it waits')
  const { questionId } = await firstOf(old.launch('go', { runId: 'one' }).events(), 'question')
  t.notOk(isOver, 'as long as the other one has the log')
  await old.close()
  await started
  await team.getRun('one')!.answer(questionId, 'yes')
  t.match(await early.result, { success: true, finalOutput: 'yes' }, 'what was launched meanwhile joins the same run')
})

t.test('a start that has waited in vain says who has the log, and can be tried again', async (t) => {
  const path = join(folderOf(t), 'log')
  const old = deskOf(t, path, script)
  await old.start()
  const { team } = waiter(t, path, 1)
  await t.rejects(team.start(), { code: 'LOG_HELD', details: { pid: process.pid } })
  await old.close()
  await team.start()
})

t.test('a team that is closed while it waits for the log waits no more', async (t) => {
  const path = join(folderOf(t), 'log')
  await deskOf(t, path, script).start()
  const { team, waits } = waiter(t, path, 600_000)
  const started = team.start()
  const refused = t.rejects(started, { code: 'TEAM_CLOSED' })
  await waits
  await team.close()
  await refused
})
