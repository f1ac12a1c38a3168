/** Rule 27: a run in which nobody is left who could go on. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { askAll, type Cast, openTeam, outcomeOf } from './teams.ts'
import { watched } from './verdicts.ts'

const barber: Cast = {
  barber: async (_, context) => void (await context.blackboard.waitFor('a customer')),
  customer: async (_, context) => void (await context.blackboard.waitFor('a free chair')),
}

t.test('rule 27: all wait for what nobody is left to write: a stall, without a cycle', async (t) => {
  const team = openTeam(t, barber, { orchestration: askAll })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(found[0], { type: 'stall', evidence: [/barber.*"a customer" on the blackboard/] })
  t.equal(result.settled, true)
})

t.test('rule 27: who waits is told that nobody will come', async (t) => {
  const team = openTeam(t, { barber: barber.barber! })
  const { error } = await team.execute('go')
  t.match(JSON.stringify(error?.toJSON()), /STALL/)
})

t.test('a protocol script is told of each of its stalls, and goes on', async (t) => {
  const team = openTeam(t, barber, {
    orchestration: {
      strategy: 'custom',
      run: async (orchestrator) => {
        const codes: string[] = []
        for (const key of ['1', '2', '3', '4', '5', '6'])
          await orchestrator.blackboard.waitFor(key).catch(({ code }) => codes.push(code))
        return codes.join()
      },
    },
  })
  const ended = team.execute('go')
  await team.clock.runToIdle()
  t.match(await ended, { success: true, finalOutput: 'STALL,STALL,STALL,STALL,STALL,STALL' })
})

t.test('an entry that somebody at work may write is waited for', async (t) => {
  const team = openTeam(
    t,
    {
      barber: barber.barber!,
      customer: async (_, context) => {
        await context.sleep(10_000)
        await context.publish('a customer', 'me', 'fact')
      },
    },
    { orchestration: askAll },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.success, true)
  t.same(found, [])
})

t.test('whoever holds the run may write yet: nothing is said, and nothing ended', async (t) => {
  const team = openTeam(t, { barber: barber.barber! })
  const found = watched(team)
  const run = team.launch('go')
  await team.clock.advance(1_000)
  await run.blackboard!.write('a customer', 'me', 'fact')
  await team.clock.advance(0)
  t.match(await run.result, { success: true })
  t.same(found, [])
})

t.test('a stall that only the holder of the run could end is told when a time has run out', async (t) => {
  for (const times of [{ globalTimeoutMs: 5_000 }, { communication: { responseTimeoutMs: 5_000 } }]) {
    const team = openTeam(t, { barber: barber.barber! }, times)
    const found = watched(team)
    const run = team.launch('go')
    await team.clock.advance(4_999)
    t.same(found, [])
    await team.clock.advance(1)
    t.match(found, [{ type: 'stall', evidence: [/barber.*"a customer" on the blackboard/, /orchestrator/] }])
    t.equal((await run.result).success, false)
  }
})

t.test('who has the blackboard from outside is expected to write', async (t) => {
  const team = openTeam(t, { barber: barber.barber! }, { enableBlackboard: true })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  const board = team.getBlackboard()!
  await team.clock.advance(1_000)
  t.same(found, [])
  await board.write('a customer', 'me', 'fact')
  await team.clock.advance(0)
  t.match(result.value, { success: true })
})

t.test('a wait with a time limit ends by itself', async (t) => {
  const patient = defineAgent({
    receive: async (_, context) =>
      context.blackboard.waitFor('key', { timeoutMs: 5_000 }).then(
        () => 'written',
        ({ code }: { code: string }) => code,
      ),
  })
  const team = openTeam(t, { patient })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'REQUEST_TIMEOUT')
  t.same(found, [])
})
