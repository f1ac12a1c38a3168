/** Runs that end, promises to who asks, long turns and steps side by side, with a process that dies. */
import t, { type Test } from 'tap'
import * as z from 'zod'
import { type AgentContext, type DramatisError, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { howMany } from '../how-many.ts'
import { ask, localTeam, never } from '../kit/team.ts'
import { Lives } from './lives.ts'

// Runs that end, fail and are cancelled, with a process that dies at the worst moment: one case each.

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
const custom = (run: Script) => ({ strategy: 'custom' as const, run })

t.test(
  'a run that has ended keeps its result while messages of it are under way, and these are handled once',
  async (t) => {
    const handled: string[] = []
    const lives = new Lives(
      {
        ann: async (message, context) => {
          await context.sleep(1_000)
          handled.push(message.content)
        },
      },
      {
        orchestration: custom(async (script) => {
          await script.publish('page', 'written', 'fact')
          await script.send('ann', 'late')
          return 'done'
        }),
      },
    )
    const before = await lives.next()
    before.launch('go', { runId: 'one' })
    await lives.clock.advance(100)
    const after = await lives.next()
    t.equal(after.getRun('one')?.status, 'finished')
    t.match(await after.execute('go', { runId: 'one' }), { success: true, finalOutput: 'done' }, 'it is not run again')
    t.match(await after.getBlackboard('one')!.getHistory('page'), [{ value: 'written' }])
    t.same(handled, [])
    await lives.clock.runToIdle()
    t.same(handled, ['late'])
  },
)

t.test('a team that resumes by hand has the results of all runs that have ended', async (t) => {
  let handled = 0
  const lives = new Lives(
    {
      ann: async (_message, context) => {
        await context.sleep(1_000)
        handled += 1
      },
    },
    {
      orchestration: custom(async (script) => {
        await script.publish('page', 'written', 'fact')
        await script.send('ann', 'late')
        return 'done'
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const after = await lives.next({ resume: 'manual' })
  t.match(await after.getRun('one')!.result, { success: true, finalOutput: 'done' })
  await lives.clock.runToIdle()
  t.equal(handled, 0, 'nothing goes on by itself')
  await after.resumePending()
  await lives.clock.runToIdle()
  t.equal(handled, 1)
  t.match(await after.getRun('one')!.result, { success: true, finalOutput: 'done' })
  t.equal((await after.getBlackboard('one')!.getHistory('page')).length, 1)
})

t.test('what a cancelled run has left open is stopped, not done again', async (t) => {
  let begun = 0
  const lives = new Lives(
    {
      ann: (_message, context) => {
        begun += 1
        return context.attempt > 1 ? 'again' : never
      },
    },
    { orchestration: custom(async (script) => (await script.request('ann', 'hang')).content) },
  )
  const before = await lives.next()
  const run = before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  void run.cancel('the user left')
  await lives.clock.advance(100) // less than the grace that a turn has
  const after = await lives.next()
  await lives.clock.runToIdle()
  t.match(await after.getRun('one')!.result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.equal(begun, 1)
  t.match(after.deadLetters.list(), [{ message: { recipient: 'ann', content: 'hang' } }])
})

t.test('an agent that was asked in vain, and told to stop, does not begin again', async (t) => {
  const begun: string[] = []
  const lives = new Lives(
    {
      quick: () => 'here',
      slow: () => {
        begun.push('slow')
        return never
      },
      next: () => {
        begun.push('next')
        return begun.length > 2 ? 'done' : never
      },
    },
    {
      orchestration: custom(async (script) => {
        const { content } = await script.requestAny(['quick', 'slow'], 'who is there?')
        return `${content}, ${(await script.request('next', 'go on')).content}`
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const after = await lives.next()
  await lives.clock.runToIdle()
  t.match(await after.getRun('one')!.result, { success: true, finalOutput: 'here, done' })
  t.same(begun, ['slow', 'next', 'next'])
  t.match(after.deadLetters.list(), [{ reason: 'cancelled', message: { recipient: 'slow' } }])
})

t.test('a tool whose outcome is unknown does not run again when its turn is retried', async (t) => {
  let paid = 0
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    run: () => {
      paid += 1
      return never
    },
  })
  const lives = new Lives(
    { ann: async (_message, context) => String(await context.tool('pay', {})) },
    {
      tools: [pay],
      roles: { ann: { supervision: { onHandlerError: 'retry' } } },
      orchestration: custom(async (script) => (await script.request('ann', 'pay')).content),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const after = await lives.next()
  await lives.clock.runToIdle()
  const { error } = await after.getRun('one')!.result
  t.match(error?.message, /OutcomeUnknownError/)
  t.equal(paid, 1)
})

t.test('a turn that fails after a restart, and is tried again, asks again for what had failed', async (t) => {
  let asked = 0
  const lives = new Lives(
    {
      async ann(_message, context) {
        const answer = await context.request('bob', 'x').then(
          ({ content }) => content,
          () => 'nothing',
        )
        await context.step('noted', () => 'noted')
        await context.sleep(context.attempt > 2 ? 2_000 : 1_000)
        if (context.attempt === 2) throw new Error(`it has ${answer}`)
        return answer
      },
      bob() {
        asked += 1
        if (asked === 1) throw new Error('busy')
        return 'found'
      },
    },
    {
      roles: { ann: { supervision: { onHandlerError: 'retry' } } },
      orchestration: custom(async (script) => (await script.request('ann', 'go')).content),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const after = await lives.next()
  await lives.clock.advance(1_500)
  t.equal(after.getRun('one')?.status, 'running', 'in its third attempt')
  const last = await lives.next()
  await lives.clock.runToIdle()
  t.match(await last.getRun('one')!.result, { success: true, finalOutput: 'found' })
  t.equal(asked, 2)
})

t.test('a turn that comes again, and waits, does not keep the only thread from who is to answer it', async (t) => {
  const lives = new Lives(
    {
      boss: async (_message, context) => (await context.request('ann', 'work')).content,
      ann: async (_message, context) => {
        await context.sleep(1_000)
        return 'done'
      },
    },
    { threads: { max: 1 }, orchestration: custom(async (script) => (await script.request('boss', 'go')).content) },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(500)
  const after = await lives.next()
  await lives.clock.advance(5_000)
  t.match(after.getRun('one')?.status, 'finished')
})

t.test('what a turn had asked for that does not come again is not asked for again', async (t) => {
  let looked = 0
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    idempotent: true,
    run: () => {
      looked += 1
      return never
    },
  })
  const lives = new Lives(
    {
      ann: async (_message, context) => {
        await Promise.all([context.ask('Really?'), context.tool('look', {}), context.step('pay', () => never)])
      },
    },
    { tools: [look], orchestration: custom(async (script) => (await script.request('ann', 'pay')).content) },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  t.equal(before.questions().length, 1)
  let after = await lives.next()
  t.same(after.questions(), [])
  await lives.clock.runToIdle()
  t.match(await after.getRun('one')!.result, { error: { code: 'OUTCOME_UNKNOWN' } })
  after = await lives.next()
  await lives.clock.runToIdle()
  t.same(after.questions(), [])
  t.equal(looked, 1)
})

const RESTARTS = howMany(38, 1_000)

t.test(`a run that waits for a person waits through ${RESTARTS} restarts, and keeps what it has done`, async (t) => {
  let steps = 0
  const lives = new Lives(
    {
      ann: async (_message, context) => {
        await context.step('work', () => ++steps)
        return context.ask('really?')
      },
    },
    { orchestration: custom(async (script) => (await script.request('ann', 'ask')).content) },
  )
  let team = await lives.next()
  team.launch('go', { runId: 'one' })
  await lives.clock.advance(100)
  const [first] = team.questions()
  for (let n = 0; n < RESTARTS; n++) {
    team = await lives.next()
    const questions = team.questions()
    if (questions.length !== 1 || questions[0]!.questionId !== first!.questionId)
      return t.fail(`restart ${n}: ${JSON.stringify(questions)}`)
  }
  await Promise.all([team.getRun('one')!.answer(first!.questionId, 'yes'), lives.clock.advance(100)])
  await lives.clock.runToIdle()
  t.match(await team.getRun('one')!.result, { success: true, finalOutput: 'yes' })
  t.equal(steps, 1)
})

// What was promised to who asks, in a team whose process dies: retries, a new owner of a task, a place in the line
// of runs.

t.test('a request that may be retried is retried in the next process', async (t) => {
  let begun = 0
  const lives = new Lives(
    {
      ann: () => {
        begun += 1
        return begun < 3 ? never : `answered at ${begun}`
      },
    },
    {
      orchestration: custom(async (script) => {
        const options = { timeoutMs: 10_000, retries: 1, idempotent: true }
        return (await script.request('ann', 'work', options)).content
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(5_000)
  const after = await lives.next()
  await lives.clock.advance(4_000)
  t.equal(begun, 2, 'once in each process')
  await lives.clock.advance(20_000)
  t.equal((await after.getRun('run')!.result).finalOutput, 'answered at 3')
})

t.test('a task that was given to another agent is that of the other one in the next process', async (t) => {
  let isThere = false
  const lives = new Lives(
    {
      worker: async (_message, context) => {
        const outcome = await context.escalate('too hard')
        return outcome.kind === 'reassigned' ? `${outcome.result.sender}: ${outcome.result.content}` : outcome.kind
      },
      lead: () => ({ content: 'no', structuredData: { decision: 'reassign', to: 'other' } }),
      other: () => (isThere ? 'done' : never),
    },
    {
      roles: { worker: { escalateTo: 'lead' } },
      orchestration: custom(async (script) => (await script.request('worker', 'dig')).content),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  isThere = true
  const after = await lives.next()
  await lives.clock.advance(100)
  const run = after.getRun('run')!
  t.equal((await run.result).finalOutput, 'other: done')
  t.same(
    run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`),
    ['worker handed_off', 'other completed'],
  )
})

t.test('runs in line go on in their order, each with what it was launched with', async (t) => {
  const begun: string[] = []
  let isOpen = false
  const lives = new Lives(
    {
      ann: ({ content }, context) => {
        begun.push(`${content} ${context.run.metadata.ticket ?? 'none'}`)
        return isOpen ? content : never
      },
    },
    {
      maxConcurrentRuns: 1,
      orchestration: custom(async (script, query) => (await script.request('ann', query)).content),
    },
  )
  const before = await lives.next()
  for (const [query, priority] of [
    ['first', 0],
    ['low', 0],
    ['high', 5],
    ['also low', 0],
  ] as const)
    before.launch(query, { runId: query, priority, metadata: { ticket: `for ${query}` }, timeoutMs: 60_000 })
  await lives.clock.advance(100)
  t.same(begun.splice(0), ['first for first'])
  t.equal(before.getRun('high')!.status, 'queued')
  isOpen = true
  const after = await lives.next({ asleepMs: 600_000 })
  await lives.clock.advance(1_000)
  t.same(begun, ['first for first', 'high for high', 'low for low', 'also low for also low'])
  for (const id of ['first', 'high', 'low', 'also low'])
    t.match(await after.getRun(id)!.result, { success: true, finalOutput: id })
})

t.test('the time of a run in line goes on in the next process', async (t) => {
  const lives = new Lives(
    { ann: () => never },
    { maxConcurrentRuns: 1, orchestration: custom(async (script) => (await script.request('ann', '')).content) },
  )
  const before = await lives.next()
  before.launch('first', { runId: 'first', timeoutMs: 100_000 })
  before.launch('second', { runId: 'second', timeoutMs: 10_000 })
  await lives.clock.advance(6_000)
  void before.sendMessage({ recipient: 'ann', content: 'so the log has a time' })
  await lives.clock.advance(100)
  const after = await lives.next({ asleepMs: 60_000 })
  const code = after.getRun('second')!.result.then(({ error }) => (error as DramatisError | null)?.code)
  t.equal(after.getRun('second')!.status, 'queued')
  await lives.clock.advance(4_000)
  t.equal(await code, 'RUN_TIMEOUT')
})

// Long turns and steps side by side, over a death.

// Turns that are longer than the log in memory: what it has given up is read from the durable log.

const KEPT_BYTES = 20_000
const STEPS = 100

/** A team whose ann takes a hundred steps, of which the log in memory has the last twenty or so. */
function longTurn(beside: (context: AgentContext) => Promise<unknown> = async () => {}) {
  const done: number[] = []
  const attempts: number[] = []
  const lives = new Lives(
    {
      ann: async (_message, context) => {
        attempts.push(context.attempt)
        const besides = beside(context)
        let sum = 0
        for (let n = 0; n < STEPS; n++) {
          const { length } = await context.step(`step ${n}`, async () => {
            await context.now()
            done.push(n)
            return 'x'.repeat(1_000)
          })
          sum += length
          if (n % 10 === 0) await context.request('bob', `${n}`)
          await lives.clock.sleep(10)
        }
        await besides
        return `${sum}`
      },
      bob: (message) => message.content,
    },
    {
      keptBytes: KEPT_BYTES,
      orchestration: {
        strategy: 'custom',
        run: async (script) => (await script.request('ann', 'go')).content,
      },
    },
  )
  return { lives, done, attempts }
}

const once = Array.from({ length: STEPS }, (_, n) => n)

t.test('a thread dies in such a turn: nothing is done twice', async (t) => {
  const { lives, done, attempts } = longTurn()
  const team = await lives.next()
  const run = team.launch('go', { runId: 'one' })
  for (let deaths = 0; deaths < 2; deaths++) {
    await lives.clock.advance(400)
    t.ok(team.host.runs.find('one')!.log.forgotten > 0, 'the log in memory has given something up')
    const { incarnation } = team.host.directory.agent('ann')!
    if (incarnation?.thread instanceof LocalThread)
      incarnation.thread.kill({ code: 1, error: undefined, outside: true })
  }
  await lives.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: `${STEPS * 1_000}` })
  t.same(done, once)
  t.same(attempts, [1, 2, 3])
})

t.test('a process dies in such a turn: nothing is done twice', async (t) => {
  const { lives, done } = longTurn()
  let team = await lives.next()
  team.launch('go', { runId: 'one' })
  for (let deaths = 0; deaths < 3; deaths++) {
    await lives.clock.advance(300)
    team = await lives.next()
  }
  const run = team.getRun('one')!
  await lives.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: `${STEPS * 1_000}` })
  t.ok(done.length < STEPS + 3, 'at most what each death cut off is done again')
  t.same([...new Set(done)], once)
})

t.test('a step that had begun before, and may not run twice, has an unknown outcome', async (t) => {
  const { lives, attempts } = longTurn((context) => context.step('pay', () => never))
  const team = await lives.next()
  const run = team.launch('go', { runId: 'one' })
  await lives.clock.advance(700)
  const { incarnation } = team.host.directory.agent('ann')!
  if (incarnation?.thread instanceof LocalThread) incarnation.thread.kill({ code: 1, error: undefined, outside: true })
  await lives.clock.runToIdle()
  t.match(await run.result, { success: false, error: { message: /step "pay" was under way/ } })
  t.same(attempts, [1])
})

// Steps side by side, in a turn whose thread or process has died: whose result is whose, and what of them has
// changed.

/** An agent whose turn waits for a person in its first process, and is played by other code in the next one. */
function shop() {
  const done: string[] = []
  const now = { plays: async (_context: AgentContext): Promise<string> => '' }
  const lives = new Lives(
    {
      ann: (_message, context) => now.plays(context),
      bank({ content }) {
        done.push(content)
        return 'done'
      },
    },
    { enableBlackboard: true, orchestration: oneRequest },
  )
  /** A step that takes a while, and one that takes none. */
  const slow = (context: AgentContext, ms = 50) => context.step('slow', () => lives.clock.sleep(ms))
  const pay = (context: AgentContext, what: string) => context.step(`pay ${what}`, () => void done.push(what))
  return { lives, done, now, slow, pay }
}

const oneRequest = {
  strategy: 'custom',
  run: async (script: { request(to: string, content: string): Promise<{ content: string }> }) =>
    (await script.request('ann', 'go')).content,
} as const

type Shop = ReturnType<typeof shop>
type Program = (context: AgentContext, shop: Shop) => Promise<unknown>

/** Plays one program until it waits for a person, and another one on its log. */
async function changed(t: Test, first: Program, second: Program) {
  const here = shop()
  const { lives, now } = here
  const playsThenAsks = (program: Program) => async (context: AgentContext) => {
    await program(context, here)
    return context.ask('Go on?')
  }
  now.plays = playsThenAsks(first)
  const before = await lives.next()
  before.launch('go', { runId: 'one' })
  await lives.clock.advance(500)
  t.equal(before.questions().length, 1)
  now.plays = playsThenAsks(second)
  const after = await lives.next()
  await lives.clock.advance(3_000)
  for (const { questionId } of after.questions()) void after.answer(questionId, 'yes')
  await lives.clock.advance(3_000)
  return { result: await after.getRun('one')!.result, done: here.done }
}

const beside =
  (what: (context: AgentContext, shop: Shop) => Promise<unknown>): Program =>
  (context, shop) =>
    Promise.all([shop.slow(context), what(context, shop)])

const behind =
  (what: (context: AgentContext, shop: Shop) => Promise<unknown>): Program =>
  async (context, shop) => {
    const slow = shop.slow(context)
    await context.step('quick', () => {})
    await what(context, shop)
    await slow
  }

const effects: Record<string, (amount: string) => (context: AgentContext, shop: Shop) => Promise<unknown>> = {
  step:
    (amount) =>
    (context, { pay }) =>
      pay(context, amount),
  request: (amount) => (context) => context.request('bank', amount),
  send: (amount) => (context) => context.send('bank', amount),
  'two steps':
    (amount) =>
    async (context, { pay }) => {
      await pay(context, 'a fee')
      await pay(context, amount)
    },
  'a step within a step':
    (amount) =>
    (context, { pay }) =>
      context.step('around', () => pay(context, amount), { idempotent: true }),
}

for (const [kind, effect] of Object.entries(effects))
  for (const [where, around] of Object.entries({ beside, behind })) {
    t.test(`a ${kind} that is another one now, ${where} a step that was open`, async (t) => {
      const { result, done } = await changed(t, around(effect('10 euros')), around(effect('20 euros')))
      if (kind === 'a step within a step') return t.same(done, ['10 euros'], 'the step around it was done')
      t.match(result.error, { code: 'STEP_MISMATCH' })
      t.notOk(done.includes('20 euros'), 'nothing was done anew')
      t.match(result.error?.message, /did not ask again for .*(step pay|to bank)/)
    })
    t.test(`a ${kind} that is the same, ${where} a step that was open`, async (t) => {
      const { result, done } = await changed(t, around(effect('10 euros')), around(effect('10 euros')))
      t.match(result, { success: true, finalOutput: 'yes' })
      t.equal(done.filter((what) => what === '10 euros').length, 1)
    })
  }

t.test('a failure where the log goes on, beside a step that was open', async (t) => {
  const { result, done } = await changed(t, behind(effects.step!('10 euros')), async (context, { slow }) => {
    void slow(context)
    await context.step('quick', () => {})
    throw new Error('a typo')
  })
  t.match(result.error, { code: 'STEP_MISMATCH' })
  t.same(done, ['10 euros'])
})

t.test('what a step asks for is a part of it, also beside another one', async (t) => {
  const around: Program = (context, { slow, pay }) =>
    Promise.all([
      slow(context, 80),
      context.step('both', async () => {
        await slow(context, 20)
        await pay(context, 'within')
      }),
    ])
  const { result, done } = await changed(t, around, around)
  t.match(result, { success: true, finalOutput: 'yes' })
  t.same(done, ['within'])
})

// ---- whose result is whose

interface Priced {
  readonly name: string
  readonly ms: number
  readonly fails?: boolean
}

const priced: Record<string, readonly Priced[]> = {
  'the first is slow': [
    { name: 'ann', ms: 40 },
    { name: 'bob', ms: 10 },
  ],
  'one fails': [
    { name: 'ann', ms: 30 },
    { name: 'bob', ms: 20, fails: true },
    { name: 'cid', ms: 10 },
  ],
  'the last is first': Array.from({ length: 6 }, (_, i) => ({ name: `n${i}`, ms: 60 - 10 * i })),
}

for (const [name, list] of Object.entries(priced))
  for (const diesAt of [5, 15, 25, 35, 65])
    t.test(`steps of one name keep their results: ${name}, dead after ${diesAt} ms`, async (t) => {
      const team = localTeam(t, {
        async worker(_message, context) {
          const price = ({ name, ms, fails }: Priced) =>
            context
              .step(
                'price',
                async () => {
                  await team.clock.sleep(ms)
                  if (fails) throw new Error(`no price of ${name}`)
                  return `price of ${name}`
                },
                { idempotent: true },
              )
              .catch((error: Error) => /no price of \w+/.exec(error.message)?.[0])
          const prices = await Promise.all(list.map(price))
          if (context.attempt > 1) return prices.join()
          return never
        },
      })
      const answer = ask(team, 'worker')
      await team.clock.advance(diesAt)
      team.crash('worker')
      await team.clock.advance(200)
      t.equal(await answer, list.map(({ name, fails }) => (fails ? `no price of ${name}` : `price of ${name}`)).join())
    })
