/**
 * A host that was busy until a time was up: what was done in time counts. On the virtual clock the host does not hear
 * its threads; on the real one it is kept busy, so that its timers come before what has come meanwhile.
 */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { type AgentDefinition, defineAgent } from '../../src/actors/definition/definition.ts'
import { defineTool } from '../../src/actors/definition/tool.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/team.ts'
import { scriptedModel } from '../../src/testing.ts'
import { block, comesWhileBusy } from '../busy.ts'
import { leftovers } from './accounts.ts'
import { beBusy, openTeam, outcomeOf, type Receive, silent } from './teams.ts'

const sleeps: Receive = async (_message, context) => {
  await context.sleep(50)
  return 'slept'
}

/** Begins a run, and has the host be busy from its 10th ms to its 100th. */
async function whileBusy<T>(team: ReturnType<typeof openTeam>, begin: () => Promise<T>) {
  const result = outcomeOf(begin())
  await team.clock.advance(10)
  beBusy(team)
  await team.clock.advance(90)
  return result
}

t.test('a run whose time is up has the answers that came in time', async (t) => {
  const team = openTeam(t, { worker: sleeps })
  const result = await whileBusy(team, () => team.launch('go', { timeoutMs: 100 }).result)
  t.match(result.value, { error: { code: 'RUN_TIMEOUT' } })
  t.ok(result.value?.messageHistory.some(({ content }) => content === 'slept'))
  t.same(leftovers(team.host), [])
})

t.test('a turn whose time is up still has the answer that came in time, in the look that ends it', async (t) => {
  const heard: string[] = []
  const asker: Receive = async (_message, context) => {
    heard.push((await context.request('worker', 'go')).content)
    await context.sleep(1_000).catch(({ code }) => heard.push(code))
  }
  const team = openTeam(t, { asker, worker: sleeps }, { roles: { asker: { limits: { turnTimeoutMs: 100 } } } })
  const result = await whileBusy(team, () => team.execute('go'))
  await team.clock.runToIdle()
  t.match(result.value, { error: { code: 'TURN_TIMEOUT' } })
  t.same(heard, ['slept', 'TURN_TIMEOUT'])
  t.same(leftovers(team.host), [])
})

t.test('a task that was done by its deadline is done', async (t) => {
  const run: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script) =>
      String((await script.delegate('worker', { description: 'go', deadline: script.now() + 100 })).result),
  }
  const team = openTeam(t, { worker: sleeps }, { orchestration: run })
  const result = await whileBusy(team, () => team.execute('go'))
  t.equal(result.value?.finalOutput, 'slept')
  t.same(leftovers(team.host), [])
})

t.test('a wait for the blackboard ends with what was written in time', async (t) => {
  const writer: Receive = async (_message, context) => {
    await context.sleep(50)
    await context.blackboard.write('key', 'written', 'fact')
    return ''
  }
  const reader: Receive = async (_message, context) =>
    String((await context.blackboard.waitFor('key', { timeoutMs: 100 })).value)
  const both: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script) => (await script.requestAll(['reader', 'writer'], '')).map(contentOf).join(),
  }
  const team = openTeam(t, { reader, writer }, { enableBlackboard: true, orchestration: both })
  const result = await whileBusy(team, () => team.execute('go'))
  t.equal(result.value?.finalOutput, 'written,')
  t.same(leftovers(team.host), [])
})

// ---- the real clock

const LIMIT_MS = 50
const BUSY_MS = 80

const contentOf = (outcome: { ok: boolean; message?: { content: string }; error?: Error }) =>
  outcome.error?.message ?? outcome.message?.content

/** A team in this thread, on the real clock. A run asks the agents at once. */
function realTeam(
  t: Test,
  cast: Record<string, AgentDefinition>,
  { agents, ...options }: Partial<MultiAgentPatternOptions> = {},
) {
  const names = Object.keys(cast)
  const run: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script) =>
      (
        await script.requestAll(
          script.agents.map(({ name }) => name),
          'go',
        )
      )
        .map(contentOf)
        .join(),
  }
  const team = new MultiAgentPattern(
    { orchestration: run, logger: silent, ...options, agents: agents ?? names.map((name) => ({ name })) },
    { definitions: new Map(Object.entries(cast)) },
  )
  t.teardown(() => team.close())
  return team
}

const answerOf = async (team: ReturnType<typeof realTeam>) => {
  const { error, finalOutput } = await team.execute('go')
  return error?.message ?? finalOutput
}

t.test('an agent that arrived at a sync point in time has arrived', async (t) => {
  const TIME_MS = 300 // the second agent has to come to it, on a machine that may be busy
  const ann = defineAgent({ receive: async (_message, context) => `${(await context.sync('here')).arrived}` })
  const bob = defineAgent({
    async receive(_message, context) {
      for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve))
      const synced = context.sync('here')
      block(TIME_MS)
      return `${(await synced).arrived}`
    },
  })
  const here = { name: 'here', requiredAgents: ['ann', 'bob'], timeoutMs: TIME_MS, onTimeout: 'abort' as const }
  t.equal(await answerOf(realTeam(t, { ann, bob }, { syncPoints: [here] })), 'ann,bob,ann,bob')
})

t.test('an agent that had started in time has started', async (t) => {
  let starts = 0
  const start = () => {
    starts += 1
    return comesWhileBusy(BUSY_MS)
  }
  const ann = defineAgent({ start, receive: async () => `started ${starts} time` })
  const agents = [{ name: 'ann', limits: { turnTimeoutMs: LIMIT_MS } }]
  t.equal(await answerOf(realTeam(t, { ann }, { agents })), 'started 1 time')
})

t.test('a question that was answered in time is answered', async (t) => {
  const ann = defineAgent({ receive: (_message, context) => context.ask('Which?', { answerWithinMs: LIMIT_MS }) })
  const team = realTeam(t, { ann })
  const run = team.launch('go')
  team.events.subscribe((event) => {
    if (event.type === 'question') void comesWhileBusy(BUSY_MS).then(() => run.answer(event.questionId, 'blue'))
  })
  t.equal((await run.result).finalOutput, 'blue')
})

t.test('a guardrail that had decided in time has decided', async (t) => {
  const input = [{ name: 'slow', timeoutMs: LIMIT_MS, check: () => comesWhileBusy(BUSY_MS).then(() => undefined) }]
  const ann = defineAgent({ receive: async () => 'fine' })
  t.equal(await answerOf(realTeam(t, { ann }, { guardrails: { input } })), 'fine')
})

t.test('a model whose answer came in time has answered', async (t) => {
  const model = {
    async *complete() {
      await comesWhileBusy(BUSY_MS)
      yield { text: 'fine' }
    },
  }
  const team = realTeam(
    t,
    {},
    {
      agents: [{ name: 'ann' }],
      models: { default: model },
      communication: { modelTimeoutMs: LIMIT_MS },
    },
  )
  t.equal(await answerOf(team), 'fine')
})

t.test('a tool of the host that had ended in time has ended', async (t) => {
  const tool = defineTool({
    name: 'slow',
    description: 'slow',
    timeoutMs: LIMIT_MS,
    input: z.object({}),
    run: () => comesWhileBusy(BUSY_MS).then(() => 'done'),
  })
  const model = scriptedModel([
    { agent: 'ann', toolCall: { name: 'slow', input: {} } },
    { agent: 'ann', when: /done/, reply: 'fine' },
  ])
  const team = realTeam(t, {}, { agents: [{ name: 'ann', tools: [tool] }], models: { default: model } })
  t.equal(await answerOf(team), 'fine')
})
