/** What runs may spend, also a thousand of them at random; `DRAMATIS_SEED` plays one seed again. */
import t from 'tap'
import { BudgetExceededError } from '../../../src/shared/errors.ts'
import { pluck } from '../../kit/lists.ts'
import { oneAccount, type Pending, settled } from './accounts.ts'
import { type Outcome, playRuns } from './many-runs.ts'

const states = async (...claims: Pending[]) => {
  await settled()
  return claims.map(({ state }) => state)
}

t.test('what a call can cost is held before it, and what it did cost is used after it', async (t) => {
  const { account, ask } = oneAccount({ total: 1_000 })
  const call = ask('ann', 300)
  await call.decided
  t.same([account.used, account.held], [0, 300])
  call.reservation!.settle(120)
  t.same([account.used, account.held], [120, 0])
  call.reservation!.settle(120)
  t.same([account.used, account.held], [120, 0], 'once')
})

t.test('a call that fails gives back what it held', async (t) => {
  const { account, ask } = oneAccount({ total: 1_000 })
  const call = ask('ann', 1_000)
  await call.decided
  call.reservation!.settle(0)
  t.same([account.used, account.held], [0, 0])
})

t.test('a call that can never fit is refused at once, with what is used and what to do', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const first = ask('ann', 600)
  await first.decided
  first.reservation!.settle(600)
  const call = ask('ann', 500)
  t.same(await states(call), ['refused'])
  t.ok(call.error instanceof BudgetExceededError)
  t.match(call.error, {
    code: 'BUDGET_EXCEEDED',
    message:
      'A model call of agent "ann" does not fit into budget.perRun.tokens: of 1000 tokens 600 are used, and the call can cost 500. Raise the limit',
    details: { agent: 'ann', path: 'budget.perRun.tokens', limit: 1_000, used: 600, held: 0, kept: 0, asked: 500 },
  })
})

t.test('a call waits for calls under way, which can come back cheaper', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const first = ask('ann', 800)
  const second = ask('bob', 700)
  t.same(await states(first, second), ['granted', 'waits'])
  first.reservation!.settle(300)
  t.same(await states(second), ['granted'])
})

t.test('a call that waited in vain is refused then', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const first = ask('ann', 800)
  const second = ask('bob', 700)
  t.same(await states(first, second), ['granted', 'waits'])
  first.reservation!.settle(301)
  t.same(await states(second), ['refused'])
  t.match(second.error, { code: 'BUDGET_EXCEEDED', details: { used: 301, asked: 700 } })
})

t.test('a call that costs more than it could is counted in full, and nothing comes after it', async (t) => {
  const { account, ask } = oneAccount({ total: 1_000 })
  const first = ask('ann', 900)
  await first.decided
  first.reservation!.settle(1_200)
  t.equal(account.used, 1_200)
  t.same(await states(ask('ann', 1)), ['refused'])
})

t.test('each agent has a limit of its own, and waits for its own calls alone', async (t) => {
  const { ask } = oneAccount({ perAgent: 500 })
  const calls = [ask('ann', 400), ask('bob', 500), ask('ann', 400)]
  t.same(await states(...calls), ['granted', 'granted', 'waits'])
  const tooMuch = ask('bob', 501)
  t.same(await states(tooMuch), ['refused'])
  t.match(tooMuch.error, { details: { path: 'budget.perRun.perAgentTokens', limit: 500 } })
  calls[1]!.reservation!.settle(0)
  t.same(await states(calls[2]!), ['waits'])
  calls[0]!.reservation!.settle(100)
  t.same(await states(calls[2]!), ['granted'])
})

t.test('a call counts in all of its accounts, or in none', async (t) => {
  const run = oneAccount({ total: 1_000 })
  const team = oneAccount({ total: 500 })
  const accounts = [run.account, team.account]
  const refused = run.ask('ann', 600, { accounts })
  t.same(await states(refused), ['refused'])
  t.same([run.account.held, team.account.held], [0, 0])
  const call = run.ask('ann', 400, { accounts })
  await call.decided
  t.same([run.account.held, team.account.held], [400, 400])
  call.reservation!.settle(10)
  t.same([run.account.used, team.account.used, team.account.held], [10, 10, 0])
})

t.test('its signal ends a wait, and others go on', async (t) => {
  const { account, ask } = oneAccount({ total: 1_000 })
  const controller = new AbortController()
  const reason = new Error('enough')
  const first = ask('ann', 600)
  const second = ask('bob', 900, { signal: controller.signal })
  const third = ask('cid', 300)
  t.same(await states(first, second, third), ['granted', 'waits', 'waits'])
  controller.abort(reason)
  t.same(await states(second, third), ['refused', 'granted'])
  t.equal(second.error, reason)
  t.same([account.used, account.held], [0, 900])
  t.equal((await states(ask('dan', 1, { signal: controller.signal })))[0], 'refused')
})

t.test('what is before the window counts no more', async (t) => {
  const { account, ask, time } = oneAccount({ total: 1_000, windowMs: 60_000 })
  for (const cost of [500, 400]) {
    const call = ask('ann', cost)
    await call.decided
    call.reservation!.settle(cost)
    time.now += 10_000
  }
  const early = ask('ann', 300)
  t.same(await states(early), ['refused'])
  t.match(early.error, { message: /Enough is free again in 40 s\./, details: { used: 900, retryAfterMs: 40_000 } })
  time.now += 39_999
  t.equal(account.used, 900)
  time.now += 1
  t.equal(account.used, 400)
  t.same(await states(ask('ann', 600)), ['granted'])
})

t.test('an agent at work keeps its fair share, however much others ask for', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const small = ask('ann', 10)
  const greedy = [ask('bob', 200), ask('bob', 200), ask('bob', 200)]
  t.same(await states(small, ...greedy), ['granted', 'granted', 'granted', 'waits'])
  for (const call of greedy) call.reservation?.settle(200)
  t.same(await states(greedy[2]!), ['refused'])
  t.match(greedy[2]!.error, { message: /485 are kept for other agents at work/, details: { kept: 485 } })
  t.same(await states(ask('ann', 485)), ['granted'])
})

t.test('what idle agents do not use is lent', async (t) => {
  const { ask, rest } = oneAccount({ total: 1_000 })
  const small = ask('ann', 10)
  await small.decided
  small.reservation!.settle(10)
  rest('ann')
  const all = ask('bob', 990)
  t.same(await states(all), ['granted'])
  all.reservation!.settle(500)
  t.same(await states(ask('ann', 245)), ['granted'], 'of what is left it has its share again')
})

t.test('a call goes on when what it waits for is lent', async (t) => {
  const { ask, rest } = oneAccount({ total: 1_000 })
  const idle = ask('ann', 10)
  await idle.decided
  idle.reservation!.settle(0)
  const calls = [ask('bob', 100), ask('bob', 450)]
  t.same(await states(...calls), ['granted', 'waits'])
  rest('ann')
  t.same(await states(...calls), ['granted', 'granted'])
})

t.test('an agent that is gone before its call, which costs nothing, is over is forgotten', async (t) => {
  const { account, ask, rest } = oneAccount({ perAgent: 1_000, windowMs: 1_000 })
  const call = ask('ann', 10)
  await call.decided
  rest('ann')
  call.reservation!.settle(0)
  t.same([...account.uses()], [])
})

t.test('who has called nothing within the window has no part in it', async (t) => {
  const { ask, rest, time } = oneAccount({ total: 1_000, windowMs: 1_000 })
  for (const agent of ['ann', 'bob', 'cid']) {
    const call = ask(agent, 10)
    await call.decided
    call.reservation!.settle(10)
    rest(agent)
  }
  time.now = 2_000
  t.same(await states(ask('dan', 1), ask('eve', 1)), ['granted', 'granted'])
  const tooMuch = ask('eve', 900)
  t.same(await states(tooMuch), ['refused'])
  t.match(tooMuch.error, { details: { kept: 498 } }, 'a half, not a fifth')
})

t.test('a share that is too small for its own agent is lent too', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const large = [ask('ann', 600), ask('bob', 600)]
  t.same(await states(...large), ['granted', 'waits'])
  large[0]!.reservation!.settle(100)
  t.same(await states(large[1]!), ['granted'])
})

t.test('calls within their share go before those that borrow; those go by priority, then by age', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const holder = ask('ann', 700)
  const order: string[] = []
  const claims = [
    { agent: 'low', priority: 1 },
    { agent: 'old', priority: 2 },
    { agent: 'new', priority: 2 },
    { agent: 'high', priority: 3 },
  ].map(({ agent, priority }) => {
    const claim = ask(agent, 800, { priority })
    void claim.decided.then(() => {
      order.push(agent)
      claim.reservation?.settle(0)
    })
    return claim
  })
  t.same(await states(holder, ...claims), ['granted', 'waits', 'waits', 'waits', 'waits'])
  t.same(await states(ask('due', 50), ask('more', 51)), ['granted', 'waits'])
  holder.reservation!.settle(0)
  await settled()
  t.same(order, ['high', 'old', 'new', 'low'])
})

t.test('nobody is passed for ever by those of higher priority', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  let running = ask('high', 1_000, { priority: 9 })
  await running.decided
  const low = ask('low', 1_000, { priority: 0 })
  let rounds = 0
  for (; low.state === 'waits' && rounds < 100; rounds++) {
    const next = ask('high', 1_000, { priority: 9 })
    running.reservation!.settle(0)
    await settled()
    running = next
  }
  t.equal(low.state, 'granted')
  t.equal(rounds, 9)
})

t.test('no call takes what one before it waits for', async (t) => {
  const { ask } = oneAccount({ total: 1_000 })
  const [first, second] = [ask('ann', 400), ask('ann', 400)]
  const large = ask('bob', 900, { priority: 1 })
  const small = ask('cid', 190)
  t.same(await states(first, second, large, small), ['granted', 'granted', 'waits', 'waits'])
  first.reservation!.settle(0)
  t.same(await states(large, small), ['waits', 'waits'])
  second.reservation!.settle(0)
  t.same(await states(large, small), ['granted', 'waits'])
})

t.test('a limit that comes near or is reached is told, once', async (t) => {
  const { ask, levels } = oneAccount({ total: 1_000, perAgent: 900 })
  const spend = async (agent: string, tokens: number) => {
    const call = ask(agent, tokens)
    await call.decided
    call.reservation?.settle(tokens)
  }
  await spend('ann', 700)
  t.same(levels, [])
  await spend('ann', 100)
  await spend('ann', 10)
  t.same(levels.splice(0), [
    { agent: 'ann', used: 800, limit: 900 },
    { agent: null, used: 800, limit: 1_000 },
  ])
  await spend('ann', 91)
  t.same(levels.splice(0), [{ agent: 'ann', used: 810, limit: 900 }])
  await spend('bob', 500)
  await spend('bob', 500)
  t.same(levels.splice(0), [{ agent: null, used: 810, limit: 1_000 }])
  await spend('bob', 190)
  t.same(levels, [])
})

t.test('a limit of a window is told of again after it was far', async (t) => {
  const { ask, levels, time } = oneAccount({ total: 100, windowMs: 1_000 })
  for (let round = 0; round < 3; round++, time.now += 2_000) {
    const call = ask('ann', 90)
    await call.decided
    call.reservation!.settle(90)
    await ask('ann', 20).decided
    await ask('ann', 20).decided
  }
  t.same(pluck(levels, 'used'), [90, 90, 90, 90, 90, 90])
})

t.test('each agent has a window of its own', async (t) => {
  const { ask, levels, time } = oneAccount({ perAgent: 100, windowMs: 1_000 })
  const spend = async (agent: string) => {
    const call = ask(agent, 90)
    await call.decided
    call.reservation!.settle(90)
  }
  await spend('bob')
  time.now = 500
  await spend('ann')
  time.now = 600
  const early = ask('ann', 20)
  t.same(await states(early), ['refused'])
  t.match(early.error, { details: { retryAfterMs: 900 } })
  levels.length = 0
  time.now = 1_600
  await spend('ann')
  t.same(levels, [{ agent: 'ann', used: 90, limit: 100 }])
})

// A thousand runs with random limits, sizes, numbers of agents and failures; `DRAMATIS_SEED` plays one seed again.

const RUNS_OF_A_TEAM = 4
const only = process.env.DRAMATIS_SEED
const seeds = only ? [Number(only)] : Array.from({ length: 250 }, (_, seed) => seed)

t.test('no budget is overrun, no call starves, and every token is accounted for', async (t) => {
  const all: Outcome[] = []
  for (const seed of seeds) {
    const outcome = await playRuns(seed, RUNS_OF_A_TEAM)
    t.same(outcome.problems, [], `DRAMATIS_SEED=${seed}`)
    all.push(outcome)
  }
  const count = (key: 'granted' | 'refused' | 'waited' | 'aborted') =>
    all.reduce((sum, outcome) => sum + outcome[key], 0)
  if (only) return
  t.ok(count('granted') > 1_000 && count('refused') > 1_000 && count('waited') > 100 && count('aborted') > 10)
})

t.test('what calls cost beyond what they could is all that a budget is overrun by', async (t) => {
  for (const seed of seeds.slice(0, 50))
    t.same((await playRuns(seed, RUNS_OF_A_TEAM, true)).problems, [], `seed ${seed}`)
})
