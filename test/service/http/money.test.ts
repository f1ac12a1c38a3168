/** Money over HTTP: budgets of callers and tenants, limits of a task, prices and what a task has cost. */
import t, { type Test } from 'tap'
import type { BudgetConfig, ModelClient, MultiAgentPatternOptions } from '../../../src/index.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { gate } from '../../kit/team.ts'
import { callerOf, EVERYTHING, type Sent, send } from './stage.ts'

/** A model whose calls cost 0.60 EUR each. */
const model: ModelClient = {
  offline: true,
  async *complete() {
    yield { text: 'written' }
    yield { usage: { inputTokens: 500, outputTokens: 100, totalTokens: 600, calls: 1 }, finishReason: 'stop' }
  },
}
const prices = { currency: 'EUR', models: { default: { input: 0, output: 6_000 } } }
const budget: BudgetConfig = { perTenant: { each: { money: 1 }, period: 'day', timeZone: 'Europe/Berlin' } }

function stage(t: Test, options: Partial<MultiAgentPatternOptions>, client = model) {
  const team = testTeam(
    { agents: [{ name: 'writer', maxOutputTokens: 100 }], orchestration: { strategy: 'sequential' }, ...options },
    { model: client },
  )
  const api = httpApi({ teams: { desk: team }, authorize: callerOf })
  t.teardown(() => api.close({ teams: true }))
  return (method: string, path: string, caller = 'ann:run:acme', body?: object, headers?: Record<string, string>) =>
    send(api, method, path, { caller, ...(body && { body }), ...(headers && { headers }) })
}

t.test('a task has its money; a tenant without money gets 402, and the others are served', async (t) => {
  const ask = stage(t, { prices, budget })
  const write = (caller: string) => ask('POST', '/api/tasks', caller, { query: 'write' })
  const first = await write('ann:run:acme')
  const money = { amount: 0.6, currency: 'EUR', byModel: { default: 0.6 } }
  t.match(first, { status: 200, body: { money, cost: null } })
  t.match((await ask('GET', '/api/tasks')).body.tasks, [{ money }])
  const second = await write('ann:run:acme')
  t.match(second, {
    status: 402,
    body: {
      code: 'BUDGET_EXCEEDED',
      details: { option: 'budget.perTenant.each.money', tenant: 'acme', unit: 'EUR', used: 0.6, limit: 1, needs: 0.6 },
      task: { status: 'failed', money: { amount: 0 } },
    },
  })
  t.type(second.body.details.freeAt, 'number')
  const chat = { model: 'desk', messages: [{ role: 'user', content: 'write' }] }
  t.match(await ask('POST', '/v1/chat/completions', 'ann:run:acme', chat), {
    status: 402,
    body: { error: { code: 'BUDGET_EXCEEDED', type: 'insufficient_quota' } },
  })
  t.equal((await write('bob:run:other')).status, 200)
})

t.test('a tenant that has spent all begins no task', async (t) => {
  const ask = stage(t, { prices, budget: { perTenant: { each: { money: 0.6 }, period: 'month' } } })
  const write = () => ask('POST', '/api/tasks', 'ann:run:acme', { query: 'write' })
  t.equal((await write()).status, 200)
  const refused = await write()
  t.match(refused, {
    status: 402,
    body: { detail: /^No money is left for tenant "acme": 0\.60 of 0\.60 EUR this month/ },
  })
  t.equal(refused.body.task, undefined)
  t.equal((await ask('GET', '/api/tasks')).body.tasks.length, 1)
})

t.test('a caller sees the budgets of its own tenant; who watches all sees each', async (t) => {
  const ask = stage(t, { prices, budget })
  for (const tenant of ['acme', 'other']) await ask('POST', '/api/tasks', `ann:run:${tenant}`, { query: 'write' })
  const acme = { option: 'budget.perTenant.each.money', tenant: 'acme', unit: 'EUR', used: 0.6, held: 0, limit: 1 }
  t.match((await ask('GET', '/api/budgets')).body, { budgets: { length: 1, 0: acme } })
  t.match((await ask('GET', '/api/budgets?tenant=acme')).body, { budgets: { length: 1 } })
  t.equal((await ask('GET', '/api/budgets?tenant=other')).status, 403)
  t.equal((await ask('GET', '/api/budgets', 'ann:run')).status, 403)
  t.match((await ask('GET', '/api/budgets', EVERYTHING)).body, { budgets: { length: 2 } })
  t.match((await ask('GET', '/api/budgets?tenant=acme', EVERYTHING)).body, { budgets: { length: 1, 0: acme } })
  const { headers, body } = await ask('GET', '/metrics', EVERYTHING)
  t.equal(headers.get('content-type')?.startsWith('text/plain'), true)
  t.match(body, /dramatis_model_money_total\{team="desk",model="default",tenant="acme"(,[^}]*)?\} 0\.6\n/)
  t.match(body, /dramatis_budget_used\{team="desk",option="budget\.perTenant\.each\.money",tenant="acme"[^}]*\} 0\.6\n/)
})

/** What two other tenants have used, and the limit of the team, as texts would have them. */
const SUMS = /(?<![\w.])1(?:\.20?|\.37|200|250)(?![\w.-])/

for (const [name, limit] of Object.entries({
  money: { money: 1.37, period: 'day' },
  tokens: { tokens: 1_250, windowMs: 90_000 },
} satisfies Record<string, BudgetConfig['perTeam']>))
  t.test(`a caller with a tenant reads nothing of what the team has used of its ${name}`, async (t) => {
    const ask = stage(t, { prices, budget: { perTeam: limit } })
    for (const tenant of ['zeta', 'eta']) await ask('POST', '/api/tasks', `zoe:run:${tenant}`, { query: 'write' })
    const refused = await ask('POST', '/api/tasks', 'ann:run:acme', { query: 'write' })
    t.match(refused, { status: name === 'money' ? 402 : 429, body: { code: 'BUDGET_EXCEEDED' } })
    t.match(refused.body.detail, /^No (money|tokens) is|are left for a call of agent "writer" of the team; the call/)
    t.match(refused.body.details, { option: `budget.perTeam.${name}`, freeAt: Number })
    const chat = { model: 'desk', messages: [{ role: 'user', content: 'write' }] }
    const { id } = refused.body.task
    const [zoes] = (await ask('GET', '/api/tasks', 'zoe:run:eta')).body.tasks
    const shown = [
      refused,
      await ask('POST', '/v1/chat/completions', 'ann:run:acme', chat),
      await ask('POST', '/v1/chat/completions', 'ann:run:acme', { ...chat, stream: true }),
      ...(await Promise.all(
        ['', '/events', '/trace', '/trace?as=digest', '/messages'].map((path) =>
          ask('GET', `/api/tasks/${id}${path}`, 'ann:run:acme'),
        ),
      )),
      await ask('GET', '/api/budgets', 'ann:run,watch:acme'),
      await ask('GET', `/api/tasks/${zoes.id}/events?types=budget`, 'zoe:run:eta'), // its call has reached 80 %
    ]
    for (const { body } of shown) t.notMatch(JSON.stringify(body), SUMS)
    const known = await ask('POST', '/api/tasks', 'op:run', { query: 'write' })
    t.match(known.body.detail, SUMS, 'a caller without a tenant may know')
  })

/** A model that answers once it may. */
function late(): { client: ModelClient; answer: () => void } {
  const may = gate()
  const client: ModelClient = {
    offline: true,
    async *complete(call) {
      await may.opened
      yield* model.complete(call)
    },
  }
  return { client, answer: may.open }
}

t.test('a tenant whose call waits for what another holds is not told of how much', async (t) => {
  const { client, answer } = late()
  const ask = stage(t, { prices, budget: { perTeam: { money: 1.37, period: 'day' } } }, client)
  const later = { prefer: 'respond-async' }
  const callers = ['zoe:run:zeta', 'ann:run:acme', 'op:run']
  const tasks = []
  for (const caller of [...callers, ...callers])
    tasks.push({ caller, ...(await ask('POST', '/api/tasks', caller, { query: 'write' }, later)).body })
  answer()
  for (const { id, caller } of tasks.slice(3)) {
    const { body } = await ask('GET', `/api/tasks/${id}/events?types=limit.reached,run.finished`, caller)
    t.match(body, /"limit.reached","seq":.*"option":"budget.perTeam.money"/)
    if (caller === 'op:run') t.match(body, SUMS, 'a caller without a tenant may know')
    else t.notMatch(body, SUMS)
  }
})

t.test('a tenant that has as many runs as it may have gets 429, while a full team is 503', async (t) => {
  const { client, answer } = late()
  const ask = stage(t, { tenants: { maxConcurrentRuns: 1, maxQueuedRuns: 0 } }, client)
  const post = (caller: string) => ask('POST', '/api/tasks', caller, { query: 'write' }, { prefer: 'respond-async' })
  t.equal((await post('ann:run:acme')).status, 202)
  const refused = await post('ann:run:acme')
  const details = { option: 'tenants.maxQueuedRuns', tenant: 'acme' }
  t.match(refused, { status: 429, body: { code: 'TEAM_OVERLOADED', details } })
  t.match(refused.headers.get('retry-after'), /^[1-9]/)
  t.equal((await post('bob:run:other')).status, 202)
  const small = stage(t, { maxConcurrentRuns: 2, maxQueuedRuns: 0 }, client)
  const begin = (caller: string) => small('POST', '/api/tasks', caller, { query: 'write' }, { prefer: 'respond-async' })
  for (const caller of ['ann:run:acme', 'bob:run:other']) t.equal((await begin(caller)).status, 202)
  const full = await begin('eve:run:third')
  t.match(full, { status: 503, body: { code: 'TEAM_OVERLOADED', detail: /^The runs under way/ } })
  t.same(full.body.details, {}, 'nothing of what others do')
  t.match((await begin('op:run')).body, { detail: /^2 runs are under way/, details: { running: 2, queued: 0 } })
  answer()
})

t.test('prices stand in one place', async (t) => {
  const team = testTeam({ agents: [{ name: 'writer' }], orchestration: { strategy: 'sequential' }, prices }, { model })
  t.teardown(() => team.close())
  const make = () => httpApi({ teams: { desk: team }, authorize: callerOf, prices: prices.models })
  t.throws(make, { code: 'CONFIGURATION', message: /prices beside those of team "desk"/ })
})

// A budget that is used up says so over HTTP, and asks to come back only where that helps.

function limited(t: Test, budget: BudgetConfig) {
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
  const ask = limited(t, WINDOW)
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
    const ask = limited(t, budget)
    const { status, headers, body } = await ask('/api/tasks', { query: 'write' })
    t.match({ status, body }, { status: 422, body: { status: 422, code: 'BUDGET_EXCEEDED' } })
    t.equal(headers.get('retry-after'), null)
    const chat = await ask('/v1/chat/completions', { model: 'desk', messages: [{ role: 'user', content: 'write' }] })
    t.match(chat, { status: 422, body: { error: { code: 'BUDGET_EXCEEDED' } } })
  })

// The cost of a task follows from prices, and says what it leaves out.

const priced: ModelClient = {
  offline: true,
  async *complete() {
    yield { text: 'bought' }
    const usage = { inputTokens: 1_000_000, cachedTokens: 250_000, outputTokens: 500_000, totalTokens: 1_500_000 }
    yield { usage: { ...usage, calls: 1 }, finishReason: 'stop' }
  },
}

async function costWith(t: Test, prices: HttpApiOptions['prices']) {
  const team = testTeam({ agents: [{ name: 'writer' }], orchestration: { strategy: 'sequential' } }, { model: priced })
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
