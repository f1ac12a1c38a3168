/** requestQuorum: the first answers of several, as they come; the rest is withdrawn, and a quorum that cannot come fails at once. */
import t from 'tap'
import { type AgentContext, type DramatisError, defineAgent } from '../../src/index.ts'
import { never, openTeam } from '../kit/team.ts'
import { after, refuses, stage, throws } from './stage.ts'

const contents = (messages: { content: string }[]) => messages.map(({ content }) => content)
const caught = (promise: Promise<unknown>) => promise.catch((error: DramatisError) => error)

/** What agent `a` gets by that, and when. */
async function act(
  t: Parameters<typeof stage>[0],
  others: Parameters<typeof stage>[1],
  does: (context: AgentContext) => Promise<unknown>,
) {
  let value: unknown
  const a = defineAgent({
    async receive(_message, context) {
      value = await does(context)
    },
  })
  const team = stage(t, { ...others, a }, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const run = team.launch('q')
  await team.clock.advance(1_000)
  const { executionTimeMs } = await run.result
  return { team, value, executionTimeMs }
}

t.test('requestQuorum gives the first answers in order of arrival, whoever fails before', async (t) => {
  const { value, executionTimeMs } = await act(
    t,
    { slow: after(500), late: after(60, 'late'), bad: throws('broken'), quick: after(50, 'quick') },
    async (context) => contents(await context.requestQuorum(['slow', 'late', 'bad', 'quick'], 2, 'hi')),
  )
  t.same(value, ['quick', 'late'])
  t.equal(executionTimeMs, 60)
})

t.test('the losers of requestQuorum are cancelled', async (t) => {
  const told: string[] = []
  const slow = defineAgent({
    async receive(_message, context) {
      await context.sleep(500).catch(({ code }) => told.push(`${context.role.name}: ${code}`))
    },
  })
  const { value } = await act(t, { slow, one: after(5, 'one'), other: after(6, 'other') }, async (context) =>
    contents(await context.requestQuorum(['slow', 'one', 'other'], 2, 'hi')),
  )
  t.same(value, ['one', 'other'])
  t.same(told, ['slow: CANCELLED'])
})

t.test('a quorum that cannot come any more fails at once, and says who failed and why', async (t) => {
  const { value, executionTimeMs } = await act(
    t,
    { slow: after(500), one: after(5, 'one'), bad: throws('broken'), no: refuses('not mine') },
    (context) => caught(context.requestQuorum(['slow', 'one', 'bad', 'no'], 3, 'hi')),
  )
  t.match(value, {
    code: 'AGENT_FAILED',
    message:
      /^3 of 4 agents have to answer; 2 failed, so that at most 2 will\. "bad": .*broken.* "no": .*refused: not mine/,
    details: { needed: 3, answered: [], failures: [{ agent: 'bad' }, { agent: 'no', code: 'TASK_REFUSED' }] },
  })
  t.equal(executionTimeMs, 0)
})

t.test('who answered before a quorum failed is in the error', async (t) => {
  const { value } = await act(t, { one: after(5, 'one'), bad: after(10) }, (context) =>
    caught(context.requestQuorum(['one', 'nobody', 'bad'], 3, 'hi', { signal: AbortSignal.abort('enough') })),
  )
  t.match(value, { code: 'CANCELLED', message: /^The wait for "one", "nobody", "bad" was withdrawn/ })
  const late = defineAgent({
    async receive(_message, context) {
      await context.sleep(10)
      throw new Error('broken')
    },
  })
  const failed = await act(t, { one: after(5, 'one'), late }, (context) =>
    caught(context.requestQuorum(['one', 'late'], 2, 'hi')),
  )
  t.match(failed.value, { details: { answered: ['one'], failures: [{ agent: 'late' }] } })
})

t.test('a turn that ends before its quorum gives it up', async (t) => {
  let outcome: Promise<unknown> | undefined
  const { team } = await act(t, { slow: after(500), slower: after(600) }, async (context) => {
    outcome = caught(context.requestQuorum(['slow', 'slower'], 1, 'hi'))
  })
  t.match(await outcome, { code: 'TURN_ENDED' })
  t.equal(team.getAgentStatus('slower'), 'idle')
})

t.test('a redelivered turn gets the answers that it had, in the order in which they had come', async (t) => {
  let asked = 0
  const chosen: string[][] = []
  const answers = (ms: number) => async (_message: unknown, context: AgentContext) => {
    asked += 1
    await context.sleep(ms)
    return context.role.name
  }
  const team = openTeam(t, {
    async worker(_message, context) {
      const all = context.requestAll(['first', 'second', 'third'], 'hi')
      chosen.push(contents(await context.requestQuorum(['first', 'second', 'third'], 2, 'choose')))
      await all
      if (context.attempt > 1) return chosen.at(-1)!.join()
      team.crash('worker')
      return never
    },
    first: answers(30),
    second: answers(20),
    third: answers(10),
  })
  const pending = team.execute('go')
  await team.clock.advance(1_000)
  const result = await pending
  t.equal(result.finalOutput, 'third,second')
  t.same(chosen, [
    ['third', 'second'],
    ['third', 'second'],
  ])
  t.equal(asked, 6)
})
