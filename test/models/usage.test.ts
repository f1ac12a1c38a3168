/** What models cost: in events, results, runs and agents. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { testAgent } from '../../src/testing.ts'
import { where } from '../kit/lists.ts'
import { heard } from '../kit/team.ts'
import { FakeModel, USAGE } from './fake-model.ts'
import { modelTeam, played } from './teams.ts'

t.test('each call is an event', async (t) => {
  const { events } = await played(t, ['a', [new Error('down')]], async (context) => {
    await context.complete({ prompt: '1' })
    await context.complete({ prompt: '2' }).catch(() => {})
  })
  t.match(where(events, 'type', 'model.called'), [
    { agent: 'ann', model: 'default', usage: USAGE, durationMs: 0, rehearsed: false, error: null },
    { agent: 'ann', usage: { totalTokens: 0, calls: 1 }, error: { code: 'MODEL', message: /Error: down/ } },
  ])
})

t.test('what was paid counts also where there is no answer', async (t) => {
  const { team } = modelTeam(t, [[{ text: 'half' }, { usage: USAGE }, new Error('hung up')]], [{ name: 'ann' }], {
    communication: { turnRetries: 0 },
  })
  const result = await team.execute('go')
  t.match(result, { success: false, totalTokenUsage: USAGE, tokenUsage: { ann: USAGE } })
})

t.test('what no model has said is labelled wherever it appears', async (t) => {
  const model = Object.assign(new FakeModel(['as if']), { rehearsal: true })
  const { team } = modelTeam(t, model, [{ name: 'ann' }])
  const labels = heard(team, 'model.called', (event) => event.rehearsed)
  t.match(await team.execute('go'), { finalOutput: 'as if', rehearsed: true })
  t.same(labels, [true])
})

t.test('a script and an agent under test may ask a model too', async (t) => {
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script, query) => (await script.complete({ prompt: query })).text,
  }
  const { team } = modelTeam(t, ['yes'], [{ name: 'ann' }], { orchestration })
  t.match(await team.execute('go'), { finalOutput: 'yes', tokenUsage: { ann: { calls: 0 }, $orchestrator: USAGE } })
  const asks = defineAgent({
    receive: async ({ content }, context) => (await context.complete({ prompt: content })).text,
  })
  const model = new FakeModel(['hi'])
  t.match(await testAgent(asks, { model }).request('say hi'), { content: 'hi' })
  t.match(model.requests[0], { agent: 'agent', messages: [{ content: 'say hi' }] })
})

t.test('results, runs and agents add up', async (t) => {
  const { team } = modelTeam(t, () => 'ok', [{ name: 'ann' }, { name: 'bob' }])
  const run = team.launch('one')
  await run.result
  await team.execute('two')
  t.match(await run.result, {
    tokenUsage: { ann: { calls: 1 }, bob: { calls: 1 } },
    totalTokenUsage: { totalTokens: 30, calls: 2 },
    rehearsed: false,
  })
  t.match(run.usage, { totalTokens: 30, calls: 2 })
  t.match(team.getAgent('bob')?.getTokenUsage(), { totalTokens: 30, calls: 2 })
})
