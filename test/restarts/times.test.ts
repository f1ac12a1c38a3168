/** Deadlines over a restart: team time stands still while no process has the log, the wall clock goes on. */

import type { Test } from 'tap'
import t from 'tap'
import type { DramatisError, MultiAgentPatternOptions } from '../../src/index.ts'
import type { MultiAgentPattern } from '../../src/team.ts'
import { never, type Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
type Options = Omit<ConstructorParameters<typeof Lives>[1], 'orchestration'>

const SECOND = 1_000
const DAY = 86_400_000
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

const codeOf = (promise: Promise<unknown>): Promise<string> =>
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
    codeOf(script.request('ann', 'wait', { timeoutMs: 60 * SECOND })),
  )
  await endsOnTime(t, resumed, 'REQUEST_TIMEOUT')
})

t.test('a turn has what was left of its time', async (t) => {
  const roles = { ann: { limits: { turnTimeoutMs: 60 * SECOND } } }
  const resumed = await slept(
    { ann: () => never },
    (script) => codeOf(script.request('ann', 'wait', { timeoutMs: 200 * SECOND })),
    { roles },
  )
  await endsOnTime(t, resumed, 'TURN_TIMEOUT')
})

t.test('a message that waits in a mailbox has what was left of its time', async (t) => {
  const resumed = await slept(
    { ann: () => never },
    async (script) => {
      void script.request('ann', 'busy', { timeoutMs: 200 * SECOND }).catch(() => {})
      return codeOf(script.request('ann', 'wait', { timeoutMs: 200 * SECOND }))
    },
    { roles: { ann: { communication: { queueTimeoutMs: 60 * SECOND } } } },
  )
  await endsOnTime(t, resumed, 'MESSAGE_EXPIRED')
})

t.test('a sync point has what was left of its time', async (t) => {
  const resumed = await slept(
    { ann: (_message, context) => codeOf(context.sync('noon', 1)), bob: () => never },
    async (script) => (await script.request('ann', 'meet', { timeoutMs: 200 * SECOND })).content,
    { syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60 * SECOND, onTimeout: 'abort' }] },
  )
  await endsOnTime(t, resumed, 'SYNC_POINT_TIMEOUT')
})

t.test('a wait for an entry of the blackboard has what was left of its time', async (t) => {
  const resumed = await slept({}, (script) => codeOf(script.blackboard.waitFor('key', { timeoutMs: 60 * SECOND })))
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
    (script) => codeOf(script.request('ann', 'ask', { timeoutMs: 30 * SECOND })),
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
          return codeOf(context.ask('Really?', { answerWithinMs: DAY }))
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
