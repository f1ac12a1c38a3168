/** How large logs become, and what bounds them: by size, by age, and in memory. */

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { createTeam, defineTool, type OrchestrationConfig, type StateManagement, type Team } from '../../src/index.ts'
import { LogTime } from '../../src/runtime/durability/log-keeper.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { entrySpans } from '../../src/runtime/log/entry-codec.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { Dice } from '../dice.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from './damaged-logs.ts'
import { bytesIn, folderOf } from './log-folders.ts'

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
