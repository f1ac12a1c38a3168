/** Agents that were stopped for good, and begin again when somebody says so. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { ask, localTeam, type OpenTeam, openTeam } from '../kit/team.ts'

/** Dies until it may not be begun again. */
async function stopForGood(team: OpenTeam, agent: string) {
  while (team.getAgentStatus(agent) !== 'failed') {
    team.crash(agent)
    await team.clock.advance(1)
  }
}

const supervision = { maxRestarts: 0, coolDownMs: 1_000 }
const worker = defineAgent({ receive: ({ content }) => `did ${content}` })

t.test('rule 2: an agent that was stopped for good begins again when it is told to', async (t) => {
  const team = openTeam(t, { worker }, { supervision })
  await ask(team, 'worker')
  await stopForGood(team, 'worker')
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_TERMINATED' })
  await team.restartAgent('worker')
  t.equal(team.getAgentStatus('worker'), 'idle')
  t.equal(await ask(team, 'worker', 'this'), 'did this')
})

t.test('rule 2: the cool-down of an earlier stop does not shorten that of a later one', async (t) => {
  const team = openTeam(t, { worker }, { supervision })
  await ask(team, 'worker')
  await stopForGood(team, 'worker')
  await team.restartAgent('worker')
  await team.clock.advance(600)
  await stopForGood(team, 'worker')
  await team.clock.advance(600)
  t.equal(team.getAgentStatus('worker'), 'failed')
  await team.clock.advance(600)
  t.equal(team.getAgentStatus('worker'), 'idle')
})

t.test('an agent that is not stopped is not restarted', async (t) => {
  const team = localTeam(t, { worker })
  await team.start()
  await t.rejects(team.restartAgent('worker'), {
    code: 'CONFIGURATION',
    message: /Agent "worker" is not stopped \(it is idle\)/,
    details: { agent: 'worker', got: 'idle' },
  })
})

t.test('nobody of that name', async (t) => {
  const team = localTeam(t, { worker })
  await t.rejects(team.restartAgent('wroker'), { code: 'UNKNOWN_AGENT', message: /did you mean "worker"/ })
  await t.rejects(team.restartAgent('$orchestrator'), { code: 'UNKNOWN_AGENT' })
  await team.close()
  await t.rejects(team.restartAgent('worker'), { code: 'TEAM_CLOSED' })
})

t.test('what keeps it from starting is told, and does not keep the team from starting once it is gone', async (t) => {
  let broken = true
  const fragile = defineAgent({
    start() {
      if (broken) throw new Error('no network')
    },
    receive: () => 'fine',
  })
  const team = localTeam(t, { worker, fragile })
  await t.rejects(team.start(), { code: 'START_FAILED' })
  await t.rejects(team.restartAgent('fragile'), { code: 'START_FAILED', message: /no network/ })
  broken = false
  await team.restartAgent('fragile')
  await team.start()
  t.equal(await ask(team, 'fragile'), 'fine')
})
