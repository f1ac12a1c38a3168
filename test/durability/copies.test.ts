/** Copies in a log: of what was said once, and of whole logs that lack their end or were mixed. */

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
import t, { type Test } from 'tap'
import * as z from 'zod'
import { createTeam, defineTool } from '../../src/index.ts'
import { CALL, END, REQUEST } from '../../src/mailbox/frame.ts'
import { examineLog, repairLog } from '../../src/runtime/durability/log-tools.ts'
import { EntryDecoder, EntryEncoder } from '../../src/runtime/log/entry-codec.ts'
import { HostFrames } from '../../src/runtime/log/host-frames.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import { type FrameBlock, type LogEntry, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { type Damage, inspectSegments } from '../../src/runtime/store/inspect-segments.ts'
import { realFiles, type StoredBlock } from '../../src/runtime/store/log-files.ts'
import { LogCorruptError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { lostInBytes } from '../simulation/invariants.ts'
import { blockOf } from './blocks.ts'
import { copyOf, deskLog, runsIn } from './damaged-logs.ts'
import { decoded, encoded } from './log-entries.ts'
import { bytesIn, failureOf, folderOf, segmentsOf, written } from './log-folders.ts'

// Copies of a log that lack their end, or whose files were swapped or mixed with those of another log.

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

// What is said in a run stands in a durable log once: later entries are written as copies of what earlier ones have.

/** Makes the entries of one log: each has the next number. */
class Entries {
  readonly #frames = new HostFrames(virtualClock())
  #seq = 0

  frame(kind: number, { turn = 1, sender = 7, run = 1, flags = 0, content = '', data = '' }): FrameBlock {
    const text = data === '' ? {} : { data }
    const { memory, bytes } = this.#frames.make({ kind, turn, sender, run, flags, content, ...text })
    return { kind: 'frames', seq: this.#next(), at: 1, run, memory, from: 0, to: bytes, count: 1 }
  }

  prompt(data: string, fields: { turn?: number; sender?: number; run?: number } = {}): FrameBlock {
    return this.frame(CALL, { content: 'model', data, ...fields })
  }

  launched(run = 1): LogEntry {
    const fields = { id: `run ${run}`, query: 'go', startedAt: 1, metadata: {}, models: {}, timeoutMs: 1, priority: 0 }
    return { kind: 'run.launched', seq: this.#next(), at: 1, run, target: 2, own: false, ...fields }
  }

  gone(run = 1): LogEntry {
    return { kind: 'runs.gone', seq: this.#next(), at: 1, run: 0, runs: [run] }
  }

  finished(run = 1): LogEntry {
    return { kind: 'run.finished', seq: this.#next(), at: 1, run, error: null }
  }

  #next(): number {
    this.#seq += SEQ_STEP
    return this.#seq
  }
}

/** A conversation of so many messages, as a call of a model has it. */
const talk = (messages: number, letter = 'a') =>
  JSON.stringify({
    messages: Array.from({ length: messages }, (_, n) => ({ role: 'user', content: `${n} ${letter.repeat(1_000)}` })),
    tools: ['a tool'.repeat(100)],
  })

t.test('a turn of n prompts is written as what each has more than the one before', async (t) => {
  const entries = new Entries()
  const sizes = [10, 20, 40].map((rounds) => {
    const prompts = Array.from({ length: rounds }, (_, n) => entries.prompt(talk(n + 1)))
    t.same(lostInBytes(prompts), [])
    return encoded(prompts).byteLength
  })
  t.ok(sizes[2]! < 40 * 1_300, `${sizes} bytes for 10, 20 and 40 messages of 1,000`)
})

t.test('a text of a run is written once, until the run is over, and not for another run', async (t) => {
  const entries = new Entries()
  const [whole, more] = [talk(20), talk(21)]
  const next = (between: LogEntry[], fields = {}) => {
    const written = [entries.prompt(whole), ...between, entries.prompt(more, fields)]
    t.same(lostInBytes(written), [])
    return encoded(written).byteLength > 4_000 ? 'whole' : 'as a copy'
  }
  t.equal(next([]), 'as a copy')
  t.equal(next([entries.prompt('short', { turn: 2 }), entries.frame(CALL, { content: 'tool' })]), 'as a copy')
  t.equal(next([entries.frame(END, { turn: 1 }), entries.finished(2)]), 'as a copy')
  t.equal(next([], { turn: 2 }), 'as a copy')
  t.equal(next([], { sender: 8 }), 'as a copy')
  t.equal(next([entries.finished()]), 'whole')
  t.equal(next([entries.gone()]), 'whole')
  t.equal(next([], { run: 2 }), 'whole')
})

/** Words that nobody has said before. */
const words = (dice: Dice, characters: number, between = ' ') => {
  const all: string[] = []
  for (let length = 0; length < characters; length += all.at(-1)!.length + between.length)
    all.push(dice.upTo(36 ** 5).toString(36))
  return all.join(between)
}

const said: { [what: string]: (dice: Dice) => string } = {
  'plain words': (dice) => words(dice, 9_000),
  'lines and quotes': (dice) => words(dice, 9_000, '"\n'),
  'other letters of latin1': (dice) => words(dice, 9_000, ' für '),
  'letters beyond latin1': (dice) => words(dice, 5_000, ' 世界 '),
  'latin letters and one beyond': (dice) => `${words(dice, 9_000)}…`,
  'a path of Windows': (dice) => words(dice, 9_000, '\\'),
  JSON: (dice) => JSON.stringify(Array.from({ length: 300 }, (_, n) => ({ n, text: words(dice, 30, '"') }))),
  'JSON in JSON': (dice) => JSON.stringify({ input: JSON.stringify({ lines: words(dice, 9_000, '\n') }) }),
  'the same again and again': () => 'again '.repeat(1_500),
}

for (const [what, saying] of Object.entries(said))
  t.test(`${what}: written once, whether a record, a frame or JSON in it says it`, async (t) => {
    const text = saying(new Dice(7))
    const entries = new Entries()
    const call = { id: 'c', name: 'look', input: JSON.stringify({ text }) }
    const all = [
      { ...entries.launched(), query: text } as LogEntry,
      entries.frame(REQUEST, { content: text }),
      entries.frame(REQUEST, { content: `Do this:\n${text}\nThat is all.`, data: JSON.stringify({ task: text }) }),
      entries.prompt(JSON.stringify({ messages: [{ role: 'user', content: `You are asked: ${text}` }] })),
      entries.prompt(JSON.stringify({ messages: [{ role: 'assistant', content: '', toolCalls: [call] }] })),
      entries.frame(END, { content: text }),
      { ...entries.finished(), output: `${text}.` } as LogEntry,
    ]
    t.same(lostInBytes(all), [])
    t.ok(encoded(all).byteLength < 1.1 * Buffer.byteLength(text) + 256 * all.length, `${encoded(all).byteLength} bytes`)
  })

t.test('letters that are half of one, and what only looks like JSON, come back as they were', async (t) => {
  const entries = new Entries()
  const texts = [
    '\ud83d',
    '"\\ud83d"',
    '"\\u00e4"',
    '"\\/"',
    '"a\nb\\',
    '\u0000"\\u0000"',
    '\xfd\xfe\xff"\\n"',
    '"\\n"'.repeat(9),
  ]
  for (const text of texts) {
    const long = `${text} `.repeat(200)
    const all = [entries.frame(REQUEST, { content: long }), entries.frame(END, { content: long, data: long })]
    t.same(lostInBytes([...all, { ...entries.finished(), output: long } as LogEntry]), [], JSON.stringify(text))
  }
})

t.test(
  'random prompts, of latin and other letters, come back as they were, in whatever blocks they stand',
  async (t) => {
    for (let seed = 1; seed <= 60; seed++) {
      const dice = new Dice(seed)
      const entries = new Entries()
      const texts = new Map<number, string>()
      const all: LogEntry[] = [entries.launched()]
      for (let n = dice.upTo(40); n >= 0; n--) {
        const turn = 1 + dice.upTo(3)
        const before = texts.get(turn) ?? ''
        const [from, to] = [dice.upTo(before.length + 1), dice.upTo(before.length + 1)].sort((a, b) => a - b)
        const letter = dice.pick(['a', 'a', 'b', 'ü', dice.chance(0.1) ? '世' : 'c'])
        const text = dice.chance(0.1) ? '' : before.slice(0, from) + letter.repeat(dice.upTo(2_000)) + before.slice(to)
        texts.set(turn, text)
        if (text !== '') all.push(entries.prompt(text, { turn }))
        if (dice.chance(0.1)) all.push(entries.frame(END, { turn }))
      }
      const lost = lostInBytes(all)
      if (lost.length > 0) t.fail(`seed ${seed}: ${lost[0]}`)
      const encoder = new EntryEncoder()
      const decoder = new EntryDecoder()
      const cut = dice.upTo(all.length)
      const blocks = [all.slice(0, cut), all.slice(cut)].map((part) => encoder.encode(part))
      t.equal(blocks.flatMap((bytes) => decoded(bytes, decoder)).length, all.length, `seed ${seed}`)
    }
  },
)

t.test('frames that stand in one entry with a prompt keep their numbers', async (t) => {
  const entries = new Entries()
  const parts = [entries.frame(CALL, { content: 'tool', data: '{}' }), entries.prompt(talk(3)), entries.prompt(talk(4))]
  parts.push(entries.frame(CALL, { content: 'tool', data: '{}' }))
  const bytes = Buffer.concat(parts.map(({ memory, to }) => memory.u8.subarray(0, to)))
  const { memory } = entries.frame(CALL, { content: '-'.repeat(bytes.byteLength) })
  memory.u8.set(bytes)
  const { seq } = parts[0]!
  const one: FrameBlock = { ...parts[0]!, memory, from: 0, to: bytes.byteLength, count: 4 }
  t.same(lostInBytes([one]), [])
  t.same(
    decoded(encoded([one])).map((entry) => [entry.seq - seq, entry.kind === 'frames' && entry.count]),
    [
      [0, 1],
      [SEQ_STEP, 1],
      [2 * SEQ_STEP, 1],
      [3 * SEQ_STEP, 1],
    ],
  )
})

/** Blocks with the entries; each carried one has old entries again. */
const blocksOf = (parts: [entries: Uint8Array, carried: boolean][]) =>
  async function* (): AsyncGenerator<StoredBlock> {
    for (const [position, [entries, carried]] of parts.entries())
      yield { position, incarnation: 1, firstSeq: 0, lastSeq: 0, carried, runs: [1], entries }
  }

t.test('a prompt is read also where the one before it was carried behind it', async (t) => {
  const entries = new Entries()
  const encoder = new EntryEncoder()
  const all = [entries.launched(), entries.prompt(talk(5)), entries.prompt(talk(6)), entries.prompt(talk(7))]
  const bytes = all.map((entry) => encoder.encode([entry]))
  const old = Buffer.concat(bytes.slice(0, 2))
  const read: number[] = []
  const blocks = blocksOf([
    [bytes[2]!, false],
    [old, true],
    [bytes[3]!, false],
  ])
  for await (const { seq } of entriesOf(blocks)) read.push(seq)
  t.same(read, pluck(all, 'seq'))
})

t.test('a prompt whose base the log lacks is an error that names the run, unless the run was forgotten', async (t) => {
  const entries = new Entries()
  const encoder = new EntryEncoder()
  const all = [entries.launched(), entries.prompt(talk(5)), entries.prompt(talk(6)), entries.finished(), entries.gone()]
  const [launched, , second, finished, gone] = all.map((entry) => encoder.encode([entry]))
  const kindsIn = async (...parts: Uint8Array[]) => {
    const kinds: string[] = []
    for await (const { kind } of entriesOf(blocksOf(parts.map((part) => [part, false])))) kinds.push(kind)
    return kinds
  }
  const error = await failureOf(kindsIn(launched!, second!, finished!))
  t.type(error, LogCorruptError)
  t.match(error, { details: { runs: [1] }, message: /entry 24 of run number 1 goes on from entry 16/ })
  t.same(await kindsIn(second!, finished!), ['run.finished'])
  // Its begin was carried behind what was given up when it was forgotten.
  t.same(await kindsIn(launched!, second!, finished!, gone!), ['run.launched', 'run.finished', 'runs.gone'])
})

/** A team of one model agent that calls a tool in each round. */
function lookingTeam(t: Test, path: string, baseURL: string) {
  const look = defineTool({
    name: 'look',
    description: 'Looks at a page.',
    input: z.object({ page: z.number() }),
    readOnly: true,
    run: ({ page }) => `page ${page} ${'word '.repeat(400)}`,
  })
  const team = createTeam({
    agents: [{ name: 'ann', description: 'Looks.', tools: ['look'], maxRounds: 100 }],
    tools: [look],
    models: { default: { model: 'gpt-4o', baseURL, apiKey: 'none' } },
    logger: silent,
    stateManagement: { path },
    orchestration: { strategy: 'sequential' },
  })
  t.teardown(() => team.close())
  return team
}

t.test('the log of a model that calls a tool in n rounds grows with n', async (t) => {
  const sizes: number[] = []
  for (const rounds of [10, 20, 40]) {
    const server = await modelServer(t)
    server.always(({ number: page }) => (page > rounds ? 'Seen.' : { toolCalls: [{ name: 'look', input: { page } }] }))
    const path = join(folderOf(t), 'log')
    const team = lookingTeam(t, path, server.baseURL)
    const { finalOutput, error } = await team.execute('Look at all of it.', { runId: 'long' })
    t.equal(finalOutput, 'Seen.', error?.message ?? 'it ends')
    await team.close()
    sizes.push(bytesIn(path))
  }
  const [ten, twenty, forty] = sizes as [number, number, number]
  t.ok(forty - twenty < 2.3 * (twenty - ten), `${sizes} bytes for 10, 20 and 40 rounds`)
})
