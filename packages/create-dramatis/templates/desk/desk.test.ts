import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeEval } from 'dramatis/evals'
import { testTeam } from 'dramatis/testing'
import { describe, expect, it, vi } from 'vitest'
import suite from './desk.eval.js'
import { desk } from './team.js'

// no test asks a model that costs: `npm run eval` does, where there is a key
vi.stubEnv('OPENAI_API_KEY', '')
vi.stubEnv('OPENAI_BASE_URL', '')

describe('the desk', () => {
  it('pays back once, and only when the staff agrees', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'desk-'))
    const { stateManagement, ...options } = desk(folder)
    const team = testTeam(options)
    for (const answer of ['no', 'yes', 'yes']) {
      const run = team.launch('Refund A-7.', { caller: 'ann' })
      for await (const event of run.events({ types: ['question'] }))
        if (event.type === 'question') await run.answer(event.questionId, answer)
      await run.result
    }
    expect(stateManagement).toBeDefined()
    expect(readFileSync(join(folder, 'refunds.jsonl'), 'utf8').trim().split('\n')).toHaveLength(1)
    await team.close()
  })
})

describeEval(suite, { describe, it })
