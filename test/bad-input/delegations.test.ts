/** The delegation graph is the host's: a thread that writes its frames itself gets around nothing. */
import t from 'tap'
import { CALL, END, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import { hostileTeam } from './raw-thread.ts'

const bound = { roles: { mallory: { canDelegateTo: ['ann'] } } }

for (const [what, kind] of Object.entries({ 'that is asked': REQUEST, 'that is sent': SEND }))
  t.test(`a delegation ${what} outside of the graph is refused, and is a dead letter`, async (t) => {
    const team = hostileTeam(t, bound)
    const { turn, run } = await team.turn()
    const bob = team.index('bob')
    team.thread.send({
      kind,
      type: 'delegate',
      recipient: bob,
      run,
      turn,
      step: 1,
      correlation: 1,
      content: 'steal',
      flags: 32,
    })
    await team.team.clock.advance(0)
    t.same(team.heard, [])
    t.match(team.team.deadLetters.list(), [
      {
        reason: 'rejected',
        message: { type: 'delegate', sender: 'mallory', recipient: 'bob', content: 'steal' },
        errors: [{ code: 'DELEGATION_REFUSED', details: { from: 'mallory', to: 'bob' } }],
      },
    ])
    t.same(await team.ailments(), [])
    t.same(await team.leftovers(), [])
  })

t.test('a delegation by name is held to the graph too', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  const fields = { kind: REQUEST, type: 'delegate' as const, recipient: 0xffff, name: 'bob', flags: 32 }
  team.thread.send({ ...fields, run, turn, step: 1, correlation: 1, content: 'steal' })
  await team.team.clock.advance(0)
  t.match(team.team.deadLetters.list(), [{ errors: [{ code: 'DELEGATION_REFUSED' }] }])
  t.same(await team.ailments(), [])
})

t.test('a delegation out of a turn that is not open is refused: nobody could tell how deep it is', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  for (const [i, of] of [turn + 7, 0, -1].entries())
    team.thread.send({
      kind: REQUEST,
      type: 'delegate',
      recipient: team.index('ann'),
      run,
      turn: of,
      step: i,
      correlation: i + 1,
      flags: 32,
    })
  await team.team.clock.advance(0)
  t.match(
    team.team.deadLetters.list().map(({ errors }) => errors[0]?.message),
    [/no turn that is open/, /no turn that is open/, /no turn that is open/],
  )
  t.same(await team.ailments(), [])
})

t.test('a turn that says that it has asked for itself is no chain without end', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  const next = { run, turn: turn + 1, flags: 32 }
  team.thread.send({ ...next, kind: REQUEST, recipient: team.index('mallory'), step: 1, correlation: 1 })
  team.thread.send({ kind: END, type: 'response', run, turn })
  await team.team.clock.advance(0)
  t.equal(team.thread.turns()[0]?.turn, turn + 1)
  team.thread.send({
    ...next,
    kind: REQUEST,
    type: 'delegate',
    recipient: team.index('ann'),
    step: 2,
    correlation: 2,
    content: 'x',
  })
  await team.team.clock.advance(0)
  t.match(team.heard, [{ type: 'delegate', content: 'x' }])
  t.same(await team.ailments(), [])
})

t.test('handoffs of nonsense, and acknowledgements of none, are refused or hand nothing off', async (t) => {
  const team = hostileTeam(t, { roles: { mallory: { canDelegateTo: [] } } })
  const { turn, run, result } = await team.turn()
  const nonsense = [
    'null',
    '5',
    '{}',
    '{"to":5}',
    '{"to":"bob","description":5}',
    '{"to":"mallory"}',
    '{"to":"$orchestrator"}',
  ]
  for (const [i, data] of nonsense.entries())
    team.thread.send({ kind: CALL, run, turn, step: i + 1, correlation: i + 1, content: 'handoff', data })
  team.thread.send({
    kind: CALL,
    run,
    turn: turn + 5,
    step: 9,
    correlation: 19,
    content: 'handoff',
    data: '{"to":"ann"}',
  })
  for (const of of [turn, turn + 5, 0, -1])
    team.thread.send({ kind: CALL, run, turn: of, step: 20, correlation: 30 + of, content: 'handoff.acknowledge' })
  await team.team.clock.advance(0)
  t.same(team.heard, [])
  t.notOk(result.settled)
  t.same(await team.ailments(), [])
  t.same(await team.leftovers(), [])
})

t.test('a task of nonsense is a task without it', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  const nonsense = [
    '{',
    '5',
    '[1]',
    '{"deadline":"x","dependencies":5,"parentTask":{},"requiredCapabilities":[1,"a"]}',
    '{"deadline":-1e308}',
  ]
  for (const [i, data] of nonsense.entries())
    team.thread.send({
      kind: REQUEST,
      type: 'delegate',
      recipient: team.index('ann'),
      run,
      turn,
      step: i + 1,
      correlation: i + 1,
      content: 'x',
      data,
      flags: 32,
    })
  await team.team.clock.advance(1)
  const tasks = [...team.host.runs.values()]
    .flatMap((state) => [...state.tasks.values()])
    .filter(({ assignedTo }) => assignedTo === 'ann')
  t.match(
    tasks,
    nonsense.map((_, i) => ({
      deadline: i === 4 ? -1e308 : null,
      dependencies: [],
      parentTask: null,
      requiredCapabilities: i === 3 ? ['a'] : [],
    })),
  )
  t.same(await team.ailments(), [])
  t.same(await team.leftovers(), [])
})
