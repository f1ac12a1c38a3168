/** How spans end: with their turn, in a death, with their run, and in any case with the team. */
import t from 'tap'
import type { AgentContext, AgentMessage } from '../../src/index.ts'
import { Redactor } from '../../src/runtime/logging/redactor.ts'
import { Spans } from '../../src/runtime/observers/spans.ts'
import type { TelemetrySpan } from '../../src/telemetry.ts'
import { testTeam } from '../../src/testing.ts'
import { type Cast, localTeam, openTeam, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { asking } from './asking.ts'
import { errorOf, idOf, parentOf, Recorder, tookOf } from './recorder.ts'

t.test('a turn that a death cut off has a span for each attempt', async (t) => {
  const recorder = new Recorder()
  const model = new FakeModel(async (request) => {
    await request.clock!.sleep(100, request.signal)
    return 'late'
  })
  const cast: Cast = {
    chief: asking('clerk'),
    clerk: async (message, context) => {
      await context.request('sage', message.content)
      await context.complete({ prompt: 'go' })
      return 'done'
    },
    sage: async () => 'said',
  }
  const team = openTeam(t, cast, { telemetry: recorder.telemetry, models: { default: model } })
  const running = team.execute('go')
  await team.clock.advance(30)
  team.crash('clerk')
  await team.clock.runToIdle()
  t.ok((await running).success)
  const [first, second] = recorder.named('invoke_agent clerk')
  t.same(recorder.trees, [
    [
      'invoke_workflow',
      [
        'invoke_agent chief',
        ['invoke_agent clerk', ['invoke_agent sage'], ['chat default']],
        ['invoke_agent clerk'], // its question and its call are answered from the log
      ],
    ],
  ])
  t.equal(errorOf(first!), 'AGENT_CRASHED')
  t.equal(tookOf(first!), 30)
  t.match(first!.events, [{ name: 'dramatis.agent.exited', attributes: { 'dramatis.agent.how': 'crashed' } }])
  t.equal(errorOf(second!), undefined)
  t.equal(first!.attributes['dramatis.turn.attempt'], 1)
  t.equal(second!.attributes['dramatis.turn.attempt'], 2)
  t.equal(first!.attributes['dramatis.message.id'], second!.attributes['dramatis.message.id'])
  t.equal(tookOf(recorder.one('chat default')), 100, 'the call goes on over the death')
  t.equal(recorder.open, 0)
})

t.test('a handler that throws is tried again as another attempt, under the same parent', async (t) => {
  const recorder = new Recorder()
  let tries = 0
  const cast: Cast = {
    chief: asking('clerk'),
    clerk: async () => {
      tries += 1
      if (tries === 1) throw new Error('not yet')
      return 'now'
    },
  }
  const supervision = { onHandlerError: 'retry' } as const
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, supervision })
  const running = team.execute('go')
  await team.clock.runToIdle()
  t.ok((await running).success)
  const attempts = recorder.named('invoke_agent clerk')
  t.strictSame(attempts.map(errorOf), ['AGENT_FAILED', undefined])
  t.strictSame(
    attempts.map(parentOf),
    attempts.map(() => idOf(recorder.one('invoke_agent chief'))),
  )
  t.equal(recorder.open, 0)
})

t.test('what a turn does in the same moment as the one before it ends is its own', async (t) => {
  const recorder = new Recorder()
  let tries = 0
  const cast: Cast = {
    chief: async (_, context) => {
      for (const text of ['one', 'two', 'three']) await context.send('clerk', text)
      return ''
    },
    clerk: async ({ content }, context) => {
      if (content === 'two') tries += 1
      if (content === 'two' && tries === 1) throw new Error('not yet')
      if (content !== 'three') return ''
      await context.send('sage', 'go')
      return (await context.complete({ prompt: 'go' })).text
    },
    sage: async () => '',
  }
  const supervision = { onHandlerError: 'retry' } as const
  const models = { default: new FakeModel(['said']) }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, supervision, models })
  await team.execute('go')
  await team.clock.runToIdle()
  const clerks = recorder.named('invoke_agent clerk')
  t.strictSame(clerks.map(errorOf), [undefined, 'AGENT_FAILED', undefined, undefined])
  t.strictSame(
    clerks.map(({ attributes }) => attributes['dramatis.turn.attempt']),
    [1, 1, 2, 1],
  )
  t.ok(clerks.every((clerk) => parentOf(clerk) === idOf(recorder.one('invoke_agent chief'))))
  for (const name of ['invoke_agent sage', 'chat default'])
    t.equal(parentOf(recorder.one(name)), idOf(clerks[3]!), name)
  t.equal(recorder.open, 0)
})

t.test('a message that kills its agent for good leaves no span open', async (t) => {
  const recorder = new Recorder()
  const cast: Cast = {
    chief: asking('clerk'),
    clerk: async (_, context) => {
      await context.sleep(60_000)
      return ''
    },
  }
  const team = openTeam(t, cast, { telemetry: recorder.telemetry, supervision: { poisonAttempts: 2, maxRestarts: 9 } })
  const running = team.execute('go')
  for (let death = 0; death < 2; death++) {
    await team.clock.advance(5)
    team.crash('clerk')
    await team.clock.advance(5_000)
  }
  t.notOk((await running).success)
  t.equal(recorder.open, 0)
  t.strictSame(recorder.named('invoke_agent clerk').map(errorOf), ['AGENT_CRASHED', 'AGENT_CRASHED'])
})

t.test('an aborted run and what was under way in it end, with the reason', async (t) => {
  const recorder = new Recorder()
  const model = new FakeModel(async (request) => {
    await request.clock!.sleep(60_000, request.signal)
    return 'never'
  })
  const cast: Cast = {
    chief: asking('clerk'),
    clerk: async (_, context) => (await context.complete({ prompt: 'go' })).text,
  }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, models: { default: model } })
  const run = team.launch('go')
  await team.clock.advance(50)
  const cancelled = run.cancel('enough')
  await team.clock.runToIdle()
  await cancelled
  t.equal(recorder.open, 0)
  t.equal(errorOf(recorder.one('invoke_workflow')), 'RUN_ABORTED')
  t.equal(tookOf(recorder.one('invoke_workflow')), 50)
  for (const name of ['invoke_agent chief', 'invoke_agent clerk', 'chat default'])
    t.ok(errorOf(recorder.one(name)), name)
})

t.test('a run that cannot begin ends, with the reason', async (t) => {
  const recorder = new Recorder()
  const team = testTeam({
    agents: [{ name: 'ann', module: new URL('file:///nowhere/ann.js') }],
    orchestration: { strategy: 'sequential' },
    telemetry: recorder.telemetry,
    logger: silent,
  })
  t.teardown(() => team.close())
  await t.rejects(team.execute('go'), { code: 'CONFIGURATION' })
  t.equal(errorOf(recorder.one('invoke_workflow')), 'CONFIGURATION')
  t.equal(recorder.open, 0)
})

t.test('a team that closes leaves no span open', async (t) => {
  const recorder = new Recorder()
  const deaf = async (_: AgentMessage, context: AgentContext) => {
    await new Promise(() => context.log.info({}, 'for ever'))
    return ''
  }
  const team = localTeam(t, { chief: asking('clerk'), clerk: deaf }, { telemetry: recorder.telemetry })
  void team.execute('go')
  const answer = team.sendMessage({ recipient: 'clerk', content: 'go', requiresResponse: true }).catch(() => {})
  await team.clock.advance(10)
  t.ok(recorder.open > 0)
  await team.close()
  await answer
  t.equal(recorder.open, 0)
  t.ok(recorder.spans.every(errorOf))
})

t.test('what nobody has ended ends with the team, and once', async (t) => {
  const said: unknown[] = []
  const span: TelemetrySpan = {
    place: {},
    headers: {},
    set: (attributes) => void said.push(attributes),
    event: (name) => void said.push(name),
    end: (...end) => void said.push(end),
    within: (task) => task(),
  }
  const telemetry = { active: () => undefined, continued: () => undefined, startSpan: () => span }
  const spans = new Spans(telemetry, silent, new Redactor())
  const left = spans.start({ name: 'left', kind: 'internal', at: 1, parent: undefined, attributes: {} })
  spans.close(5)
  left.set({ late: true })
  left.event('late', 9, {})
  left.end(9)
  t.strictSame(said, [{ 'error.type': 'TEAM_CLOSED' }, [5, true, undefined]])
})
