/** What lasts longer than a call over a restart: watches, questions to people, deadlines. */
import t, { type Test } from 'tap'
import * as z from 'zod'
import { type DramatisError, defineAgent, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { never, type Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'
import type { LivingTeam } from './living-team.ts'

// What lasts longer than a call, in a team whose process dies: subscriptions, watches, sync points, the place in a
// trace.

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
const custom = (run: Script) => ({ strategy: 'custom' as const, run })

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error: DramatisError) => error.code,
  )

t.test('a subscription that a message from outside has made lasts as long as its run', async (t) => {
  const heard: unknown[] = []
  const lives = new Lives(
    { ann: defineAgent({ receive: () => '', observe: ({ structuredData }) => void heard.push(structuredData) }) },
    {
      orchestration: custom(async (script) => {
        await script.publish('page.1', 'before', 'fact')
        await script.sleep(1_000)
        await script.publish('page.2', 'after', 'fact')
        await script.sleep(10)
        return 'done'
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  const subscribed = before.sendMessage({
    type: 'subscribe',
    sender: 'ann',
    recipient: null,
    content: 'page.*',
    runId: 'run',
  })
  await lives.clock.advance(500)
  await subscribed
  const after = await lives.next()
  await lives.clock.advance(2_000)
  t.equal((await after.getRun('run')!.result).finalOutput, 'done')
  t.match(heard.at(-1), { key: 'page.2', value: 'after' })
  t.ok(heard.length <= 2, 'once each')
})

t.test('who watches an agent is told of its end once, whichever process that is in', async (t) => {
  const told: string[] = []
  const ann = defineAgent({
    async receive(_message, context) {
      await context.watch('bob')
      await context.watch('cid')
      return 'watches'
    },
    observe: ({ structuredData }) => void told.push(String(Object(structuredData).agent)),
  })
  const lives = new Lives(
    { ann, bob: () => '', cid: () => '' },
    { orchestration: custom(async (script) => (await script.request('ann', '')).content + (await never)) },
  )
  const remove = async (team: LivingTeam, name: string) => {
    const removed = team.removeAgent(name)
    await lives.clock.advance(100)
    await removed
  }
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  await remove(before, 'bob')
  t.same(told, ['bob'])
  const after = await lives.next()
  await remove(after, 'bob')
  t.same(told, ['bob'], 'it was told of that watch')
  await remove(after, 'cid')
  t.same(told, ['bob', 'cid'])
})

t.test(
  'an agent that was missing at a sync point is late in the next process, and the script gets its result',
  async (t) => {
    const meet = (context: Parameters<Parameters<typeof defineAgent>[0]['receive']>[1]) => codeOf(context.sync('noon'))
    const lives = new Lives(
      {
        ann: (_message, context) => meet(context),
        bob: async (_message, context) => {
          await context.sleep(5_000)
          return `${await meet(context)}, ${await meet(context)}`
        },
      },
      {
        syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000, onTimeout: 'proceed' }],
        orchestration: custom(async (script) => {
          const late = script.request('bob', '')
          await script.request('ann', '')
          await script.sleep(1_000)
          const { generation, missing } = await script.synced('noon')
          await script.sleep(3_500)
          const again = script.request('ann', '')
          const next = await script.synced('noon')
          const said = [(await late).content, (await again).content, `${next.generation} ${next.missing}`]
          return [`${generation} ${missing}`, ...said].join(' | ')
        }),
      },
    )
    const before = await lives.next()
    before.launch('go', { runId: 'run' })
    await lives.clock.advance(1_500) // ann has gone on without bob, and nobody has told the script
    const after = await lives.next()
    await lives.clock.advance(20_000)
    const { finalOutput, error } = await after.getRun('run')!.result
    t.equal(finalOutput, '1 bob | SYNC_POINT_TIMEOUT, done | done | 2 ', error?.message ?? 'no error')
  },
)

t.test('a run keeps its place in the trace of its caller, and what goes on has a span below it', async (t) => {
  const spans: { name: string; parent: unknown; at: number }[] = []
  const telemetry: NonNullable<MultiAgentPatternOptions['telemetry']> = {
    active: () => undefined,
    continued: ({ traceparent }) => (traceparent === undefined ? undefined : { traceparent }),
    startSpan({ name, parent, at }) {
      const traceparent = `span ${spans.push({ name, parent, at })}`
      const nothing = () => {}
      const within = <T>(task: () => T) => task()
      return { place: { traceparent }, headers: { traceparent }, set: nothing, event: nothing, end: nothing, within }
    },
  }
  const lives = new Lives(
    { ann: (_message, context) => `${context.run.metadata.traceparent}` },
    {
      telemetry,
      orchestration: custom(async (script) => {
        const first = (await script.request('ann', 'first')).content
        await script.sleep(1_000)
        return `${first}, ${(await script.request('ann', 'second')).content}`
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(500)
  const own = 1 + spans.findIndex(({ name }) => name === 'invoke_workflow')
  const after = await lives.next()
  await lives.clock.advance(1_000)
  t.equal((await after.getRun('run')!.result).finalOutput, `span ${own}, span ${own}`)
  const runs = spans.filter(({ name }) => name === 'invoke_workflow')
  t.match(runs, [{ parent: undefined }, { parent: { traceparent: `span ${own}` } }])
})

// An agent that watches another is told of its end once, over all processes.

/** A team whose bob watches ann, in a run that waits for a person. */
function watching() {
  const told: string[] = []
  const lives = new Lives(
    {
      ann: () => {},
      bob: defineAgent({
        receive: (_message, context) => context.watch('ann'),
        observe: (message) => void told.push(message.content),
      }),
      carl: (_message, context) => context.ask('Really?'),
    },
    {
      orchestration: {
        strategy: 'custom',
        run: async (script) => {
          await script.request('bob', 'watch')
          return (await script.request('carl', 'ask')).content
        },
      },
    },
  )
  return { lives, told }
}

async function launch({ clock }: Lives, team: MultiAgentPattern<string>): Promise<void> {
  team.launch('go', { runId: 'one' })
  await clock.advance(100)
}

async function removeAnn({ clock }: Lives, team: MultiAgentPattern<string>): Promise<void> {
  const removed = team.removeAgent('ann')
  await clock.advance(6_000)
  await removed
}

t.test('who was told of an end is not told again in the next process', async (t) => {
  const { lives, told } = watching()
  const before = await lives.next()
  await launch(lives, before)
  await removeAnn(lives, before)
  t.match(told, [/^Agent "ann" is gone for good/])
  await removeAnn(lives, await lives.next()) // the program has ann again
  t.equal(told.length, 1)
})

t.test('a watch goes on in the next process', async (t) => {
  const { lives, told } = watching()
  await launch(lives, await lives.next())
  await lives.next()
  const after = await lives.next()
  t.same(told, [])
  await removeAnn(lives, after)
  t.match(told, [/^Agent "ann" is gone for good/])
})

// Questions to people that outlive their process: nobody waits, and what a person says reaches the turn.

const DAY = 86_400_000

const peopleCustom = (
  run: Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run'],
): MultiAgentPatternOptions['orchestration'] => ({ strategy: 'custom', run })

/** A team whose agent pays after an approval, and what was paid over all its processes. */
function shop() {
  const paid: unknown[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ to: z.string(), euros: z.number() }),
    approval: true,
    run: (input) => {
      paid.push(input)
      return 'paid'
    },
  })
  const ann: Receive = ({ content }, context) =>
    content === 'pay'
      ? context.tool(pay, { to: 'ann', euros: 90 }).then(String, ({ message }) => message)
      : `done: ${content}`
  const lives = new Lives(
    { ann },
    {
      tools: [pay],
      orchestration: peopleCustom(async (script, query) => (await script.request('ann', query)).content),
    },
  )
  return { lives, paid }
}

t.test('an approval with another input reaches the turn in a later process', async (t) => {
  const { lives, paid } = shop()
  const before = await lives.next()
  before.launch('pay', { runId: 'one' })
  await lives.clock.advance(100)
  const [asked] = before.questions()
  const after = await lives.next({ asleepMs: 3 * DAY })
  await lives.clock.advance(DAY)
  t.same(after.questions(), [asked])
  const refused = await after
    .answer(asked!.questionId, { approved: true, input: { to: 'bob' } })
    .catch((error) => error)
  t.match(refused, { code: 'CONFIGURATION', details: { path: 'answer.input' } })
  await Promise.all([
    after.answer(asked!.questionId, { approved: true, input: { to: 'bob', euros: 1 } }),
    lives.clock.advance(100),
  ])
  await lives.clock.runToIdle()
  t.match(await after.getRun('one')!.result, { success: true, finalOutput: 'paid' })
  t.same(paid, [{ to: 'bob', euros: 1 }])
})

t.test(
  'an approval is not asked for again, and not lost, when the process dies between the answer and the call',
  async (t) => {
    const { lives, paid } = shop()
    const before = await lives.next()
    before.launch('pay', { runId: 'one' })
    await lives.clock.advance(100)
    const [asked] = before.questions()
    const answered = before.answer(asked!.questionId, { approved: false, reason: 'Too much.' })
    await Promise.all([answered, lives.clock.advance(1)])
    const after = await lives.next()
    await lives.clock.runToIdle()
    t.same(after.questions(), [])
    t.match(await after.getRun('one')!.result, { finalOutput: /The reason: Too much\.$/ })
    t.same(paid, [])
  },
)

t.test('other runs pass through an agent whose turn waits for a person since an earlier process', async (t) => {
  const { lives, paid } = shop()
  const before = await lives.next()
  for (const runId of ['one', 'two']) before.launch('pay', { runId })
  await lives.clock.advance(100)
  t.equal(before.questions().length, 2)
  const after = await lives.next({ asleepMs: DAY })
  await lives.clock.advance(100)
  const passing = after.launch('go', { timeoutMs: 1_000 })
  await lives.clock.advance(100)
  t.match(await passing.result, { finalOutput: 'done: go' })
  t.equal(after.questions().length, 2)
  const answers = after.questions().map(({ questionId }) => after.answer(questionId, 'yes'))
  await Promise.all([...answers, lives.clock.advance(100)])
  await lives.clock.runToIdle()
  for (const runId of ['one', 'two']) t.match(await after.getRun(runId)!.result, { finalOutput: 'paid' })
  t.equal(paid.length, 2)
})

// Deadlines over a restart: team time stands still while no process has the log, the wall clock goes on.

type Options = Omit<ConstructorParameters<typeof Lives>[1], 'orchestration'>

const SECOND = 1_000
/** How exactly the time of a death is known: entries are written a moment after they are logged. */
const MOMENT = 250

/** A team that dies after 40 s of its run, and is started again days later. */
async function slept(cast: Record<string, Receive>, run: Script, options: Options = {}) {
  const lives = new Lives({ ...cast, clerk: () => {} }, { ...options, orchestration: { strategy: 'custom', run } })
  const before = await lives.next()
  before.launch('go', { runId: 'one', timeoutMs: DAY })
  await lives.clock.advance(40 * SECOND - 100)
  await note(lives, before)
  const after = await lives.next({ asleepMs: 3 * DAY })
  return { lives, team: after, run: after.getRun('one')! }
}

/** Lets the log have an entry: it shows how long its process has lived. */
async function note(lives: Lives, team: MultiAgentPattern<string>): Promise<void> {
  const sent = team.sendMessage({ recipient: 'clerk', content: 'note' })
  await lives.clock.advance(100)
  await sent
}

const timesCodeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'answered',
    (error: DramatisError) => error.code,
  )

/** The run ends with that code when its 60 s of team time are over, and not before. */
async function endsOnTime(t: Test, { lives, run }: Awaited<ReturnType<typeof slept>>, code: string): Promise<void> {
  await lives.clock.advance(20 * SECOND - 100 - MOMENT)
  t.equal(run.status, 'running', 'nothing is late yet')
  await lives.clock.advance(2 * MOMENT)
  t.match(await run.result, { success: true, finalOutput: code })
}

t.test('a response has what was left of its time', async (t) => {
  const resumed = await slept({ ann: () => never }, (script) =>
    timesCodeOf(script.request('ann', 'wait', { timeoutMs: 60 * SECOND })),
  )
  await endsOnTime(t, resumed, 'REQUEST_TIMEOUT')
})

t.test('a turn has what was left of its time', async (t) => {
  const roles = { ann: { limits: { turnTimeoutMs: 60 * SECOND } } }
  const resumed = await slept(
    { ann: () => never },
    (script) => timesCodeOf(script.request('ann', 'wait', { timeoutMs: 200 * SECOND })),
    { roles },
  )
  await endsOnTime(t, resumed, 'TURN_TIMEOUT')
})

t.test('a message that waits in a mailbox has what was left of its time', async (t) => {
  const resumed = await slept(
    { ann: () => never },
    async (script) => {
      void script.request('ann', 'busy', { timeoutMs: 200 * SECOND }).catch(() => {})
      return timesCodeOf(script.request('ann', 'wait', { timeoutMs: 200 * SECOND }))
    },
    { roles: { ann: { communication: { queueTimeoutMs: 60 * SECOND } } } },
  )
  await endsOnTime(t, resumed, 'MESSAGE_EXPIRED')
})

t.test('a sync point has what was left of its time', async (t) => {
  const resumed = await slept(
    { ann: (_message, context) => timesCodeOf(context.sync('noon', 1)), bob: () => never },
    async (script) => (await script.request('ann', 'meet', { timeoutMs: 200 * SECOND })).content,
    { syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60 * SECOND, onTimeout: 'abort' }] },
  )
  await endsOnTime(t, resumed, 'SYNC_POINT_TIMEOUT')
})

t.test('a wait for an entry of the blackboard has what was left of its time', async (t) => {
  const resumed = await slept({}, (script) => timesCodeOf(script.blackboard.waitFor('key', { timeoutMs: 60 * SECOND })))
  await endsOnTime(t, resumed, 'REQUEST_TIMEOUT')
})

t.test('a run has what was left of its time, over several deaths', async (t) => {
  const lives = new Lives(
    { ann: () => never, clerk: () => {} },
    {
      orchestration: {
        strategy: 'custom',
        run: async (script) => (await script.request('ann', 'wait', { timeoutMs: DAY })).content,
      },
      roles: { ann: { limits: { turnTimeoutMs: DAY } } },
    },
  )
  let team = await lives.next()
  team.launch('go', { runId: 'one', timeoutMs: 60 * SECOND })
  for (let life = 0; life < 3; life++) {
    await lives.clock.advance(18 * SECOND)
    await note(lives, team)
    team = await lives.next({ asleepMs: DAY })
  }
  const run = team.getRun('one')!
  await lives.clock.advance(4 * SECOND)
  t.equal(run.status, 'running')
  await lives.clock.advance(2 * SECOND)
  t.match(await run.result, { success: false, error: { code: 'RUN_TIMEOUT' } })
})

t.test('time in which a person was waited for does not count after a restart either', async (t) => {
  const { lives, team, run } = await slept(
    { ann: async (_message, context) => (await context.ask('Really?')) + (await never) },
    (script) => timesCodeOf(script.request('ann', 'ask', { timeoutMs: 30 * SECOND })),
    { roles: { ann: { communication: { answerWithinMs: false } } } },
  )
  await lives.clock.advance(10 * SECOND)
  const [question] = team.questions()
  void run.answer(question!.questionId, 'yes')
  await lives.clock.advance(29 * SECOND)
  t.equal(run.status, 'running')
  await lives.clock.advance(2 * SECOND)
  t.match(await run.result, { finalOutput: 'REQUEST_TIMEOUT' })
})

t.test('time in which a person was waited for does not count for the run after a restart either', async (t) => {
  const lives = new Lives(
    { ann: async (_message, context) => (await context.ask('Really?')) + (await never), clerk: () => {} },
    {
      orchestration: {
        strategy: 'custom',
        run: async (script) => (await script.request('ann', 'ask', { timeoutMs: DAY })).content,
      },
      roles: { ann: { limits: { turnTimeoutMs: DAY } } },
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one', timeoutMs: 60 * SECOND })
  await lives.clock.advance(2 * DAY)
  await note(lives, before)
  const after = await lives.next({ asleepMs: DAY })
  await lives.clock.advance(DAY)
  const run = after.getRun('one')!
  t.equal(run.status, 'waiting')
  void after.answer(after.questions()[0]!.questionId, 'yes')
  await lives.clock.advance(60 * SECOND - MOMENT)
  t.equal(run.status, 'running')
  await lives.clock.advance(2 * MOMENT)
  t.match(await run.result, { success: false, error: { code: 'RUN_TIMEOUT' } })
})

t.test('a question with a limit, and the deadline of a task, go by wall clock', async (t) => {
  for (const limit of ['question', 'task'] as const) {
    const { lives, run } = await slept(
      {
        ann: async (_message, context) => {
          if (limit === 'task') return never
          return timesCodeOf(context.ask('Really?', { answerWithinMs: DAY }))
        },
      },
      async (script) => {
        const deadline = limit === 'task' ? DAY : null
        const task = script.delegate('ann', { description: 'do it', ...(deadline !== null && { deadline }) })
        return task.then(
          ({ result }) => String(result),
          (error: DramatisError) => error.code,
        )
      },
      { roles: { ann: { limits: { turnTimeoutMs: DAY * 9 } } } },
    )
    await lives.clock.advance(MOMENT)
    t.match(await run.result, { success: true, finalOutput: 'REQUEST_TIMEOUT' }, limit)
  }
})
