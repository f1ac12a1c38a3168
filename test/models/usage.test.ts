/** What models cost: in events, results, runs and agents. */
import t from 'tap'
import { USAGE } from './fake-model.ts'
import { modelTeam, played } from './teams.ts'

t.test('each call is an event', async (t) => {
  const { events } = await played(t, ['a', [new Error('down')]], async (context) => {
    await context.complete({ prompt: '1' })
    await context.complete({ prompt: '2' }).catch(() => {})
  })
  t.match(
    events.filter(({ type }) => type === 'model.called'),
    [
      { agent: 'ann', model: 'default', usage: USAGE, durationMs: 0, rehearsed: false, error: null },
      { agent: 'ann', usage: { totalTokens: 0, calls: 1 }, error: { code: 'MODEL', message: /Error: down/ } },
    ],
  )
})

t.test('what was paid counts also where there is no answer', async (t) => {
  const { team } = modelTeam(t, [[{ text: 'half' }, { usage: USAGE }, new Error('hung up')]], [{ name: 'ann' }])
  const result = await team.execute('go')
  t.match(result, { success: false, totalTokenUsage: USAGE, tokenUsage: { ann: USAGE } })
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
