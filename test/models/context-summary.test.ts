/** What `getContextSummary` says of an agent that a model plays. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import { countMessages } from '../../src/actors/model/tokens.ts'
import { localTeam } from '../kit/team.ts'
import { modelTeam } from './teams.ts'

t.test('says what the context holds, of the run that it heard of last', async (t) => {
  const { team, model } = modelTeam(t, () => 'Well, well.', [
    { name: 'ann', systemPrompt: 'Answer.', maxTokens: 1_000 },
  ])
  const { getContextSummary } = team.getAgent('ann')!
  t.match(
    getContextSummary(),
    /its context holds 0 messages, \d+ of 1000 tokens \(1 %\); it is summarized beyond 800 tokens\.$/,
  )
  await team.execute('hello '.repeat(100))
  const tokens = countMessages([...model.requests[0]!.messages, { role: 'assistant', content: 'Well, well.' }])
  const percent = Math.round(tokens / 10)
  t.match(
    getContextSummary(),
    `holds 2 messages, ${tokens} of 1000 tokens (${percent} %); it is summarized beyond 800 tokens.`,
  )
  await team.execute('hi')
  t.match(getContextSummary(), /holds 2 messages, \d\d of 1000/)
})

t.test('says what was summarized', async (t) => {
  const { team, model } = modelTeam(
    t,
    ({ messages }) => (/You sum up/.test(textOf(messages[0]?.content ?? '')) ? 'They "spoke".' : 'yes '.repeat(20)),
    [
      {
        name: 'ann',
        systemPrompt: 'Go.',
        maxTokens: 1_500,
        contextStrategy: { strategy: 'append_until_full', threshold: 0.5 },
      },
    ],
    {
      orchestration: {
        strategy: 'custom',
        async run(script) {
          for (let i = 0; i < 15; i++) await script.request('ann', `${i} ${'hello '.repeat(30)}`)
          return ''
        },
      },
    },
  )
  await team.execute('go')
  const tokens = countMessages([...model.requests.at(-1)!.messages, { role: 'assistant', content: 'yes '.repeat(20) }])
  t.match(team.getAgent('ann')?.getContextSummary(), `${tokens} of 1500 tokens`)
  t.match(
    team.getAgent('ann')?.getContextSummary(),
    /of 1500 tokens \(\d+ %\); it is summarized beyond 750 tokens; \d+ messages are left out, and the last summary is: "They \\"spoke\\"\."\.$/,
  )
})

t.test('hierarchical says what is left out', async (t) => {
  const { team } = modelTeam(t, () => 'yes', [
    { name: 'ann', contextStrategy: { strategy: 'hierarchical', historyKeep: 1 } },
  ])
  for (const query of ['a', 'b', 'c']) await team.execute(query, { threadId: '1' })
  t.match(
    team.getAgent('ann')?.getContextSummary(),
    /holds 4 messages, \d+ of 128000 tokens \(0 %\); 2 messages are left out\.$/,
  )
})

t.test('code keeps its own', async (t) => {
  const team = localTeam(t, { ann: () => 'ok' })
  t.match(team.getAgent('ann')?.getContextSummary(), /its code keeps its own context\.$/)
})
