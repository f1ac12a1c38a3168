/** A turn of more than 64 MiB, which is what a log in memory keeps of a run, on real threads. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

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
