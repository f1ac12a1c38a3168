/** States that end with a session, as document 002 has them (2.4.1), and those that stay in the log. Requirement P14. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions, type StateManagement } from '../../src/index.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { recordedRuns } from '../../src/runtime/views/recorded-runs.ts'
import { folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/keeper.js', import.meta.url)
const SCOPES = ['state', 'agent_shared', 'team_shared', 'blackboard', 'persistent']

type Ends = NonNullable<StateManagement['endsWithSession']>

/** Answers `keep` by keeping a value in each scope, and any query with the scopes that have one. */
function teamOf(t: Test, path: string, endsWithSession?: Ends) {
  const options: MultiAgentPatternOptions<string> = {
    agents: [{ name: 'ann', module }],
    enableBlackboard: { scope: 'team' },
    logger: silent,
    stateManagement: { path, ...(endsWithSession && { endsWithSession }) },
    orchestration: {
      strategy: 'custom',
      async run(desk, query) {
        if (query !== 'see') for (const scope of SCOPES) await desk.request('ann', `keep ${scope} kept`)
        if (query === 'stay') await desk.request('ann', 'ask now?')
        const seen: string[] = []
        for (const scope of SCOPES) if ((await desk.request('ann', `see ${scope}`)).content === 'kept') seen.push(scope)
        return seen.join()
      },
    },
  }
  const team = createTeam(options)
  t.teardown(() => team.close())
  return team
}

t.test('endsWithSession says what ends with a session that was closed in order', async (t) => {
  const cases: [ends: Ends | undefined, left: string[]][] = [
    [undefined, SCOPES],
    [[], SCOPES],
    [['private'], ['agent_shared', 'team_shared', 'blackboard', 'persistent']],
    [['shared'], ['state', 'blackboard', 'persistent']],
    [['board'], ['state', 'agent_shared', 'team_shared', 'persistent']],
    [['private', 'shared', 'board'], ['persistent']],
  ]
  for (const [ends, left] of cases) {
    const path = join(folderOf(t), 'log')
    const first = teamOf(t, path, ends)
    t.equal((await first.execute('keep')).finalOutput, SCOPES.join(), 'nothing ends within it')
    await first.close()
    const second = teamOf(t, path, ends)
    t.equal((await second.execute('see')).finalOutput, left.join(), `${ends}`)
    t.equal((await second.execute('keep')).finalOutput, SCOPES.join())
    await second.close()
    t.equal((await teamOf(t, path, ends).execute('see')).finalOutput, left.join(), 'each session anew')
  }
})

t.test('a session that leaves an open run, or does not end in order, ends nothing', async (t) => {
  const ends: Ends = ['private', 'shared', 'board']
  const folder = folderOf(t)
  const path = join(folder, 'log')
  const first = teamOf(t, path, ends)
  const run = first.launch('stay', { runId: 'one' })
  for await (const event of run.events()) if (event.type === 'question') break
  await first.flush()
  cpSync(path, join(folder, 'died'), { recursive: true })
  await first.close()
  for (const log of [path, join(folder, 'died')]) {
    const next = teamOf(t, log, ends)
    await next.start()
    const going = next.getRun('one')
    for (const { questionId } of next.questions()) await going?.answer(questionId, 'yes')
    t.equal((await going?.result)?.finalOutput, SCOPES.join(), log)
    await next.close()
    t.equal((await teamOf(t, log, ends).execute('see')).finalOutput, 'persistent', 'until it is over')
  }
})

t.test('what has ended is no part of what a later run is played with', async (t) => {
  const cases: [ends: Ends, kinds: string[]][] = [
    [[], ['blackboard', 'shared', 'state']],
    [['private', 'shared', 'board'], ['shared']],
  ]
  for (const [ends, kinds] of cases) {
    const path = join(folderOf(t), 'log')
    for (const query of ['keep', 'see']) {
      const team = teamOf(t, path, ends)
      await team.execute(query)
      await team.close()
    }
    const { runs } = await recordedRuns(() => readLog(path), undefined, { facts: true })
    const facts = (runs.at(-1)?.facts ?? []).filter(({ kind }) => kind !== 'name')
    t.same([...new Set(facts.map(({ kind }) => kind))].sort(), kinds)
    if (ends.length > 0) t.match(facts, [{ scope: 'persistent' }])
  }
})

t.test('a state that cannot end is refused', (t) => {
  const make = () => teamOf(t, join(folderOf(t), 'log'), ['persistent' as never])
  t.throws(make, { code: 'CONFIGURATION', details: { path: 'stateManagement.endsWithSession[0]' } })
  t.end()
})
