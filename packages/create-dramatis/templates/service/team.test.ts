import { describeEval } from 'dramatis/evals'
import { testAgent } from 'dramatis/testing'
import { describe, expect, it, vi } from 'vitest'
import counter from './counter.js'
import suite from './team.eval.js'

// no test asks a model that costs: `npm run eval` does, where there is a key
vi.stubEnv('OPENAI_API_KEY', '')
vi.stubEnv('OPENAI_BASE_URL', '')

describe('the counter', () => {
  it('counts words, whatever stands between them', async () => {
    const reply = await testAgent(counter).request(' one\n two ')
    expect(reply.structuredData).toEqual({ words: 2 })
  })
})

describeEval(suite, { describe, it })
