/** What operators see of a team: its figures, its runs, its log lines and causes of errors, and no key in any of it. */

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import t from 'tap'
import {
  type AgentContext,
  type AgentDefinition,
  createTeam,
  defineAgent,
  type Logger,
  type Metric,
  ModelError,
  type RuntimeEvent,
  ToolFailedError,
} from '../../src/index.ts'
import { callMetrics } from '../../src/runtime/views/metrics.ts'
import { CallTallies } from '../../src/runtime/views/tallies.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { inHost } from '../fixtures/team/refused-tools.ts'
import { held } from '../held.ts'
import { where } from '../kit/lists.ts'
import { given, localTeam, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { desk, toolModule } from '../toolbox/desk.ts'
import { doing } from '../toolbox/tools.ts'
import { readExposition, type Series } from './exposition.ts'
import { after, echo, type Options, says, stage, type Test, throws } from './stage.ts'

// The figures of a team as a monitoring system gets them: the page is parsed as Prometheus would.

const seriesOf = (team: { metrics(format: 'prometheus'): string }) => readExposition(team.metrics('prometheus')).series

function value(series: Series[], name: string, labels: Record<string, string> = {}): number | undefined {
  const found = series.filter(
    (one) =>
      one.name === name &&
      Object.keys(one.labels).length === Object.keys(labels).length &&
      Object.entries(labels).every(([label, wanted]) => one.labels[label] === wanted),
  )
  if (found.length > 1) throw new Error(`${name} ${JSON.stringify(labels)} stands there twice`)
  return found[0]?.value
}

t.test('the page has a head for each metric, no series twice, and names that say what they are', async (t) => {
  const team = stage(t, { a: echo, b: throws() })
  await team.execute('q')
  const { heads, series } = readExposition(team.metrics('prometheus'))
  t.ok(heads.length >= 20)
  t.same(heads.length, new Set(heads.map(({ name }) => name)).size)
  const lines = series.map(({ name, labels }) => name + JSON.stringify(labels))
  t.equal(lines.length, new Set(lines).size)
  for (const { name, kind, help } of heads) {
    t.match(name, /^dramatis_[a-z_]+$/)
    t.equal(name.endsWith('_total'), kind === 'counter', name)
    t.match(help, /\.$/)
    t.ok(series.some((one) => one.of === name))
  }
})

t.test('as data it is the same as on the page', async (t) => {
  const team = stage(t, { a: echo })
  await team.execute('q')
  const data = team.metrics()
  const { heads } = readExposition(team.metrics('prometheus'))
  t.same(
    data.filter(({ samples }) => samples.length > 0).map(({ name, kind }) => ({ name, kind })),
    heads.map(({ name, kind }) => ({ name, kind })),
  )
  const handled = data.find(({ name }) => name === 'dramatis_messages_handled_total')
  t.same(handled?.samples, [{ labels: { agent: 'a' }, value: 1 }])
})

t.test('messages are counted where they are', async (t) => {
  const team = stage(t, { a: after(10) }, { communication: { mailboxCapacity: 1 } })
  await team.start()
  const sent = Array.from({ length: 4 }, (_, i) => team.sendMessage({ recipient: 'a', content: String(i) }))
  await team.clock.advance(5)
  const agent = { agent: 'a' }
  const under = (series: Series[]) =>
    ['accepted_total', 'handled_total', 'queued', 'in_flight'].map(
      (what) => value(series, `dramatis_messages_${what}`, agent)!,
    )
  const [accepted, handled, queued, inFlight] = under(seriesOf(team)) as [number, number, number, number]
  t.equal(handled, 0)
  t.equal(queued + inFlight, 4, 'those that wait for room are queued')
  t.ok(accepted < 4)
  t.ok(inFlight > 0)
  await team.clock.advance(100)
  await Promise.all(sent)
  t.same(under(seriesOf(team)), [4, 4, 0, 0])
})

t.test('turns and runs are counted by how long they took', async (t) => {
  const team = stage(t, { a: after(25), b: after(2_000) })
  const run = team.launch('q')
  await team.clock.advance(3_000)
  await run.result
  const series = seriesOf(team)
  const turns = (agent: string, le: string) => value(series, 'dramatis_turn_duration_seconds_bucket', { agent, le })
  t.same(
    ['0.005', '0.025', '1', '+Inf'].map((le) => turns('a', le)),
    [0, 1, 1, 1],
  )
  t.same(
    ['0.025', '1', '2.5', '+Inf'].map((le) => turns('b', le)),
    [0, 0, 1, 1],
  )
  t.equal(value(series, 'dramatis_turn_duration_seconds_sum', { agent: 'b' }), 2)
  t.equal(value(series, 'dramatis_turn_duration_seconds_count', { agent: 'b' }), 1)
  t.equal(value(series, 'dramatis_run_duration_seconds_count'), 1)
  t.equal(value(series, 'dramatis_run_duration_seconds_sum'), 2.025)
})

t.test('buckets contain the smaller ones, and the last one is the count', async (t) => {
  const team = stage(t, { a: echo })
  for (let i = 0; i < 5; i++) await team.execute('q')
  const series = seriesOf(team)
  const buckets = series.filter(({ name }) => name === 'dramatis_turn_duration_seconds_bucket')
  const bounds = buckets.map(({ labels }) => Number(labels.le?.replace('+Inf', 'Infinity')))
  t.same(
    bounds,
    [...bounds].sort((a, b) => a - b),
  )
  t.equal(bounds.at(-1), Number.POSITIVE_INFINITY)
  const values = buckets.map((bucket) => bucket.value)
  t.same(
    values,
    [...values].sort((a, b) => a - b),
  )
  t.equal(values.at(-1), value(series, 'dramatis_turn_duration_seconds_count', { agent: 'a' }))
})

t.test('dead letters have a reason and an agent; a name that is no agent is no label', async (t) => {
  const team = stage(t, {
    a: throws(),
    b: defineAgent({ receive: (_message, context) => context.send('nobody', 'hi').catch(() => {}) }),
  })
  for (let i = 0; i < 2; i++) await team.sendMessage({ recipient: 'a', content: 'hi' })
  await team.sendMessage({ recipient: 'b', content: 'hi' })
  await t.rejects(team.sendMessage({ recipient: 'nobody', content: 'hi' }))
  await team.clock.advance(10)
  const series = seriesOf(team)
  const dead = 'dramatis_messages_dead_lettered_total'
  t.equal(value(series, dead, { agent: 'a', reason: 'failed' }), 2)
  t.equal(value(series, dead, { agent: '', reason: 'unknown_agent' }), 2)
  t.notOk(series.some(({ labels }) => labels.agent === 'nobody'))
  t.equal(value(series, 'dramatis_dead_letters'), team.health().deadLetters)
})

t.test('crashes, restarts and runs by their ending', async (t) => {
  const team = stage(t, { a: after(10) }, { supervision: { backoff: { baseMs: 1_000 } } })
  await team.start()
  team.crash('a')
  await team.clock.advance(0)
  team.crash('a')
  await team.clock.advance(0)
  const down = seriesOf(team)
  t.equal(value(down, 'dramatis_agent_crashes_total', { agent: 'a' }), 2)
  t.equal(value(down, 'dramatis_agent_restarts_total', { agent: 'a' }), 2)
  t.equal(value(down, 'dramatis_agent_ready', { agent: 'a' }), 0)
  await team.clock.advance(1_000)
  const runs = [team.launch('well'), team.launch('late', { timeoutMs: 5 }), team.launch('unwanted')]
  await team.clock.advance(1)
  t.equal(value(seriesOf(team), 'dramatis_runs', { state: 'running' }), 3)
  await runs[2]!.cancel()
  await team.clock.advance(100)
  await Promise.all(runs.map(({ result }) => result))
  const up = seriesOf(team)
  t.equal(value(up, 'dramatis_agent_ready', { agent: 'a' }), 1)
  t.equal(value(up, 'dramatis_runs', { state: 'running' }), 0)
  for (const ending of ['finished', 'failed', 'aborted'])
    t.equal(value(up, 'dramatis_runs_ended_total', { ending }), 1, ending)
})

t.test('a run that the team has no room for is counted as refused', async (t) => {
  const team = stage(t, { a: after(10) }, { maxConcurrentRuns: 1, maxQueuedRuns: 0 })
  const first = team.launch('q')
  await team.execute('q')
  t.throws(() => team.launch('q'), { code: 'TEAM_OVERLOADED' })
  await team.clock.advance(10)
  t.ok((await first.result).success)
  const series = seriesOf(team)
  t.equal(value(series, 'dramatis_runs_ended_total', { ending: 'refused' }), 2)
  t.equal(value(series, 'dramatis_runs_ended_total', { ending: 'failed' }), 0)
})

t.test('the host, its log and its memory are there, and all of it after the end too', async (t) => {
  const team = stage(t, { a: echo })
  await team.execute('q')
  await team.close()
  const series = seriesOf(team)
  t.ok(value(series, 'dramatis_log_bytes')! > 0)
  t.equal(value(series, 'dramatis_log_runs'), 1)
  t.ok(value(series, 'dramatis_process_memory_bytes', { kind: 'rss' })! > 2 ** 20)
  t.ok(value(series, 'dramatis_host_event_loop_active_seconds_total')! > 0)
  t.equal(value(series, 'dramatis_threads', { use: 'agent' }), 0)
  t.equal(value(series, 'dramatis_messages_handled_total', { agent: 'a' }), 1)
})

t.test('another format is refused by name', async (t) => {
  const team = stage(t, { a: echo })
  const metrics: (format: string) => unknown = Reflect.get(team, 'metrics').bind(team)
  t.throws(() => metrics('influx'), { code: 'CONFIGURATION', details: { path: 'format' } })
})

t.test('a figure is plain data', async (t) => {
  const metrics: Metric[] = stage(t, { a: echo }).metrics()
  t.same(JSON.parse(JSON.stringify(metrics)), metrics)
})

t.test('calls of models are counted for each agent and model, with their tokens, times and failures', async (t) => {
  const failing = new ModelError('No.', { reason: 'auth' })
  const model = new FakeModel((_request, nth) => (nth === 1 ? [failing] : 'hello'))
  const ask = async (_message: unknown, context: AgentContext) => (await context.complete({ prompt: 'hi' })).text
  const team = localTeam(t, { ann: ask, bob: ask }, { models: { default: model } })
  t.ok((await team.execute('q')).success)
  t.notOk((await team.execute('q')).success)
  await team.sendMessage({ recipient: 'bob', content: 'q', requiresResponse: true })
  const series = seriesOf(team)
  const calls = (agent: string) => value(series, 'dramatis_model_calls_total', { agent, model: 'default' })
  t.same([calls('ann'), calls('bob')], [2, 1])
  const tokens = (agent: string, direction: string) =>
    value(series, 'dramatis_model_tokens_total', { agent, model: 'default', direction })
  t.same([tokens('ann', 'input'), tokens('ann', 'output'), tokens('bob', 'input')], [10, 5, 10])
  t.equal(value(series, 'dramatis_model_errors_total', { model: 'default', reason: 'auth' }), 1)
  t.equal(value(series, 'dramatis_model_call_duration_seconds_count', { model: 'default' }), 3)
})

t.test('calls of tools are counted wherever they run, with their times and failures', async (t) => {
  const { team, call } = desk(t, [
    { module: toolModule('rows') },
    doing(() => 1, { name: 'inline' }),
    { module: toolModule('record'), isolate: true },
  ])
  await call('rows', { kind: 'date' })
  await call('rows', { kind: 'function' })
  await call('inline', {})
  await call('record', { file: 5 })
  const series = seriesOf(team)
  const calls = (tool: string) => value(series, 'dramatis_tool_calls_total', { agent: 'ann', tool })
  t.same(['rows', 'inline', 'record'].map(calls), [2, 1, 1])
  t.equal(value(series, 'dramatis_tool_errors_total', { tool: 'rows', code: 'TOOL_FAILED' }), 1)
  t.equal(value(series, 'dramatis_tool_errors_total', { tool: 'record', code: 'TOOL_INPUT' }), 1)
  t.equal(value(series, 'dramatis_tool_errors_total', { tool: 'inline', code: 'TOOL_FAILED' }), undefined)
  t.equal(value(series, 'dramatis_tool_duration_seconds_count', { tool: 'rows' }), 2)
})

t.test('models and tools of any names make no page without end', async (t) => {
  const tallies = new CallTallies()
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2, calls: 1 }
  for (let i = 0; i < 2_000; i++) {
    tallies.model('ann', { model: `model-${i}`, usage, durationMs: 1, error: null })
    tallies.tool('ann', `tool-${i}`, 1, new ToolFailedError('No.'))
  }
  const metrics = callMetrics(tallies)
  for (const { name, samples } of metrics) {
    const series = new Set(samples.map(({ labels: { le: _, ...labels } }) => JSON.stringify(labels)))
    t.ok(series.size <= 2 * 501, name)
  }
  const calls = metrics.find(({ name }) => name === 'dramatis_tool_calls_total')?.samples ?? []
  t.equal(
    calls.reduce((sum, { value }) => sum + value, 0),
    2_000,
    'and none is lost',
  )
  t.match(calls.at(-1), { labels: { agent: 'other', tool: 'other' }, value: 1_500 })
})

// `team.listRuns`: what it says of each run, in which order, and in pages.

t.test('the list says when a run ended, with which error, in which thread, and what it has used', async (t) => {
  const team = stage(t, { a: echo })
  await team.clock.advance(5)
  await team.execute('well', { threadId: 'talk' })
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const now = team.clock.now()
  t.match(await team.listRuns(), [
    { query: 'well', status: 'finished', endedAt: now, errorCode: null, threadId: 'talk', usage },
  ])
  const failing = stage(t, { a: throws('no') })
  await failing.execute('badly')
  t.match(await failing.listRuns(), [{ status: 'failed', errorCode: 'AGENT_FAILED', threadId: null }])
})

t.test('a run under way has no end, and a cancelled one the error of its end', async (t) => {
  const team = stage(t, { a: after(1_000) })
  const run = team.launch('q')
  await team.clock.advance(10)
  t.match(await team.listRuns(), [{ status: 'running', endedAt: null, errorCode: null }])
  await run.cancel()
  t.match(await team.listRuns(), [{ status: 'aborted', endedAt: team.clock.now(), errorCode: 'RUN_ABORTED' }])
})

t.test('the tokens of a run are those that its models have used', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'a', systemPrompt: 'Answer.' }], orchestration: { strategy: 'sequential' } },
    { model: scriptedModel([{ reply: 'yes' }]) },
  )
  t.teardown(() => team.close())
  const result = await team.execute('q')
  t.match(await team.listRuns(), [{ usage: result.totalTokenUsage }])
  t.ok(result.totalTokenUsage.totalTokens > 0)
})

t.test('the run that started last is first, and pages follow each other', async (t) => {
  const team = stage(t, { a: says('yes') })
  for (let n = 0; n < 7; n++) {
    await team.execute(`query ${n}`, { runId: `run ${n}`, threadId: n % 2 ? 'odd' : 'even' })
    if (n % 3 === 0) await team.clock.advance(1) // some begin at the same time
  }
  const ids = (await team.listRuns()).map(({ id }) => id)
  t.same(
    ids,
    [6, 5, 4, 3, 2, 1, 0].map((n) => `run ${n}`),
  )
  const pages: string[][] = []
  for (let before: string | undefined; ; ) {
    const page = await team.listRuns({ limit: 3, ...(before !== undefined && { before }) })
    if (page.length === 0) break
    pages.push(page.map(({ id }) => id))
    before = page.at(-1)?.id
  }
  t.same(pages, [ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)])
  const [newest] = await team.listRuns({ limit: 1 })
  const earlier = await team.listRuns({ startedBefore: newest!.startedAt })
  t.ok(earlier.length > 0 && earlier.length < 7)
  t.same(
    earlier.map(({ id }) => id),
    ids.slice(-earlier.length),
    'those of that very time are left out',
  )
  t.match(await team.listRuns({ threadId: 'odd', limit: 2 }), [{ id: 'run 5' }, { id: 'run 3' }])
  t.match(await team.listRuns({ threadId: 'odd', before: 'run 4' }), [{ id: 'run 3' }, { id: 'run 1' }])
})

t.test('a wrong filter is refused, and so is a page after a run that is not there', async (t) => {
  const team = stage(t, { a: says('yes') })
  const refusals: [unknown, string][] = [
    [{ status: 'done' }, 'status'],
    [{ limit: 0 }, 'limit'],
    [{ limit: 1.5 }, 'limit'],
    [{ befor: 'x' }, 'befor'],
    [{ threadId: 5 }, 'threadId'],
    [{ before: 5 }, 'before'],
    [{ startedBefore: 'now' }, 'startedBefore'],
  ]
  for (const [filter, path] of refusals)
    await t.rejects(team.listRuns(filter as object), { code: 'CONFIGURATION', details: { path } })
  await t.rejects(team.listRuns({ before: 'gone' }), { code: 'UNKNOWN_RUN', details: { runId: 'gone' } })
})

// What the logger is told by itself: at which level, and never what messages say.

interface Line {
  level: string
  text: string
  [field: string]: unknown
}

function logged<Name extends string>(
  t: Test,
  cast: Record<Name, AgentDefinition>,
  options: Options<NoInfer<Name>> = {},
) {
  const lines: Line[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ level, ...fields, text })
  const logger: Logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
  return { team: stage(t, cast, { ...options, logger }), lines }
}

t.test('a run that goes well is told to who asks for everything, and to nobody else', async (t) => {
  const { team, lines } = logged(t, { a: echo })
  const { runId } = await team.execute('my secret')
  await team.close()
  t.match(
    lines.map(({ level, text, agent, ...fields }) => ({ level, text, agent, runId: fields.runId })),
    [
      { level: 'debug', runId, text: 'a run begins' },
      { level: 'debug', agent: '$orchestrator', text: 'is ready' },
      { level: 'debug', agent: 'a', text: 'is ready' },
      { level: 'debug', runId, text: 'a run has ended' },
    ],
  )
  t.notMatch(JSON.stringify(lines), 'my secret')
})

t.test('a run that fails is an error with its agent, its code and what to do, and without its query', async (t) => {
  const broken = logged(t, { a: throws() })
  const failed = await broken.team.execute('my secret')
  const { team, lines } = logged(t, { a: after(100) })
  const late = team.launch('my secret', { timeoutMs: 5 })
  const aborted = team.launch('my secret')
  await team.clock.advance(5)
  await aborted.cancel('no need')
  await late.result
  t.match(
    [...broken.lines, ...lines].filter(({ text }) => /^a run (failed|was)/.test(text)),
    [
      {
        level: 'error',
        event: 'run.finished',
        agent: 'a',
        runId: failed.runId,
        code: 'AGENT_FAILED',
        error: /^Agent "a" failed in/,
      },
      {
        level: 'error',
        event: 'run.finished',
        runId: late.id,
        code: 'RUN_TIMEOUT',
        error: /within 5 ms \(globalTimeoutMs,/,
      },
      { level: 'debug', runId: aborted.id, code: 'RUN_ABORTED', text: 'a run was aborted' },
    ],
  )
  t.notMatch(JSON.stringify([broken.lines, lines]), 'my secret')
})

t.test('a crash is a warning, the next life is information, the end for good an error', async (t) => {
  const { team, lines } = logged(t, { a: echo }, { supervision: { maxRestarts: 1, backoff: { baseMs: 100 } } })
  await team.start()
  for (let i = 0; i < 2; i++) {
    team.crash('a')
    await team.clock.advance(10)
  }
  t.match(
    lines.filter(({ level }) => level !== 'debug'),
    [
      { level: 'warn', agent: 'a', event: 'agent.crashed', epoch: 1, text: 'crashed and restarts in 0 ms' },
      { level: 'info', agent: 'a', epoch: 2, text: 'is ready again' },
      { level: 'warn', agent: 'a', event: 'agent.crashed', epoch: 2, text: 'crashed and does not restart' },
      { level: 'error', agent: 'a', error: { code: 'AGENT_TERMINATED' }, text: 'is stopped for good' },
    ],
  )
})

t.test('an agent that cannot start is an error with the reason', async (t) => {
  const broken = defineAgent({
    start() {
      throw new Error('no disk')
    },
    receive: () => '',
  })
  const { team, lines } = logged(t, { a: broken })
  await t.rejects(team.start())
  await team.clock.advance(0)
  t.match(where(lines, 'level', 'error'), [
    { agent: 'a', error: { code: 'START_FAILED', message: /no disk/ }, text: 'is stopped for good' },
  ])
})

t.test('a sync point that some did not come to is a warning, with names and without what was brought', async (t) => {
  const comes = defineAgent({ receive: async (_message, context) => void (await context.sync('noon', 'my secret')) })
  const { team, lines } = logged(
    t,
    { a: comes, b: comes },
    { syncPoints: [{ name: 'noon', requiredAgents: ['a', 'b'], timeoutMs: 1_000 }] },
  )
  await Promise.all(['a', 'b'].map((recipient) => team.sendMessage({ recipient, content: 'go' })))
  await team.clock.advance(1_000)
  const warnings = lines.filter(({ level }) => level === 'warn')
  const text = 'a generation of a sync point ended without some'
  t.match(warnings, [
    { event: 'sync', point: 'noon', generation: 1, missing: ['b'], runId: /./, text },
    { event: 'sync', point: 'noon', generation: 1, missing: ['a'], runId: /./, text },
  ])
  t.equal(warnings.length, 2)
  t.notMatch(JSON.stringify(lines), 'my secret')
})

t.test('dead letters are a warning for each agent and reason, with ids and without words', async (t) => {
  const { team, lines } = logged(t, { a: throws('said by the handler'), b: echo })
  await team.sendMessage({ recipient: 'a', content: 'my secret' })
  await t.rejects(team.sendMessage({ recipient: 'nobody', content: 'my secret' }))
  await team.clock.advance(10)
  const [letter] = team.deadLetters.list()
  const warnings = lines.filter(({ level }) => level === 'warn')
  t.match(
    warnings.sort((a, b) => String(a.agent).localeCompare(String(b.agent))),
    [
      { agent: 'a', event: 'message.dead', reason: 'failed', count: 1, code: 'AGENT_FAILED' },
      { agent: 'nobody', event: 'message.dead', reason: 'unknown_agent', count: 1, code: 'UNKNOWN_AGENT' },
    ],
  )
  t.ok(warnings.some(({ messageId }) => messageId === letter!.id))
  t.notMatch(JSON.stringify(lines), 'my secret')
  t.notMatch(JSON.stringify(warnings), 'said by the handler')
})

t.test('however many messages die at a time, it is one line', async (t) => {
  const { team, lines } = logged(t, { a: after(1_000) }, { supervision: { maxRestarts: 0 } })
  for (let i = 0; i < 50; i++) await team.sendMessage({ recipient: 'a', content: 'x' })
  team.crash('a')
  await team.clock.advance(0)
  const letters = lines.filter(({ event, level }) => event === 'message.dead' && level === 'warn')
  t.match(letters, [{ agent: 'a', reason: 'stopped', count: 50 }])
})

t.test('a message that was withdrawn is no trouble', async (t) => {
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 3; i++) await context.send('b', 'hi')
      await context.sleep(1_000)
    },
  })
  const cast = { a: sends, b: after(1_000) }
  const { team, lines } = logged(t, cast, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(1)
  await run.cancel()
  await team.clock.advance(10_000)
  t.ok(lines.some(({ level, agent, reason }) => level === 'debug' && agent === 'b' && reason === 'cancelled'))
  t.same(
    lines.filter(({ level }) => level === 'warn' || level === 'error'),
    [],
  )
})

// What agents print on real threads, and what becomes of it in the log.

const module = new URL('../fixtures/team/printer.js', import.meta.url)

interface PrintsLine {
  level: string
  agent?: unknown
  lines?: unknown
  text: string
}

/** A team whose log is kept; `once` resolves when it is as wanted. */
function printer(t: Test) {
  const log: PrintsLine[] = []
  let check = () => {}
  const note = (level: string) => (fields: object, text: string) => {
    log.push({ level, ...fields, text })
    check()
  }
  const logger: Logger = { debug() {}, info: note('info'), warn: note('warn'), error: note('error') }
  const team = createTeam({
    agents: [{ name: 'printer', module }],
    orchestration: { strategy: 'sequential' },
    logger,
  })
  t.teardown(() => team.close())
  const once = (wanted: (log: PrintsLine[]) => boolean) =>
    held(
      new Promise<void>((resolve) => {
        check = () => {
          if (wanted(log)) resolve()
        }
        check()
      }),
    )
  return { team, log, once }
}

const printed = (log: PrintsLine[]) => log.filter(({ level }) => level === 'info')
const has = (text: string) => (log: PrintsLine[]) => log.some((line) => line.text === text)

t.test('pieces of a line are one line; what has no end is told when the thread has ended', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('in pieces')
  await once(has('one line'))
  t.notOk(has('no end')(log))
  await team.close()
  await once(has('no end'))
  t.same(printed(log), [
    { level: 'info', agent: 'printer', text: 'one line' },
    { level: 'info', agent: 'printer', text: 'no end' },
  ])
})

t.test('bytes that are no text are replaced', async (t) => {
  const { team, once } = printer(t)
  await team.execute('no text')
  await once(has('a\ufffd\ufffdb'))
})

t.test('a line of 5 MB is cut', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('a long line')
  await once((log) => printed(log).length > 0)
  t.equal(printed(log)[0]!.text, `${'x'.repeat(16_384)} ... (${5_000_000 - 16_384} characters left out)`)
})

t.test('what an agent prints before it dies is told', async (t) => {
  const { team, once } = printer(t)
  await team.execute('die')
  await once(has('my last words'))
  await once(has('and one more thing'))
})

t.test('of 10 MB at once each line is told or counted, and the team goes on', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('flood')
  await team.close()
  const leftOut = () => log.reduce((sum, { lines }) => sum + (typeof lines === 'number' ? lines : 0), 0)
  await once((log) => printed(log).length + leftOut() === 100_000)
  t.ok(leftOut() > 0)
  t.ok(log.some(({ level, agent, text }) => level === 'warn' && agent === 'printer' && text.includes('left out')))
})

// A key that a caller has put into a query: agents get what was written, and nobody who looks from outside does.

const KEY = 'a-key-of-the-team-0123456789'
const QUERY = `Why does ${KEY} not work?`
const SHOWN = 'Why does [redacted] not work?'

t.test('a key in a query reaches the agents, and is in nothing that callers read of the run', async (t) => {
  const heard: unknown[] = []
  const bob = defineAgent({
    receive({ content }) {
      heard.push(content)
      return content
    },
  })
  const ann = defineAgent({
    async receive({ content }, context) {
      await context.publish('query', content, 'question')
      heard.push((await context.blackboard.read('query'))?.value)
      return String((await context.delegate('bob', content)).result)
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      enableBlackboard: true,
      models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: KEY } },
      logger: silent,
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())
  const run = team.launch(QUERY, { runId: 'one' })
  const board = run.blackboard
  const entries: unknown[] = []
  await board?.subscribe('query', ({ value }) => void entries.push(value))
  const awaited = board?.waitFor('query')
  const result = await run.result
  t.match(result, { success: true, finalOutput: SHOWN })
  t.strictSame(heard, [QUERY, QUERY])
  t.equal(run.query, SHOWN)
  t.equal((await team.listRuns())[0]?.query, SHOWN)
  t.equal(run.tasks[0]?.description, SHOWN)
  entries.push((await awaited)?.value, (await board?.read('query'))?.value, (await board?.query())?.[0]?.value)
  entries.push((await board?.getHistory('query'))?.[0]?.value)
  t.strictSame(entries, [SHOWN, SHOWN, SHOWN, SHOWN, SHOWN])
  t.equal(team.launch(QUERY, { runId: 'one' }).id, 'one', 'the same query joins the run')
})

// Causes of what agents throw: no key of the team is in them, and the log lines of agents have them too.

function thrown(): Error {
  const deep = Object.assign(new Error(`${KEY} is wrong`), { code: KEY, status: 401 })
  const errors = [Object.assign(new Error(`not with Bearer ${KEY}`), { code: 'E_ONE' }), new Error('two')]
  return new Error('no', { cause: new AggregateError(errors, 'none', { cause: deep }) })
}

t.test('causes and the errors of an AggregateError are redacted in the result, in events and in the log', async (t) => {
  const lines: object[] = []
  const line = (fields: object) => void lines.push(fields)
  const logger: Logger = { debug() {}, info() {}, warn: line, error: line }
  const team = given(t, {
    logger,
    models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: KEY } },
  }).testTeam({
    ann(_message, context) {
      context.log.warn({ error: thrown() }, 'it will fail')
      throw thrown()
    },
  })
  const run = team.launch('go')
  const events: RuntimeEvent[] = []
  for await (const event of run.events()) events.push(event)
  const result = await run.result
  const cause = {
    message: 'none',
    cause: { message: '[redacted] is wrong', code: '[redacted]', status: 401 },
    errors: [{ message: 'not with [redacted]', code: 'E_ONE' }, { message: 'two' }],
  }
  t.match(result.error, { cause: { message: 'no', cause } })
  t.match(result.error?.message, /E_ONE.*two/)
  t.match(lines, [{ error: { name: 'Error', message: 'no', cause } }, { error: result.error?.message }])
  t.match(events.at(-1), { type: 'run.finished', result: { error: { cause: { cause } } } })
  t.notMatch(inspect([result, events, lines], { depth: 20 }), KEY)
})

// What an agent or a tool throws is told with its causes, in the result, in events and in the log.

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/team/${name}.js`, import.meta.url))

/** An address at which nobody listens. */
async function nobody(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `127.0.0.1:${port}`
}

t.test('a refused connection is told with its code and address, whoever met it', async (t) => {
  const lines: object[] = []
  const line = (fields: object) => void lines.push(fields)
  const module = fixture('refused-tools')
  const team = createTeam({
    agents: [
      {
        name: 'ann',
        module: fixture('refused'),
        tools: [inHost, { module, export: 'inThread' }, { module, export: 'inOwnThread', isolate: true }],
      },
    ],
    orchestration: { strategy: 'sequential' },
    logger: { debug() {}, info() {}, warn: line, error: line },
  })
  t.teardown(() => team.close())
  for (const by of ['agent', 'host', 'thread', 'isolated']) {
    const address = await nobody()
    const run = team.launch(`${by} http://${address}/${process.pid}`)
    const finished: RuntimeEvent[] = []
    for await (const event of run.events()) if (event.type === 'tool.finished') finished.push(event)
    const { error } = await run.result
    const why = {
      name: 'Error',
      code: 'ECONNREFUSED',
      address: '127.0.0.1',
      message: `connect ECONNREFUSED ${address}`,
    }
    const fetching = { name: 'TypeError', message: 'fetch failed', cause: why }
    t.match(error, { code: 'AGENT_FAILED', cause: by === 'agent' ? fetching : { name: 'ToolFailedError' } }, by)
    t.match(error?.message, `TypeError: fetch failed; cause: Error: connect ECONNREFUSED ${address}`, by)
    t.match(lines, [{ event: 'run.finished', error: error?.message }], by)
    if (by !== 'agent') t.match(finished, [{ error: { code: 'TOOL_FAILED', cause: fetching } }], by)
    lines.length = 0
  }
})
