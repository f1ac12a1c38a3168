/** The figures of a team as a monitoring system gets them, and its list of runs. */
import t from 'tap'
import { type AgentContext, defineAgent, type Metric, ModelError, ToolFailedError } from '../../src/index.ts'
import { callMetrics } from '../../src/runtime/views/metrics.ts'
import { CallTallies } from '../../src/runtime/views/tallies.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { localTeam } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { desk, toolModule } from '../toolbox/desk.ts'
import { doing } from '../toolbox/tools.ts'
import { readExposition, type Series } from './exposition.ts'
import { after, echo, says, stage, throws } from './stage.ts'

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
