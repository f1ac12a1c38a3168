/** How spans end, and how a trace goes on from who calls the team to its agents. */
import { type Context, context, TraceFlags, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import t from 'tap'
import { type AgentContext, type AgentMessage, ConfigurationError, createTeam, type Logger } from '../../src/index.ts'
import { END, kindOf, lengthOf, senderOf, turnOf } from '../../src/mailbox/frame.ts'
import { openTelemetry } from '../../src/opentelemetry.ts'
import type { Batch, HostRecord, LogEntry } from '../../src/runtime/log/records.ts'
import { Redactor } from '../../src/runtime/logging/redactor.ts'
import { Spans } from '../../src/runtime/observers/spans.ts'
import { modelSpans, Tracing } from '../../src/runtime/observers/tracing.ts'
import { ModelGateway } from '../../src/runtime/verbs/gateway.ts'
import type { Telemetry, TelemetrySpan } from '../../src/telemetry.ts'
import { rehearse, testTeam, virtualClock } from '../../src/testing.ts'
import relay from '../fixtures/telemetry/relay.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, localTeam, openTeam, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { sourceFiles } from '../source-files.ts'
import { doing } from '../toolbox/tools.ts'
import { asking } from './asking.ts'
import { errorOf, idOf, parentOf, Recorder, tookOf, traceOf } from './recorder.ts'

// How spans end: with their turn, in a death, with their run, and in any case with the team.

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

// Spans are folded from the log, in batches that follow from how busy host and threads are: they must not show in
// the spans.

t.test('however the log is cut into batches, the spans of turns are the same', async (t) => {
  let tries = 0
  const cast: Cast = {
    chief: async (_, context) => {
      for (const text of ['one', 'two', 'three']) await context.send('clerk', text)
      return (await context.request('sage', 'go')).content
    },
    clerk: async ({ content }, context) => {
      if (content === 'two') tries += 1
      if (content === 'two' && tries === 1) throw new Error('not yet')
      if (content === 'three') await context.request('sage', 'go')
      return ''
    },
    sage: async (_, context) => {
      await context.sleep(5)
      return ''
    },
  }
  const team = openTeam(t, cast, { supervision: { onHandlerError: 'retry' } })
  const told: Batch[] = []
  team.host.attach(() => ({ next: (batch) => void told.push(batch) }))
  const running = team.execute('go')
  await team.clock.runToIdle()
  t.ok((await running).success)
  const all = told.flat()
  const fold = (batches: readonly Batch[]) => {
    const recorder = new Recorder()
    const part = new Tracing(recorder.telemetry, team.host).part(team.host)
    for (const batch of batches) part.next(batch)
    t.equal(recorder.open, 0)
    return shapeOf(recorder)
  }
  const expected = fold(told)
  t.equal(expected.length, 7)
  const attempts = expected.map(([, attempt, error]) => `${attempt} ${error}`)
  t.strictSame(attempts.filter((attempt) => attempt !== '1 undefined').sort(), ['1 AGENT_FAILED', '2 undefined'])
  t.strictSame(fold([all]), expected)
  const late = announcedLate(all)
  t.not(late.findIndex(isStart), all.findIndex(isStart))
  t.strictSame(fold([late]), expected)
})

/** What there is to tell of each span, in an order that does not follow from when it was told. */
function shapeOf({ spans }: Recorder): (string | undefined)[][] {
  const messageOf = (span: ReadableSpan | undefined) => span && `${span.attributes['dramatis.message.id']}`
  const byId = new Map(spans.map((span) => [idOf(span), span]))
  return spans
    .map((span) => [
      span.name,
      `${span.attributes['dramatis.turn.attempt']}`,
      errorOf(span) as string | undefined,
      messageOf(span),
      messageOf(byId.get(parentOf(span) ?? '')),
    ])
    .sort((one, other) => (one.join() < other.join() ? -1 : 1))
}

/** A turn that stood in line behind another can do something before the host says that it has begun. */
function announcedLate(entries: Batch): LogEntry[] {
  const moved = [...entries]
  for (const start of entries) {
    if (!isStart(start)) continue
    const next = moved.findIndex((entry) => framesIn(entry, start).length > 0 && entry.seq > start.seq)
    if (next < 0 || framesIn(moved[next]!, start).includes(END)) continue
    moved.splice(next, 0, ...moved.splice(moved.indexOf(start), 1)) // the place of `next` has moved by one
  }
  return moved
}

const isStart = (entry: LogEntry): entry is HostRecord & { kind: 'turn.started' } => entry.kind === 'turn.started'

/** The kinds of the frames of that turn. */
function framesIn(entry: LogEntry, { index, turn }: { index: number; turn: number }): number[] {
  const kinds: number[] = []
  if (entry.kind !== 'frames') return kinds
  const { memory, from, to } = entry
  for (let at = from; at < to; at += lengthOf(memory, at))
    if (senderOf(memory, at) === index && turnOf(memory, at) === turn) kinds.push(kindOf(memory, at))
  return kinds
}

t.test('a call of a model waits until its turn is told of', async (t) => {
  const recorder = new Recorder()
  const spans = new Spans(recorder.telemetry, silent, new Redactor())
  const turn = spans.start({ name: 'turn', kind: 'internal', at: 0, parent: undefined, attributes: {} })
  let isTold = false
  const clock = virtualClock()
  const layer = modelSpans(spans, clock, () => (isTold ? turn.place : undefined))
  const model = new FakeModel(['said'])
  const gateway = new ModelGateway({
    clock,
    resolve: () => ({ client: model, model: 'm' }),
    record: () => {},
    layers: [layer],
    redactor: new Redactor(),
  })
  const caller = {
    agent: { name: 'ann', index: 3, settings: { modelTimeoutMs: 1_000, info: {} }, messageIdOf: () => 'm' },
    run: { id: 'r' },
    turn: 1,
  } as never
  const messages = [{ role: 'user', content: 'hi' }] as const
  const answer = gateway.call(caller, { messages }, new AbortController().signal, () => {})
  isTold = true
  await answer
  turn.end(1)
  t.equal(parentOf(recorder.one('chat m')), idOf(recorder.one('turn')))
})

// Spans of agents on real threads: short turns, of which the host sees no more than what they leave.

const module = new URL('../fixtures/telemetry/relay.js', import.meta.url)
const agents = ['chief', 'clerk', 'sage'].map((name) => ({ name, module }))
const orchestration = {
  strategy: 'custom',
  run: async (script: { request(to: string, content: string): Promise<{ content: string }> }, query: string) =>
    (await script.request('chief', query)).content,
} as const

t.test('each of many short turns stands below the one that began it', async (t) => {
  const recorder = new Recorder()
  const team = createTeam({ agents, orchestration, logger: silent, telemetry: recorder.telemetry })
  t.teardown(() => team.close())
  const { finalOutput } = await team.execute('clerk 200 sage 2')
  await team.close({ drainMs: 60_000 })
  const run = recorder.one('invoke_workflow')
  const chief = recorder.one('invoke_agent chief')
  const clerks = recorder.named('invoke_agent clerk')
  const sages = recorder.named('invoke_agent sage')
  t.equal(finalOutput, `00-${traceOf(run)}-${idOf(run)}-01`)
  t.equal(parentOf(chief), idOf(run))
  t.equal(clerks.length, 200)
  t.ok(clerks.every((span) => parentOf(span) === idOf(chief)))
  t.equal(sages.length, 400)
  for (const clerk of clerks) t.equal(sages.filter((sage) => parentOf(sage) === idOf(clerk)).length, 2)
  t.equal(recorder.open, 0)
  t.ok(recorder.spans.every((span) => errorOf(span) === undefined && tookOf(span) >= 0))
})

t.test('a rehearsal of the team leaves no spans', async (t) => {
  const recorder = new Recorder()
  const modules = { chief: relay, clerk: relay, sage: relay }
  const options = { agents: agents.map(({ name }) => ({ name })), orchestration, telemetry: recorder.telemetry }
  const { outcomes } = await rehearse(options, { query: 'clerk 1 sage 1', seeds: 3, modules })
  t.equal(outcomes.done, 3)
  t.equal(recorder.started, 0)
})

// How a trace goes on from who calls the team to its agents, and what the team makes of a telemetry that fails.

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const traceparent = `00-${TRACE}-${SPAN}-01`

/** Answers with what it knows of the trace that it is in. */
const echo: Cast = {
  echo: (message, { run }) => JSON.stringify([run.metadata.traceparent, run.metadata.tracestate, message.metadata]),
}

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
t.teardown(() => context.disable())

t.test('a run is the child of what its caller has under way', async (t) => {
  const recorder = new Recorder()
  const team = localTeam(t, echo, { telemetry: recorder.telemetry })
  await team.start()
  const tracer = recorder.tracerProvider.getTracer('caller')
  const ids: string[] = []
  const inside = <T>(name: string, task: () => T): T =>
    tracer.startActiveSpan(name, (span) => {
      ids.push(span.spanContext().spanId)
      const result = task()
      span.end()
      return result
    })
  await inside('one', () => team.execute('go'))
  await inside('two', () => team.launch('go').result)
  await inside('three', async () => {
    for await (const _ of team.stream('go'));
  })
  await inside('four', () => team.getAgent('echo')!.run('go'))
  t.strictSame(recorder.named('invoke_workflow').map(parentOf), ids)
  await inside('five', () => team.sendMessage({ recipient: 'echo', content: 'go', requiresResponse: true }))
  await team.clock.runToIdle()
  t.strictSame(recorder.named('invoke_agent echo').map(parentOf).at(-1), ids.at(-1), 'a message has no run')
  t.equal(recorder.open, 0)
})

t.test('a run of nobody is a root', async (t) => {
  const recorder = new Recorder()
  const team = localTeam(t, echo, { telemetry: recorder.telemetry })
  await team.execute('go')
  t.equal(parentOf(recorder.one('invoke_workflow')), undefined)
})

t.test('a run goes on with the trace that its metadata names, and hands its own place to its agents', async (t) => {
  const recorder = new Recorder()
  const team = localTeam(t, echo, { telemetry: recorder.telemetry })
  const metadata = { traceparent, tracestate: 'a=1,b=2', color: 'red' }
  const result = await team.execute('go', { metadata })
  const run = recorder.one('invoke_workflow')
  t.equal(traceOf(run), TRACE)
  t.equal(parentOf(run), SPAN)
  t.equal(run.parentSpanContext?.isRemote, true)
  t.strictSame(JSON.parse(result.finalOutput!), [`00-${TRACE}-${idOf(run)}-01`, 'a=1,b=2', {}])
})

t.test('a message from outside goes on with the trace of its sender', async (t) => {
  const recorder = new Recorder()
  const cast: Cast = { ...echo, chief: async (_, agent) => (await agent.request('echo', 'go')).content }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry })
  await team.sendMessage({ recipient: 'chief', content: 'go', metadata: { traceparent }, requiresResponse: true })
  await team.clock.runToIdle()
  const chief = recorder.one('invoke_agent chief')
  t.equal(traceOf(chief), TRACE)
  t.equal(parentOf(chief), SPAN)
  t.equal(parentOf(recorder.one('invoke_agent echo')), idOf(chief))
})

t.test('an agent can name the span of its own that a message comes from', async (t) => {
  const recorder = new Recorder()
  const metadata = { traceparent }
  const cast: Cast = { chief: async (_, agent) => (await agent.request('echo', 'go', { metadata })).content, ...echo }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry })
  await team.execute('go')
  t.equal(parentOf(recorder.one('invoke_agent echo')), SPAN)
  t.not(traceOf(recorder.one('invoke_agent chief')), TRACE)
})

t.test('a traceparent that is none is no parent', async (t) => {
  const wrong = [
    '',
    'nonsense',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}`,
  ]
  const recorder = new Recorder()
  const team = localTeam(t, echo, { telemetry: recorder.telemetry })
  for (const traceparent of wrong) {
    const { finalOutput } = await team.execute('go', { metadata: { traceparent, tracestate: 'of=another' } })
    const run = recorder.named('invoke_workflow').at(-1)!
    t.strictSame(JSON.parse(finalOutput!), [`00-${traceOf(run)}-${idOf(run)}-01`, null, {}])
  }
  const runs = recorder.named('invoke_workflow')
  t.equal(runs.length, wrong.length)
  for (const run of runs) t.equal(parentOf(run), undefined)
  const later = openTelemetry().continued({ traceparent: `01-${TRACE}-${SPAN}-03-more` }) as Context
  t.match(trace.getSpanContext(later), { traceId: TRACE, spanId: SPAN, traceFlags: TraceFlags.SAMPLED })
})

t.test('what a client of models does is below the span of its call', async (t) => {
  const recorder = new Recorder()
  const seen: unknown[] = []
  const model = new FakeModel(() => {
    seen.push(trace.getActiveSpan()?.spanContext().spanId)
    return 'said'
  })
  const cast: Cast = { ann: async (_, agent) => (await agent.complete({ prompt: 'go' })).text }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, models: { default: model } })
  await team.execute('go')
  t.strictSame(seen, [idOf(recorder.one('chat default'))])
})

t.test('what a tool of the host does is below the span of its call', async (t) => {
  const recorder = new Recorder()
  const tracer = recorder.tracerProvider.getTracer('a client of HTTP')
  const tool = (name: string) =>
    doing(
      async () => {
        await Promise.resolve()
        tracer.startSpan(`GET ${name}`).end()
      },
      { name },
    )
  const tools = [tool('one'), tool('two')]
  const cast: Cast = {
    ann: async (_, agent) => {
      await Promise.all(tools.map((each) => agent.tool(each, {})))
      return 'done'
    },
  }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, roles: { ann: { tools } } })
  await team.execute('go')
  t.same(recorder.trees, [
    ['invoke_workflow', ['invoke_agent ann', ['execute_tool one', ['GET one']], ['execute_tool two', ['GET two']]]],
  ])
})

t.test('without telemetry, metadata stays what it was', async (t) => {
  const team = localTeam(t, echo)
  t.strictSame(JSON.parse((await team.execute('go')).finalOutput!), [null, null, {}])
  const { finalOutput } = await team.execute('go', { metadata: { traceparent } })
  t.strictSame(JSON.parse(finalOutput!), [traceparent, null, {}])
})

t.test('without a provider nothing is traced, and nothing is different', async (t) => {
  const team = localTeam(t, echo, { telemetry: openTelemetry() })
  t.strictSame(JSON.parse((await team.execute('go')).finalOutput!), [null, null, {}])
})

t.test('a telemetry that throws hurts nobody, and is told once', async (t) => {
  const lines: unknown[] = []
  const logger: Logger = { ...silent, error: (fields, text) => void lines.push([fields, text]) }
  const fail = () => {
    throw new Error('no telemetry today')
  }
  const cast: Cast = { ann: async (_, agent) => (await agent.complete({ prompt: 'go' })).text }
  const whole = new Recorder().telemetry
  const broken: Telemetry[] = [
    { active: fail, continued: fail, startSpan: fail },
    {
      ...whole,
      startSpan: (start) => ({
        ...whole.startSpan(start),
        set: fail,
        event: fail,
        end: fail,
        within(task) {
          task()
          return fail()
        },
      }),
    },
  ]
  for (const telemetry of broken) {
    lines.length = 0
    const model = new FakeModel(['said'])
    const team = localTeam(t, cast, { telemetry, logger, models: { default: model } })
    const result = await team.execute('go')
    t.equal(result.finalOutput, 'said')
    t.equal(model.requests.length, 1, 'it is asked once')
    await team.close()
    t.match(lines, [[{ error: /no telemetry today/ }, /telemetry threw/]])
    t.equal(lines.length, 1)
  }
})

t.test('wrong options are refused by name', async (t) => {
  const agents = [{ name: 'a', module: new URL('file:///a.js') }]
  const orchestration = { strategy: 'sequential' } as const
  const errorOf = (make: () => unknown): unknown => {
    try {
      make()
    } catch (error) {
      return error
    }
    return undefined
  }
  const wrong: [make: () => unknown, path: string, said: RegExp][] = [
    [() => createTeam({ agents, orchestration, telemetry: {} as never }), 'telemetry', /startSpan/],
    [() => createTeam({ agents, orchestration, telemetry: openTelemetry as never }), 'telemetry', /an object with/],
    [() => openTelemetry({ tracerProvider: {} as never }), 'tracerProvider', /getTracer/],
    [() => openTelemetry({ meterProvider: {} as never }), 'meterProvider', /getMeter/],
    [() => openTelemetry({ captureContent: 'yes' as never }), 'captureContent', /true or false/],
    [() => openTelemetry({ workflowName: 5 as never }), 'workflowName', /a string/],
    [() => openTelemetry({ provider: 5 } as never), 'provider', /no such option/],
  ]
  for (const [make, path, said] of wrong) {
    const error = errorOf(make)
    t.type(error, ConfigurationError)
    t.match(error, { message: said, details: { path } })
  }
})

t.test('only the subpath knows OpenTelemetry', async (t) => {
  const users = sourceFiles.filter(({ text }) => /from '@opentelemetry|import\('@opentelemetry/.test(text))
  t.strictSame(pluck(users, 'path'), ['src/opentelemetry.ts'])
})
