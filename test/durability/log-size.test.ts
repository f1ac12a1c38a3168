/** How large a log is, and what its entries are: sizes by turns and threads, and the codec. */
import { cpSync, readdirSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import * as z from 'zod'
import {
  createTeam,
  type DeadLetter,
  defineAgent,
  defineTool,
  type OrchestrationConfig,
  type StateManagement,
  type Team,
} from '../../src/index.ts'
import { LogTime } from '../../src/runtime/durability/log-keeper.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { entrySpans } from '../../src/runtime/log/entry-codec.ts'
import type { HostRecord, LogEntry } from '../../src/runtime/log/records.ts'
import { lastSeq } from '../../src/runtime/log/run-log.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { realFiles } from '../../src/runtime/store/log-files.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { AgentFailedError, ModelError } from '../../src/shared/errors.ts'
import { Dice } from '../dice.ts'
import { message } from '../fixtures/message.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import { pluck } from '../kit/lists.ts'
import { OpenTeam, silent } from '../kit/team.ts'
import { contentOf } from '../simulation/invariants.ts'
import { appendAll, contentOf as contentOfBlocks, entriesUpTo } from './blocks.ts'
import { copyOf, runsIn } from './damaged-logs.ts'
import { decoded, encoded } from './log-entries.ts'
import { bytesIn, folderOf, segmentsOf } from './log-folders.ts'

// How large the log of a run is: what was said in it once, and a little for each record.

type Config = OrchestrationConfig<'ann' | 'bob' | 'cy'>

/** Counts what is said: each text once. Makes new texts of so many characters, with lines and quotes. */
class Speech {
  bytes = 0
  readonly #known = new Set<string>()
  readonly #dice = new Dice(3)

  hear(text: string): string {
    if (!this.#known.has(text)) this.bytes += Buffer.byteLength(text)
    this.#known.add(text)
    return text
  }

  make(characters: number): string {
    const words: string[] = []
    for (let left = characters; left > 0; left -= words.at(-1)!.length + 1)
      words.push(this.#dice.pick(['', '', '', '\n', '"', 'ä']) + this.#dice.upTo(36 ** 5).toString(36))
    return this.hear(words.join(' '))
  }
}

/** Three agents of a model; two of them call a tool before they answer. */
async function talkingTeam(t: Test, orchestration: Config, size: number) {
  const speech = new Speech()
  const server = await modelServer(t)
  const answer = ({ body, number }: SeenCall) => {
    const offered = JSON.stringify(body.tools ?? [])
    speech.hear(
      offered +
        body.messages
          .filter(({ role }) => role === 'system')
          .map(({ content }) => content)
          .join(),
    )
    if (offered.includes('"look"') && body.messages.at(-1)?.role !== 'tool')
      return { toolCalls: [{ name: 'look', input: { page: `${number} ${speech.make(size / 4)}` } }] }
    return speech.make(size / 2)
  }
  server.always(answer)
  const look = defineTool({
    name: 'look',
    description: 'Looks at a page.',
    input: z.object({ page: z.string() }),
    readOnly: true,
    run: () => speech.make(size),
  })
  const path = join(folderOf(t), 'log')
  const team = createTeam({
    agents: [
      { name: 'ann', description: 'Looks.', tools: ['look'] },
      { name: 'bob', description: 'Thinks.' },
      { name: 'cy', description: 'Looks too.', tools: ['look'] },
    ],
    tools: [look],
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } },
    logger: silent,
    stateManagement: { path },
    orchestration,
  })
  t.teardown(() => team.close())
  return { team, speech, path }
}

async function recordsIn(path: string): Promise<number> {
  let records = 0
  for await (const { entries } of readLog(path)) records += [...entrySpans(entries)].length
  return records
}

const strategies: Config[] = [
  { strategy: 'sequential' },
  { strategy: 'parallel' },
  { strategy: 'blackboard' },
  { strategy: 'collaborate' },
  { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'cy' },
  { strategy: 'hierarchical', manager: 'bob', workers: ['ann', 'cy'] },
  { strategy: 'supervisor', supervisor: 'bob', experts: ['ann', 'cy'] },
]

for (const orchestration of strategies)
  for (const size of [300, 40_000])
    t.test(`${orchestration.strategy}, texts of up to ${size} characters`, async (t) => {
      const { team, speech, path } = await talkingTeam(t, orchestration, size)
      await team.execute(speech.make(size), { threadId: 'talk' })
      await team.close()
      const [bytes, records] = [bytesIn(path), await recordsIn(path)]
      t.ok(bytes <= 1.5 * speech.bytes + 256 * records, `${bytes} bytes; ${speech.bytes} said, ${records} records`)
    })

t.test('a query of 840,000 characters is in the log once', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = createTeam({
    agents: [
      { name: 'ann', description: 'Answers.' },
      { name: 'bob', description: 'Answers.' },
    ].map((agent) => ({ ...agent, maxTokens: 2_000_000 })),
    logger: silent,
    models: 'rehearsal',
    stateManagement: { path },
    orchestration: { strategy: 'sequential' },
  })
  t.teardown(() => team.close())
  const query = new Speech().make(840_000)
  await team.execute(query)
  await team.close()
  t.ok(bytesIn(path) < 1.1 * Buffer.byteLength(query), `${bytesIn(path)} bytes`)
})

// A clock that is wrong for a while: what a log forgets by the age of its runs, and what it says.

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const START = Date.UTC(2026, 0, 1)

const times: Record<string, { sees: number[]; is: number; jumped?: boolean }> = {
  'goes with its records': { sees: [0, 5, 9 * HOUR, DAY], is: DAY },
  'goes on over a night without records': { sees: [0, 20 * HOUR], is: 20 * HOUR },
  'does not go back': { sees: [DAY, 0], is: DAY },
  'does not follow a jump': { sees: [0, 40 * DAY], is: 0, jumped: true },
  'does not follow a jump of which many records tell': {
    sees: [0, 40 * DAY, 40 * DAY + 59 * MINUTE],
    is: 0,
    jumped: true,
  },
  'follows a jump after an hour of calm': { sees: [0, 40 * DAY, 40 * DAY + HOUR], is: 40 * DAY + HOUR },
  'forgets a jump when the clock is right again': { sees: [0, 40 * DAY, 1, 40 * DAY + HOUR], is: 1, jumped: true },
  'waits anew after a second jump': { sees: [0, 40 * DAY, 80 * DAY, 80 * DAY + 5], is: 0, jumped: true },
  'follows a clock that was behind': { sees: [10 * DAY, 0, 10 * DAY + 1], is: 10 * DAY + 1 },
}
for (const [what, { sees, is, jumped = false }] of Object.entries(times))
  t.test(`the time of a log ${what}`, async (t) => {
    const time = new LogTime()
    for (const at of sees) time.see(START + at)
    t.equal(time.now - START, is)
    t.equal(time.jump !== undefined, jumped)
  })

const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)

/** A process whose clock is ahead by so much. Returns the runs that it knows at its end, and its warnings. */
async function lives(t: Test, path: string, aheadMs: number, runs: readonly string[] = []) {
  const warnings: string[] = []
  const warn = (_fields: object, text: string) => void warnings.push(text)
  const team = createTeam({
    agents: [{ name: 'ann', module }],
    clock: { ...systemClock, now: () => systemClock.now() + aheadMs },
    stateManagement: { path },
    logger: { ...silent, warn },
    orchestration: {
      strategy: 'custom',
      name: 'a desk',
      run: async (desk, query) => (await desk.request('ann', `remember ${query}`)).content,
    },
  })
  t.teardown(() => team.close())
  await team.start()
  for (const runId of runs) await team.execute(runId, { runId })
  await team.flush()
  const known = (await team.listRuns()).map(({ id }) => id).sort()
  await team.close()
  return { known, warnings: warnings.filter((text) => text.startsWith('the clock is')) }
}

t.test('a clock that was wrong at some starts makes a log forget no run, and is told of', async (t) => {
  const path = join(folderOf(t), 'log')
  t.same(await lives(t, path, 0, ['one', 'two']), { known: ['one', 'two'], warnings: [] })
  for (const runId of ['three', 'four']) {
    const { known, warnings } = await lives(t, path, 40 * DAY, [runId])
    t.ok(known.includes('one') && known.includes('two'), `${known}`)
    t.match(warnings, [/more than a day ahead of the newest record.*no run is forgotten/], 'once')
  }
  t.same(await lives(t, path, 0), { known: ['four', 'one', 'three', 'two'], warnings: [] })
})

t.test('a log that is compacted by hand believes the clock if it is told an age', async (t) => {
  const path = join(folderOf(t), 'log')
  await lives(t, path, 0, ['one', 'two'])
  const clock = { ...systemClock, now: () => systemClock.now() + 40 * DAY }
  for (const [believesClock, forgotten] of [
    [false, 0],
    [true, 2],
  ] as const) {
    const store = new FileStore(path)
    const keep = { runs: 1_000, days: 30, bytes: 2 ** 30 }
    const { runsForgotten } = await compactLog(store, { keep, believesClock, logger: silent, clock })
    await store.close()
    t.equal(runsForgotten, forgotten)
  }
})

// The limits of `keep` act also while a log is small, and its metrics say how large it is.

/** A team whose minutes pass when the test says so. */
function teamOf(t: Test, path: string, keep: StateManagement['keep'] & object) {
  let ahead = 0
  const due = new Set<() => void>()
  const clock: Scheduler = {
    ...systemClock,
    now: () => systemClock.now() + ahead,
    timer(ms, task, limit) {
      if (ms !== MINUTE) return systemClock.timer(ms, task, limit)
      due.add(task)
      return { cancel: () => void due.delete(task) }
    },
  }
  const team = createTeam({
    agents: [{ name: 'ann', module }],
    clock,
    stateManagement: { path, keep },
    logger: silent,
    orchestration: {
      strategy: 'custom',
      name: 'a desk',
      run: async (desk, query) => (await desk.request('ann', `remember ${query}`)).content,
    },
  })
  t.teardown(() => team.close())
  const pass = (ms: number) => {
    ahead += ms
    for (const task of [...due]) {
      due.delete(task)
      task()
    }
  }
  return { team, pass }
}

/** A run that has just ended may be under way still when the first minute passes. */
async function until(isSo: () => boolean, pass: (ms: number) => void): Promise<void> {
  while (!isSo()) {
    pass(MINUTE)
    await new Promise(setImmediate)
  }
}

const figure = (team: Team, name: string) =>
  team.metrics().find((metric) => metric.name === `dramatis_durable_log_${name}`)?.samples[0]?.value

t.test('runs beyond a limit are forgotten within a minute', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, pass } = teamOf(t, path, { runs: 3, days: 1 })
  await team.start()
  for (let n = 1; n <= 6; n++) await team.execute(`${n}`, { runId: `run ${n}` })
  t.ok(Number(figure(team, 'runs')) > 3, 'the log has not grown enough to be compacted')
  await until(() => figure(team, 'runs') === 3, pass)
  pass(20 * HOUR)
  await team.execute('late', { runId: 'late' })
  pass(20 * HOUR)
  await until(() => figure(team, 'runs') === 1, pass)
  await team.close()
  const next = teamOf(t, path, { runs: 3, days: 1 }).team
  await next.start()
  t.same(pluck(await next.listRuns(), 'id'), ['late'], 'the others have ended more than a day ago')
})

t.test('metrics of the durable log are those of its files', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, pass } = teamOf(t, path, { runs: 2 })
  t.equal(figure(team, 'bytes'), undefined, 'it is not open')
  await team.start()
  for (let n = 1; n <= 4; n++) await team.execute(`${n}`)
  pass(HOUR)
  await until(() => figure(team, 'runs') === 2, pass)
  await team.flush()
  const files = readdirSync(path).filter((name) => name.endsWith('.log'))
  t.equal(figure(team, 'segments'), files.length)
  t.equal(
    figure(team, 'bytes'),
    files.reduce((sum, name) => sum + statSync(join(path, name)).size, 0),
  )
  const age = figure(team, 'oldest_record_seconds') ?? 0
  t.ok(age >= 3_600 && age < 86_400, `${age} s`)
  const compacted = (figure(team, 'compacted_timestamp_seconds') ?? 0) * 1_000
  t.ok(compacted > systemClock.now(), new Date(compacted).toISOString())
})

// A turn of more than 64 MiB, which is what a log in memory keeps of a run, on real threads.

t.test('a turn of 80 MiB goes on after the death of its thread, and does nothing twice', async (t) => {
  const folder = folderOf(t)
  const effects = join(folder, 'effects')
  const team = createTeam({
    agents: [{ name: 'long', module: new URL('../fixtures/durability/long-agent.js', import.meta.url) }],
    stateManagement: { path: join(folder, 'log') },
    logger: silent,
    orchestration: { strategy: 'sequential' },
  })
  t.teardown(() => team.close())
  t.match(await team.execute(effects), { success: true, finalOutput: '80 MiB in attempt 2' })
  t.same(
    readFileSync(effects, 'utf8').trim().split('\n').map(Number),
    Array.from({ length: 80 }, (_, n) => n),
  )
})

t.test('without a durable log it is not run again, and the error says what helps', async (t) => {
  const team = createTeam({
    agents: [{ name: 'long', module: new URL('../fixtures/durability/long-agent.js', import.meta.url) }],
    logger: silent,
    orchestration: { strategy: 'sequential' },
  })
  t.teardown(() => team.close())
  const { error } = await team.execute(join(folderOf(t), 'effects'))
  t.match(error, { code: 'OUTCOME_UNKNOWN', message: /Use shorter turns, or a durable log/ })
})

// Logs of threads: a task logs what was said in it, however long its thread is, and can be read when older ones are
// gone.

const SMALL = { segmentBytes: 2 ** 14, checkpointBytes: 2 ** 15 }

/** A team of two models that answer with new words. `told`: what it warned of. */
function longThread(t: Test, path: string, keep: StateManagement['keep'], sizes = SMALL) {
  const dice = new Dice(1)
  const words = (count: number) => Array.from({ length: count }, () => dice.upTo(36 ** 6).toString(36)).join(' ')
  const told: string[] = []
  const team = createTeam({
    agents: [
      { name: 'ann', description: 'Answers.' },
      { name: 'bob', description: 'Answers too.' },
    ],
    orchestration: {
      strategy: 'custom',
      async run(context, query) {
        const { content } = await context.request('ann', query)
        if (query.startsWith('wait')) await context.sleep(10 ** 9)
        return (await context.request('bob', `What of this? ${content}`)).content
      },
    },
    models: {
      default: {
        offline: true,
        async *complete() {
          yield { type: 'text', text: words(40) }
        },
      },
    },
    logger: { ...silent, warn: (_, text) => void told.push(text) },
    stateManagement: { store: new FileStore(path, sizes), keep },
  })
  t.teardown(() => team.close())
  const ask = async (runId: string, threadId: string) => {
    const run = team.launch(`${runId}: ${words(20)}`, { runId, threadId })
    await run.result
    return JSON.stringify(run.trace)
  }
  return { team, ask, told }
}

t.test('the 100th task of a thread logs no more than the fifth', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, ask } = longThread(t, path, { runs: 1_000 }, { segmentBytes: 2 ** 26, checkpointBytes: 2 ** 25 })
  const sizes = [0]
  for (let n = 1; n <= 100; n++) {
    await ask(`task ${n}`, 'talk')
    await team.flush()
    sizes.push(bytesIn(path))
  }
  const logged = (from: number, to: number) => sizes.slice(from + 1, to + 1).map((size, i) => size - sizes[from + i]!)
  const mean = (all: readonly number[]) => all.reduce((sum, each) => sum + each, 0) / all.length
  const [first, last] = [mean(logged(4, 10)), mean(logged(90, 100))]
  t.ok(last < 1.1 * first, `${first} bytes a task at first, ${last} at last`)
  t.ok(Math.max(...logged(4, 100)) < 2 * first, `none of ${logged(4, 100)} logs its thread anew`)
})

/** Opens a log as the next process does, and compares what it has of runs with what the first process had. */
async function readAgain(t: Test, path: string, traces: ReadonlyMap<string, string>) {
  const { team, told } = longThread(t, path, { runs: 1_000 })
  await team.start()
  t.same(told, [])
  let read = 0
  for (const { id, status } of await team.listRuns()) {
    if (status !== 'finished') continue
    const run = team.getRun(id)!
    await run.result
    if (JSON.stringify(run.trace) !== traces.get(id)) t.fail(`${id} is not what it was`)
    read += 1
  }
  await team.close()
  await runsIn(path) // all of it, without its checkpoint
  return read
}

t.test('the last runs of threads are read when those before were forgotten, in any process', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, ask, told } = longThread(t, path, { runs: 8 })
  const traces = new Map<string, string>()
  let least = 1
  for (let n = 1; n <= 120; n++) {
    const [id, thread] = [`task ${n}`, `talk ${n % 3}`]
    traces.set(id, await ask(id, thread))
    if (n % 30 === 20) team.launch(`wait ${n}`, { runId: `waits ${n}`, threadId: `talk ${n % 3}` })
    if (n % 20 !== 0) continue
    await team.flush()
    const copy = join(folderOf(t), 'log')
    cpSync(path, copy, { recursive: true }) // as a process leaves it that is killed
    const read = await readAgain(t, copy, traces)
    t.ok(read >= 8)
    least = Math.min(least, read / n)
  }
  t.same(told, [])
  t.ok(least < 0.5, 'many were forgotten')
})

t.test('a compaction leaves the runs that it keeps as they were, each time with fewer of them', async (t) => {
  const path = join(folderOf(t), 'log')
  const { team, ask } = longThread(t, path, { runs: 1_000 })
  const traces = new Map<string, string>()
  for (let n = 1; n <= 24; n++) traces.set(`task ${n}`, await ask(`task ${n}`, `talk ${n % 2}`))
  await team.close()
  const whole = await runsIn(path)
  for (const runs of [20, 19, 10, 4, 2, 1]) {
    const store = new FileStore(path, SMALL)
    await compactLog(store, { keep: { runs, days: 30, bytes: 2 ** 30 }, logger: silent })
    await store.close()
    const left = await runsIn(path)
    t.equal(left.size, runs)
    for (const [id, entries] of left) t.same(entries, whole.get(id), id)
    t.equal(await readAgain(t, copyOf(t, path), traces), runs)
  }
})

// Entries of the log as bytes, and logs as others read them.

// Entries of the log as bytes. That nothing of a whole team's log is lost in them is a part of the simulation.

const numbers = { seq: 8, at: 1_700_000_000_000.25, run: 4_000_000_000 }

t.test('a record comes back with its numbers, its text and what is absent in it', async (t) => {
  const record: HostRecord = { kind: 'run.started', ...numbers, query: 'Grüße, 世界 \ud83d\ude80 \u0000' }
  t.strictSame([...decoded(encoded([record]))], [record])
  const question: HostRecord = { kind: 'question', ...numbers, agent: 'a', questionId: 'q', ask: 'ask', text: '?' }
  t.notOk('choices' in [...decoded(encoded([question]))][0]!)
})

t.test('an error comes back as its class, with details and the stack of its cause', async (t) => {
  const cause = new Error('no paper')
  const error = new AgentFailedError('ann: Error: no paper', { agent: 'ann' }, cause)
  const [read] = decoded(encoded([{ kind: 'run.finished', ...numbers, error }]))
  if (read?.kind !== 'run.finished') return t.fail('another record was read')
  t.type(read.error, AgentFailedError)
  t.match(read.error, { message: error.message, details: { agent: 'ann' } })
  t.match(read.error?.cause, { stack: cause.stack })
  const [well] = decoded(encoded([{ kind: 'run.finished', ...numbers, error: null }]))
  t.match(well, { error: null })
})

t.test('a dead letter comes back with the errors of all its attempts', async (t) => {
  const errors = [new AgentFailedError('once'), new ModelError('twice', { reason: 'timeout' })]
  const letter: DeadLetter = { id: 'm', message, reason: 'failed', errors, at: 2 }
  const [read] = decoded(encoded([{ kind: 'message.dead', ...numbers, letter, bytes: 100 }]))
  if (read?.kind !== 'message.dead') return t.fail('another record was read')
  t.match(read.letter, { id: 'm', message: { content: 'Do.' }, reason: 'failed', at: 2 })
  t.same(
    read.letter.errors.map(({ name, message }) => [name, message]),
    [
      ['AgentFailedError', 'once'],
      ['ModelError', 'twice'],
    ],
  )
})

t.test('bytes that are no entries are refused', async (t) => {
  const bytes = encoded([{ kind: 'run.started', ...numbers, query: 'go' }])
  t.throws(() => [...decoded(bytes.subarray(0, bytes.byteLength - 8))], /ends behind the last of 64 bytes/)
  const unknown = Buffer.from(bytes)
  unknown.writeUInt32LE(9, 0)
  t.throws(() => [...decoded(unknown)], /is of kind 9/)
  t.same([...decoded(new Uint8Array())], [])
})

t.test('the log of a team that was written to a store is read from it again', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 2_000 })
  await store.open()
  const logged: LogEntry[] = []
  const writes: Promise<number>[] = []
  const team = teamOfTwo()
  team.host.journal.records$.subscribe((batch) => {
    logged.push(...batch)
    const runs = [...new Set(batch.map(({ run }) => run))]
    const [firstSeq, last] = [batch[0]!.seq, lastSeq(batch.at(-1)!)]
    writes.push(store.append({ firstSeq, lastSeq: last, carried: false, runs, entries: encoded(batch) }))
  })
  for (const query of ['Write it.', 'Fail at it.']) {
    const run = team.launch(query)
    await team.clock.runToIdle()
    await run.result
  }
  const closed = team.close()
  await team.clock.runToIdle()
  await closed
  await Promise.all(writes)
  await store.close()
  const again = new FileStore(folder)
  await again.open()
  const read: LogEntry[] = []
  for await (const { entries } of again.read()) read.push(...decoded(entries))
  await again.close()
  const kinds = new Set(logged.map(({ kind }) => kind))
  for (const kind of ['frames', 'run.started', 'agent.status', 'message.dead', 'run.finished'] as const)
    t.ok(kinds.has(kind), kind)
  t.same(read.map(contentOf), logged.map(contentOf))
})

/** The first agent asks the second, or has no time for its answer: then the second fails. */
function teamOfTwo(): OpenTeam {
  const definitions = new Map([
    [
      'lead',
      defineAgent({
        async receive({ content }, context) {
          if (content.startsWith('Write')) return context.request('writer', content)
          await context.send('writer', content)
          return 'Sent.'
        },
      }),
    ],
    [
      'writer',
      defineAgent({
        receive: ({ content }) => {
          if (content.startsWith('Fail')) throw new Error('no paper')
          return 'Written.'
        },
      }),
    ],
  ])
  const agents = [...definitions.keys()].map((name) => ({ name, module: name }))
  return new OpenTeam(
    { agents, orchestration: { strategy: 'sequential', agentOrder: ['lead'] }, logger: silent },
    definitions,
    1,
  )
}

// A log is read while its owner has it, and is not changed by that.

t.test('a reader sees what its owner has written, in order, over several segments', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder, { segmentBytes: 1_000 })
  await store.open()
  await appendAll(store, 1, 30)
  t.ok(segmentsOf(folder).length > 1)
  t.same(await contentOfBlocks(readLog(folder)), entriesUpTo(30))
  await appendAll(store, 31, 40)
  t.same(await contentOfBlocks(readLog(folder)), entriesUpTo(40))
  await store.close()
})

t.test('a reader leaves an unfinished block alone', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  await appendAll(store, 1, 5)
  await store.close()
  const [segment] = segmentsOf(folder)
  const path = join(folder, segment!)
  truncateSync(path, statSync(path).size - 8)
  const [before, size] = [readdirSync(folder), statSync(path).size]
  t.same(await contentOfBlocks(readLog(folder)), entriesUpTo(4))
  t.same([readdirSync(folder), statSync(path).size], [before, size])
})

t.test('a reader sees a block whole that its owner had not ended at first', async (t) => {
  const folder = folderOf(t)
  const store = new FileStore(folder)
  await store.open()
  await appendAll(store, 1, 5)
  const [segment] = segmentsOf(folder)
  let reads = 0
  const read = async (path: string, from?: number, bytes?: number) => {
    const found = await realFiles.read(path, from, bytes)
    return path.endsWith(segment!) && reads++ === 0 ? found.subarray(0, found.length - 8) : found
  }
  t.same(await contentOfBlocks(readLog(folder, { files: { ...realFiles, read } })), entriesUpTo(5))
  await store.close()
})
