/** Checkpoints and compaction: a start that reads little, and a log that gives up what it need not keep. */
import {
  cpSync,
  existsSync,
  mkdirSync,
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
import {
  createTeam,
  type MultiAgentPatternOptions,
  type RunSummary,
  type RuntimeEvent,
  type StateManagement,
} from '../../src/index.ts'
import type { TakenLog } from '../../src/runtime/durability/checkpoints.ts'
import { Compactor } from '../../src/runtime/durability/compactor.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { RecoveredLog } from '../../src/runtime/durability/recovered-log.ts'
import { Slices } from '../../src/runtime/durability/slices.ts'
import { fileName, PastRunReader, TraceArchive } from '../../src/runtime/durability/trace-archive.ts'
import { whileMoved } from '../../src/runtime/log/read-entries.ts'
import type { HostRecord } from '../../src/runtime/log/records.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { type LogFiles, type ReadOptions, realFiles, type StoredBlock } from '../../src/runtime/store/log-files.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { pluck } from '../kit/lists.ts'
import { gate, silent } from '../kit/team.ts'
import { deskLog, runsIn } from './damaged-logs.ts'
import { FaultyFiles } from './faulty-files.ts'
import { encoded } from './log-entries.ts'
import { failureOf, folderOf, segmentsOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

const CHECKPOINT_BYTES = 2 ** 16
const SEGMENT_BYTES = 2 ** 18
const LONG_QUESTION = 'why '.repeat(150)
const MANY_RUNS = 300
/** Runs of the process that was killed. */
const LAST = 5

interface Warning {
  readonly text: string
  readonly reason: unknown
}

/** A team that waits when it is told so. It counts what it reads of the log. */
function checkpointed(t: Test, path: string) {
  const files = new FaultyFiles()
  const warnings: Warning[] = []
  const team = createTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: {
      strategy: 'custom',
      name: 'a desk',
      async run(context, query) {
        if (query === 'waits') await context.sleep(10 ** 9)
        return (await context.request('ann', query)).content
      },
    },
    models: {
      default: {
        offline: true,
        async *complete() {
          yield { type: 'text', text: 'an answer' }
        },
      },
    },
    stateManagement: {
      store: new FileStore(path, { files, segmentBytes: SEGMENT_BYTES, checkpointBytes: CHECKPOINT_BYTES }),
    },
    logger: {
      debug() {},
      info() {},
      error() {},
      warn: (fields, text) => void warnings.push({ text, reason: Object(fields).reason }),
    },
  })
  t.teardown(() => team.close())
  return { team, files, warnings }
}

/** Makes the log of a process that was killed: a copy that was made while it had the log. */
async function killed(t: Test, runs: number): Promise<string> {
  const path = join(folderOf(t), 'log')
  const { team: before } = checkpointed(t, path)
  const open = before.launch('waits', { runId: 'open' })
  const run = (team: typeof before, n: number) =>
    team.execute(`${n} ${LONG_QUESTION}`, { runId: `run ${n}`, metadata: { caller: 'ann' }, ...(n % 20 === 0 && TALK) })
  for (let n = 0; n < runs - LAST; n++) await run(before, n)
  await before.close() // in order: with a checkpoint at its end
  t.equal(open.status, 'interrupted')
  const { team } = checkpointed(t, path)
  for (let n = runs - LAST; n < runs; n++) await run(team, n)
  await team.flush()
  const copy = copied(t, path)
  rmSync(join(copy, 'owner'))
  return copy
}

const TALK = { threadId: 'talk' }

const copied = (t: Test, path: string): string => {
  const copy = join(folderOf(t), 'log')
  cpSync(path, copy, { recursive: true })
  return copy
}

/** Opens a log, and returns what its team knows and what it has read. */
async function opened(t: Test, path: string) {
  const { team, files, warnings } = checkpointed(t, path)
  const runs = await team.listRuns()
  const read = files.readBytes
  const first = await team.getRun('run 0')!.result
  const last = await team.getRun(`run ${MANY_RUNS - 1}`)!.result
  const answers = [first.finalOutput, last.finalOutput]
  const [before] = warnings
  await team.close()
  return { runs: runs.map(summaryOf), read, answers, open: statusOf(runs, 'open'), before }
}

const summaryOf = ({ id, status, endedAt, usage, caller, threadId, query }: RunSummary) =>
  id === 'open' ? id : [id, status, endedAt, usage.calls, caller, threadId, query.length]

const statusOf = (runs: readonly RunSummary[], of: string) => runs.find(({ id }) => id === of)?.status

const sizeOf = (path: string): number =>
  segmentsOf(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0)

/** The log, the same without its checkpoint, and what an opening of that one finds. */
let path: string
let whole: string
let expected: Awaited<ReturnType<typeof opened>>

t.before(async () => {
  path = await killed(t, MANY_RUNS)
  whole = copied(t, path)
  rmSync(join(whole, 'checkpoint'))
  expected = await opened(t, copied(t, whole))
})

t.test('a log is read from its checkpoint on, also after a kill, and has all that it had', async (t) => {
  const found = await opened(t, copied(t, path))
  t.ok(found.read < sizeOf(path) / 2, `${found.read} bytes of ${sizeOf(path)} were read`)
  t.ok(expected.read > sizeOf(whole), 'without, all of it was read')
  t.same({ ...found, read: 0 }, { ...expected, read: 0 })
  t.equal(found.open, 'running')
  t.same(found.answers, ['an answer', 'an answer'])
  t.equal(found.before, undefined)
})

t.test('a process that ends in order leaves nothing that the next one has to read', async (t) => {
  const copy = copied(t, whole)
  await opened(t, copy)
  const { read, before } = await opened(t, copy)
  t.equal(before, undefined)
  t.ok(read < SEGMENT_BYTES + 4 * CHECKPOINT_BYTES, `${read} bytes were read`)
})

const damages: Record<string, (path: string, t: Test) => Promise<void> | void> = {
  'begins with another byte': (path) => flipped(path, 0),
  'has another byte in its head': (path) => flipped(path, 60),
  'has another byte in the middle': (path) => flipped(path, 0.5),
  'has another byte at its end': (path) => flipped(path, 0.999),
  'ends in the middle': (path) => truncateSync(path, Math.floor(statSync(path).size / 2)),
  'is empty': (path) => truncateSync(path, 0),
  'is of another format': (path) =>
    writeFileSync(
      path,
      readFileSync(path)
        .toString('latin1')
        .replace(/"format":1/, '"format":9'),
      'latin1',
    ),
  'is of another log': async (path, t) => cpSync(join(await killed(t, 50), 'checkpoint'), path),
  'is text': (path) => writeFileSync(path, 'no checkpoint\n'.repeat(100)),
}

function flipped(path: string, at: number): void {
  const bytes = readFileSync(path)
  const place = at < 1 ? Math.floor(at * bytes.length) : at
  bytes[place] = bytes[place]! ^ 0x41
  writeFileSync(path, bytes)
}

t.test('a checkpoint that cannot be trusted is told, and all of the log is read', async (t) => {
  for (const [what, damage] of Object.entries(damages)) {
    const copy = copied(t, path)
    await damage(join(copy, 'checkpoint'), t)
    const { before, read, ...found } = await opened(t, copy)
    const { before: _, read: all, ...rest } = expected
    t.same(found, rest, `one that ${what}`)
    t.ok(read > sizeOf(path) && all > sizeOf(path), what)
    t.match(before, { text: /checkpoint of the durable log is not used/, reason: String }, what)
  }
})

t.test('a log that was compacted without its team has a checkpoint, too', async (t) => {
  const copy = copied(t, path)
  const store = new FileStore(copy, { segmentBytes: SEGMENT_BYTES, checkpointBytes: CHECKPOINT_BYTES })
  await compactLog(store, { keep: { runs: 1_000, days: 30, bytes: 2 ** 30 }, logger: silent })
  await store.close()
  const { read, runs, open, answers, before } = await opened(t, copy)
  t.same({ runs, open, answers }, { runs: expected.runs, open: expected.open, answers: expected.answers })
  t.equal(before, undefined)
  t.ok(read < sizeOf(copy), `${read} bytes of ${sizeOf(copy)} were read: without, it is more than twice of all`)
})

t.test('segments before the checkpoint that are missing, cut or swapped are still damage', async (t) => {
  const [first, second] = segmentsOf(path)
  const harms: Record<string, (copy: string) => void> = {
    missing: (copy) => rmSync(join(copy, second!)),
    cut: (copy) => truncateSync(join(copy, first!), 1_000),
    swapped: (copy) => cpSync(join(path, second!), join(copy, first!)),
  }
  for (const [what, harm] of Object.entries(harms)) {
    const copy = copied(t, path)
    harm(copy)
    await t.rejects(checkpointed(t, copy).team.start(), { code: 'LOG_CORRUPT' }, what)
  }
})

t.test('others have their turn while a log is read, also between entries of one block', async (t) => {
  const store = new FileStore(copied(t, whole))
  await store.open()
  let [now, turns, entries] = [0, 0, 0]
  const clock = {
    monotonic: () => {
      entries += 1
      return now++
    },
    defer: (task: () => void) => {
      turns += 1
      setImmediate(task)
    },
  }
  const { index } = await RecoveredLog.from((options) => store.read(options), 0, { slices: new Slices(clock) })
  await store.close()
  t.equal(index.size, MANY_RUNS + 1)
  t.ok(entries > 500 && turns > entries / 10, `${turns} turns at ${entries} looks at the clock`)
})

// A log stays bounded: what it forgets, what goes into the archive, and who still reads it.

// A log stays bounded, and what it forgets is only what nobody needs.

const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** Runs that wait for a person, and short ones that let an agent remember something. */
const script: Script = async (desk, query) => {
  if (query !== 'wait') return (await desk.request('ann', `remember ${query} ${'.'.repeat(500)}`)).content
  const before = (await desk.request('bob', 'steps of')).content
  const said = (await desk.request('bob', 'ask really')).content
  return `${before} ${said} ${(await desk.request('ann', 'count')).content}`
}

function teamOf(t: Test, folder: string, keep: StateManagement['keep'], segmentBytes = 16_384) {
  process.env.DESK_EFFECTS = join(folder, 'effects')
  const store = new FileStore(join(folder, 'log'), { segmentBytes })
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] })),
    stateManagement: { store, ...(keep && { keep }) },
    logger: silent,
    orchestration: { strategy: 'custom', name: 'a desk', run: script },
  })
  t.teardown(() => team.close())
  return { team, store }
}

async function questionOf(events: AsyncIterable<RuntimeEvent<unknown>>): Promise<string> {
  for await (const event of events) if (event.type === 'question') return event.questionId
  throw new Error('no question came')
}

const RUNS = 200

/** Has many short runs beside an open one, and returns how large the log has been at most. */
async function lived(t: Test, folder: string, keep: StateManagement['keep']) {
  const { team, store } = teamOf(t, folder, keep)
  await questionOf(team.launch('wait', { runId: 'open' }).events())
  let largest = 0
  for (let n = 0; n < RUNS; n++) {
    await team.execute(`run ${n}`, { runId: `short ${n}` })
    largest = Math.max(largest, store.bytes)
  }
  await team.close()
  return largest
}

async function ended(t: Test, folder: string, keep: StateManagement['keep']) {
  const { team } = teamOf(t, folder, keep)
  await team.start()
  const open = team.getRun('open')!
  await open.answer(await questionOf(open.events()), 'yes')
  const { finalOutput, messageHistory, orchestrationTrace, taskCompletion } = await open.result
  const lives = orchestrationTrace.events
    .filter(({ eventType }) => eventType === 'agent.ready')
    .map(({ agent }) => agent)
  const last = await team.execute(`run ${RUNS - 1}`, { runId: `short ${RUNS - 1}` })
  const runs = await team.listRuns()
  await team.close()
  return {
    open: {
      finalOutput,
      said: messageHistory.map(({ content }) => content),
      tasks: Object.values(taskCompletion),
      lives: lives.sort(),
    },
    last: { output: last.finalOutput, said: last.messageHistory.map(({ content }) => content) },
    runs: runs.map(({ id }) => id),
  }
}

t.test('a log of many short runs stays bounded, and all that lives is the same as if it had grown', async (t) => {
  const [small, large] = [folderOf(t), folderOf(t)]
  const bounded = await lived(t, small, { runs: 10 })
  const grown = await lived(t, large, { runs: 1_000 })
  // It is compacted in the background: on a busy machine it grows a little further meanwhile.
  t.ok(bounded < 350_000 && bounded < grown / 2, `${bounded} bytes at most, in place of ${grown}`)
  const [compacted, whole] = [await ended(t, small, { runs: 10 }), await ended(t, large, { runs: 1_000 })]
  t.same(compacted.open, whole.open)
  t.same(compacted.last, whole.last)
  t.same(compacted.open.lives, ['$orchestrator', '$orchestrator', 'ann', 'ann', 'bob', 'bob'], 'of both processes')
  t.equal(whole.runs.length, RUNS + 1)
  t.ok(compacted.runs.length < 60, `${compacted.runs.length} runs are known`)
  for (const name of segmentsOf(join(small, 'log')))
    t.equal(statSync(join(small, 'log', name)).mode & 0o077, 0, 'the files are for their owner alone')
})

t.test('a run that ended long ago is joined, and never run a second time', async (t) => {
  const folder = folderOf(t)
  await lived(t, folder, { runs: 1_000 })
  const { team } = teamOf(t, folder, { runs: 1_000 })
  const early = team.launch('run 3', { runId: 'short 3' }) // before the log is read
  t.match(await early.result, { success: true, finalOutput: /remember run 3/ })
  const [one, two] = [team.launch('run 7', { runId: 'short 7' }), team.launch('run 7', { runId: 'short 7' })]
  t.equal(one, two)
  t.equal(one.status, 'finished')
  const { finalOutput, messageHistory } = await one.result
  t.match([finalOutput, messageHistory[0]?.content], [/remember run 7/, 'run 7'])
  t.throws(() => team.launch('another', { runId: 'short 8' }), { code: 'CONFIGURATION', details: { path: 'runId' } })
  const clash = teamOf(t, folder, undefined).team
  const found = team.getRun('short 9')!
  t.equal(found.query, 'run 9')
  const types: string[] = []
  for await (const { type } of found.events()) types.push(type)
  t.equal(types.at(-1), 'run.finished')
  t.match(await team.getAgent('ann')!.run('count'), new RegExp(`^${RUNS}: `), 'none of them ran again')
  t.equal(team.getRun('never'), undefined)
  await team.close()
  const wrong = clash.launch('another', { runId: 'short 8' }) // before the log is read
  await t.rejects(wrong.result, { code: 'CONFIGURATION', details: { path: 'runId' } })
})

t.test('the run that ended first is the first that a log forgets, also after a restart', async (t) => {
  const folder = folderOf(t)
  const { team } = teamOf(t, folder, undefined)
  const late = team.launch('wait', { runId: 'launched first' })
  const question = await questionOf(late.events())
  await team.execute('once', { runId: 'ended first' })
  await late.answer(question, 'yes')
  await late.result
  await team.close()
  const { index } = await RecoveredLog.from(() => readLog(join(folder, 'log')))
  const expired = [...index.expired({ runs: 1, days: 30, bytes: 2 ** 30 }, Date.now())]
  t.strictSame(pluck(expired, 'id'), ['ended first'])
})

// Runs that a log forgets are written into the archive first.

const archiveModule = new URL('../fixtures/durability/old-log-agent.js', import.meta.url)

interface Archived {
  run: { id: string; query: string; status: string; finalOutput?: string; data?: object; error?: { code: string } }
  messages: { content: string }[]
  trace: { messageFlow: { from: string; to: string }[]; agentActivations: object[]; events: { eventType: string }[] }
}

/** Name of the first segment of a log that was not compacted. */
const FIRST = `${'0'.repeat(16)}.log`

/** Under their names: what is being written has another. */
const archived = (folder: string): Archived[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')))

/** A team that keeps two runs, and whose log is compacted often. */
function teamOn(t: Test, folder: string, warnings: object[] = []) {
  const store = new FileStore(join(folder, 'log'), { segmentBytes: 8_000 })
  const team = createTeam({
    agents: ['ann', 'cid'].map((name) => ({ name, module: archiveModule })),
    logger: { ...silent, warn: (fields: object, text: string) => void warnings.push({ ...fields, text }) },
    stateManagement: { store, keep: { runs: 2 }, archive: join(folder, 'archive') },
    orchestration: {
      strategy: 'custom',
      name: 'a desk',
      run: async (script, query) => {
        const { content } = await script.request('ann', query)
        return { content, structuredData: { words: content.split(' ') } }
      },
    },
  })
  t.teardown(() => team.close())
  return team
}

t.test('a run is in the archive before the log forgets it, with all that its result had', async (t) => {
  const folder = folderOf(t)
  const team = teamOn(t, folder)
  const traces = new Map<string, { trace: object; messages: string[] }>()
  const output = z.object({ words: z.array(z.string()) })
  const isArchived = (id: string) =>
    existsSync(join(folder, 'archive')) && archived(join(folder, 'archive')).some(({ run }) => run.id === id)
  // The log is compacted in the background, sooner or later.
  for (let n = 0; n < 10 || segmentsOf(join(folder, 'log'))[0] === FIRST || !isArchived('run 4'); n++) {
    const query = n === 3 ? 'fail it' : `step ${n} ${'.'.repeat(2_000)}`
    const { orchestrationTrace, messageHistory } = await team.execute(query, { runId: `run ${n}`, output })
    traces.set(`run ${n}`, { trace: orchestrationTrace, messages: messageHistory.map(({ content }) => content) })
  }
  await team.close()
  const known = await runsIn(join(folder, 'log'))
  const found = archived(join(folder, 'archive'))
  const forgotten = [...traces.keys()].filter((id) => !known.has(id))
  t.ok(forgotten.length > 0, `${forgotten.length} runs are forgotten`)
  t.same(
    found
      .map(({ run }) => run.id)
      .filter((id) => !known.has(id))
      .sort(),
    forgotten.sort(),
  )
  t.match(found.find(({ run }) => run.id === 'run 3')?.run, { status: 'failed', error: { code: 'AGENT_FAILED' } })
  t.match(found.find(({ run }) => run.id === 'run 4')?.run, {
    status: 'finished',
    finalOutput: '4 was done',
    data: { words: ['4', 'was', 'done'] },
  })
  for (const { run, messages, trace } of found) {
    const before = traces.get(run.id)!
    t.same(pluck(messages, 'content'), before.messages)
    t.same(trace, JSON.parse(JSON.stringify(before.trace)), run.id)
  }
  for (const name of readdirSync(join(folder, 'archive')))
    t.equal(statSync(join(folder, 'archive', name)).mode & 0o777, 0o600)
  t.equal(statSync(join(folder, 'archive')).mode & 0o777, 0o700)
})

t.test('a run that cannot be archived is not forgotten, and that is told; later it is', async (t) => {
  const folder = folderOf(t)
  const warnings: { text?: string; runs?: number; error?: string }[] = []
  const team = teamOn(t, folder, warnings)
  await team.start()
  const archive = join(folder, 'archive')
  renameSync(archive, `${archive}-away`)
  writeFileSync(archive, 'a file in its place')
  for (let n = 0; n < 20; n++) await team.execute(`step ${n} ${'.'.repeat(2_000)}`, { runId: `run ${n}` })
  await team.flush()
  t.equal((await runsIn(join(folder, 'log'))).size, 20, 'the log has all runs')
  t.match(warnings[0], { runId: /^run /, error: /ENOTDIR/, text: /could not be archived/ })
  rmSync(archive)
  mkdirSync(archive)
  for (let n = 20; n < 50; n++) await team.execute(`step ${n} ${'.'.repeat(2_000)}`, { runId: `run ${n}` })
  await team.close()
  const known = await runsIn(join(folder, 'log'))
  const ids = new Set(archived(archive).map(({ run }) => run.id))
  t.ok(ids.has('run 0'), 'it is archived when that is possible again')
  for (let n = 0; n < 50; n++) if (!known.has(`run ${n}`) && !ids.has(`run ${n}`)) t.fail(`run ${n} is lost`)
})

t.test('a file for which the disk has no room is named, and no half of it stays', async (t) => {
  const path = await deskLog(t)
  const folder = folderOf(t)
  const full: Partial<LogFiles> = {
    create: async (path) => {
      const file = await realFiles.create(path)
      if (!path.includes('.json')) return file
      const write = async (bytes: Uint8Array, at: number) => {
        if (at > 0) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
        return file.write(bytes.subarray(0, 10), at)
      }
      return { ...file, write }
    },
  }
  const warnings: { error: string }[] = []
  const store = new FileStore(path)
  t.teardown(() => store.close())
  const compacted = await compactLog(store, {
    keep: { runs: 2, days: 30, bytes: 2 ** 30 },
    logger: { ...silent, warn: (fields: object) => void warnings.push(fields as { error: string }) },
    archive: (name) =>
      new TraceArchive({ folder, redactor: { data: (value) => value }, name, files: { ...realFiles, ...full } }),
  })
  t.equal(compacted.runsForgotten, 0)
  t.same(readdirSync(folder), [])
  t.match(warnings, [{ error: /archive: .*\.json cannot be written: .*no space.*; accepted: a folder with room/ }])
})

t.test('an archive that is killed while it writes leaves no half of a file under its name', async (t) => {
  const path = await deskLog(t)
  const folder = folderOf(t)
  const dies: Partial<LogFiles> = { rename: () => Promise.reject(new Error('killed')) }
  const keep = { runs: 2, days: 30, bytes: 2 ** 30 }
  const compacted = async (files: LogFiles) => {
    const store = new FileStore(path)
    const archive = (name: (index: number) => string) =>
      new TraceArchive({ folder, redactor: { data: (value) => value }, name, files })
    try {
      return await compactLog(store, { keep, logger: silent, archive })
    } finally {
      await store.close()
    }
  }
  const killed = await compacted({ ...realFiles, ...dies })
  t.match(killed, { runsForgotten: 0 })
  t.ok(killed.runsNotArchived > 3)
  t.same(
    readdirSync(folder).filter((name) => name.endsWith('.json')),
    [],
  )
  const { runsForgotten } = await compacted(realFiles)
  t.equal(runsForgotten, killed.runsNotArchived)
  t.equal(archived(folder).length, runsForgotten)
  t.ok(
    archived(folder).every(({ trace }) => trace.messageFlow.some(({ to }) => to === 'bob')),
    'names are known',
  )
})

/** A log with these runs, as far as a compactor that archives them asks for it. */
const logOf = (runs: { index: number; bytes: number }[]) => ({
  clock: systemClock,
  logger: silent,
  store: { bytes: 0, segmentBytes: 1_000 } as object,
  old: {
    blocks: [] as { position: number; bytes: number }[],
    readBytes: 0,
    index: {
      bytes: 0,
      expired: () => runs.map((run) => ({ ...run, partBytes: 0, own: false })),
      leaning: new Map(),
      time: { see: (at: number) => at },
      forget: () => {},
      dropped: () => {},
    },
    parts: { bytes: 0, needed: () => new Set() },
  },
  past: { drop: (act: () => Promise<void>) => act() },
  facts: () => [],
  left: () => [],
  referrers: () => ({}),
  log: (_: { runs: number[] }) => {},
  written: () => Promise.resolve(),
  unlearn: () => {},
})

t.test('small runs are archived eight at a time, larger ones up to 8 MiB, and one that is larger alone', async (t) => {
  const sizes = [...Array<number>(10).fill(1), 5, 5, 3, 9, 1].map((mib) => mib * 2 ** 20)
  sizes.fill(1_000, 0, 10)
  const groups: number[][] = []
  let started: number[] = []
  const leaves = async ({ index }: { index: number }) => {
    if (started.length === 0) groups.push(started)
    started.push(index)
    await new Promise((resolve) => setImmediate(resolve))
    started = []
  }
  const log = { ...logOf(sizes.map((bytes, index) => ({ index, bytes }))), leaves }
  const { runsForgotten } = await new Compactor(log as unknown as TakenLog).compact()
  t.equal(runsForgotten, sizes.length)
  t.same(groups, [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10], [11, 12], [13], [14]])
})

t.test('after three runs that cannot be archived no others are tried', async (t) => {
  let tried = 0
  const leaves = async () => {
    tried += 1
    throw new Error('no room')
  }
  const log = { ...logOf(Array.from({ length: 30 }, (_, index) => ({ index, bytes: 1 }))), leaves }
  t.match(await new Compactor(log as unknown as TakenLog).compact(), { runsForgotten: 0, runsNotArchived: 30 })
  t.equal(tried, 8, 'those that were under way together')
})

t.test('what an earlier process has archived is given up before more is archived', async (t) => {
  const acts: string[] = []
  const store = {
    bytes: 5_000,
    segmentBytes: 1_000,
    read: async function* () {},
    sync: () => Promise.resolve(),
    dropBefore: async (before: number) => {
      acts.push(`gives up to ${before}`)
      store.bytes = 900
    },
  }
  const log = { ...logOf([{ index: 1, bytes: 1 }]), store, leaves: async () => void acts.push('archives') }
  const compactor = new Compactor(log as unknown as TakenLog)
  for (const position of [0, 1_000, 2_000]) compactor.wrote(position, 1_000)
  await compactor.compact()
  t.same(acts, ['gives up to 1000', 'archives'])
})

for (const [pace, msBetweenLooks, logged] of [
  ['each slice of time', 10, [[1], [2], [3]]],
  ['its end', 0, [[1, 2, 3]]],
] as const)
  t.test(`a compaction that is closed while it archives has logged what is archived, at ${pace}`, async (t) => {
    const { opened, open } = gate()
    const gone: (readonly number[])[] = []
    let now = 0
    const log = {
      ...logOf([1, 2, 3, 4].map((index) => ({ index, bytes: 1 }))),
      clock: { ...systemClock, monotonic: () => (now += msBetweenLooks) },
      log: (fact: { runs: number[] }) => void gone.push(fact.runs),
      leaves: ({ index }: { index: number }) => {
        if (index < 4) return Promise.resolve()
        open()
        return new Promise(() => {})
      },
    }
    const compactor = new Compactor(log as unknown as TakenLog)
    const compacting = compactor.compact()
    await opened
    await Promise.all([compactor.close(), t.rejects(compacting, { code: 'CANCELLED' })])
    t.same(gone, logged)
  })

t.test('an archive that is no folder is refused at the start, and wrong values before', async (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'archive'), 'a file')
  const error = await failureOf(teamOn(t, folder).start())
  t.match(error, { code: 'CONFIGURATION', details: { path: 'stateManagement.archive' }, message: /cannot be written/ })
  for (const archive of ['', 5, {}, new URL('file:///tmp')]) {
    const stateManagement = { path: join(folder, 'log'), archive } as unknown as StateManagement
    t.throws(
      () =>
        createTeam({
          agents: [{ name: 'ann', module: archiveModule }],
          stateManagement,
          orchestration: { strategy: 'sequential' },
        }),
      { code: 'CONFIGURATION', details: { path: 'stateManagement.archive', accepted: 'the path of a folder' } },
    )
  }
})

t.test('what a process has left that was killed while it checked the archive is removed', async (t) => {
  const folder = folderOf(t)
  mkdirSync(folder, { recursive: true })
  const dead = 2 ** 31 - 1
  for (const name of [`probe-${dead}.tmp`, `probe-${process.ppid}.tmp`, `probe-${dead}.json`])
    writeFileSync(join(folder, name), '')
  await new TraceArchive({ folder, redactor: { data: (data) => data }, name: String }).open()
  t.same(readdirSync(folder).sort(), [`probe-${process.ppid}.tmp`, `probe-${dead}.json`].sort())
})

t.test('file names keep ids apart, whatever is in them', (t) => {
  const ids = ['a', '../a', 'a/b', 'a_b', 'a%2fb', 'ä', '', '.', 'x'.repeat(300), `${'x'.repeat(299)}y`]
  const names = ids.map((id) => fileName({ id, startedAt: 1_700_000_000_000 }))
  t.equal(new Set(names).size, ids.length)
  for (const name of names) t.match(name, /^2023-11-14T22-13-20\.000Z-[\w.%-]*\.json$/)
  t.ok(names.every((name) => name.length < 250))
  t.end()
})

// Runs that are read from a log while its compaction carries their entries to another place, or its team is closed.

/** Store whose blocks are carried when they were read once. */
class MovingStore extends MemoryStore {
  carry: (() => Promise<void>) | undefined

  override async *read(options?: ReadOptions): AsyncGenerator<StoredBlock> {
    yield* super.read(options)
    const { carry } = this
    this.carry = undefined
    await carry?.()
  }
}

const QUERY = 'a long query '.repeat(100)

async function logged() {
  const disk = new MemoryDisk()
  const store = new MovingStore(disk)
  await store.open()
  const of = { run: 1, at: 1_000 }
  const launched = { id: 'one', query: QUERY, startedAt: 1_000, metadata: {}, models: {}, timeoutMs: 1, priority: 0 }
  const entries: HostRecord[] = [
    { kind: 'run.launched', seq: 1, ...of, ...launched, target: 1, own: false },
    { kind: 'run.finished', seq: 9, ...of, error: null },
  ]
  const block = { firstSeq: 1, lastSeq: 16, runs: [1], entries: encoded(entries) }
  await store.append({ ...block, carried: false })
  const old = await RecoveredLog.from(() => store.read())
  const { index } = old
  store.carry = async () => {
    index.step += 1
    index.carriedTo(await store.append({ ...block, carried: true }), [1])
  }
  return new PastRunReader(store, old)
}

t.test('a run is read whole while its entries are carried', async (t) => {
  const past = await logged()
  const run = await past.read(past.find('one')!)
  t.match(run, { launched: { query: QUERY }, finished: { seq: 9 } })
})

t.test('the list of the runs takes no reading, and has the begin of a long query', async (t) => {
  const past = await logged()
  t.match([...past.newest()], [{ index: 1, isCut: true, id: 'one', query: QUERY.slice(0, 511) }])
})

t.test('a log that is compacted each time that it is read is given up after pauses, with the reason', async (t) => {
  const pauses: number[] = []
  const clock = { sleep: async (ms: number) => void pauses.push(ms) }
  const removed = () => Promise.reject(Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT' }))
  await t.rejects(whileMoved(removed, clock), { code: 'LOG_HELD', message: /is not damaged.*Try again/ })
  t.same(pauses, [20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120])
})

/** Store that reads nothing from a moment on, until the reading is ended. */
class StuckStore extends MemoryStore {
  isStuck = false

  override async *read(options: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    const { signal } = options
    if (this.isStuck)
      await new Promise((_, reject) => {
        if (signal?.aborted) reject(signal.reason)
        signal?.addEventListener('abort', () => reject(signal.reason))
      })
    yield* super.read(options)
  }
}

t.test(
  'an ended run whose team is closed while it is read does not look as if it had ended without an answer',
  async (t) => {
    const disk = new MemoryDisk()
    const teamOf = (store: MemoryStore) =>
      createTeam({
        agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
        orchestration: { strategy: 'custom', name: 'an answer', run: async () => 'answered' },
        models: { default: { offline: true, async *complete() {} } },
        stateManagement: { store },
        logger: silent,
      })
    const before = teamOf(new MemoryStore(disk))
    t.match(await before.execute('go', { runId: 'one' }), { finalOutput: 'answered' })
    await before.close()

    const store = new StuckStore(disk)
    const after = teamOf(store)
    await after.start()
    store.isStuck = true
    const run = after.getRun('one')!
    await after.close()
    t.match(await run.result, { success: false, error: { code: 'TEAM_CLOSED' } })
    t.equal(run.status, 'interrupted')
  },
)
