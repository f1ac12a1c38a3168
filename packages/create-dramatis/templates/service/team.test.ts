import { describeEval } from 'dramatis/evals'
import { testAgent } from 'dramatis/testing'
import { describe, expect, it } from 'vitest'
import counter from './counter.js'
import suite from './team.eval.js'

describe('the counter', () => {
  it('counts words, whatever stands between them', async () => {
    const reply = await testAgent(counter).request(' one\n two ')
    expect(reply.structuredData).toEqual({ words: 2 })
  })
})

describeEval(suite, { describe, it })
