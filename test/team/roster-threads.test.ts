/** Agents that come and go, on real threads. */
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { ask, silent } from '../kit/team.ts'
import type { Test } from './stage.ts'

const fixture = (name: string) => new URL(`../fixtures/team/${name}.js`, import.meta.url)
const module = fixture('actor')

function start(t: Test, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [{ name: 'a', module }],
    orchestration: { strategy: 'sequential' },
    logger: silent,
    threads: { warmSpares: 0 },
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

t.test('a thread that runs already asks who has come, and who has come in the place of who has left', async (t) => {
  const team = start(t)
  t.equal(await ask(team, 'a', 'echo:hi'), 'hi')
  await team.addAgent({ name: 'b', module })
  t.equal(await ask(team, 'a', 'ask:echo:hi'), 'hi')
  t.equal(await ask(team, 'b', 'count'), 'handled 2')
  await team.removeAgent('b')
  await t.rejects(ask(team, 'a', 'ask:echo:hi'), { message: /removed from the team/ })
  await team.addAgent({ name: 'b', module })
  t.equal(await ask(team, 'a', 'ask:count'), 'handled 1')
})

t.test('a script in a thread sees who comes and who goes', async (t) => {
  const team = start(t, { orchestration: { strategy: 'custom', module: fixture('greets-newcomers') } })
  const run = team.launch('go')
  for await (const event of run.events()) {
    if (event.type !== 'decision') continue
    if (event.question === 'Who is here?') await team.addAgent({ name: 'b', module })
    else await team.removeAgent('b')
  }
  t.match(await run.result, { success: true, finalOutput: 'hello b' })
})

t.test('an agent that an agent made is there once, also when its maker dies', async (t) => {
  const team = start(t, { agents: [{ name: 'boss', module: fixture('spawner'), trust: 'privileged' }] })
  const result = await team.execute(module.href)
  t.match(result, { success: true, finalOutput: 'handled 1' })
  t.match(pluck(result.messageHistory, 'sender'), ['$user', '$orchestrator', 'boss', 'helper', 'boss', '$orchestrator'])
})

t.test('a module that cannot be loaded is told, and the team is as it was', async (t) => {
  const team = start(t)
  await team.start()
  await t.rejects(team.addAgent({ name: 'b', module: fixture('nowhere') }), {
    code: 'CONFIGURATION',
    message: /role\.module/,
  })
  t.equal(team.getAgent('b'), undefined)
  t.equal(await ask(team, 'a', 'echo:hi'), 'hi')
})
