/** Questions to people that outlive their process: nobody waits, and what a person says reaches the turn. */
import t from 'tap'
import * as z from 'zod'
import { defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import type { Receive } from '../kit/team.ts'
import { Lives } from './lives.ts'

const DAY = 86_400_000

const custom = (
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
    { tools: [pay], orchestration: custom(async (script, query) => (await script.request('ann', query)).content) },
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
