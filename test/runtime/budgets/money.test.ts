/** Money: what calls cost, periods of the calendar, turns of tenants, and an account that many calls ask at once. */
import t from 'tap'
import { amountOf, billionthsOf, moneyText, Prices } from '../../../src/runtime/settings/money.ts'
import { Account, Ledger, type Reservation, type Stake } from '../../../src/runtime/verbs/accounts.ts'
import { Payments } from '../../../src/runtime/verbs/budgets.ts'
import { Calendar } from '../../../src/shared/calendar.ts'
import { Turns } from '../../../src/shared/turns.ts'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { settled } from './accounts.ts'

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
    for (let seed = 0; seed < howMany(25, 1_000); seed++) {
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
