/** Budgets of runs, teams and agents around the calls of models. */

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import { countPrompt } from '../../src/actors/model/tokens.ts'
import {
  type AgentContext,
  type BudgetUse,
  type DramatisError,
  defineAgent,
  type MultiAgentResult,
} from '../../src/index.ts'
import { scriptedModel, type TestTeam, testTeam } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { gate, given, heard, silent } from '../kit/team.ts'
import { type Answers, FakeModel } from './fake-model.ts'
import { modelTeam, played, ThreadTeam } from './teams.ts'

const PROMPT = countPrompt({ messages: [{ role: 'user', content: 'go' }] })

/** Each call costs what it says, or all that it may. */
const costing = (...costs: number[]) =>
  new FakeModel((_request, nth) => {
    const totalTokens = costs[nth % costs.length]!
    const usage = { inputTokens: 0, outputTokens: totalTokens, totalTokens, calls: 1 }
    return [{ text: 'ok' }, { usage: { ...usage, totalTokens: totalTokens - 15, outputTokens: totalTokens - 15 } }]
  })

const budgetEvents = (team: TestTeam) => {
  const events = heard(team, 'budget', (event) => event)
  return events
}

const ask = (context: AgentContext, maxOutputTokens?: number) =>
  context.complete({ prompt: 'go', ...(maxOutputTokens !== undefined && { maxOutputTokens }) })

t.test('a call that does not fit into what the run has left is refused, and not made', async (t) => {
  const { model, error, events } = await played(
    t,
    (_request, nth) => [{ text: `${nth}` }, { usage: { inputTokens: 30, outputTokens: 5, totalTokens: 35, calls: 0 } }],
    async (context) => {
      for (let n = 0; n < 10; n++) await ask(context, 50)
    },
    { budget: { perRun: { tokens: 200 } } },
  )
  t.equal(model.requests.length, 3)
  t.match(error, {
    code: 'BUDGET_EXCEEDED',
    message: /agent "ann" does not fit into budget\.perRun\.tokens: of 200 tokens 150 are used/,
    details: { agent: 'ann', path: 'budget.perRun.tokens', used: 150, limit: 200, asked: PROMPT + 50 },
  })
  t.match(where(events, 'type', 'budget'), [{ agent: null, used: 150, limit: 200 }])
})

t.test('team.budgets() has what is used of each limit, and of runs only while they are under way', async (t) => {
  const kept = { windowMs: null, held: 0, runId: null, agent: null, tenant: null, unit: 'tokens', freeAt: null }
  const seen: BudgetUse[][] = []
  const answer: Answers = () => {
    seen.push(team.budgets())
    return [{ text: 'ok' }, { usage: { inputTokens: 0, outputTokens: 25, totalTokens: 25, calls: 1 } }]
  }
  const { team } = modelTeam(t, answer, [{ name: 'ann', description: 'Answers.' }], {
    budget: { perTeam: { tokens: 10_000, windowMs: 60_000 }, perRun: { tokens: 8_000, perAgentTokens: 5_000 } },
  })
  const ofTeam = { ...kept, option: 'budget.perTeam.tokens', limit: 10_000, windowMs: 60_000 }
  t.same(team.budgets(), [{ ...ofTeam, used: 0 }])
  const { runId } = await team.execute('go')
  const [, ofRun, ofAgent] = seen[0]!
  t.match(ofRun, { option: 'budget.perRun.tokens', runId, agent: null, used: 0, limit: 8_000 })
  t.match(ofAgent, { option: 'budget.perRun.perAgentTokens', runId, agent: 'ann', used: 0, limit: 5_000 })
  t.ok(ofAgent!.held > 0)
  t.same(team.budgets(), [{ ...ofTeam, used: 40, freeAt: team.clock.now() + 60_000 }])
  await team.clock.advance(60_000)
  t.same(team.budgets(), [{ ...ofTeam, used: 0 }])
})

t.test('a call without a limit of its own has one of what is left', async (t) => {
  const limits = async (tokens: number) => {
    const { model } = await played(t, ['ok'], (context) => ask(context), { budget: { perRun: { tokens } } })
    return model.requests.map(({ maxOutputTokens }) => maxOutputTokens)
  }
  t.same(await limits(100_000), [4_096])
  t.same(await limits(1_000), [1_000 - PROMPT])
  t.same(await limits(PROMPT + 256), [256])
  t.same(await limits(PROMPT + 255), [])
})

t.test('without a budget a call is what it was', async (t) => {
  const { model } = await played(t, ['ok'], (context) => ask(context))
  t.notOk('maxOutputTokens' in model.requests[0]!)
})

t.test('a failed call costs what it was told to cost, and else nothing', async (t) => {
  const usage = { inputTokens: 40, outputTokens: 0, totalTokens: 40, calls: 1 }
  const model = new FakeModel([[new Error('down')], [{ usage }, new Error('hung up')], 'ok'])
  const ann = defineAgent({
    async receive(_message, context) {
      await ask(context, 50).catch(() => {})
      await ask(context, 50).catch(() => {})
      await ask(context, 50)
      await ask(context, 50)
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }],
      orchestration: { strategy: 'sequential' },
      logger: silent,
      budget: { perRun: { tokens: PROMPT + 100 } },
    },
    { model, modules: { ann } },
  )
  t.teardown(() => team.close())
  const { error } = await team.execute('go')
  t.equal(model.requests.length, 3)
  t.match(error, { code: 'BUDGET_EXCEEDED', details: { used: 55 } })
})

t.test('an answer without a usage is counted', async (t) => {
  const quiet = {
    async *complete(): AsyncGenerator<ModelPiece> {
      yield { text: 'some words of an answer' }
    },
  }
  const models = { default: quiet }
  const usages: unknown[] = []
  const asks = (times: number) => async (context: AgentContext) => {
    for (let n = 0; n < times; n++) usages.push((await ask(context, 10)).usage)
  }
  const budget = { perRun: { tokens: 2 * (PROMPT + 10) } }
  const { error, result } = await played(t, [], asks(3), { budget, models })
  t.match(error, { code: 'BUDGET_EXCEEDED', details: { used: 2 * (PROMPT + 5) } })
  const counted = { inputTokens: PROMPT, outputTokens: 5, totalTokens: PROMPT + 5, calls: 1, estimated: true }
  t.same(usages, [counted, counted])
  t.match(result.totalTokenUsage, { totalTokens: 2 * (PROMPT + 5), calls: 2, estimated: true })
  const without = await played(t, [], asks(1), { models })
  t.same(without.result.totalTokenUsage, { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 1 }, 'no budget')
})

t.test('it reaches the protocol as what it is', async (t) => {
  let found: DramatisError | undefined
  const agents = [{ name: 'ann', maxOutputTokens: 50 }]
  const { team } = modelTeam(t, costing(100), agents, {
    budget: { perRun: { tokens: 220 } },
    orchestration: {
      strategy: 'custom',
      async run(script) {
        for (;;) {
          const [outcome] = await script.requestAll(['ann'], 'go')
          if (outcome!.ok) continue
          found = outcome!.error
          return 'so far'
        }
      },
    },
  })
  const result = await team.execute('go')
  t.match(result, { success: true, finalOutput: 'so far', totalTokenUsage: { totalTokens: 200 } })
  t.match(found, { code: 'BUDGET_EXCEEDED', details: { agent: 'ann', limit: 220, used: 200 } })
})

t.test('an agent that fails for want of budget of another has failed', async (t) => {
  const team = given(t, { models: { default: costing(100) }, budget: { perRun: { tokens: 10 } } }).testTeam({
    ann: async (_message, context) => (await context.request('bob', 'go')).content,
    bob: async (_message, context) => (await ask(context, 50)).text,
  })
  const { error } = await team.execute('go')
  t.match(error, { code: 'AGENT_FAILED', details: { cause: { code: 'BUDGET_EXCEEDED', details: { agent: 'bob' } } } })
})

t.test('each run has its own; the team has one for all within a window', async (t) => {
  const agents = [{ name: 'ann', maxOutputTokens: 50 }]
  const { team } = modelTeam(t, costing(100), agents, {
    budget: { perRun: { tokens: 200 }, perTeam: { tokens: 450, windowMs: 60_000 } },
  })
  const events = budgetEvents(team)
  const results: MultiAgentResult[] = []
  for (let n = 0; n < 5; n++) results.push(await team.execute(`go ${n}`))
  t.same(pluck(results, 'success'), [true, true, true, true, false])
  t.match(results[4]!.error, {
    code: 'BUDGET_EXCEEDED',
    message: /budget\.perTeam\.tokens: of 450 .* Enough is free again in 60 s\./,
    details: { retryAfterMs: 60_000 },
  })
  t.match(events, [
    { agent: null, used: 400, limit: 450, runId: results[3]!.runId },
    { used: 400, runId: results[4]!.runId },
  ])
  await team.clock.advance(60_000)
  t.equal((await team.execute('again')).success, true)
})

t.test('an agent has a limit in each run, and others go on', async (t) => {
  const roles = { ann: {}, bob: {} }
  const spend = async (_message: unknown, context: AgentContext) => {
    for (let n = 0; n < 3; n++) await ask(context, 50)
    return 'done'
  }
  const team = given(t, {
    roles,
    models: { default: costing(100) },
    budget: { perRun: { perAgentTokens: 220 } },
  }).testTeam({
    boss: async (_message, context) => {
      const outcomes = await context.requestAll(['ann', 'bob'], 'go')
      return outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.error.code)).join()
    },
    ann: spend,
    bob: async (_message, context) => (await ask(context, 50)).text,
  })
  const events = budgetEvents(team)
  t.match(await team.execute('go'), { success: true, finalOutput: 'BUDGET_EXCEEDED,ok' })
  t.match(events, [
    { agent: 'ann', used: 200, limit: 220 },
    { agent: 'ann', used: 200, limit: 220 },
  ])
})

t.test('a run can have limits in place of the usual ones', async (t) => {
  const agents = [{ name: 'ann', maxOutputTokens: 50 }]
  const { team } = modelTeam(t, costing(100), agents, { budget: { perRun: { tokens: 20 } } })
  t.match((await team.execute('go')).error, { code: 'BUDGET_EXCEEDED', details: { path: 'budget.perRun.tokens' } })
  t.equal((await team.execute('go', { budget: { tokens: 200 } })).success, true)
  t.match((await team.execute('go', { budget: { perAgentTokens: 9_000 } })).error, { code: 'BUDGET_EXCEEDED' })
  t.throws(() => team.launch('go', { budget: { tokens: 0 } }), {
    code: 'CONFIGURATION',
    details: { path: 'budget.tokens' },
  })
})

t.test('a call that waits for others goes on with what they leave, and ends with its run', async (t) => {
  const agents = ['ann', 'bob'].map((name) => ({ name, maxOutputTokens: 60 }))
  const model = scriptedModel([
    { agent: 'ann', reply: 'short', delayMs: 1_000 },
    { agent: 'bob', reply: 'short' },
  ])
  const options = {
    agents,
    logger: silent,
    budget: { perRun: { tokens: 140 } },
    orchestration: { strategy: 'parallel' },
  } as const
  const team = testTeam(options, { model })
  t.teardown(() => team.close())
  const done = team.execute('go')
  await team.clock.advance(999)
  t.same(pluck(model.calls, 'agent'), ['ann'])
  await team.clock.advance(1)
  t.match(await done, { success: true })
  model.assertDone()

  const slow = scriptedModel([{ agent: 'ann', reply: 'late', delayMs: 60_000 }])
  const other = testTeam(options, { model: slow })
  t.teardown(() => other.close())
  const run = other.launch('go')
  await other.clock.advance(10)
  await run.cancel('no need')
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.equal(slow.calls.length, 1)
})

t.test('an agent whose turn has ended lends its share, one whose turn is open keeps it', async (t) => {
  const team = given(t, { models: { default: costing(16) }, budget: { perRun: { tokens: 1_000 } } }).testTeam({
    boss: async (_message, context) => {
      if (context.run.metadata.works === 'yes') await ask(context, 10)
      else await context.request('other', 'go')
      const [outcome] = await context.requestAll(['greedy'], 'go')
      return outcome!.ok ? 'enough' : outcome!.error.code
    },
    other: async (_message, context) => (await ask(context, 10)).text,
    greedy: async (_message, context) => {
      await ask(context, 10)
      return (await ask(context, 800)).text
    },
  })
  t.equal((await team.execute('go', { metadata: { works: 'no' } })).finalOutput, 'enough')
  t.equal((await team.execute('go', { metadata: { works: 'yes' } })).finalOutput, 'BUDGET_EXCEEDED')
})

t.test('a call that waits for tokens waits on while its thread is gone, whoever else is done', async (t) => {
  const answered = gate()
  const model = new FakeModel(async () => {
    await answered.opened
    return 'ok'
  })
  const team = new ThreadTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, maxOutputTokens: 1_000 })),
    models: { default: model },
    budget: { perTeam: { tokens: 1_500, windowMs: 60_000 } },
    orchestration: {
      strategy: 'custom',
      run: async (script) => {
        const asked = await script.requestAll(['ann', 'bob'], 'go')
        return asked.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.message)).join()
      },
    },
    logger: silent,
  })
  t.teardown(() => team.close())
  const calls = gate()
  team.events.subscribe((event) => {
    if (event.type === 'limit.reached') calls.open()
    else if (event.type === 'agent.crashed') answered.open()
  })
  const run = team.launch('go')
  await calls.opened
  const waits = team.waits().find(({ for: what, agent }) => agent && what.includes('budget.perTeam.tokens'))
  team.end(waits!.agent!)
  t.equal((await run.result).finalOutput, 'ok,ok')
})

t.test('what a request has besides texts is set aside too', async (t) => {
  const seen: ModelRequest[] = []
  const agents = [{ name: 'ann', maxOutputTokens: 50, tools: ['request' as const] }, { name: 'bob' }]
  const model = new FakeModel((request) => {
    seen.push(request)
    return 'ok'
  })
  const { team } = modelTeam(t, model, agents, {
    budget: { perRun: { tokens: 60 } },
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  })
  t.match((await team.execute('go')).error, { code: 'BUDGET_EXCEEDED' })
  t.equal(seen.length, 0)
})

t.test('budgets are checked', async (t) => {
  const team = (budget: object) => () =>
    testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, budget }, { model: costing(1) })
  const wrong: [budget: object, path: string][] = [
    [{ perRun: { tokens: 0 } }, 'budget.perRun.tokens'],
    [{ perRun: { tokens: 1.5 } }, 'budget.perRun.tokens'],
    [{ perRun: { token: 5 } }, 'budget.perRun.token'],
    [{ perRun: 5 }, 'budget.perRun'],
    [{ perTeam: { tokens: 5 } }, 'budget.perTeam.windowMs'],
    [{ perTeam: { tokens: 5, windowMs: 0 } }, 'budget.perTeam.windowMs'],
    [{ perAgent: {} }, 'budget.perAgent'],
  ]
  for (const [budget, path] of wrong) t.throws(team(budget), { code: 'CONFIGURATION', details: { path } }, path)
  await team({ perRun: { tokens: 5_000_000_000 }, perTeam: { perAgentTokens: 5, windowMs: 1 } })().close()
})

// The first call under a budget does not block the host by a vocabulary: it is loaded if it is needed, and by halves.

const program = fileURLToPath(new URL('../fixtures/models/with-budget.js', import.meta.url))

t.test('a call far from its limit is not counted beforehand, and one near it is', async (t) => {
  for (const [tokens, loaded] of [
    ['100000', '0'],
    ['5000', '0'],
    ['1000', '0 1 2'],
  ]) {
    const { stdout, stderr } = spawnSync(process.execPath, [program, `${tokens}`], { encoding: 'utf8' })
    t.equal(stdout, `hello 6 ${loaded}\n`, stderr.slice(0, 2_000))
  }
})
