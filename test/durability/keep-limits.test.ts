/** The limits of `keep` act also while a log is small, and its metrics say how large it is. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type StateManagement, type Team } from '../../src/index.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { pluck } from '../kit/lists.ts'
import { silent } from './damaged-logs.ts'
import { folderOf } from './log-folders.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)

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
