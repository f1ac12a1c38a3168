/** How a trace goes on from who calls the team to its agents, and what the team makes of a telemetry that fails. */
import { type Context, context, TraceFlags, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import t from 'tap'
import { ConfigurationError, createTeam, type Logger } from '../../src/index.ts'
import { openTelemetry } from '../../src/opentelemetry.ts'
import type { Telemetry } from '../../src/telemetry.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, localTeam, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { sourceFiles } from '../source-files.ts'
import { doing } from '../toolbox/tools.ts'
import { idOf, parentOf, Recorder, traceOf } from './recorder.ts'

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
