/** A budget that is used up says so over HTTP, and asks to come back only where that helps. */

import type { Test } from 'tap'
import t from 'tap'
import type { BudgetConfig, ModelClient } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { callerOf, type Sent, send } from './stage.ts'

/** A model whose calls take 600 tokens each. */
const model: ModelClient = {
  offline: true,
  async *complete() {
    yield { text: 'written' }
    yield { usage: { inputTokens: 500, outputTokens: 100, totalTokens: 600, calls: 1 }, finishReason: 'stop' }
  },
}

function stage(t: Test, budget: BudgetConfig) {
  const agents = ['first', 'second'].map((name) => ({ name, maxOutputTokens: 500 }))
  const team = testTeam({ agents, orchestration: { strategy: 'sequential' }, budget }, { model })
  const api = httpApi({ teams: { desk: team }, authorize: callerOf })
  t.teardown(() => api.close({ teams: true }))
  return (path: string, body: object): Promise<Sent> => send(api, 'POST', path, { body })
}

const WINDOW: BudgetConfig = { perTeam: { tokens: 1_000, windowMs: 90_000 } }
const NEVER: Record<string, BudgetConfig> = {
  'perRun.tokens': { perRun: { tokens: 1_000 } },
  'perRun.perAgentTokens': { perRun: { perAgentTokens: 400 } },
  'perTeam that no call ever fits into': { perTeam: { tokens: 100, windowMs: 90_000 } },
}

t.test('a window that frees tokens: 429 with the seconds until then, in each shape', async (t) => {
  const ask = stage(t, WINDOW)
  const { status, headers, body } = await ask('/api/tasks', { query: 'write' })
  t.match(
    { status, body },
    {
      status: 429,
      body: {
        status: 429,
        code: 'BUDGET_EXCEEDED',
        title: 'A budget is used up',
        detail: /budget\.perTeam\.tokens/,
        task: { status: 'failed', error: { status: 429, code: 'BUDGET_EXCEEDED' } },
      },
    },
  )
  const seconds = Number(headers.get('retry-after'))
  t.ok(Number.isInteger(seconds) && seconds > 0 && seconds <= 90, `${seconds} s`)
  const asked = { model: 'desk', messages: [{ role: 'user', content: 'write' }] }
  const chat = await ask('/v1/chat/completions', asked)
  t.match(chat, { status: 429, body: { error: { code: 'BUDGET_EXCEEDED', type: 'rate_limit_error' } } })
  t.match(chat.headers.get('retry-after'), /^\d+$/)
})

for (const [name, budget] of Object.entries(NEVER))
  t.test(`${name}: 422, and no time to come back`, async (t) => {
    const ask = stage(t, budget)
    const { status, headers, body } = await ask('/api/tasks', { query: 'write' })
    t.match({ status, body }, { status: 422, body: { status: 422, code: 'BUDGET_EXCEEDED' } })
    t.equal(headers.get('retry-after'), null)
    const chat = await ask('/v1/chat/completions', { model: 'desk', messages: [{ role: 'user', content: 'write' }] })
    t.match(chat, { status: 422, body: { error: { code: 'BUDGET_EXCEEDED' } } })
  })
