/** The data desk: its agents and its pages, and killed at several moments and started again. */
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { BlackboardEntry, DeadLetter, Health, MultiAgentResult, OrchestrationTrace } from 'dramatis'
import t, { type Test } from 'tap'
import { accountOf } from '../../examples/data-desk/lib/account.ts'
import {
  confidenceOfRank,
  longestRun,
  rainClaims,
  spellClaims,
  temperatureClaims,
  temperatureDays,
} from '../../examples/data-desk/lib/anomalies.ts'
import { calendarDay, dateOf, parseWeather, type Weather } from '../../examples/data-desk/lib/dataset.ts'
import { takeLogFolder } from '../../examples/data-desk/lib/log-folder.ts'
import { recoveryOf, resumptionsOf } from '../../examples/data-desk/lib/recovery.ts'
import { markdownTable, writeReport } from '../../examples/data-desk/lib/report.ts'
import {
  method,
  seasonalKendall,
  seasonalSlope,
  tallyMonths,
  trendChance,
  trendClaims,
  yearTable,
} from '../../examples/data-desk/lib/trends.ts'
import { withoutKeys } from '../../examples/lib/without-keys.ts'
import { kindOf, lengthOf, readBody, STEP_DONE } from '../../src/mailbox/frame.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { folderOf } from '../durability/log-folders.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'

// Tests are started in the project's folder.
const CSV = 'examples/data-desk/data/seattle-weather.csv'
const HEADER = 'date,precipitation,temp_max,temp_min,wind,weather'

t.test('reads the readings as columns', async (t) => {
  const weather = parseWeather(`${HEADER}\n2012-01-01,0.0,12.8,5.0,4.7,drizzle\n2012-01-02,10.9,-1.6,-2.8,4.5,rain\n`)
  t.strictSame(weather, { firstDay: '2012-01-01', tempMax: [12.8, -1.6], tempMin: [5, -2.8], precipitation: [0, 10.9] })
})

t.test('refuses a missing day, an empty cell and an empty file, and says where', async (t) => {
  t.throws(
    () => parseWeather(`${HEADER}\n2012-01-01,0,1,1,1,sun\n2012-01-03,0,1,1,1,sun`),
    /Row 2 .* 2012-01-03, not 2012-01-02/,
  )
  t.throws(() => parseWeather(`${HEADER}\n2012-01-01,0,,1,1,sun`), /Row 1 .*temp_max/s)
  t.throws(() => parseWeather(HEADER), /there is no day in it/)
})

t.test('a date has the same calendar day in each year', async (t) => {
  t.equal(calendarDay('2013-03-01'), calendarDay('2012-03-01'))
  t.equal(calendarDay('2012-01-01'), 0)
  t.equal(calendarDay('2015-12-31'), 365)
  t.equal(dateOf({ firstDay: '2012-02-28' }, 2), '2012-03-01')
})

t.test('the longest run is the first of its length, at the edges too', async (t) => {
  const dry = (rain: number) => rain === 0
  t.strictSame(longestRun([0, 0, 1, 0, 0], dry), { start: 0, length: 2 })
  t.strictSame(longestRun([1, 0, 0, 0], dry), { start: 1, length: 3 })
  t.strictSame(longestRun([1], dry), { start: 0, length: 0 })
})

t.test('confidence falls with the rank', async (t) => {
  // 1 - 0.99 ** 506: that at least one of 506 days lies above the true percentile.
  t.ok(Math.abs(confidenceOfRank(1, 506, 0.99) - 0.9938) < 0.0001)
  t.ok(confidenceOfRank(2, 506, 0.99) < confidenceOfRank(1, 506, 0.99))
  t.ok(confidenceOfRank(506, 506, 0.99) < 0.001)
})

t.test('a day far from its season is found, and a season without spread has none', async (t) => {
  const tempMax = Array.from({ length: 365 }, (_, day) => 15 + (day % 5))
  tempMax[100] = 45
  const strange = temperatureDays(days('2013-01-01', { tempMax })).filter(({ z }) => Math.abs(z) > 3)
  t.strictSame(pluck(strange, 'date'), [dateOf({ firstDay: '2013-01-01' }, 100)])
  t.ok(strange[0]!.confidence > 0.99)
  t.ok(temperatureDays(days('2013-01-01', {})).every(({ z, confidence }) => z === 0 && confidence === 0))
})

t.test('a steady rise is certain up to what the number of years allows', async (t) => {
  const rows = [0, 1, 2, 3].map((year) => Array.from({ length: 12 }, (_, month) => 10 * Math.sin(month) + 0.5 * year))
  t.ok(Math.abs(seasonalSlope(rows, [0, 1, 2, 3]) - 0.5) < 1e-9)
  t.equal(seasonalKendall(rows), 72)
  t.equal(trendChance(rows), 2 / 24)
  t.match(method(4), /4 years have 24 orders: no trend in them can reach more than 0.92/)
})

t.test('no change is no trend', async (t) => {
  const rows = [1, 2, 3].map(() => Array.from({ length: 12 }, (_, month) => month))
  t.equal(seasonalSlope(rows, [1, 2, 3]), 0)
  t.equal(trendChance(rows), 1)
})

t.test('years that miss a day are left out, and two years make no trend', async (t) => {
  const tally = tallyMonths(days('2012-01-01', { length: 366 + 365 + 100 }))
  t.strictSame(tally.years, [2012, 2013])
  t.strictSame(trendClaims(tally), [])
})

t.test('the checked-in data give these findings', async (t) => {
  const weather = parseWeather(await readFile(CSV, 'utf8'))
  const tally = tallyMonths(weather)
  const claims = [...temperatureClaims(weather), ...rainClaims(weather), ...spellClaims(weather), ...trendClaims(tally)]
  const figures = Object.fromEntries(claims.map(({ key, confidence }) => [key, confidence.toFixed(2)]))
  // Computed a second time from the definitions, in Python.
  t.match(figures, {
    'finding.anomaly.2014-02-06': '0.98',
    'finding.anomaly.2014-02-05': '0.88',
    'finding.anomaly.2012-01-19': '0.43',
    'finding.anomaly.2012-01-18': '0.23',
    'finding.heavy_rain.2015-03-15': '0.99',
    'finding.heavy_rain.2012-11-19': '0.88',
    'finding.heavy_rain.2015-12-08': '0.88',
    'finding.heavy_rain.2015-11-14': '0.74',
    'finding.heavy_rain.2014-03-05': '0.57',
    'finding.trend.highs': '0.92',
    'finding.trend.lows': '0.83',
    'finding.trend.rain': '0.08',
  })
  const text = claims.map(({ finding }) => finding.statement).join('\n')
  t.match(text, '48, 2012-07-23 to 2012-09-08')
  t.match(text, 'Daily highs rose: +0.60 °C a year (+0.51 to +0.65 with any one year left out)')
  t.strictSame(yearTable(weather, tally).rows[0], ['2012', '15.3', '7.3', '8', '18', '1226', '177', '0'])
})

t.test('each statement of the report names its entry and its agent', async (t) => {
  const report = writeReport('Title', [
    entry('stats', 'fact', { statement: 'Three days.' }),
    entry('a', 'finding', { topic: 'rain', statement: 'It rained.' }, { confidence: 0.95, references: ['stats'] }),
    entry('b', 'finding', { topic: 'trend', statement: 'It rose.' }, { confidence: 0.2 }),
    entry('years', 'table', { columns: ['year'], rows: [['2012']] }),
    entry('m', 'method', { statement: 'By counting.' }),
    entry('dataset', 'dataset', { firstDay: '2012-01-01' }),
  ])
  const statements = report.split('\n').filter((line) => /^(- |Three)/.test(line))
  t.equal(statements.length, 4)
  t.ok(statements.every((line) => /\(`[a-z]+`, someone\)$/.test(line)))
  t.match(
    report,
    /## Well supported\n\n- \*\*0\.95\*\* It rained[\s\S]*## Not enough evidence\n\n- \*\*0\.20\*\* It rose/,
  )
  t.notMatch(report, '## Likely')
})

t.test('a finding that rests on nothing stops the report', async (t) => {
  const loose = entry('a', 'finding', { topic: 'rain', statement: 'It rained.' }, { references: ['nowhere'] })
  t.throws(() => writeReport('Title', [loose]), /"a" of someone refers to "nowhere"/)
})

t.test('a table is as wide as its widest cells', async (t) => {
  t.strictSame(markdownTable({ columns: ['a', 'long'], rows: [['wide', '1']] }), [
    '| a    | long |',
    '| ---- | ---- |',
    '| wide | 1    |',
  ])
})

t.test('a crash is followed to the end of its turn', async (t) => {
  const { crashes, requests, unfinished } = recoveryOf(trace(), [])
  t.strictSame(crashes, [
    {
      agent: 'analyst',
      messageId: 'm1',
      attempt: 1,
      readyAfterMs: 12,
      warm: true,
      resumedAfterMs: 15,
      finishedInAttempt: 2,
      steps: [{ name: 'tally', replayed: true, ranAgain: false }],
    },
  ])
  t.equal(requests, 2)
  t.strictSame(unfinished, [])
})

t.test('a step that ran again is told from one that was answered', async (t) => {
  const again = trace((event) => (event.eventType === 'step.replayed' ? { ...event, eventType: 'step.began' } : event))
  t.strictSame(recoveryOf(again, []).crashes[0]?.steps, [{ name: 'tally', replayed: false, ranAgain: true }])
})

t.test('an agent that does not come back leaves its request unfinished', async (t) => {
  const whole = trace()
  const cut = { ...whole, events: whole.events.slice(0, 8) }
  const recovery = recoveryOf(cut, [])
  t.match(recovery.crashes[0], { readyAfterMs: null, resumedAfterMs: null, finishedInAttempt: null })
  t.strictSame(recovery.unfinished, ['m1'])
})

t.test('a crash between two turns cuts none off', async (t) => {
  const events = trace().events.filter(({ agent, eventType }) => agent === 'analyst' && eventType.startsWith('agent.'))
  t.match(recoveryOf({ ...trace(), events, messageFlow: [] }, []).crashes, [
    { messageId: null, attempt: null, readyAfterMs: 12, steps: [] },
  ])
})

t.test('a turn that another process had begun is told from one that begins here', async (t) => {
  // The process that went on did so at 20: the crash before it was the end of its process.
  t.strictSame(resumptionsOf(trace(), 20), [
    { agent: 'analyst', attempt: 2, steps: [{ name: 'tally', replayed: true, ranAgain: false }] },
  ])
  t.strictSame(resumptionsOf(trace(), 0), [], 'all of it began here')
})

t.test('the account of a run that another process began says what there was', async (t) => {
  const found = { at: 20, requests: 2, answered: 1, open: ['analyst'], entries: 1 }
  const account = accountOf({ ...evidence(trace()), found })
  t.match(
    account,
    'was killed: 1 of 2 requests to agents had an answer (not yet: analyst), and 1 entry was on the blackboard.',
  )
  t.match(account, '- The turn of analyst began again, in attempt 2.\n- The step "tally" had finished before and was')
})

t.test('the account says what the log says', async (t) => {
  const account = accountOf(evidence(trace()))
  t.match(account, 'analyst lost its thread in attempt 1 of its turn.')
  t.match(account, 'It was back after 12 ms, on a spare thread that stood ready.')
  t.match(account, 'The turn began again after 15 ms and finished in attempt 2.')
  t.match(account, 'The step "tally" had finished before and was answered from the log, not run again.')
  t.match(account, '2 of 2 requests to agents were finished, 0 dead letters: nothing was lost.')
  t.match(account, '2 entries on the blackboard, each written once.')
  t.match(account, '| analyst   | 2     | 1        |')
})

t.test('the account of a run that lost something says so', async (t) => {
  const whole = trace()
  const letter = { id: 'd1', reason: 'poison' } as DeadLetter
  const board = [{ ...entry('a', 'fact', {}), version: 2 }]
  const account = accountOf({
    ...evidence({ ...whole, events: whole.events.slice(0, 8) }),
    deadLetters: [letter],
    board,
  })
  t.match(account, '- It did not come back.')
  t.match(account, '1 of 2 requests to agents were finished, 1 dead letters: lost: m1.')
  t.match(account, 'written more than once: a.')
})

t.test('the account of an empty trace claims nothing', async (t) => {
  const account = accountOf(evidence({ ...trace(), events: [], messageFlow: [] }))
  t.match(account, '- No agent crashed.')
  t.match(account, '- The trace shows no request to an agent; 0 dead letters.')
  t.notMatch(account, 'nothing was lost')
})

function days(firstDay: string, { length = 365, tempMax }: { length?: number; tempMax?: number[] }): Weather {
  const same = Array.from({ length }, () => 1)
  return { firstDay, tempMax: tempMax ?? same, tempMin: same, precipitation: same }
}

function entry(
  key: string,
  entryType: string,
  value: object,
  options: { confidence?: number; references?: string[] } = {},
): BlackboardEntry {
  const { confidence = 1, references = [] } = options
  return {
    key,
    value,
    author: 'someone',
    timestamp: 0,
    entryType,
    confidence,
    supersedes: null,
    references,
    version: 1,
  }
}

type TraceEvent = OrchestrationTrace['events'][number]

/** Two agents; the analyst's thread ends after its step, 12 ms later it is ready, after 15 the turn begins again. */
function trace(change: (event: TraceEvent) => TraceEvent = (event) => event): OrchestrationTrace {
  const event = (timestamp: number, agent: string, eventType: string, details: object = {}): TraceEvent => ({
    timestamp,
    agent,
    eventType,
    details,
  })
  return {
    events: [
      event(0, 'analyst', 'agent.ready', { epoch: 1, warm: false }),
      event(1, 'collector', 'turn.started', { messageId: 'm0', attempt: 1 }),
      event(2, 'analyst', 'turn.started', { messageId: 'm1', attempt: 1 }),
      event(3, 'analyst', 'step.began', { step: 'tally', attempt: 1, messageId: 'm1' }),
      event(4, 'analyst', 'step.finished', { step: 'tally', attempt: 1, messageId: 'm1' }),
      event(5, 'analyst', 'step.began', { step: 'second', attempt: 1, messageId: 'm1' }),
      event(5, 'collector', 'turn.finished', { messageId: 'm0', attempt: 1 }),
      event(6, 'analyst', 'agent.crashed', { epoch: 1 }),
      event(18, 'analyst', 'agent.ready', { epoch: 2, warm: true }),
      event(21, 'analyst', 'turn.started', { messageId: 'm1', attempt: 2 }),
      event(22, 'analyst', 'step.replayed', { step: 'tally', attempt: 2, messageId: 'm1' }),
      event(23, 'analyst', 'step.began', { step: 'second', attempt: 2, messageId: 'm1' }),
      event(30, 'analyst', 'turn.finished', { messageId: 'm1', attempt: 2 }),
    ].map(change),
    decisions: [],
    agentActivations: [
      { agent: 'collector', startedAt: 1, endedAt: 5, messageId: 'm0' },
      { agent: 'analyst', startedAt: 2, endedAt: 6, messageId: 'm1' },
      { agent: 'analyst', startedAt: 21, endedAt: 30, messageId: 'm1' },
    ],
    messageFlow: [
      { from: '$orchestrator', to: 'collector', messageId: 'm0', type: 'request', at: 0 },
      { from: '$orchestrator', to: 'analyst', messageId: 'm1', type: 'request', at: 0 },
      { from: 'analyst', to: '$orchestrator', messageId: 'm2', type: 'response', at: 30 },
    ],
    syncPointsReached: [],
  }
}

function evidence(orchestrationTrace: OrchestrationTrace) {
  const status = { status: 'idle', queued: 0, inFlight: 0, lastBeatMs: 0, staleFrames: 0 } as const
  const result = { orchestrationTrace, messageHistory: [], agentExecutionTimesMs: { analyst: 13 }, executionTimeMs: 30 }
  const health = { agents: { collector: { ...status, restarts: 0 }, analyst: { ...status, restarts: 1 } } }
  return {
    // Only what the account reads.
    result: result as unknown as MultiAgentResult,
    health: health as unknown as Health,
    deadLetters: [],
    board: [entry('a', 'fact', {}), entry('b', 'fact', {})],
  }
}

// The first run, killed with SIGKILL at several moments and started again: it goes on, and says what it went on with.

const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href
const LIMIT_MS = 110_000

/** Starts the desk. It dies at that write to its log. */
async function startWatched(t: Test, folder: string, diesAt = '') {
  const args = ['--import', preload, 'dist/examples/data-desk/main.js', '--log', folder]
  const env = { ...withoutKeys(process.env), DIES_AT_WRITE: diesAt }
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = new Promise<[number | null, string | null]>((resolve) => {
    child.once('exit', (code, signal) => resolve([code, signal]))
  })
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { exit: await exited, stdout, stderr, report: stdout.split('\n## What happened')[0] }
}

/** Names of the steps that have an outcome in the log, and the number of runs in it. */
async function logged(folder: string) {
  const steps: string[] = []
  let [runs, ended] = [0, 0]
  for await (const entry of entriesOf(() => readLog(folder))) {
    if (entry.kind === 'run.launched') runs += 1
    if (entry.kind === 'run.finished') ended += 1
    if (entry.kind !== 'frames') continue
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at))
      if (kindOf(memory, at) === STEP_DONE) steps.push(readBody(memory, at).content)
  }
  return { steps, runs, ended }
}

const theOne = (folder: string): string => join(folder, readdirSync(folder)[0]!)

t.test('a first run says nothing of an earlier one, and leaves no log behind', async (t) => {
  const folder = folderOf(t)
  const { exit, stdout, stderr } = await startWatched(t, folder)
  t.same(exit, [0, null], stderr)
  t.notMatch(stdout + stderr, /killed/)
  t.same(readdirSync(folder), [])
})

t.test('a desk that was killed goes on when it is started again, and does no step twice', async (t) => {
  t.setTimeout(LIMIT_MS)
  const { report } = await startWatched(t, folderOf(t))
  let kills = 0
  for (const moment of ['1 before', '8 after', '17 within', '25 before'].slice(0, howMany(3, 4))) {
    const folder = folderOf(t)
    const killed = await startWatched(t, folder, moment)
    if (killed.exit[0] === 0) continue // a busy machine writes more at once, and so less often
    t.same(killed.exit, [null, 'SIGKILL'], moment)
    kills += 1
    const left = await logged(theOne(folder))
    const goesOn = left.runs > left.ended // else it was killed between the end of its run and that of its log
    const { exit, stdout, stderr, ...next } = await startWatched(t, folder)
    t.same(exit, [0, null], stderr)
    t.equal(next.report, report, `${moment}: the report is that of a desk that nobody killed`)
    t.equal(/^Going on with the run of a process that was killed: \d of \d /m.test(stderr), goesOn, moment)
    t.equal(/^- The process that began this run was killed/m.test(stdout), goesOn, moment)
    const told: string[] = stdout.match(/^- The step ".*" had finished before and .*$/gm) ?? []
    for (const step of left.steps)
      if (!isOfEndedTurn(stdout, step))
        t.ok(
          told.includes(`- The step "${step}" had finished before and was answered from the log, not run again.`),
          step,
        )
    t.notMatch(stdout, 'was run again')
    t.match(stdout, /4 of 4 requests to agents were finished, 0 dead letters: nothing was lost\.\n.*each written once/)
    t.same(readdirSync(folder), [], 'its log is gone: the next start begins afresh')
  }
  t.ok(kills >= 2, `${kills} kills`)
})

/** The collector's turn may have ended before its process was killed: then nothing asked for its step again. */
function isOfEndedTurn(stdout: string, step: string): boolean {
  return step === 'read the file' && !stdout.includes('- The turn of collector began again')
}

t.test('a desk that was killed again and again comes to its end', async (t) => {
  t.setTimeout(LIMIT_MS)
  const folder = folderOf(t)
  for (const moment of ['10 after', '6 within'])
    t.same((await startWatched(t, folder, moment)).exit, [null, 'SIGKILL'], moment)
  t.equal(readdirSync(folder).length, 1, 'they had one log, one after the other')
  const { exit, stdout, stderr } = await startWatched(t, folder)
  t.same(exit, [0, null], stderr)
  t.match(stdout, '4 of 4 requests to agents were finished, 0 dead letters: nothing was lost.')
})

t.test('two desks that are started at once have a log each', async (t) => {
  const folder = folderOf(t)
  const [one, other] = await Promise.all([startWatched(t, folder), startWatched(t, folder)])
  for (const { exit, stderr } of [one, other]) {
    t.same(exit, [0, null], stderr)
    t.notMatch(stderr, 'killed')
  }
  t.equal(one.report, other.report)
  t.same(readdirSync(folder), [])
})

t.test('a log is taken from a dead process, and never from one that lives', async (t) => {
  const folder = folderOf(t)
  const own = join(folder, String(process.pid))
  mkdirSync(join(folder, String(process.ppid)))
  t.equal(await takeLogFolder(folder), own)
  t.same(readdirSync(folder), [String(process.ppid)])

  mkdirSync(join(folder, '999999999')) // above the highest pid that there is
  writeFileSync(join(folder, '999999999', 'owner'), '')
  writeFileSync(join(folder, 'notes.txt'), '')
  t.equal(await takeLogFolder(folder), own)
  t.same(readdirSync(own), ['owner'])
  t.equal(await takeLogFolder(folder), own, 'one of an earlier process with the same pid is its own')
  t.same(readdirSync(folder).sort(), [String(process.pid), String(process.ppid), 'notes.txt'].sort())
})

t.test('of several that want the log of a dead process one gets it', async (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, '999999999'))
  writeFileSync(join(folder, '999999999', 'owner'), '')
  const code = `
    import { takeLogFolder } from ${JSON.stringify(new URL('../../examples/data-desk/lib/log-folder.js', import.meta.url).href)}
    import { existsSync } from 'node:fs'
    console.log(existsSync(await takeLogFolder(${JSON.stringify(folder)}) + '/owner'))
    process.stdin.resume() // it lives until all have asked
  `
  const children = [1, 2, 3].map(() =>
    spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const said = await Promise.all(
    children.map((child) => new Promise<string>((resolve) => child.stdout.once('data', (line) => resolve(`${line}`)))),
  )
  for (const child of children) child.stdin.end()
  t.same(said.map((line) => line.trim()).sort(), ['false', 'false', 'true'])
})
