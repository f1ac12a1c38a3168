/** A clock that is wrong for a while: what a log forgets by the age of its runs, and what it says. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { LogTime } from '../../src/runtime/durability/log-keeper.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { silent } from './damaged-logs.ts'
import { folderOf } from './log-folders.ts'

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
