/**
 * Budgets for model calls, in tokens and in money: the accounts that a call counts in, what it can cost, and what it
 * did cost. Without a budget nothing is counted.
 */

import type { ModelAnswer, ModelCall, TokenUsage } from '../../actors/definition/model.ts'
import { countPrompt, countTokens, loadVocabulary, mostOfPrompt } from '../../actors/model/tokens.ts'
import { Calendar, LONGEST } from '../../shared/calendar.ts'
import { refusedAs } from '../../shared/checks.ts'
import type { BudgetExceededError } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { Reader } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import { type HeldCall, type HostRecord, picked, type Unrecorded } from '../log/records.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import { amountOf, billionthsOf, moneyText, type Prices } from '../settings/money.ts'
import type { BudgetConfig, Period, TokenLimit } from '../settings/options.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { pricesNeeded, withoutPrices } from '../settings/team-shape.ts'
import {
  Account,
  type Claim,
  exceeded,
  type Held,
  Ledger,
  type Level,
  type Limit,
  type Refusal,
  type Reservation,
  type Stake,
} from './accounts.ts'
import { callKey, type GatewayLayer, type ModelCaller, type PendingCall } from './gateway.ts'

/*
 * Fold of the log: what model calls of the last time have cost, as far as budgets over several runs count it, and what
 * calls may cost that have no outcome. It is the same for a log that another process has written.
 */

export interface Payment {
  /** Number of the record of the call. */
  readonly seq: number
  /** Epoch ms. */
  readonly at: number
  /** Epoch ms. Default: `at`. */
  readonly reservedAt?: number | undefined
  readonly agent: string
  readonly tokens: number
  readonly money?: number | undefined
  readonly tenant?: string | undefined
}

type WindowFact = Extract<Unrecorded, { kind: 'budget.window' | 'budget.held' }>

/** Payments that one record has. */
const PAID_AT_ONCE = 1_000

export class Payments {
  readonly #windowMs: number
  /** By their numbers: what a compaction says again is the same payment. */
  readonly #all = new Map<number, Payment>()
  /** Calls without an outcome. */
  readonly #held = new Map<string, HeldCall>()
  /** Currency of all amounts of the log; undefined if it has none, or is older than this field. */
  currency: string | undefined

  /** `windowMs`: time after which a payment is forgotten; 0 keeps none. */
  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  see(record: HostRecord): void {
    if (record.kind === 'budget.held') this.#hold(record)
    else if (record.kind === 'runs.gone') this.#gone(record.runs)
    else if (record.kind === 'model.called' && record.by !== undefined) this.over(record.by)
    else if (record.kind === 'budget.window') this.currency = record.currency ?? this.currency
    if (this.#windowMs === 0) return
    if (record.kind === 'budget.window')
      for (const [seq, at, agent, tokens, { money, tenant, reservedAt } = {}] of record.paid)
        this.#add({ seq, at, agent, tokens, money, tenant, reservedAt })
    else if (record.kind === 'model.called') {
      const { seq, at, agent, usage, cost = usage.totalTokens, money, tenant, reservedAt } = record
      if (cost > 0 || money) this.#add({ seq, at, agent, tokens: cost, money, tenant, reservedAt })
    } else return
    this.#forget(record.at)
  }

  add(payments: Iterable<Payment>): void {
    for (const payment of payments) this.#add(payment)
  }

  #add(payment: Payment): void {
    if (!this.#all.has(payment.seq)) this.#all.set(payment.seq, payment)
  }

  #hold({ by, runId, index, agent, tenant, reservedAt, most }: HeldCall): void {
    if (most) this.#held.set(by, { by, runId, index, agent, ...(tenant !== undefined && { tenant }), reservedAt, most })
    else this.#held.delete(by)
  }

  over(by: string): void {
    this.#held.delete(by)
  }

  /** Forgets calls of runs that the log forgets: their outcomes go with them. */
  #gone(runs: readonly number[]): void {
    for (const [by, { index }] of this.#held) if (runs.includes(index)) this.#held.delete(by)
  }

  holdAgain(held: Iterable<HeldCall>): void {
    for (const each of held) this.#hold(each)
  }

  /** Calls without an outcome, the oldest first. */
  get held(): HeldCall[] {
    return [...this.#held.values()]
  }

  /** Returns the payments that the window has at that time, the oldest first. */
  within(now: number): Payment[] {
    this.#forget(now)
    const since = now - this.#windowMs
    return [...this.#all.values()].filter(({ at }) => at > since).sort((a, b) => a.at - b.at)
  }

  /** Yields the payments that the window has at that time, and the calls without an outcome, as records. */
  *facts(now: number): Generator<WindowFact> {
    type Row = Extract<WindowFact, { kind: 'budget.window' }>['paid'][number]
    const paid = this.within(now).map(({ seq, at, agent, tokens, ...rest }): Row => {
      const more = picked(rest, ['money', 'tenant', 'reservedAt'])
      return Object.keys(more).length > 0 ? [seq, at, agent, tokens, more] : [seq, at, agent, tokens]
    })
    if (this.currency !== undefined) yield { kind: 'budget.window', paid: [], currency: this.currency }
    for (let from = 0; from < paid.length; from += PAID_AT_ONCE)
      yield { kind: 'budget.window', paid: paid.slice(from, from + PAID_AT_ONCE) }
    for (const each of this.held) yield { kind: 'budget.held', ...each }
  }

  #forget(now: number): void {
    const since = now - this.#windowMs
    for (const [seq, { at }] of this.#all) {
      if (at > since) break // the rest is later, but for a few that a compaction has logged again
      this.#all.delete(seq)
    }
    for (const [by, { reservedAt }] of this.#held) if (reservedAt <= now - LONGEST_HELD_MS) this.#held.delete(by)
  }
}

/** Time after which a call without an outcome is forgotten: no budget counts longer. */
const LONGEST_HELD_MS = LONGEST.month

/** Output tokens that a call without a limit is believed to need; and the fewest that it accepts. */
const USUAL_OUTPUT = 4_096
const LEAST_OUTPUT = 256
/**
 * An upper bound of a prompt is set aside, and no count of it, while there is room for so many calls like it, or the
 * prompt is at most an eighth of what is left. The first count loads a vocabulary, which blocks the host for a while.
 */
const FAR = 2n
const SMALL = 8n

/** Use of a limit, in tokens or in money. */
export interface BudgetUse {
  /** Option that sets the limit, such as `budget.perTeam.tokens`; `budget.tokens` is the one of the run itself. */
  option: string
  /** Run whose limit it is; null for one of the team or of a tenant. */
  runId: string | null
  /** Agent whose limit it is; null for one of all agents together. */
  agent: string | null
  /** Tenant whose limit it is; null for one of a run or of the team. */
  tenant: string | null
  /** `tokens`, or the currency of the team's prices. */
  unit: string
  /**
   * Cost of calls that have ended; of the team and of a tenant: within the last `windowMs`, or in this period.
   */
  used: number
  /** Highest cost of calls under way. */
  held: number
  limit: number
  /** Time after which usage is forgotten, in ms; null if it is never, or at the end of a period. */
  windowMs: number | null
  /** Epoch ms at which the next part of it is free again; null if none will be, or all of it is. */
  freeAt: number | null
}

function layerOver(accounts: Budgets, { clock, limits }: Core): GatewayLayer {
  const { ledger } = accounts
  const waiting = new Set<LimitWait>()
  limits.watch(() => waiting)
  return async (pending, next) => {
    const { caller, call, model, signal } = pending
    const { agent, run } = caller
    const counting = accounts.of(caller)
    if (counting.length === 0 && !accounts.prices?.has(model)) return next(pending)
    accounts.assertPriced(pending, counting)
    const counted = async () => {
      await loadVocabulary(model, clock)
      return countPrompt({ ...call, model })
    }
    const estimate: PendingCall['estimate'] = async (answer) => estimateOf(answer, await counted(), model)
    if (counting.length === 0) return next({ ...pending, estimate })
    accounts.during(run, () => accounts.letRest())
    const { maxOutputTokens } = call
    const most = mostOfPrompt({ ...call, model })
    const isFar = () =>
      counting.every((account) => {
        const left = account.left(agent.name)
        const wanted = accounts.mostOf(account, model, most, maxOutputTokens ?? USUAL_OUTPUT)
        return left >= FAR * wanted || (left >= wanted && accounts.mostOf(account, model, most, 0) * SMALL <= left)
      })
    const again = accounts.heldFor(caller)
    const before = again && (maxOutputTokens ?? again.most.tokens - (await counted()))
    const prompt = again && before !== undefined ? again.most.tokens - before : isFar() ? most : await counted()
    let wait: LimitWait | undefined
    const onWait = ({ limit, facts }: Account) => {
      const { path = 'budget', most: height } = limit ?? {}
      const inUnit = facts.unit === 'tokens' ? Number : amountOf
      const shown = height === undefined || (facts.isOfTeam && run.tenant !== undefined) ? null : inUnit(height)
      wait = { option: path, limit: shown, runId: run.id, agent: agent.name, since: clock.now() }
      waiting.add(wait)
      limits.reached(wait, 'calls of models wait for what others hold')
    }
    const claim: Claim = {
      agent: agent.name,
      tenant: run.tenant,
      priority: agent.settings.info.priority ?? 0,
      prompt,
      output: before ?? maxOutputTokens ?? USUAL_OUTPUT,
      least: maxOutputTokens ?? LEAST_OUTPUT,
      stakes: counting.map((account): Stake => {
        return { account, most: (output) => accounts.mostOf(account, model, prompt, output) }
      }),
      signal,
      onWait,
    }
    const reserving = accounts.during(run, () => accounts.reserveAgain(caller, claim) ?? ledger.reserve(claim))
    const reservation = await reserving.finally(() => wait && waiting.delete(wait))
    const held = { ...heldBy(caller), reservedAt: clock.now() }
    const tokens = prompt + reservation.output
    const money = accounts.prices?.most(model, prompt, reservation.output) ?? 0n
    accounts.note({ ...held, most: { tokens, ...(money > 0n && { money: amountOf(money) }) } })
    let costs: bigint[] | undefined
    try {
      const limited: ModelCall = { ...call, maxOutputTokens: reservation.output }
      const { by, reservedAt } = held
      const reserved = { by, reservedAt, over: () => accounts.over(by) }
      const made = await next({ ...pending, call: limited, estimate, reserved })
      costs = counting.map(({ unit }) => (unit === 'tokens' ? wholeOf(made.usage.totalTokens) : (made.money ?? 0n)))
      return made
    } finally {
      if (!costs) accounts.note(held)
      accounts.during(run, () => {
        accounts.letRest()
        reservation.settle(costs)
      })
    }
  }
}

const heldBy = (caller: ModelCaller): Omit<HeldCall, 'reservedAt'> => ({
  by: callKey(caller),
  runId: caller.run.id,
  index: caller.run.index,
  agent: caller.agent.name,
  ...(caller.run.tenant !== undefined && { tenant: caller.run.tenant }),
})

/** Counts the tokens of a call whose provider does not report them. */
function estimateOf(
  { text, toolCalls }: Pick<ModelAnswer, 'text' | 'toolCalls'>,
  prompt: number,
  model: string,
): TokenUsage {
  const ofCalls = toolCalls.map(({ name, input }) => countTokens(name + input, model))
  const outputTokens = ofCalls.reduce((sum, tokens) => sum + tokens, countTokens(text, model))
  return { inputTokens: prompt, outputTokens, totalTokens: prompt + outputTokens, calls: 1, estimated: true }
}

/** Call of an earlier process without an outcome, and what it holds here. */
interface HeldAgain {
  readonly call: HeldCall & Required<Pick<HeldCall, 'most'>>
  readonly held: Map<Account, Held>
}

/** Accounts of one limit: in tokens, in money, or both. */
type Accounts = readonly Account[]

type Given = Pick<TeamSettings, 'budget' | 'prices' | 'tenants'>

/** Number of tenants from which on those are forgotten that have used nothing for a while. */
const MANY_TENANTS = 1_000

export class Budgets {
  readonly #config: BudgetConfig
  readonly #core: Core
  readonly prices: Prices | undefined
  readonly ledger: Ledger
  /** False in tests in which one client stands for all models: it has no price. */
  readonly #namesModels: boolean
  readonly #team: Accounts
  readonly #tenants = new Map<string, Accounts>()
  readonly #ofRuns = new WeakMap<RunState, Accounts>()
  /** Agents of each run whose turns have called a model. */
  readonly #atWork = new Map<RunState, Set<Agent>>()
  #current: RunState | undefined
  /** Time that a budget over several runs counts at most, in ms; 0 without one. */
  readonly windowMs: number
  readonly #payments: Payments
  /** Calls of an earlier process that were not made again yet. */
  readonly #heldAgain = new Map<string, HeldAgain>()
  /** Layer of the model gateway that enforces the budgets. */
  readonly layer: GatewayLayer
  readonly part: Reader = {
    kinds: ['model.called'],
    next: (batch) => {
      for (const record of batch) if (record.kind !== 'frames') this.#payments.see(record)
    },
  }

  constructor({ budget, prices, tenants }: Given, core: Core, namesModels = true) {
    this.#config = budget
    this.#core = core
    this.prices = prices
    this.#namesModels = namesModels
    this.ledger = new Ledger(tenants.weights)
    const { perTeam, perTenant } = budget
    this.windowMs = Math.max(timeOf(perTeam), timeOf(perTenant))
    this.#payments = new Payments(this.windowMs)
    const runOf = () => (this.#current?.tenant === undefined ? this.#current : undefined) // its log is the tenant's
    this.#team = perTeam ? this.#accounts('budget.perTeam', perTeam, runOf, perTeam) : []
    if (perTeam || perTenant) core.limits.watch(() => this.#usedUp())
    this.layer = layerOver(this, core)
  }

  /** Returns the accounts that a call counts in. */
  of({ run, agent }: ModelCaller): Account[] {
    const all = this.#all(run)
    if (all.length === 0) return all
    const agents = this.#atWork.get(run)
    if (agents) agents.add(agent)
    else this.#atWork.set(run, new Set([agent]))
    return all
  }

  #all(run: RunState): Account[] {
    return [...this.#ofRun(run), ...this.#team, ...this.#ofTenant(run.tenant)]
  }

  /** Returns the most that a call can cost in an account. */
  mostOf({ unit }: Account, model: string, prompt: number, output: number): bigint {
    return unit === 'tokens' ? BigInt(prompt + output) : this.prices!.most(model, prompt, output)
  }

  /** @throws ConfigurationError for a call of a model without a price, under a limit in money. */
  assertPriced({ model, client, caller }: PendingCall, counting: readonly Account[]): void {
    const money = counting.find(({ unit }) => unit !== 'tokens')
    if (!money || this.prices?.has(model) || client.rehearsal || !this.#namesModels) return
    const advice = pricesNeeded(money.limit?.path ?? 'budget')
    throw refusedAs(
      `the model of "${caller.agent.name}"`,
      `"${model}", which has no price`,
      'a model with a price',
      advice,
    )
  }

  /**
   * Returns why a run cannot begin: its tenant cannot pay the cheapest call, whatever becomes of calls under way.
   * Undefined: it can.
   */
  refusalOf(tenant: string | undefined): BudgetExceededError | undefined {
    for (const account of this.#ofTenant(tenant)) {
      const least = account.unit === 'tokens' ? CHEAPEST_TOKENS : this.prices!.cheapest
      const refusal: Refusal | undefined = account.usedUp(least)
      if (refusal) return exceeded(undefined, least, refusal, tenant)
    }
    return undefined
  }

  /** @throws ConfigurationError if the amounts of a log are in another currency than the prices. */
  assertCurrency({ currency }: Payments): void {
    if (currency === undefined || currency === (this.prices?.currency ?? currency)) return
    const accepted = `"${currency}", in which the durable log has its amounts`
    throw refusedAs('prices.currency', `"${this.prices?.currency}"`, accepted, 'For another one, begin another log.')
  }

  /** Counts what the team has paid in earlier processes, and what calls may cost that have no outcome. */
  restore(earlier: Payments): void {
    const now = this.#core.clock.now()
    const { currency = this.prices?.currency } = earlier
    this.#payments.currency = currency
    if (currency !== undefined && earlier.currency === undefined)
      this.#core.journal.keep(undefined, { kind: 'budget.window', paid: [], currency })
    const paid = earlier.within(now)
    this.#payments.add(paid)
    for (const { agent, tokens, money = 0, at, reservedAt = at, tenant } of paid)
      for (const account of [...this.#team, ...this.#ofTenant(tenant)]) {
        const { since = Number.NEGATIVE_INFINITY } = account
        const agoMs = Math.max(0, now - at)
        const isOver = reservedAt < since || agoMs >= (account.facts.windowMs ?? Number.POSITIVE_INFINITY)
        const amount = account.unit === 'tokens' ? wholeOf(tokens) : billionthsOf(money)
        if (!isOver) account.restore(agent, amount, agoMs)
      }
    this.#payments.holdAgain(earlier.held)
    for (const { most, ...call } of earlier.held) {
      if (!most) continue
      const again: HeldAgain = { call: { ...call, most }, held: new Map() }
      this.#heldAgain.set(call.by, again)
      for (const account of [...this.#team, ...this.#ofTenant(call.tenant)]) this.#holdAgain(account, again)
    }
  }

  #holdAgain(account: Account, { call, held }: HeldAgain): void {
    const { agent, reservedAt, most } = call
    const { since = Number.NEGATIVE_INFINITY } = account
    const { windowMs = Number.POSITIVE_INFINITY } = account.facts
    if (reservedAt < since || this.#core.clock.now() - reservedAt >= windowMs) return
    const amount = account.unit === 'tokens' ? BigInt(most.tokens) : billionthsOf(most.money ?? 0)
    held.set(account, account.holdAgain(agent, amount))
  }

  /** Returns what a call holds since an earlier process that had made it. */
  heldFor(caller: ModelCaller): HeldAgain['call'] | undefined {
    return this.#heldAgain.size === 0 ? undefined : this.#heldAgain.get(callKey(caller))?.call
  }

  /**
   * Reserves again what a call holds since an earlier process, now that it is made again. Undefined if it can cost more
   * now, or if a period has begun since: then it asks as others do.
   */
  reserveAgain(caller: ModelCaller, claim: Claim): Promise<Reservation> | undefined {
    if (this.#heldAgain.size === 0) return undefined
    const by = callKey(caller)
    const again = this.#heldAgain.get(by)
    if (!again) return undefined
    this.#heldAgain.delete(by)
    const { call, held } = again
    const covers = claim.stakes.every(({ account, most }) => {
      const part = held.get(account)
      return part && account.holds(part, most(claim.output))
    })
    for (const [account, part] of held) account.pay(call.agent, part, 0n)
    if (covers) return Promise.resolve(this.ledger.take(claim))
    const { most: _, ...notMade } = call
    this.note(notMade)
    return undefined
  }

  /** Counts what calls of an earlier process hold as paid if their runs are over: nobody makes them again. */
  #giveUp(): void {
    for (const [by, { call, held }] of this.#heldAgain) {
      const run = this.#core.runs.find(call.runId)
      if (run && (!run.over || run.open > 0)) continue
      this.#heldAgain.delete(by)
      for (const [account, part] of held) account.pay(call.agent, part, part.amount)
      const { most: _, ...notMade } = call
      this.note(notMade)
    }
  }

  /** Keeps what a call holds in the durable log, if there is one. */
  note(held: HeldCall): void {
    const record = { kind: 'budget.held', ...held } as const
    this.#payments.holdAgain([held])
    this.#core.journal.keep(undefined, record)
  }

  /** Forgets what a call holds when its outcome is logged: a compaction may write facts before readers see that. */
  over(by: string): void {
    this.#payments.over(by)
  }

  /** Yields what budgets over several runs count, as the durable log has it. */
  facts(): Iterable<WindowFact> {
    return this.#payments.facts(this.#core.clock.now())
  }

  /**
   * Returns the tokens that an agent may still use in a run if no other agent takes them; Infinity without a budget.
   */
  left(run: RunState, { name }: Agent): number {
    const all = this.#all(run).filter(({ unit }) => unit === 'tokens')
    return Math.min(Number.POSITIVE_INFINITY, ...all.map((account) => Number(account.left(name))))
  }

  /** Returns what is used of the limits of the team, of its tenants, and of these runs. */
  uses(runs: Iterable<RunState>): BudgetUse[] {
    for (const name of Object.keys(this.#config.perTenant?.of ?? {})) this.#ofTenant(name)
    const all = [...this.#team, ...[...this.#tenants.values()].flat()].flatMap((each) => usesOf(each, null))
    for (const run of runs) all.push(...this.#ofRun(run).flatMap((each) => usesOf(each, run.id)))
    return all
  }

  /** Yields the limits of the team and of its tenants of which so much is used that calls are refused. */
  *#usedUp(): IterableIterator<LimitWait> {
    const { clock } = this.#core
    const begin = clock.now() - clock.monotonic()
    for (const account of [...this.#team, ...[...this.#tenants.values()].flat()])
      for (const { limit, agent, used, freeInMs, reachedAt } of account.uses()) {
        if (reachedAt === undefined) continue
        const { unit, tenant, calendar } = account.facts
        const until = account.freeAt(freeInMs)
        const at = until === undefined ? '' : (calendar?.text(until) ?? new Date(until).toISOString())
        const free = until === undefined ? '' : `, ${calendar ? 'it' : 'the next part'} is free at ${at}`
        const shown = (amount: bigint) => (unit === 'tokens' ? String(amount) : moneyText(amountOf(amount)))
        const of = `${shown(used)} of ${shown(limit.most)} ${unit === 'tokens' ? unit : unit.currency}`
        const whose = tenant === undefined ? '' : ` of tenant "${tenant}"`
        const since = begin + reachedAt
        const height = unit === 'tokens' ? Number(limit.most) : amountOf(limit.most)
        const trouble = { kind: 'budget', words: `${of}${whose}${free}` } as const
        yield { option: limit.path, limit: height, agent: agent ?? undefined, since, until, trouble }
      }
  }

  #ofTenant(tenant: string | undefined): Accounts {
    const { perTenant } = this.#config
    if (!perTenant || tenant === undefined) return []
    const known = this.#tenants.get(tenant)
    if (known) return known
    const named = own(perTenant.of ?? {}, tenant)
    const limit = named ?? perTenant.each
    const path = `budget.perTenant.${named ? `of.${tenant}` : 'each'}`
    // a call of one tenant may end what a dead call of another holds: that is none of the first one's business
    const runOf = () => (this.#current?.tenant === tenant ? this.#current : undefined)
    const made = limit ? this.#accounts(path, limit, runOf, perTenant, tenant) : []
    if (this.#tenants.size >= MANY_TENANTS)
      for (const [name, all] of this.#tenants) if (all.every(({ isEmpty }) => isEmpty)) this.#tenants.delete(name)
    this.#tenants.set(tenant, made)
    return made
  }

  #ofRun(run: RunState): Accounts {
    const known = this.#ofRuns.get(run)
    if (known) return known
    const { perRun } = this.#config
    if (!perRun && !run.budget) return []
    const limits = { ...perRun, ...run.budget }
    const accounts = this.#accounts(run.budget ? 'budget' : 'budget.perRun', limits, () => run)
    this.#ofRuns.set(run, accounts)
    for (const account of accounts) {
      const { costs, moneyByAgent } = run.spent // in an earlier process
      if (account.unit === 'tokens') for (const [agent, cost] of costs) account.restore(agent, wholeOf(cost))
      else for (const [agent, cost] of moneyByAgent) account.restore(agent, cost)
      for (const again of this.#heldAgain.values()) if (again.call.runId === run.id) this.#holdAgain(account, again)
    }
    return accounts
  }

  #accounts(
    path: string,
    limits: TokenLimit,
    runOf: () => RunState | undefined,
    period?: Period,
    tenant?: string,
  ): Accounts {
    const { tokens, perAgentTokens, money, perAgentMoney } = limits
    const of = { path, runOf, period, tenant }
    const { currency } = this.prices ?? {}
    const isOfMoney = money !== undefined || perAgentMoney !== undefined
    if (isOfMoney && currency === undefined) throw withoutPrices(`${path}.money`)
    const asMoney = (amount: number | undefined) => (amount === undefined ? undefined : billionthsOf(amount))
    const asTokens = (amount: number | undefined) => (amount === undefined ? undefined : BigInt(amount))
    return [
      ...(tokens !== undefined || perAgentTokens !== undefined
        ? [this.#account({ ...of, tokens: asTokens(tokens), perAgentTokens: asTokens(perAgentTokens) })]
        : []),
      ...(isOfMoney && currency !== undefined
        ? [this.#account({ ...of, currency, money: asMoney(money), perAgentMoney: asMoney(perAgentMoney) })]
        : []),
    ]
  }

  #account({ path, runOf, period, tenant, currency, ...limits }: AccountOf): Account {
    const { clock, journal } = this.#core
    const [total, perAgent] = Object.entries(limits).map(([name, most]): Limit | undefined =>
      most === undefined ? undefined : { path: `${path}.${name}`, most },
    )
    const inUnit = currency === undefined ? Number : amountOf
    const more = { ...(currency !== undefined && { unit: currency }), ...(tenant !== undefined && { tenant }) }
    return new Account({
      ...(total && { total }),
      ...(perAgent && { perAgent }),
      ...(currency !== undefined && { unit: { currency } }),
      ...(tenant !== undefined && { tenant }),
      isOfTeam: period !== undefined && tenant === undefined,
      ...(period?.windowMs !== undefined && { windowMs: period.windowMs }),
      ...(period?.period !== undefined && { calendar: new Calendar(period.period, period.timeZone) }),
      now: () => clock.monotonic(),
      wall: () => clock.now(),
      onLevel: ({ agent, used, limit }: Level) =>
        journal.record(runOf(), { kind: 'budget', agent, used: inUnit(used), limit: inUnit(limit), ...more }),
    })
  }

  /** Runs code that may reach a limit of the team: the record of that goes into the log of this run. */
  during<T>(run: RunState, act: () => T): T {
    this.#current = run
    try {
      return act()
    } finally {
      this.#current = undefined
    }
  }

  /**
   * Ends the shares of agents whose turns have ended. An agent with instances keeps its share until the turns of all
   * instances have ended. One whose thread has crashed has no turn until it has a new one; its call waits on.
   */
  letRest(): void {
    if (this.#heldAgain.size > 0) this.#giveUp()
    for (const [run, agents] of this.#atWork) {
      const ofRun = this.#ofRuns.get(run) ?? []
      const shared = [...this.#team, ...this.#ofTenant(run.tenant)]
      const account = ofRun[0] ?? shared[0]
      for (const agent of agents) {
        if (agent.isAt(run) || (account && this.ledger.awaits(agent.name, account))) continue
        agents.delete(agent)
        if (!hasNamed(agents, agent)) for (const each of ofRun) this.ledger.rest(agent.name, each)
        for (const each of shared) {
          const isOfTenant = each.facts.tenant !== undefined
          const others = [...this.#atWork].filter(([other]) => !isOfTenant || other.tenant === run.tenant)
          if (!others.some(([, atWork]) => hasNamed(atWork, agent))) this.ledger.rest(agent.name, each)
        }
      }
      if (agents.size === 0) this.#atWork.delete(run)
    }
  }
}

interface AccountOf {
  readonly path: string
  readonly runOf: () => RunState | undefined
  readonly period: Period | undefined
  readonly tenant: string | undefined
  readonly currency?: string
  readonly tokens?: bigint | undefined
  readonly perAgentTokens?: bigint | undefined
  readonly money?: bigint | undefined
  readonly perAgentMoney?: bigint | undefined
}

/** A client of the user's own can count parts of tokens. */
const wholeOf = (tokens: number): bigint => BigInt(Math.ceil(tokens))

/** Fewest tokens of a call: one of its prompt, and one of its answer. */
const CHEAPEST_TOKENS = 2n

/** Returns the time that a limit counts at most, in ms. */
const timeOf = (period: Period | undefined): number => (period ? (period.windowMs ?? LONGEST[period.period]) : 0)

function usesOf(account: Account, runId: string | null): BudgetUse[] {
  const { unit, tenant = null, windowMs = null } = account.facts
  const inUnit = unit === 'tokens' ? Number : amountOf
  return Array.from(account.uses(), ({ limit, agent, used, held, freeInMs }) => ({
    option: limit.path,
    runId,
    agent,
    tenant,
    unit: unit === 'tokens' ? unit : unit.currency,
    used: inUnit(used),
    held: inUnit(held),
    limit: inUnit(limit.most),
    windowMs,
    freeAt: account.freeAt(freeInMs) ?? null,
  }))
}

function hasNamed(agents: ReadonlySet<Agent>, { name }: Agent): boolean {
  for (const agent of agents) if (agent.name === name) return true
  return false
}
