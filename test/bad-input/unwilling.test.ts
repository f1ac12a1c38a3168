/** Agents that will not do their task: who refuses it, hands it on, or asks again and again. The run ends, and says so. */
import t from 'tap'
import type { MultiAgentResult, OrchestrationConfig } from '../../src/index.ts'
import { leftovers } from '../kit/accounts.ts'
import { type Cast, type Extras, openTeam, type Receive } from '../kit/team.ts'

const refuses: Receive = (_message, context) => {
  throw context.refuse('not my job')
}

const passes =
  (to: string): Receive =>
  ({ content }, context) =>
    context.handoff(to, content)

async function play(
  test: Pick<typeof t, 'teardown' | 'same' | 'ok'>,
  cast: Cast,
  extras: Extras = {},
): Promise<MultiAgentResult> {
  const team = openTeam(test, cast, extras)
  const run = team.launch('do it')
  await team.clock.runToIdle()
  const result = await run.result
  test.same(leftovers(team.host), [])
  test.ok(result.messageHistory.length < 100, 'within its limits')
  const open = run.tasks.filter(({ status }) => ['assigned', 'in_progress', 'blocked'].includes(status))
  test.same(open, [])
  return result
}

const strategies: readonly OrchestrationConfig[] = [{ strategy: 'sequential' }, { strategy: 'parallel' }]
for (const orchestration of strategies)
  t.test(`agents that refuse everything end a run: ${orchestration.strategy}`, async (t) => {
    const result = await play(t, { a: refuses, b: refuses }, { orchestration })
    t.equal(result.success, false)
    t.match(JSON.stringify(result.failures), 'not my job')
    t.match(result.failures[0], { agent: 'a', error: { code: 'TASK_REFUSED' } })
    t.equal(Object.values(result.taskCompletion)[0], 'refused')
  })

t.test('an agent that refuses everything, and one that asks again and again', async (t) => {
  const lead: Receive = async ({ content }, context) => {
    for (;;) {
      try {
        return `${(await context.delegate('worker', content)).result}`
      } catch (error) {
        if (context.signal.aborted) throw error
      }
    }
  }
  const result = await play(
    t,
    { lead, worker: refuses },
    { supervision: { livelock: { maxRepeats: 4, onFound: 'end' } } },
  )
  t.match(result, { success: false, error: { code: 'LIVELOCK' } })
  t.match(result.error?.message, /"worker" failed \d+ times in a row .*TASK_REFUSED/)
})

t.test('agents that hand their task back and forth', async (t) => {
  const result = await play(t, { a: passes('b'), b: passes('a') })
  t.equal(result.success, false)
  t.match(result.error?.message, /maxHandoffs is 10/)
})

t.test('agents that hand their task on in a ring, and refuse it when it comes back', async (t) => {
  const again =
    (to: string): Receive =>
    async (message, context) => {
      if (Object(message.structuredData).parentTask) throw context.refuse('I had it')
      return passes(to)(message, context)
    }
  const result = await play(t, { a: again('b'), b: again('a') })
  t.match(result, { success: false, failures: [{ agent: 'b', error: { code: 'TASK_REFUSED' } }, {}] })
})

t.test('a manager that delegates to itself', async (t) => {
  const boss: Receive = async (_message, context) => `${(await context.delegate('boss', 'x')).result}`
  const result = await play(t, { boss })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
  t.match(JSON.stringify(result.failures), 'nobody delegates to itself')
})
