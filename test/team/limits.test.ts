/** Limits of a team: agents at work, waits for each of them, large messages, and what is kept. */
import t from 'tap'
import { turnBehind } from '../../src/actors/turn/context.ts'
import {
  type AgentContext,
  createTeam,
  defineAgent,
  ModelError,
  type MultiAgentPattern,
  type Run,
  type RuntimeEvent,
  type Wait,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import desk from '../fixtures/team/desk.ts'
import { pluck } from '../kit/lists.ts'
import { askAll, type Extras, gate, given, localTeam, numbers, type Receive, silent } from '../kit/team.ts'
import { calls, FakeModel } from '../models/fake-model.ts'
import { doing } from '../toolbox/tools.ts'
import { after, all, echo, says, stage } from './stage.ts'

// At most so many agents of a run work at a time; one that only waits for others gives its place up.

t.test('maxConcurrentAgents agents of one run work at a time', async (t) => {
  const agents = { a: after(10), b: after(10), c: after(10), d: after(10), e: after(10) }
  const team = stage(t, agents, { maxConcurrentAgents: 2, orchestration: { strategy: 'parallel' } })
  const pending = team.execute('q')
  await team.clock.advance(100)
  t.equal((await pending).executionTimeMs, 30)
})

t.test('the limit holds for each run, not for all', async (t) => {
  const team = stage(t, { a: after(10), b: after(10) }, { maxConcurrentAgents: 1 })
  const pending = Promise.all([team.getAgent('a')!.run('q'), team.getAgent('b')!.run('q')])
  await team.clock.advance(10)
  t.same(await pending, ['done', 'done'])
})

t.test('an agent of higher priority gets the next place', async (t) => {
  const order: string[] = []
  const notes = defineAgent({
    async receive(_message, context) {
      order.push(context.role.name)
      await context.sleep(10)
    },
  })
  const team = stage(
    t,
    { a: notes, b: notes, c: { code: notes, priority: 5 }, d: { code: notes, priority: 1 } },
    { maxConcurrentAgents: 1, orchestration: { strategy: 'parallel' } },
  )
  const pending = team.execute('q')
  await team.clock.advance(100)
  t.same((await pending).failures, [])
  t.same(order, ['a', 'c', 'd', 'b'])
})

const before: Record<string, (context: AgentContext) => unknown> = {
  'asks at once': () => {},
  'asks after a pause': (context) => context.sleep(5),
  'asks after a step': (context) => context.step('think', () => {}),
  'asks after a word on the blackboard': (context) => context.publish('k', 1, 'fact'),
  'asks for the second time': (context) => context.request('b', 'first'),
}
for (const [title, first] of Object.entries(before))
  t.test(`an agent that ${title} gives its place to the one that it waits for`, async (t) => {
    const asks = defineAgent({
      async receive(_message, context) {
        await first(context)
        return (await context.request('b', 'help')).content
      },
    })
    const team = stage(
      t,
      { a: asks, b: says('help') },
      { maxConcurrentAgents: 1, enableBlackboard: true, orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
    )
    const pending = team.execute('q', { timeoutMs: 1_000 })
    await team.clock.advance(1_000)
    t.equal((await pending).finalOutput, 'help')
  })

t.test('an agent that was answered goes on when there is a place', async (t) => {
  const asks = defineAgent({
    async receive(_message, context) {
      await context.request('b', 'help')
      await context.sleep(10)
    },
  })
  const team = stage(
    t,
    { a: asks, b: after(10), c: after(100) },
    { maxConcurrentAgents: 1, orchestration: { strategy: 'parallel', agents: ['a', 'c'] } },
  )
  const pending = team.execute('q')
  await team.clock.advance(200)
  const { executionTimeMs, success } = await pending
  t.same({ executionTimeMs, success }, { executionTimeMs: 120, success: true })
})

// What a team keeps of what happened stays within its bound, whatever causes it.

const BOUND = 64 * 2 ** 20
const LARGE = 'x'.repeat(2 ** 20)

const bytesOf = (team: ReturnType<typeof stage>) =>
  team.metrics().find(({ name }) => name === 'dramatis_log_bytes')!.samples[0]!.value

t.test('what a message from outside causes is bounded like a run', async (t) => {
  const sends = defineAgent({
    async receive(_message, context) {
      for (let i = 0; i < 80; i++) await context.send('b', LARGE)
    },
  })
  const team = stage(t, { a: sends, b: after(10) }, { communication: { mailboxBytes: 2 * BOUND } })
  await team.sendMessage({ recipient: 'a', content: 'go' })
  await team.clock.advance(5)
  t.ok(team.health().agents.b!.queued > 70, 'it is still under way')
  t.ok(bytesOf(team) < BOUND)
  t.ok(bytesOf(team) > BOUND / 2)
})

t.test('what happens to agents while no run is under way is told and not kept', async (t) => {
  const team = stage(t, { a: echo }, { supervision: { maxRestarts: 1_000, backoff: { baseMs: 0, capMs: 0 } } })
  await team.start()
  const told: string[] = []
  team.events.subscribe(({ type }) => told.push(type))
  for (let i = 0; i < 5; i++) {
    team.crash('a')
    await team.clock.advance(1)
  }
  t.equal(told.filter((type) => type === 'agent.crashed').length, 5)
  t.equal(bytesOf(team), 0)
})

// Who only looks at a run leaves its course as it is.

const orchestration = { strategy: 'sequential' } as const
const waits = defineAgent({
  async receive(_message, context) {
    await context.sleep(10)
    return String(await context.blackboard.waitFor('never'))
  },
})

async function statusOf(
  t: Parameters<typeof stage>[0],
  look: (run: { board(): unknown; blackboard: unknown }) => unknown,
) {
  const team = stage(t, { a: waits }, { enableBlackboard: true, orchestration, globalTimeoutMs: 600_000 })
  const running = team.execute('q', { runId: 'one' })
  await team.clock.advance(5)
  const run = team.getRun('one')!
  look(run)
  await team.clock.advance(5_000)
  const { status } = run
  await run.cancel()
  return `${status}: ${(await running).error?.message}`
}

t.test('who looks at the board leaves a stall to be found; who takes the board may still write there', async (t) => {
  t.match(await statusOf(t, () => {}), /^failed: .*StallError/)
  t.match(await statusOf(t, (run) => run.board()), /^failed: .*StallError/)
  t.match(await statusOf(t, (run) => run.blackboard), /^running: /)
})

t.test('board() is the board of one moment', async (t) => {
  const writes = defineAgent({
    async receive(_message, context) {
      await context.blackboard.write('plan', 'one', 'fact')
      await context.blackboard.write('plan', 'two', 'fact')
      await context.blackboard.write('better', 'three', 'fact', { supersedes: 'plan', confidence: 0.5 })
      await context.sleep(10)
      await context.blackboard.write('plan', 'four', 'fact')
      return 'done'
    },
  })
  const team = stage(t, { a: writes }, { enableBlackboard: true, orchestration })
  const run = team.launch('q')
  await team.clock.advance(5)
  const board = run.board()!
  await team.clock.advance(10)
  await run.result
  t.equal(board.revision, 3)
  t.match(board.query(), [{ key: 'better', value: 'three' }])
  t.match(board.query({ key: 'plan' }), [{ value: 'two', version: 2 }])
  t.match(board.read('plan'), { value: 'two' })
  t.equal(board.read('nothing'), undefined)
  t.match(pluck(board.getHistory('plan'), 'value'), ['one', 'two'])
  t.same(board.getHistory('nothing'), [])
  t.match(run.board()?.getHistory('plan').length, 3)
  t.equal(Reflect.get(board, 'write'), undefined)
})

t.test('a board that runs share is, for a run that has ended, as it was at its end', async (t) => {
  const writes = defineAgent({
    async receive({ content }, { blackboard }) {
      await blackboard.write(content, 1, 'fact')
      return 'done'
    },
  })
  const team = stage(t, { a: writes }, { enableBlackboard: { scope: 'team' }, orchestration })
  const one = team.launch('one')
  await one.result
  const two = team.launch('two')
  await two.result
  t.match([one.board()?.query().length, two.board()?.query().length], [1, 2])
  t.same(Object.keys((await one.result).blackboardState ?? {}), ['one'])
})

t.test('a team without a blackboard has none to look at', async (t) => {
  const team = stage(t, { a: defineAgent({ receive: () => 'yes' }) })
  const run = team.launch('q')
  t.equal(run.board(), undefined)
  await all(run.events())
})

// Many tasks of users at once: each is answered by its own parts, which carry the id of what they are parts of.

const TASKS = 50

const agents = ['desk', 'reader', 'checker']
const options = {
  orchestration: { strategy: 'sequential' as const, agentOrder: ['desk'] },
  logger: silent,
}

/** Whatever it has of another's. */
function mixed(run: Run, query: string): string[] {
  const flaws: string[] = []
  const [whole, ...parts] = run.tasks
  for (const { description, parentTask, status } of parts) {
    if (parentTask !== whole?.id) flaws.push(`"${description}" is a part of ${parentTask}`)
    if (!description.startsWith(`${query}/`) || status !== 'completed') flaws.push(`"${description}" is ${status}`)
  }
  if (whole?.parentTask !== null || parts.length !== 3) flaws.push(`${query} has ${parts.length} parts`)
  for (const { content } of run.messageHistory)
    if (!content.startsWith(query)) flaws.push(`a message says ${JSON.stringify(content)}`)
  return flaws
}

async function check(t: Tap, team: Pick<MultiAgentPattern<string>, 'launch'>, advance: () => Promise<void>) {
  const queries = numbers(TASKS).map((number) => `task-${number}-`)
  const runs = queries.map((query) => team.launch(query))
  await advance()
  for (const [i, run] of runs.entries()) {
    const query = queries[i]!
    const { finalOutput, success } = await run.result
    t.equal(success, true)
    const lines = `${finalOutput}`.split('\n').map((line) => line.replace(/ for .*/, ''))
    t.same(lines, [`${query}/read by reader`, `${query}/check by checker`, `${query}/note by reader`])
    const owners = new Set(`${finalOutput}`.split('\n').flatMap((line) => line.split(' for ')[1]!.split(',')))
    t.same([...owners], [query], 'what an agent keeps for a run is of that run')
    t.same(mixed(run, query), [])
  }
  const ids = runs.flatMap((run) => run.tasks.map(({ id }) => id))
  t.equal(new Set(ids).size, TASKS * 4)
}

type Tap = Pick<typeof t, 'equal' | 'same'>

for (const concurrency of [1, 8])
  t.test(`${TASKS} tasks at once never mix, with ${concurrency} turns at a time`, async (t) => {
    const modules = Object.fromEntries(agents.map((name) => [name, desk]))
    const team = testTeam({ ...options, agents: agents.map((name) => ({ name, concurrency })) }, { modules })
    t.teardown(() => team.close())
    await check(t, team, () => team.clock.runToIdle())
  })

t.test(`${TASKS} tasks at once never mix on threads`, async (t) => {
  const module = new URL('../fixtures/team/desk.js', import.meta.url)
  const team = createTeam({ ...options, agents: agents.map((name) => ({ name, module, concurrency: 4 })) })
  t.teardown(() => team.close())
  await check(t, team, async () => {})
})

// Messages larger than the rings that they go through: they go in parts.

const MIB = 2 ** 20

t.test('an answer larger than the ring of replies arrives', async (t) => {
  const team = localTeam(t, {
    asker: async (_message, context) => `${(await context.request('writer', 'go')).content.length}`,
    writer: () => 'x'.repeat(MIB),
  })
  t.match(await team.execute('go'), { finalOutput: `${MIB}` })
})

t.test('it arrives also while a large message waits for the same agent', async (t) => {
  const team = localTeam(t, {
    asker: async ({ content }, context) =>
      content === 'go' ? `${(await context.request('writer', 'go')).content.length}` : '',
    async writer(_message, context) {
      await context.send('asker', 'y'.repeat(800_000))
      await context.request('other', 'go') // by then the first parts of that message fill the ring of messages
      return 'x'.repeat(MIB)
    },
    other: () => '',
  })
  t.match(await team.execute('go'), { finalOutput: `${MIB}` })
})

// What waits in a team: turns for others, for models, tools and people, and what waits for each limit.

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
