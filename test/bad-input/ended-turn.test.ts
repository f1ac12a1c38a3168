/** A context after its turn has ended: every verb says so, none does anything, and what nobody awaited harms nobody. */
import t from 'tap'
import { defineAgent, type OrchestratorContext } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { type Act, refusalOf, stage, type UntypedContext, untyped } from './helpers.ts'

const asynchronous: Record<string, Act> = {
  request: (context) => context.request('bob', 'hi'),
  'requestStream, its response': (context) => streamOf(context).response,
  'requestStream, its pieces': (context) => streamOf(context)[Symbol.asyncIterator]().next(),
  requestAll: (context) => context.requestAll(['bob', 'bob'], 'hi'),
  requestAny: (context) => context.requestAny(['bob', 'bob'], 'hi'),
  requestQuorum: (context) => context.requestQuorum(['ann', 'bob'], 1, 'hi'),
  broadcast: (context) => context.broadcast('hi'),
  report: (context) => context.report('done'),
  watch: (context) => context.watch('bob'),
  send: (context) => context.send('bob', 'hi'),
  delegate: (context) => context.delegate('bob', 'work'),
  handoff: (context) => context.handoff('bob', 'work'),
  escalate: (context) => context.escalate('stuck'),
  publish: (context) => context.publish('k', 1, 'fact'),
  subscribe: (context) => context.subscribe('k'),
  sync: (context) => context.sync('noon'),
  defineAgent: (context) => context.defineAgent({ name: 'new' }),
  'blackboard.write': (context) => context.blackboard.write('k', 1, 'fact'),
  'blackboard.read': (context) => context.blackboard.read('k'),
  'blackboard.query': (context) => context.blackboard.query(),
  'blackboard.getHistory': (context) => context.blackboard.getHistory('k'),
  'blackboard.waitFor': (context) => context.blackboard.waitFor('k'),
  step: (context) => context.step('late', () => 1),
  sleep: (context) => context.sleep(1),
  complete: (context) => context.complete({ prompt: 'hi' }),
  think: (context) => context.think('hi'),
}

const synchronous: Record<string, Act> = {
  emit: (context) => context.emit('late'),
  now: (context) => context.now(),
  random: (context) => context.random(),
  uuid: (context) => context.uuid(),
  setState: (context) => context.setState(() => {}),
  setRunState: (context) => context.setRunState(() => {}),
  shared: (context) => context.shared('team_shared'),
}

/** The context of a turn of ann's that has ended. */
async function ended(play: (act: Act) => Promise<unknown>): Promise<UntypedContext> {
  let kept: UntypedContext | undefined
  await play((context) => {
    kept = context
  })
  if (!kept) throw new Error('there was no turn')
  return kept
}

t.test('every asynchronous verb rejects with TURN_ENDED and says what to do', async (t) => {
  const { team, play, isWell } = stage(t)
  const context = await ended(play)
  for (const [verb, act] of Object.entries(asynchronous)) {
    const error = await refusalOf(async () => act(context))
    t.equal(error.code, 'TURN_ENDED', verb)
    t.match(error.message, /The turn of agent "ann" has ended; .*Await what the handler starts before it returns/)
    t.equal(error.details.agent, 'ann')
  }
  t.same(where(team.getMessageHistory(), 'recipient', 'bob'), [])
  t.same(await team.getBlackboard()?.query(), [])
  t.ok(await isWell())
})

t.test('every synchronous verb throws TURN_ENDED', async (t) => {
  const { play, isWell } = stage(t)
  const context = await ended(play)
  for (const [verb, act] of Object.entries(synchronous))
    t.throws(() => act(context), { code: 'TURN_ENDED', details: { agent: 'ann' } }, verb)
  t.ok(await isWell())
})

t.test('no verb is forgotten here: each method of a context is in one list or has a reason not to be', async (t) => {
  const { play } = stage(t)
  const context = await ended(play)
  const methods = new Set<string>()
  for (let at = Object.getPrototypeOf(context); at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at))
      if (typeof Object.getOwnPropertyDescriptor(at, name)?.value === 'function') methods.add(name)
  const own =
    'constructor acknowledge assertOpen abort breathe call close draftOf nextStep read refusal thinkAloud waitingFor'.split(
      ' ',
    ) // the runtime's
  const harmless = ['refuse'] // it only makes an error
  const elsewhere = 'ask spawn tool'.split(' ')
  const listed = [...Object.keys(asynchronous), ...Object.keys(synchronous)].map((verb) => verb.split(/[.,]/)[0])
  const known = new Set([...listed, ...own, ...harmless, ...elsewhere])
  t.same(
    [...methods].filter((name) => !known.has(name)),
    [],
  )
})

t.test('what a context knows can still be read, and its signal is aborted', async (t) => {
  const { play } = stage(t)
  const context = await ended(play)
  t.match(context, { role: { name: 'ann' }, attempt: 1 })
  t.same([context.state, context.runState], [{}, {}])
  t.equal(context.signal.aborted, true)
  t.match(context.signal.reason, { code: 'TURN_ENDED' })
})

t.test('a signal that was taken in a turn is aborted when that ends', async (t) => {
  const { play } = stage(t)
  let signal: AbortSignal | undefined
  await play((context) => {
    signal = context.signal
  })
  t.match(signal, { aborted: true, reason: { code: 'TURN_ENDED' } })
})

t.test('a verb that nobody awaits is given up with its turn, and costs nothing', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  const { play, isWell } = stage(t)
  const { 'requestStream, its pieces': _reader, ...verbs } = asynchronous // whoever reads, waits
  await play((context) => {
    for (const act of Object.values(verbs)) void act(context)
    void context.step('fails', () => {
      throw new Error('nobody hears this')
    })
    void context.step('goes on', () => context.sleep(1_000))
    void context.requestAll('bob', 'hi')
    void context.send('nobody', 'hi')
  })
  const context = await ended(play)
  for (const act of Object.values(verbs)) void act(context)
  await new Promise((resolve) => setImmediate(resolve)) // the event loop reports what nobody handled
  t.same(unhandled, [])
  t.ok(await isWell())
})

t.test("the script's own verbs end with its turn too", async (t) => {
  let kept: OrchestratorContext | undefined
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: {
        strategy: 'custom',
        run: async (orchestrator) => {
          kept = orchestrator
          return 'done'
        },
      },
    },
    { modules: { ann: defineAgent({ receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  await team.execute('go')
  const orchestrator = kept!
  t.throws(() => orchestrator.decide('Which?', 'this', 'late'), { code: 'TURN_ENDED' })
  await t.rejects(orchestrator.request('ann', 'hi'), { code: 'TURN_ENDED' })
  await t.rejects(orchestrator.requestAll(['ann'], 'hi'), { code: 'TURN_ENDED' })
  await t.rejects(orchestrator.synced('noon'), { code: 'TURN_ENDED' })
  t.equal(team.getMessageHistory().length, 2, 'the query and its answer')
})

t.test('what the script decides and counts has to be what it says', async (t) => {
  const refused: string[] = []
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: {
        strategy: 'custom',
        run: async (given) => {
          const orchestrator = untyped(given)
          for (const act of [
            () => orchestrator.decide(5, 'this', 'so'),
            () => orchestrator.decide('Which?', undefined, 'so'),
            () => orchestrator.vote('ann'),
            () => orchestrator.vote([5]),
            () => orchestrator.vote([{ value: 'yes' }]),
            () =>
              orchestrator.vote([
                { agent: 'ann', value: 'yes' },
                { agent: 'An', value: 'no' },
              ]),
            () => orchestrator.vote([{ agent: '$user', value: 'no' }]),
            () => orchestrator.vote([{ agent: 'ann', value: 'no', weight: -1 }]),
          ]) {
            const { code, details } = await refusalOf(act)
            refused.push(`${code} ${details.path}`)
          }
          return 'done'
        },
      },
    },
    { modules: { ann: defineAgent({ receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  const result = await team.execute('go')
  t.ok(result.success)
  t.same(refused, [
    'MESSAGE_REJECTED question',
    'MESSAGE_REJECTED choice',
    'MESSAGE_REJECTED ballots',
    'MESSAGE_REJECTED ballots[0]',
    'MESSAGE_REJECTED ballots[0].agent',
    'MESSAGE_REJECTED ballots[1].agent',
    'MESSAGE_REJECTED ballots[0].agent',
    'MESSAGE_REJECTED ballots[0].weight',
  ])
})

t.test('the vote of an agent that was removed after its answer counts', async (t) => {
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: {
        strategy: 'custom',
        run: async (orchestrator) => {
          await orchestrator.requestAll(['ann', 'bob'], 'hi')
          await team.removeAgent('bob')
          t.same(pluck(orchestrator.agents, 'name'), ['ann'])
          return String(orchestrator.vote([{ agent: 'bob', value: 'yes' }]).winner)
        },
      },
    },
    { modules: { ann: defineAgent({ receive: () => 'hi' }), bob: defineAgent({ receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  t.match(await team.execute('go'), { finalOutput: 'yes' })
})

function streamOf(context: UntypedContext) {
  return context.requestStream('bob', 'hi') as AsyncIterable<string> & { response: Promise<unknown> }
}
