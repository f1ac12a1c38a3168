/** Rule 1: what happens to agents meanwhile that are being ended, kept down or stopped together. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import type { AgentRole } from '../../src/index.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { AgentTerminatedError } from '../../src/shared/errors.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { ask, type Cast, openTeam, outcomeOf, type Receive } from './teams.ts'

const answers: Receive = () => 'here'
const cast = { a: answers, b: answers, c: answers }
const transient: Omit<AgentRole, 'name'> = { supervision: { restart: 'transient' } }

/** Three agents, the last of which takes a second to end. */
async function slowToEnd(
  strategy: 'one_for_all' | 'rest_for_one',
  agents: Record<string, Receive> = cast,
  roles: Record<string, Omit<AgentRole, 'name'>> = {},
) {
  const bare = new BareSupervisor(agents, [restarts], { supervision: { strategy }, roles })
  await bare.start()
  bare.threads.get('c')!.ailments.add('stubborn')
  const [a, b, c] = ['a', 'b', 'c'].map((name) => bare.host.directory.cell(name)!)
  const ready: string[] = []
  bare.host.journal.records$.subscribe((batch) => {
    for (const record of batch) if (record.kind === 'agent.ready') ready.push(record.agent)
  })
  return { bare, clock: bare.clock, a: a!, b: b!, c: c!, ready }
}

t.test('rule 1: a restart of more agents takes over one that is under way', async (t) => {
  const { bare, clock, c, ready } = await slowToEnd('rest_for_one')
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  bare.threads.get('a')!.terminate()
  await clock.advance(999) // c is gone, and the second death in a row has a delay
  t.same(ready, [])
  await clock.advance(200)
  t.same(ready, ['a', 'b', 'c'])
  t.equal(c.restarts, 1)
})

t.test(
  'rule 1: one that is stopped for good while others end has all of its grace, and does not come back',
  async (t) => {
    const tidiesUp: Receive = async (_message, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      await clock.sleep(2_000)
    }
    const { bare, clock, a, b, c } = await slowToEnd('one_for_all', { ...cast, a: tidiesUp })
    outcomeOf(bare.ask('a'))
    await clock.advance(1)
    bare.threads.get('b')!.terminate()
    await clock.advance(100)
    const ended = outcomeOf(bare.host.lifecycle.end(a, new AgentTerminatedError('enough', { agent: 'a' })))
    await clock.advance(1_500)
    t.notOk(ended.settled)
    await clock.advance(600)
    t.ok(ended.settled)
    t.same([a.epoch, b.epoch, c.epoch], [1, 2, 2])
    t.same([a.status, a.restarts], ['stopped', 0])
  },
)

t.test('rule 1: a transient agent that ends by itself while others end comes back with them, as in OTP', async (t) => {
  const { bare, clock, a, b, c } = await slowToEnd('one_for_all', cast, { a: transient })
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  bare.threads.get('a')!.exit()
  await clock.advance(2_000)
  t.same([a.epoch, b.epoch, c.epoch], [2, 2, 2])
})

t.test('rule 1: a temporary agent that dies while others end, and is begun again by hand, is left alone', async (t) => {
  const { bare, clock, a, b, c } = await slowToEnd('one_for_all', cast, {
    a: { supervision: { restart: 'temporary' } },
  })
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  bare.threads.get('a')!.terminate()
  await clock.advance(100)
  t.equal(a.status, 'failed')
  await bare.host.lifecycle.revive(a)
  await clock.advance(2_000)
  t.same([a.epoch, b.epoch, c.epoch], [2, 2, 2])
  t.equal(a.status, 'idle')
})

function teamOf(t: Parameters<typeof openTeam>[0], agents: Cast, supervision: object, roles = {}) {
  const team = openTeam(t, agents, { supervision: { strategy: 'one_for_all', ...supervision }, roles })
  const epochs = () => ['a', 'b', 'c'].map((name) => team.host.directory.cell(name)!.epoch)
  const statuses = () => ['a', 'b', 'c'].map((name) => team.getAgentStatus(name))
  return { team, clock: team.clock, epochs, statuses }
}

t.test('rule 1: one that is removed while it is kept down stays stopped', async (t) => {
  const { team, clock } = teamOf(t, { a: answers }, { strategy: 'one_for_one' })
  await team.start()
  const cell = team.host.directory.cell('a')!
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('a')
    await clock.advance(0)
  }
  t.equal(cell.status, 'restarting')
  await team.removeAgent('a')
  await clock.advance(1_000)
  t.same([cell.status, cell.epoch], ['stopped', 2])
})

t.test('rule 1: one that rests is out of reach until its turn comes, and may be begun by hand before', async (t) => {
  const { team, clock, epochs, statuses } = teamOf(t, cast, {}, { c: transient })
  await team.start()
  team.crash('a')
  await clock.advance(0)
  team.exit('c')
  await clock.advance(0)
  team.crash('a')
  await clock.advance(50)
  t.same(statuses(), ['restarting', 'restarting', 'stopped'])
  await t.rejects(ask(team, 'c'), { code: 'AGENT_TERMINATED', message: /It ended by itself/ })
  await team.restartAgent('c')
  t.same(epochs(), [2, 2, 3])
  await clock.advance(200)
  t.same(
    [epochs(), statuses()],
    [
      [3, 3, 3],
      ['idle', 'idle', 'idle'],
    ],
  )
})

t.test(
  'rule 1: those that are stopped together, also one that rested, are tried again and then live as before',
  async (t) => {
    const { team, clock, epochs, statuses } = teamOf(t, cast, { maxRestarts: 0, coolDownMs: 1_000 }, { c: transient })
    await team.start()
    team.exit('c')
    await clock.advance(0)
    let lives = 1
    for (const agent of ['a', 'c', 'b']) {
      team.crash(agent)
      await clock.advance(0)
      t.same(statuses(), agent === 'a' ? ['failed', 'failed', 'stopped'] : ['failed', 'failed', 'failed'])
      if (agent === 'a') await t.rejects(ask(team, 'c'), { message: /It ended by itself/ }, 'it has its own reason')
      await clock.advance(1_000)
      lives += 1
      t.same(epochs(), [lives, lives, lives])
    }
  },
)

t.test('rule 1: one that was stopped before the others has no part in their end', async (t) => {
  let broken = false
  const c = defineAgent({
    start() {
      if (broken) throw new Error('no database')
    },
    receive: answers,
  })
  const { team, clock, statuses } = teamOf(t, { ...cast, c }, { maxRestarts: 1 })
  await team.start()
  broken = true
  team.crash('c')
  await clock.advance(0)
  t.same(statuses(), ['idle', 'idle', 'failed'])
  team.crash('a')
  await clock.advance(0)
  t.same(statuses(), ['failed', 'failed', 'failed'])
  broken = false
  await team.restartAgent('c')
  team.crash('c')
  await clock.advance(0)
  t.equal(team.getAgentStatus('c'), 'failed', 'its death is seen')
})
