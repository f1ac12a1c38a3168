/** Runs that a log forgets are written into the archive first. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { systemClock } from '../../src/clock.ts'
import { createTeam, type StateManagement } from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/compact-log.ts'
import { Compactor, type CompactorNeeds } from '../../src/runtime/durability/compactor.ts'
import { fileName, TraceArchive } from '../../src/runtime/durability/trace-archive.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { type LogFiles, realFiles } from '../../src/runtime/store/log-files.ts'
import { gate } from '../supervision/teams.ts'
import { deskLog, runsIn, silent } from './damaged-logs.ts'
import { failureOf, folderOf, segmentsOf } from './log-folders.ts'

const module = new URL('../fixtures/durability/old-log-agent.js', import.meta.url)

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
    agents: ['ann', 'cid'].map((name) => ({ name, module })),
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
    t.same(
      messages.map(({ content }) => content),
      before.messages,
    )
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

for (const [pace, msBetweenLooks, logged] of [
  ['each slice of time', 10, [[1], [2], [3]]],
  ['its end', 0, [[1, 2, 3]]],
] as const)
  t.test(`a compaction that is closed while it archives has logged what is archived, at ${pace}`, async (t) => {
    const { opened, open } = gate()
    const gone: (readonly number[])[] = []
    let now = 0
    const needs = {
      clock: { ...systemClock, monotonic: () => (now += msBetweenLooks) },
      logger: silent,
      store: { bytes: 0 },
      index: { expired: () => [1, 2, 3, 4].map((index) => ({ index, own: false })), forget: () => {} },
      log: (fact: { runs: number[] }) => void gone.push(fact.runs),
      leaves: ({ index }: { index: number }) => {
        if (index < 4) return Promise.resolve()
        open()
        return new Promise(() => {})
      },
    }
    const compactor = new Compactor(needs as unknown as CompactorNeeds)
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
        createTeam({ agents: [{ name: 'ann', module }], stateManagement, orchestration: { strategy: 'sequential' } }),
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
