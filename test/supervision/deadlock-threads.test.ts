/** Rules 23 and 24 on real threads: only they know whether a turn has something else to do than to wait. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { silent } from './teams.ts'
import { watched } from './verdicts.ts'

const module = new URL('../fixtures/supervision/asks-before-it-answers.js', import.meta.url)

interface Habits {
  worksMs?: number
  ticks?: boolean
}

/** Each asks the other, in its own thread. What came of it, and what was said on the way. */
async function bargain(t: { teardown(end: () => Promise<void>): void }, ann: Habits, bob: Habits) {
  const team = createTeam({
    agents: [
      { name: 'ann', module, data: { asks: 'bob', ...ann } },
      { name: 'bob', module, data: { asks: 'ann', ...bob } },
    ],
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => (await script.request('ann', query)).content,
    },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  const found = watched(team)
  const { finalOutput } = await team.execute('go')
  return { finalOutput, found }
}

t.test('a cycle is named, and broken when it has stood', async (t) => {
  const { finalOutput, found } = await bargain(t, {}, {})
  t.equal(finalOutput, 'DEADLOCK')
  t.match(found, [
    { type: 'deadlock', cycle: ['ann', 'bob'], tail: ['$orchestrator'], victim: null },
    { type: 'deadlock', cycle: ['ann', 'bob'], victim: /ann|bob/ },
  ])
})

t.test('a turn with a timer of its own beside its wait is not stuck', async (t) => {
  const { finalOutput, found } = await bargain(t, { worksMs: 400 }, {})
  t.equal(finalOutput, 'I go without')
  t.same(found, [])
})

t.test('what an agent has open all its life is no work', async (t) => {
  const { finalOutput } = await bargain(t, { ticks: true }, { ticks: true })
  t.equal(finalOutput, 'DEADLOCK')
})
