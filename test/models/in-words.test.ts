/** What a model is shown of a message that says the same in words and as data. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { modelTeam } from './teams.ts'

const asking = (metadata: object): OrchestrationConfig => ({
  strategy: 'custom',
  run: async (script, query) =>
    (await script.request('ann', query, { structuredData: { secret: 42 }, metadata })).content,
})

t.test('data stands below the words, unless the words say it all', async (t) => {
  for (const [metadata, shows] of [
    [{}, true],
    [{ inWords: true }, false],
  ] as const) {
    const { team, model } = modelTeam(t, ['fine'], [{ name: 'ann' }], { orchestration: asking(metadata) })
    const { messageHistory } = await team.execute('What is it?')
    const shown = textOf(model.requests[0]?.messages.at(-1)?.content ?? '')
    t.match(shown, /^What is it\?/)
    t.equal(shown.includes('42'), shows)
    t.match(
      messageHistory.find(({ recipient }) => recipient === 'ann'),
      { structuredData: { secret: 42 } },
      'code has it in any case',
    )
  }
})

t.test('a debater reads each argument once', async (t) => {
  const answers = ({ agent, jsonSchema }: { agent?: string; jsonSchema?: object }) => {
    if (agent !== 'judge') return JSON.stringify({ argument: `${agent} is right`, evidence: ['a fact'] })
    return jsonSchema ? JSON.stringify({ winner: 'pro', reasons: '' }) : 'pro it is'
  }
  const { team, model } = modelTeam(t, answers, [{ name: 'pro' }, { name: 'con' }, { name: 'judge' }], {
    orchestration: { strategy: 'debate', debaters: ['pro', 'con'], judge: 'judge', maxRounds: 2 },
  })
  t.equal((await team.execute('Which?')).finalOutput, 'pro it is')
  const last = model.requests.findLast(({ agent }) => agent === 'con')?.messages ?? []
  const read = last.filter(({ role }) => role === 'user').map(({ content }) => textOf(content))
  for (const [round, text] of read.entries()) t.equal(text.split('pro is right').length - 1, 1, `round ${round + 1}`)
})
