/** What waits in a team: turns for others, for models, tools and people, and what waits for each limit. */
import t from 'tap'
import { turnBehind } from '../../src/actors/turn/context.ts'
import { ModelError, type RuntimeEvent, type Wait } from '../../src/index.ts'
import { askAll, type Extras, gate, given, localTeam, type Receive } from '../kit/team.ts'
import { calls, FakeModel } from '../models/fake-model.ts'
import { doing } from '../toolbox/tools.ts'

const brief = (waits: Wait[]) => waits.map(({ agent, kind, for: what }) => [agent, kind, ...what].join(' '))

t.test('a turn that waits for another is there with its message, and since when', async (t) => {
  const team = localTeam(t, {
    ann: async (_message, context) => (await context.request('ben', 'go')).content,
    ben: async (_message, context) => {
      await context.sleep(1_000)
      return 'done'
    },
  })
  t.same(team.waits(), [])
  const run = team.launch('go', { runId: 'one' })
  await team.clock.advance(500)
  const now = team.clock.now()
  const [script, ann, ...others] = team.waits()
  t.match(script, { runId: 'one', agent: '$orchestrator', for: ['ann'], kind: 'request' })
  t.match(ann, { runId: 'one', agent: 'ann', for: ['ben'], kind: 'request' })
  t.ok(ann!.since >= now - 500 && ann!.since <= now - 400)
  const [message] = team.getMessageHistory('one').filter(({ recipient }) => recipient === 'ann')
  t.equal(ann!.turn, message!.id)
  t.same(others, [])
  await team.clock.advance(1_000)
  await run.result
  t.same(team.waits(), [])
})

t.test('turns that wait for each other are a circle, with who waits for them, until it is broken', async (t) => {
  const team = given(t, { supervision: { deadlock: false } }).testTeam({
    ann: async (_message, context) => (await context.request('ben', 'go')).content,
    ben: async (_message, context) => (await context.request('ann', 'go')).content,
  })
  t.same(team.waitCycles(), [])
  const run = team.launch('go', { runId: 'one' })
  await team.clock.advance(500)
  const [cycle, ...others] = team.waitCycles()
  t.same(others, [])
  t.match(cycle, { agents: ['ann', 'ben'], runIds: ['one'], tail: ['$orchestrator'] })
  const toAnn = team.getMessageHistory('one').find(({ recipient }) => recipient === 'ann')
  t.equal(cycle!.turns[0], toAnn!.id)
  void run.cancel('enough')
  await team.clock.advance(0)
  t.same(team.waitCycles(), [])
})

t.test('a turn that asks several at once is one entry', async (t) => {
  const team = localTeam(t, {
    ann: async (_message, context) => `${(await context.requestAll(['ben', 'cid'], 'go')).length}`,
    ben: (_message, context) => context.sleep(1_000).then(() => 'b'),
    cid: (_message, context) => context.sleep(1_000).then(() => 'c'),
  })
  const run = team.launch('go')
  await team.clock.advance(500)
  t.ok(brief(team.waits()).includes('ann request ben cid'))
  await team.clock.advance(1_000)
  await run.result
})

t.test('waits for models, tools, people and the blackboard have the name of what is waited for', async (t) => {
  const { open, opened } = gate()
  const lookUp = doing(() => opened.then(() => 'found'), { name: 'look_up' })
  const model = new FakeModel(async ({ agent }) => {
    if (agent === 'tess') return calls(['look_up', {}])
    await opened
    return 'thought'
  })
  const team = given(t, {
    roles: { tess: { tools: [lookUp] } },
    models: { default: model, small: model },
    script: async (script, query) => {
      await script.requestAll(['mia', 'tess', 'pam', 'bob'], query)
      return 'done'
    },
  }).testTeam({
    mia: async (_message, context) => (await context.complete({ prompt: 'Think.', model: 'small' })).text,
    tess: async (_message, context) => (await context.think('Think.')).text,
    pam: async (_message, context) => context.ask('May I?'),
    bob: async (_message, context) => String((await context.blackboard.waitFor('key')).value),
  })
  const run = team.launch('go')
  await team.clock.advance(500)
  const waits = brief(team.waits())
  for (const each of ['mia model small', 'pam ask', 'bob blackboard key']) t.ok(waits.includes(each), each)
  t.ok(waits.includes('tess tool look_up') || waits.includes('tess model'), waits.join())
  void run.cancel('enough')
  open()
  await team.clock.advance(10_000)
  await run.result
})

/** Each limit, with the options of a team in which something waits for it. Every agent works for a second. */
const limited: Record<string, { options: Extras; limit: number | null; agent?: string }> = {
  maxConcurrentRuns: { options: { maxConcurrentRuns: 1 }, limit: 1 },
  maxConcurrentAgents: { options: { maxConcurrentAgents: 1 }, limit: 1, agent: 'ben' },
  'threads.max': { options: { threads: { max: 1 } }, limit: 1, agent: 'ben' },
  'concurrency of "ann"': { options: { roles: { ann: { concurrency: 2 } } }, limit: 2, agent: 'ann' },
  'models.default.maxConcurrent': {
    options: { models: { default: { client: slowModel(), maxConcurrent: 1 } } },
    limit: 1,
    agent: 'ben',
  },
  'rate limit of default': { options: { models: { default: refusing() } }, limit: null, agent: 'ann' },
  'budget.perRun.tokens': {
    options: { models: { default: slowModel() }, budget: { perRun: { tokens: 1_000 } } },
    limit: 1_000,
    agent: 'ben',
  },
  'orchestration.maxConcurrent': {
    options: { orchestration: { strategy: 'parallel', maxConcurrent: 1 } },
    limit: 1,
    agent: 'ben',
  },
  'concurrency of requestAll': { options: { orchestration: oneByOne() }, limit: 1, agent: 'ben' },
  maxParallelToolCalls: {
    options: {
      models: { default: new FakeModel(() => calls(['act', {}], ['act', {}], ['act', {}])) },
      roles: { ben: { maxParallelToolCalls: 1, tools: [doing(never, { timeoutMs: 1_000 })] } },
    },
    limit: 1,
    agent: 'ben',
  },
}

function never(): Promise<string> {
  return new Promise(() => {})
}

/** Asks the agents one after the other. */
function oneByOne(): Extras['orchestration'] {
  return {
    strategy: 'custom',
    run: async (script, query) => `${(await script.requestAll(['ann', 'ben'], query, { concurrency: 1 })).length}`,
  }
}

/** A model that thinks for a second. */
function slowModel(): FakeModel {
  return new FakeModel(async ({ clock, signal }) => {
    await clock!.sleep(1_000, signal)
    return 'thought'
  })
}

/** A model whose provider wants to be left alone. */
function refusing(): FakeModel {
  return new FakeModel(() => [
    new ModelError('It is asked too often.', {
      reason: 'rate_limit',
      status: 429,
      retryable: true,
      retryAfterMs: 60_000,
    }),
  ])
}

for (const [option, { options, limit, agent = null }] of Object.entries(limited))
  t.test(`what waits for ${option} says so: as data, as an event of its run, and in a metric`, async (t) => {
    const work: Receive = async (_message, context) => {
      if (!options.models) await context.sleep(1_000)
      else if (context.role.maxParallelToolCalls) await context.think('Think.')
      else await context.complete({ prompt: 'Think.', maxOutputTokens: 600 })
      return 'done'
    }
    const team = localTeam(t, { ann: work, ben: work }, { orchestration: askAll, ...options })
    const events: RuntimeEvent[] = []
    team.events.subscribe((event) => void events.push(event))
    await team.clock.advance(1_000)
    const runs = ['one', 'two', 'three'].map((runId) => team.launch('go', { runId }))
    await team.clock.advance(500)
    const waits = team.waits().filter(({ kind, for: what }) => kind === 'limit' && what[0] === option)
    const waiting = waits.find((wait) => agent === null || wait.agent === agent)
    t.match(waiting, { agent, for: [option], limit, since: Number }, JSON.stringify(team.waits()))
    const age = team.clock.now() - waiting!.since
    t.ok(age >= 0 && age <= 500, `it has waited for ${age} ms`)
    if (option === 'maxParallelToolCalls') t.type(waiting!.turn, 'string')
    t.ok(runs.some(({ id }) => id === waiting!.runId))
    const told = events.filter((event) => event.type === 'limit.reached' && event.option === option)
    t.match(told[0], { limit, agent: waiting!.agent })
    t.ok(told.some(({ runId }) => runId === waiting!.runId))
    const metric = team.metrics().find(({ name }) => name === 'dramatis_limit_waits')!
    t.equal(metric.samples.find(({ labels }) => labels.limit === option)?.value, waits.length)
    for (const run of runs) void run.cancel('enough')
    await team.clock.advance(10_000)
    await Promise.all(runs.map(({ result }) => result))
    t.same(team.waits(), [])
  })

for (const waitFor of ['all', 5] as const)
  t.test(
    `agents that parallel has not asked yet are there by name, fewer with each answer (waitFor: ${waitFor})`,
    async (t) => {
      const work: Receive = (_message, context) => context.sleep(1_000).then(() => 'done')
      const agents = { ann: work, ben: work, cid: work, dan: work, eve: work }
      const team = localTeam(t, agents, { orchestration: { strategy: 'parallel', maxConcurrent: 2, waitFor } })
      const run = team.launch('go')
      const waiting = async (ms: number) => {
        await team.clock.advance(ms)
        return team.waits().flatMap(({ kind, agent }) => (kind === 'limit' ? agent : []))
      }
      t.same(await waiting(500), ['cid', 'dan', 'eve'])
      t.same(await waiting(1_000), ['eve'])
      t.same(await waiting(1_000), [])
      await team.clock.advance(1_000)
      t.ok((await run.result).success)
    },
  )

t.test('what waits for a limit of a thread ends with the thread, and is there again with the next one', async (t) => {
  const work: Receive = (_message, context) => context.sleep(10_000).then(() => 'done')
  const team = given(t, {
    orchestration: { strategy: 'sequential', agentOrder: ['lead'] },
    supervision: { backoff: { baseMs: 1_000, capMs: 1_000 } },
  }).testTeam({
    lead: async (_message, context) => {
      const outcomes = await context.requestAll(['ann', 'ben', 'cid'], 'go', { concurrency: 1 })
      return `${outcomes.length} done`
    },
    ann: work,
    ben: work,
    cid: work,
  })
  const waiting = () => team.waits().flatMap(({ kind, agent }) => (kind === 'limit' ? agent : []))
  const run = team.launch('go')
  await team.clock.advance(500)
  t.same(waiting(), ['ben', 'cid'])
  team.crash('lead') // the first restart is at once
  await team.clock.advance(0)
  t.same(waiting(), ['ben', 'cid'])
  team.crash('lead')
  await team.clock.advance(0)
  t.equal(team.getAgentStatus('lead'), 'restarting')
  t.same(waiting(), [])
  await team.clock.advance(2_000)
  t.same(waiting(), ['ben', 'cid'])
  await team.clock.advance(40_000)
  t.match(await run.result, { success: true, finalOutput: '3 done' })
})

t.test('what a thread says of a limit that is none is left out', async (t) => {
  const team = localTeam(t, {
    ann: async (_message, context) => {
      const { limits } = turnBehind(context)!
      limits.begin('no such limit' as never, { limit: 1 })(1)
      limits.begin('concurrency of requestAll', { limit: 1, agents: [1, 2, 3] as never })(1)
      limits.begin('concurrency of requestAll', { limit: 1, agents: ['bob'] })(1)
      const raised = limits.begin('maxParallelToolCalls', { limit: 1 })
      raised(2)
      raised(50)
      for (let i = 0; i < 200; i += 1) limits.begin('orchestration.maxConcurrent', { limit: 7 })(1)
      await context.sleep(1_000)
    },
  })
  const run = team.launch('go')
  await team.clock.advance(500)
  const waits = team.waits().filter(({ kind }) => kind === 'limit')
  t.equal(waits.filter(({ limit }) => limit === 1).length, 2)
  t.equal(waits.length, 2 + 99, 'at most 100 waits of a turn')
  await team.clock.advance(1_000)
  t.match(await run.result, { success: true })
})
