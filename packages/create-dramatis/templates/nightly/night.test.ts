import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeEval } from 'dramatis/evals'
import { scriptedModel, testTeam } from 'dramatis/testing'
import { describe, expect, it, vi } from 'vitest'
import suite from './night.eval.js'
import reader from './reader.js'
import options from './team.js'

// no test asks a model that costs: `npm run eval` does, where there is a key
vi.stubEnv('OPENAI_API_KEY', '')
vi.stubEnv('OPENAI_BASE_URL', '')

describe('a night', () => {
  it('reads each document once, and reports on all', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'night-'))
    for (const name of ['a.md', 'b.md']) writeFileSync(join(folder, name), `The text of ${name}.`)
    const model = scriptedModel([
      { when: 'a.md', reply: 'First.' },
      { when: 'b.md', reply: 'Second.' },
    ])
    const team = testTeam(options, { model, modules: { reader } })
    const { finalOutput } = await team.execute(folder)
    expect(finalOutput).toBe('# 2 documents\n\n- a.md: First.\n- b.md: Second.\n')
    model.assertDone()
    await team.close()
  })
})

describeEval(suite, { describe, it })
