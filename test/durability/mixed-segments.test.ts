/** Copies of a log that lack their end, or whose files were swapped or mixed with those of another log. */
import {
  copyFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { examineLog, repairLog } from '../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { type Damage, inspectSegments } from '../../src/runtime/store/inspect-segments.ts'
import { realFiles } from '../../src/runtime/store/log-files.ts'
import { LogCorruptError } from '../../src/shared/errors.ts'
import { blockOf } from './blocks.ts'
import { copyOf, deskLog, runsIn } from './damaged-logs.ts'
import { failureOf, folderOf, segmentsOf, written } from './log-folders.ts'

const original = await deskLog(t)
const whole = await runsIn(original)
const another = await deskLog(t)

const opening = (path: string) => {
  const store = new FileStore(path)
  return failureOf(store.open().finally(() => store.close()))
}
const contents = (path: string) =>
  readdirSync(path).map((name) => [name, readFileSync(join(path, name)).toString('hex')])
const newest = (path: string, at = -1) => join(path, segmentsOf(path).at(at)!)

const losses: Record<string, (path: string) => void> = {
  'the newest segment': (path) => rmSync(newest(path)),
  'the three newest segments': (path) => {
    for (let n = 0; n < 3; n++) rmSync(newest(path))
  },
  'all segments': (path) => {
    for (const name of segmentsOf(path)) rmSync(join(path, name))
  },
  'the last byte': (path) => truncateSync(newest(path), statSync(newest(path)).size - 1),
  'half of the newest segment': (path) => truncateSync(newest(path), statSync(newest(path)).size / 2),
  'all bytes of the newest segment': (path) => truncateSync(newest(path)),
  'a bit of its last block': (path) => {
    const bytes = readFileSync(newest(path))
    bytes[bytes.length - 20]! ^= 1
    writeFileSync(newest(path), bytes)
  },
}

/** What a repair may do only if it is told to. */
async function accepted(t: Test, path: string, what: string) {
  const before = contents(path)
  for (const flags of [{}, { dropRuns: true }]) {
    const { found, bytes } = await repairLog(path, flags)
    t.equal(bytes, undefined, `${what}: ${JSON.stringify(flags)} is not enough`)
    t.ok(found.cutOff, what)
  }
  t.same(contents(path), before, `${what}: nothing was changed`)
  const { found, bytes } = await repairLog(path, { acceptLoss: true })
  t.ok(bytes, what)
  return found
}

for (const [what, lose] of Object.entries(losses))
  t.test(`a log that lacks ${what} is not opened, and goes on without it if that is accepted`, async (t) => {
    const path = copyOf(t, original)
    const { seq } = JSON.parse(readFileSync(join(path, 'told'), 'utf8'))
    lose(path)
    const before = contents(path)
    const error = await opening(path)
    t.type(error, LogCorruptError)
    const { lastSeq, toldSeq } = (error as LogCorruptError).details
    t.equal(toldSeq, seq)
    t.ok(Number(lastSeq) < seq, `${lastSeq} of ${seq}`)
    t.match(error, { message: `its last entry is ${lastSeq}, and entry ${seq} had been on the disk` })
    t.match(error, { message: /"dramatis log repair .* --accept-loss/ })
    t.same(contents(path), before, 'nothing was changed')
    const found = await accepted(t, path, what)
    t.match(found.cutOff, { lastSeq, toldSeq })
    t.equal(await opening(path), undefined, 'afterwards it is opened')
    t.same((await examineLog(path, realFiles)).damages, [])
    const store = new FileStore(path)
    t.ok((await store.open()).lastSeq > seq, 'no number is given twice')
    await store.close()
    for (const [id, entries] of await runsIn(path)) t.same(entries, whole.get(id), `run ${id} has all that it had`)
  })

t.test('a segment that was begun, and is gone before anything of it was synced, is missed', async (t) => {
  const folder = folderOf(t)
  await written(folder, 3)
  const store = new FileStore(folder)
  await store.open()
  await store.append(blockOf(4))
  const copy = copyOf(t, folder)
  await store.close()
  rmSync(newest(copy))
  t.match(await opening(copy), { code: 'LOG_CORRUPT', message: /segment \w{16}\.log is missing/ })
})

t.test('a note that is gone, or that the machine did not come to write, is no damage', async (t) => {
  for (const text of [undefined, '', '\0'.repeat(160), '{"seq":3', 'null', '{"seq":"many"}']) {
    const path = copyOf(t, original)
    if (text === undefined) rmSync(join(path, 'told'))
    else writeFileSync(join(path, 'told'), text)
    t.equal(await opening(path), undefined, JSON.stringify(text))
    t.same(await runsIn(path), whole)
    rmSync(newest(path))
    t.type(await opening(path), LogCorruptError, 'it is there again')
  }
})

const swaps: Record<string, (path: string) => void> = {
  'two segments were swapped': (path) => {
    renameSync(newest(path), join(path, 'other'))
    renameSync(newest(path), join(path, 'third'))
    const [last, before] = [segmentsOf(original).at(-1)!, segmentsOf(original).at(-2)!]
    renameSync(join(path, 'other'), join(path, before))
    renameSync(join(path, 'third'), join(path, last))
  },
  'the first segment is that of another log': (path) => copyFileSync(newest(another, 0), newest(path, 0)),
  'the newest segment is that of another log': (path) => copyFileSync(newest(another), newest(path)),
}
for (const [what, mix] of Object.entries(swaps))
  t.test(`a log is not opened if ${what}`, async (t) => {
    const path = copyOf(t, original)
    mix(path)
    t.type(await opening(path), LogCorruptError)
    await repairLog(path, { dropRuns: true, acceptLoss: true })
    t.equal(await opening(path), undefined)
    for (const [id, entries] of await runsIn(path)) t.same(entries, whole.get(id), `run ${id} has all that it had`)
  })

/** Logs whose positions and numbers fit: only their marks differ. */
async function alike(t: Test): Promise<string[]> {
  const folders = [folderOf(t), folderOf(t)]
  for (const folder of folders) await written(folder, 60, { segmentBytes: 1_000 })
  return folders
}

async function damagesIn(path: string): Promise<Damage[]> {
  const damages: Damage[] = []
  for await (const part of inspectSegments(path, realFiles)) if (part.kind === 'damage') damages.push(part.damage)
  return damages
}

t.test('a segment of another log is noticed wherever it stands, also where all numbers fit', async (t) => {
  const [one = '', other = ''] = await alike(t)
  for (const [at, name] of segmentsOf(one).entries()) {
    const path = copyOf(t, one)
    copyFileSync(join(other, name), join(path, name))
    t.match(await opening(path), { code: 'LOG_CORRUPT', message: /different logs|another one/ }, name)
    t.match(await damagesIn(path), [{ kind: 'stranger', segment: { path: join(path, name) } }], `${at}: it is named`)
    rmSync(path, { recursive: true })
  }
})

t.test('a segment of a copy that went on by itself is noticed', async (t) => {
  const folder = folderOf(t)
  await written(folder, 20, { segmentBytes: 1_000 })
  const copy = copyOf(t, folder)
  for (const path of [folder, copy]) {
    const store = new FileStore(path, { segmentBytes: 1_000 })
    await store.open()
    for (let seq = 21; seq <= 60; seq++) await store.append(blockOf(seq))
    await store.close()
  }
  const mixed = copyOf(t, folder)
  copyFileSync(newest(copy, -2), newest(mixed, -2))
  t.match(await opening(mixed), { code: 'LOG_CORRUPT', message: /copies that went on by themselves/ })
  t.match(await damagesIn(mixed), [{ kind: 'stranger', segment: { path: newest(mixed, -2) } }])
})
