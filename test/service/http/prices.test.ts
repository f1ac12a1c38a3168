/** The cost of a task follows from prices, and says what it leaves out. */

import type { Test } from 'tap'
import t from 'tap'
import type { ModelClient } from '../../../src/index.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { callerOf, send } from './stage.ts'

const model: ModelClient = {
  offline: true,
  async *complete() {
    yield { text: 'bought' }
    const usage = { inputTokens: 1_000_000, cachedTokens: 250_000, outputTokens: 500_000, totalTokens: 1_500_000 }
    yield { usage: { ...usage, calls: 1 }, finishReason: 'stop' }
  },
}

async function costWith(t: Test, prices: HttpApiOptions['prices']) {
  const team = testTeam({ agents: [{ name: 'writer' }], orchestration: { strategy: 'sequential' } }, { model })
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, prices })
  t.teardown(() => api.close({ teams: true }))
  const { body } = await send(api, 'POST', '/api/tasks', { body: { query: 'buy' } })
  return { cost: body.cost }
}

t.test('a call costs its input, its cached input and its output', async (t) => {
  const price = { input: 2, cachedInput: 1, output: 10 }
  const { cost } = await costWith(t, { default: price })
  t.same(cost, { estimate: 0.75 * 2 + 0.25 + 5, byModel: { default: 6.75 }, unpriced: [] })
})

t.test('cached input costs as other input where no price is given for it', async (t) => {
  t.equal((await costWith(t, { default: { input: 2, output: 10 } })).cost.estimate, 7)
})

t.test('models without a price are named; without prices there is no cost', async (t) => {
  t.same((await costWith(t, {})).cost, { estimate: 0, byModel: {}, unpriced: ['default'] })
  t.equal((await costWith(t, undefined)).cost, null)
})

t.test('a wrong price is refused', async (t) => {
  const wrong = { default: { input: 2, output: -1 } }
  await t.rejects(costWith(t, wrong), { code: 'CONFIGURATION', message: /^prices\.default\.output: got -1/ })
})
