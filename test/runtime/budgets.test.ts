/** Budgets in tokens and in money: ledgers, prices, periods, and what a run may spend. */
import t from 'tap'
import { amountOf, billionthsOf, moneyText, Prices } from '../../src/runtime/settings/money.ts'
import { Account, Ledger, type Reservation, type Stake } from '../../src/runtime/verbs/accounts.ts'
import { Payments } from '../../src/runtime/verbs/budgets.ts'
import { Calendar } from '../../src/shared/calendar.ts'
import { BudgetExceededError } from '../../src/shared/errors.ts'
import { Turns } from '../../src/shared/turns.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { oneAccount, type Pending, settled } from './budgets/accounts.ts'
import { type Outcome, playRuns } from './budgets/many-runs.ts'

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

// Money: what calls cost, periods of the calendar, turns of tenants, and an account that many calls ask at once.

const usage = (inputTokens: number, outputTokens: number, cachedTokens = 0) => {
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, cachedTokens, calls: 1 }
}

t.test('a call costs its tokens in the tier of its prompt, rounded up to a billionth', async (t) => {
  const above = [
    { tokens: 1_000, input: 20, output: 40 },
    { tokens: 100, input: 2, cachedInput: 0.5, output: 4 },
  ]
  const first = { input: 1, cachedInput: 0.1, output: 3, perCall: 0.01 }
  const prices = new Prices({
    currency: 'EUR',
    models: { large: { ...first, above }, tiny: { input: 0.0001, output: 0 } },
  })
  const cost = (...tokens: Parameters<typeof usage>) => amountOf(prices.costOf('large', usage(...tokens)))
  t.equal(cost(100, 10), 0.01 + 0.000_13)
  t.equal(cost(100, 10, 40), 0.01 + 0.000_094)
  t.equal(cost(101, 10, 40), 0.01 + 0.000_182)
  t.equal(cost(1_001, 0, 1_001), 0.030_02, 'the price of the input where there is none of a cache')
  t.equal(prices.costOf('tiny', usage(1, 5)), 1n, 'a tenth of a billionth is one')
  t.equal(prices.costOf('tiny', usage(0, 0)), 0n)
  t.equal(prices.costOf('large', usage(0, 0), true), 0n, 'a call that failed and used nothing')
  t.equal(prices.costOf('other', usage(9, 9)), 0n)
  for (const [prompt, output] of [
    [50, 10],
    [101, 0],
    [1_001, 7],
    [5_000, 100],
  ] as const)
    for (const real of [1, Math.ceil(prompt / 2), prompt])
      t.ok(prices.most('large', prompt, output) >= prices.costOf('large', usage(real, output)), `${real} of ${prompt}`)
  t.equal(billionthsOf(0.1) + billionthsOf(0.2), billionthsOf(0.3), 'sums are exact')
  t.same([0, 4.999, 0.6, 0.01502, 0.01, 0.0042, 1e-9].map(moneyText), [
    '0.00',
    '5.00',
    '0.60',
    '0.015',
    '0.01',
    '0.0042',
    '0.000000001',
  ])
})

/** Periods that lie around a moment, and their hours. */
const PERIODS: readonly [
  ConstructorParameters<typeof Calendar>[0],
  string,
  at: string,
  start: string,
  end: string,
  hours: number,
][] = [
  ['day', 'Europe/Berlin', '2026-03-29T10:00Z', '2026-03-29T00:00:00+01:00', '2026-03-30T00:00:00+02:00', 23],
  ['day', 'Europe/Berlin', '2026-10-25T22:59Z', '2026-10-25T00:00:00+02:00', '2026-10-26T00:00:00+01:00', 25],
  ['day', 'Europe/Berlin', '2026-10-25T23:00Z', '2026-10-26T00:00:00+01:00', '2026-10-27T00:00:00+01:00', 24],
  ['week', 'Europe/Berlin', '2026-10-25T10:00Z', '2026-10-19T00:00:00+02:00', '2026-10-26T00:00:00+01:00', 169],
  ['month', 'America/New_York', '2026-11-30T10:00Z', '2026-11-01T00:00:00-04:00', '2026-12-01T00:00:00-05:00', 721],
  ['month', 'UTC', '2028-02-29T10:00Z', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z', 29 * 24],
  ['day', 'America/Santiago', '2026-09-06T10:00Z', '2026-09-06T01:00:00-03:00', '2026-09-07T00:00:00-03:00', 23],
  ['day', 'America/Havana', '2026-11-01T10:00Z', '2026-11-01T00:00:00-04:00', '2026-11-02T00:00:00-05:00', 25],
  ['hour', 'Asia/Kathmandu', '2026-11-01T10:00Z', '2026-11-01T15:00:00+05:45', '2026-11-01T16:00:00+05:45', 1],
  ['hour', 'Europe/Berlin', '2026-10-25T00:30Z', '2026-10-25T02:00:00+02:00', '2026-10-25T02:00:00+01:00', 1],
]

t.test('a period ends at local midnight, also on the days on which clocks change', async (t) => {
  for (const [period, zone, at, start, end, hours] of PERIODS) {
    const calendar = new Calendar(period, zone)
    const span = calendar.at(Date.parse(at))
    t.same([calendar.text(span.start), calendar.text(span.end)], [start, end], `${period} in ${zone}`)
    t.equal((span.end - span.start) / 3_600_000, hours)
    t.same(new Calendar(period, zone).at(span.start), span, 'its first moment')
    t.same(new Calendar(period, zone).at(span.end - 1), span, 'its last moment')
  }
})

t.test('an account begins anew at the boundary; a call counts where it was reserved', async (t) => {
  const now = { wall: Date.parse('2026-03-28T22:30:00Z') } // 23:30 in Berlin; the next day has 23 hours
  const account = new Account({
    total: { path: 'budget.perTeam.money', most: 100n },
    unit: { currency: 'EUR' },
    calendar: new Calendar('day', 'Europe/Berlin'),
    now: () => now.wall,
    wall: () => now.wall,
  })
  const ledger = new Ledger()
  const ask = (most: bigint) =>
    ledger.reserve({
      agent: 'ann',
      priority: 0,
      output: 1,
      stakes: [{ account, most: () => most }],
      signal: new AbortController().signal,
    })
  const early = await ask(90n)
  const late = await ask(10n)
  late.settle([10n])
  t.same([account.used, account.held], [10n, 90n])
  now.wall += 1_800_000
  t.same([account.used, account.held], [0n, 0n], 'midnight')
  const next = await ask(100n)
  early.settle([95n])
  t.same([account.used, account.held], [0n, 100n], 'what was reserved before counts there')
  next.settle([100n])
  await t.rejects(ask(1n), {
    code: 'BUDGET_EXCEEDED',
    details: { option: 'budget.perTeam.money', unit: 'EUR', freeAt: Date.parse('2026-03-29T22:00:00Z') },
  })
  await t.rejects(ask(101n), {
    message: /the call can cost [\d.]+ EUR \(budget\.perTeam\.money\)\. It never fits: raise the limit/,
    details: { freeAt: null, retryAfterMs: undefined },
  })
  now.wall -= 3_600_000
  t.equal(account.used, 100n, 'a clock that is set back begins no period again')
  now.wall += 24 * 3_600_000
  t.equal(account.used, 0n)
})

t.test('a call is refused until the last moment of a period, with the moment of its end', async (t) => {
  for (const [period, zone, at, , end] of PERIODS) {
    const clock = { now: Date.parse(at), step: 1 }
    const wall = () => (clock.now += clock.step) // it goes on while it is looked at
    const limit = { total: { path: 'budget.perTeam.money', most: 5n }, unit: { currency: 'EUR' } } as const
    const account = new Account({ ...limit, calendar: new Calendar(period, zone), now: wall, wall })
    const ledger = new Ledger()
    const { signal } = new AbortController()
    const stakes = [{ account, most: () => 5n }]
    const ask = () => ledger.reserve({ agent: 'ann', priority: 0, output: 1, stakes, signal })
    const freeAt = Date.parse(end)
    ;(await ask()).settle([5n])
    const message = new RegExp(`Free again at ${end.replace('+', '\\+')}\\.$`)
    await t.rejects(ask(), { message, details: { freeAt } }, `${period} in ${zone}`)
    t.same(
      Array.from(account.uses(), ({ freeInMs }) => account.freeAt(freeInMs)),
      [freeAt],
    )
    Object.assign(clock, { now: freeAt - 1, step: 0 })
    await t.rejects(ask(), { code: 'BUDGET_EXCEEDED', details: { freeAt, retryAfterMs: 1 } }, 'its last ms')
    clock.now = freeAt
    ;(await ask()).settle([5n])
  }
})

t.test(
  '1,000 calls at once book no more than there is, whatever they cost; also over a restart',
  { timeout: 3_000_000 },
  async (t) => {
    const prices = new Prices({ currency: 'EUR', models: { small: { input: 3, cachedInput: 0.3, output: 12 } } })
    for (let seed = 0; seed < howMany(8, 1_000); seed++) {
      const problem = await playCalls(seed, prices)
      if (problem) return t.fail(`seed ${seed}: ${problem}`)
    }
    t.pass()
  },
)

const LIMIT = billionthsOf(5)

interface Open {
  readonly stakes: readonly Stake[]
  readonly reservation: Reservation
  readonly cost: bigint
}

/** Plays the calls of one seed. Returns what was wrong. */
async function playCalls(seed: number, prices: Prices): Promise<string | undefined> {
  const dice = new Dice(seed)
  const accountOf = () =>
    new Account({
      total: { path: 'money', most: LIMIT },
      unit: { currency: prices.currency },
      calendar: new Calendar('day', 'Europe/Berlin'),
      now: () => 0,
      wall: () => 0,
    })
  let account = accountOf()
  let ledger = new Ledger({ a: 4 })
  let booked = 0n
  const open: Open[] = []
  const calls = Array.from({ length: 1_000 }, () => ({ prompt: 1 + dice.upTo(20_000), output: 1 + dice.upTo(4_000) }))
  const agents = dice.chance(0.1) ? ['ann', 'bob'] : ['ann']
  const ask = ({ prompt, output }: (typeof calls)[number]) => {
    const stakes = [{ account, most: (tokens: number) => prices.most('small', prompt, tokens) }]
    const { signal } = new AbortController()
    const tenant = dice.pick(['a', 'b', undefined])
    void ledger
      .reserve({ agent: dice.pick(agents), tenant, priority: 0, prompt, output, stakes, signal })
      .then((reservation) => {
        const used = dice.chance(0.1) ? output : dice.upTo(output + 1)
        const cost = dice.chance(0.1) ? 0n : prices.costOf('small', usage(prompt, used, dice.upTo(prompt + 1)))
        open.push({ stakes, reservation, cost })
      })
      .catch(() => {}) // refused
  }
  for (const call of calls) ask(call)
  await settled()
  const restart = dice.upTo(400)
  for (let n = 0; open.length > 0; n++) {
    if (n === restart) {
      const again = [...open]
      open.length = 0
      account = accountOf()
      ledger = new Ledger()
      account.restore('ann', booked)
      const held = again.map(({ reservation }) => account.holdAgain('ann', reservation.held[0]!))
      if (account.held !== again.reduce((sum, { reservation }) => sum + reservation.held[0]!, 0n)) return 'not held'
      for (const [i, { stakes, reservation, cost }] of again.entries()) {
        account.pay('ann', held[i]!, 0n)
        const { most } = stakes[0]!
        const { output } = reservation
        const { signal } = new AbortController()
        const made = ledger.take({ agent: 'ann', priority: 0, output, stakes: [{ account, most }], signal })
        open.push({ stakes, reservation: made, cost })
      }
    }
    const [done] = open.splice(dice.upTo(open.length), 1)
    if (done) {
      booked += done.cost
      done.reservation.settle([done.cost])
      await settled()
    }
    if (account.used !== booked) return `${account.used} are booked, by the book ${booked}`
    if (account.used + account.held > LIMIT) return `${account.used} used and ${account.held} held`
  }
  if (account.held !== 0n) return `${account.held} are held for ever`
  return booked > LIMIT ? `${booked} booked` : undefined
}

t.test('a payment that a compaction says again counts once, with the currency of the log', (t) => {
  const called = { kind: 'model.called', seq: 8, at: 1, agent: 'ann', usage: usage(3, 4), money: 0.5 } as const
  const before = new Payments(1_000)
  before.currency = 'EUR'
  before.see(called as never)
  const after = new Payments(1_000)
  after.see(called as never)
  for (const fact of before.facts(2)) after.see({ ...fact, seq: 16, at: 2 } as never)
  t.match(after.within(2), [{ seq: 8, tokens: 7, money: 0.5 }])
  t.equal(after.within(2).length, 1)
  t.equal(after.currency, 'EUR')
  t.end()
})

t.test('tenants have turns by their weights', async (t) => {
  for (let seed = 0; seed < howMany(5, 200); seed++) {
    const dice = new Dice(seed)
    const turns = new Turns({ acme: 4 })
    const given = { acme: 0, other: 0 }
    for (let n = 0; n < 4_000; n++) {
      const tenant = turns.next(['acme', 'other']) as keyof typeof given
      const cost = dice.pick([1, 1, 300, 40_000])
      given[tenant] += cost
      turns.served(tenant, cost)
    }
    const ratio = given.acme / given.other
    if (Math.abs(ratio - 4) > 0.2) return t.fail(`seed ${seed}: ${ratio} in place of 4`)
  }
  const turns = new Turns({ acme: 4 })
  for (let n = 0; n < 100; n++) turns.served('acme', 1)
  t.equal(turns.next(['acme', 'late']), 'late', 'who comes later is next')
  turns.served('late', 1)
  t.equal(turns.next(['acme', 'late']), 'acme', 'and makes up for nothing')
  const order = turns.order(
    ['acme', 'acme', 'late', 'new'],
    (tenant) => tenant,
    () => 1,
  )
  t.same(order.slice(0, 2).sort(), ['acme', 'new'])
})
