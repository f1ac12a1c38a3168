import { describeEval } from 'dramatis/evals'
import { scriptedModel, testTeam } from 'dramatis/testing'
import { describe, expect, it, vi } from 'vitest'
import suite from './team.eval.js'
import team from './team.js'

// no test asks a model that costs: `npm run eval` does, where there is a key
vi.stubEnv('OPENAI_API_KEY', '')
vi.stubEnv('OPENAI_BASE_URL', '')

describe('the team', () => {
  it('asks the buyer for prices and answers with a plan', async () => {
    const plan = { items: [{ item: 'cake', count: 2, euros: 28 }], totalEuros: 56 }
    const model = scriptedModel([
      { agent: 'host', reply: { tasks: [{ worker: 'buyer', task: 'What does a cake cost?' }] } },
      { agent: 'buyer', toolCall: { name: 'price', input: { item: 'cake' } } },
      { agent: 'buyer', when: '28', reply: 'A cake costs 28 EUR.' },
      { agent: 'host', when: '28 EUR', reply: plan },
    ])
    const tested = testTeam(team, { model })
    const { data } = await tested.execute('Two cakes.')
    expect(data).toEqual(plan)
    model.assertDone()
    await tested.close()
  })
})

describeEval(suite, { describe, it })
