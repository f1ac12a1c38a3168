/** Runs that end, and promises to who asks, with a process that dies at the worst moment. */
import t from 'tap'
import * as z from 'zod'
import { type DramatisError, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { howMany } from '../how-many.ts'
import { never } from '../kit/team.ts'
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
