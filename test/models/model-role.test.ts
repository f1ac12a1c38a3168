/** A role without code is played by a model. */
import t from 'tap'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { ask } from '../kit/team.ts'
import { USAGE } from './fake-model.ts'
import { quietly } from './notices.ts'
import { modelTeam } from './teams.ts'

t.test('a role without code answers with what its model says', async (t) => {
  const { team, model } = modelTeam(t, ['forty-two'], [{ name: 'oracle', systemPrompt: 'You know everything.' }])
  const result = await team.execute('What is it?')
  t.equal(result.finalOutput, 'forty-two')
  t.same(model.requests[0]!.messages, [
    { role: 'system', content: 'You know everything.' },
    { role: 'user', content: 'What is it?' },
  ])
  t.same(result.tokenUsage.oracle, USAGE)
  t.same(result.totalTokenUsage, USAGE)
  t.same(team.getAgent('oracle')?.getTokenUsage(), USAGE)
})

t.test('an answer without a word that its model did not end by itself fails the turn, and says why', async (t) => {
  for (const [finishReason, why] of [
    ['content_filter', /withheld it \(content_filter\)/],
    ['length', /used up before the first word\. Raise maxOutputTokens/],
  ] as const) {
    const { team } = modelTeam(t, [[{ finishReason }]], [{ name: 'ann' }])
    const none = await team.execute('What is it?')
    t.match(none, { success: false, error: { code: 'AGENT_FAILED', message: why } })
  }
})

t.test('an answer that is cut off goes on as it is, and a warning says so', async (t) => {
  for (const [finishReason, why] of [
    ['content_filter', 'the provider withheld its rest (content_filter). Ask in another way, or take another model.'],
    ['length', 'its tokens were used up (length). Raise maxOutputTokens, or ask for less.'],
  ] as const) {
    const { logger, lines } = quietly()
    const { team } = modelTeam(t, [[{ text: 'Well' }, { finishReason }], 'Whole.'], [{ name: 'ann' }], { logger })
    t.match(await team.execute('What is it?'), { success: true, finalOutput: 'Well' })
    await team.execute('And now?')
    t.strictSame(lines, [`warn The answer of "ann" was cut off: ${why}`])
  }
})

t.test('it remembers what was said in the same run, and nothing of others', async (t) => {
  const { team, model } = modelTeam(t, ['one', 'two', 'three'], [{ name: 'ann', systemPrompt: 'Count.' }], {
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        await script.request('ann', `${query} first`)
        return (await script.request('ann', `${query} second`)).content
      },
    },
  })
  await team.execute('a')
  const said = (messages: readonly ModelMessage[]) => messages.map(({ role, content }) => `${role}: ${content}`)
  t.same(said(model.requests[1]!.messages), ['system: Count.', 'user: a first', 'assistant: one', 'user: a second'])
  await ask(team, 'ann', 'b')
  t.same(said(model.requests[2]!.messages), ['system: Count.', 'user: b'])
})
