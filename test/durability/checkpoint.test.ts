/** Logs that are opened by a checkpoint: what is read, what is trusted, and that it is the same as without. */
import { cpSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type RunSummary } from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { RecoveredLog } from '../../src/runtime/durability/recovered-log.ts'
import { Slices } from '../../src/runtime/durability/slices.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { silent } from '../kit/team.ts'
import { FaultyFiles } from './faulty-files.ts'
import { folderOf, segmentsOf } from './log-folders.ts'

const CHECKPOINT_BYTES = 2 ** 16
const SEGMENT_BYTES = 2 ** 18
const QUERY = 'why '.repeat(150)
const RUNS = 300
/** Runs of the process that was killed. */
const LAST = 5

interface Warning {
  readonly text: string
  readonly reason: unknown
}

/** A team that waits when it is told so. It counts what it reads of the log. */
function teamOf(t: Test, path: string) {
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
  const { team: before } = teamOf(t, path)
  const open = before.launch('waits', { runId: 'open' })
  const run = (team: typeof before, n: number) =>
    team.execute(`${n} ${QUERY}`, { runId: `run ${n}`, metadata: { caller: 'ann' }, ...(n % 20 === 0 && TALK) })
  for (let n = 0; n < runs - LAST; n++) await run(before, n)
  await before.close() // in order: with a checkpoint at its end
  t.equal(open.status, 'interrupted')
  const { team } = teamOf(t, path)
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
  const { team, files, warnings } = teamOf(t, path)
  const runs = await team.listRuns()
  const read = files.readBytes
  const first = await team.getRun('run 0')!.result
  const last = await team.getRun(`run ${RUNS - 1}`)!.result
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
  path = await killed(t, RUNS)
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
    await t.rejects(teamOf(t, copy).team.start(), { code: 'LOG_CORRUPT' }, what)
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
  t.equal(index.size, RUNS + 1)
  t.ok(entries > 500 && turns > entries / 10, `${turns} turns at ${entries} looks at the clock`)
})
