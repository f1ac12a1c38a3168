/**
 * Token budgets for model calls: the accounts that a call counts in, what it can cost, and what it did cost. Without a
 * budget nothing is counted.
 */

import type { ModelAnswer, ModelCall, TokenUsage } from '../../actors/definition/model.ts'
import { countPrompt, countTokens, loadVocabulary, mostOfPrompt } from '../../actors/model/tokens.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import type { Reader } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import type { HostRecord, Unrecorded } from '../log/records.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { BudgetConfig, TokenLimit } from '../settings/options.ts'
import type { GatewayLayer, ModelCaller, PendingCall } from './gateway.ts'
import { type Level, type Limit, TokenAccount, TokenLedger } from './token-account.ts'

/*
 * Fold of the log: what model calls of the last time have cost, as far as a window counts it. It is the same for a log
 * that another process has written.
 */

export interface Payment {
  /** Number of the record of the call. */
  readonly seq: number
  /** Epoch ms. */
  readonly at: number
  readonly agent: string
  readonly tokens: number
}

type WindowFact = Extract<Unrecorded, { kind: 'budget.window' }>

/** Payments that one record has. */
const PAID_AT_ONCE = 1_000

export class Payments {
  readonly #windowMs: number
  /** By their numbers: what a compaction says again is the same payment. */
  readonly #all = new Map<number, Payment>()

  /** `windowMs`: time after which a payment is forgotten; 0 keeps none. */
  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  see(record: HostRecord): void {
    if (this.#windowMs === 0) return
    if (record.kind === 'budget.window')
      for (const [seq, at, agent, tokens] of record.paid) this.#add({ seq, at, agent, tokens })
    else if (record.kind === 'model.called') {
      const { seq, at, agent, usage, cost = usage.totalTokens } = record
      if (cost > 0) this.#add({ seq, at, agent, tokens: cost })
    } else return
    this.#forget(record.at)
  }

  add(payments: Iterable<Payment>): void {
    for (const payment of payments) this.#add(payment)
  }

  #add(payment: Payment): void {
    if (!this.#all.has(payment.seq)) this.#all.set(payment.seq, payment)
  }

  /** Returns the payments that the window has at that time, the oldest first. */
  within(now: number): Payment[] {
    this.#forget(now)
    const since = now - this.#windowMs
    return [...this.#all.values()].filter(({ at }) => at > since).sort((a, b) => a.at - b.at)
  }

  /** Yields the payments that the window has at that time, as records. */
  *facts(now: number): Generator<WindowFact> {
    const paid = this.within(now).map(({ seq, at, agent, tokens }): WindowFact['paid'][number] => [
      seq,
      at,
      agent,
      tokens,
    ])
    for (let from = 0; from < paid.length; from += PAID_AT_ONCE)
      yield { kind: 'budget.window', paid: paid.slice(from, from + PAID_AT_ONCE) }
  }

  #forget(now: number): void {
    const since = now - this.#windowMs
    for (const [seq, { at }] of this.#all) {
      if (at > since) break // the rest is later, but for a few that a compaction has logged again
      this.#all.delete(seq)
    }
  }
}

/** Output tokens that a call without a limit is believed to need; and the fewest that it accepts. */
const USUAL_OUTPUT = 4_096
const LEAST_OUTPUT = 256
/**
 * An upper bound of a prompt is set aside, and no count of it, while there is room for so many calls like it, or the
 * prompt is at most such a part of what is left. The first count loads a vocabulary, which blocks the host for a while.
 */
const FAR = 2
const SMALL = 1 / 8

/** Use of a limit on tokens. */
export interface BudgetUse {
  /** Option that sets the limit, such as `budget.perTeam.tokens`; `budget.tokens` is the one of the run itself. */
  option: string
  /** Run whose limit it is; null for one of the team. */
  runId: string | null
  /** Agent whose limit it is; null for one of all agents together. */
  agent: string | null
  /** Tokens of calls that have ended; of the team: within the last `windowMs`. */
  used: number
  /** Tokens that calls under way may need. */
  held: number
  limit: number
  /** Time after which the team's usage is forgotten, in ms; null if it is never. */
  windowMs: number | null
  /** Epoch ms at which the next part of it is free again; null if none will be, or all of it is. */
  freeAt: number | null
}

function layerOver(accounts: Budgets, { clock, limits }: Core): GatewayLayer {
  const ledger = new TokenLedger()
  const waiting = new Set<LimitWait>()
  limits.watch(() => waiting)
  return async (pending, next) => {
    const { caller, call, model, signal } = pending
    const { agent, run } = caller
    const counting = accounts.of(caller)
    if (counting.length === 0) return next(pending)
    accounts.during(run, () => accounts.letRest(ledger))
    const { maxOutputTokens } = call
    const most = mostOfPrompt({ ...call, model })
    const left = accounts.left(run, agent)
    const wanted = most + (maxOutputTokens ?? USUAL_OUTPUT)
    const isFar = left >= FAR * wanted || (left >= wanted && most <= left * SMALL)
    const counted = async () => {
      await loadVocabulary(model, clock)
      return countPrompt({ ...call, model })
    }
    const prompt = isFar ? most : await counted()
    let wait: LimitWait | undefined
    const onWait = ({ limit }: TokenAccount) => {
      const { path = 'budget', tokens = null } = limit ?? {}
      wait = { option: path, limit: tokens, runId: run.id, agent: agent.name, since: clock.now() }
      waiting.add(wait)
      limits.reached(wait, 'calls of models wait for what others hold')
    }
    const reserving = accounts.during(run, () =>
      ledger.reserve({
        agent: agent.name,
        priority: agent.settings.info.priority ?? 0,
        tokens: prompt + (maxOutputTokens ?? USUAL_OUTPUT),
        least: prompt + (maxOutputTokens ?? LEAST_OUTPUT),
        accounts: counting,
        signal,
        onWait,
      }),
    )
    const reservation = await reserving.finally(() => wait && waiting.delete(wait))
    let cost = 0
    try {
      const limited: ModelCall = { ...call, maxOutputTokens: reservation.tokens - prompt }
      const estimate: PendingCall['estimate'] = async (answer) => estimateOf(answer, await counted(), model)
      const made = await next({ ...pending, call: limited, estimate })
      cost = made.usage.totalTokens
      return made
    } finally {
      accounts.during(run, () => {
        accounts.letRest(ledger)
        reservation.settle(cost)
      })
    }
  }
}

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

export class Budgets {
  readonly #config: BudgetConfig
  readonly #core: Core
  readonly #team: TokenAccount | undefined
  readonly #ofRuns = new WeakMap<RunState, TokenAccount>()
  /** Agents of each run whose turns have called a model. */
  readonly #atWork = new Map<RunState, Set<Agent>>()
  #current: RunState | undefined
  /** Time that the window of the team counts, in ms; 0 without one. */
  readonly windowMs: number
  readonly #payments: Payments
  /** Layer of the model gateway that enforces the budgets. */
  readonly layer: GatewayLayer
  readonly part: Reader = {
    kinds: ['model.called'],
    next: (batch) => {
      for (const record of batch) if (record.kind !== 'frames') this.#payments.see(record)
    },
  }

  constructor(config: BudgetConfig, core: Core) {
    this.#config = config
    this.#core = core
    const { perTeam } = config
    this.windowMs = perTeam?.windowMs ?? 0
    this.#payments = new Payments(this.windowMs)
    if (perTeam) {
      this.#team = this.#account('budget.perTeam', perTeam, () => this.#current, perTeam.windowMs)
      core.limits.watch(() => this.#usedUp())
    }
    this.layer = layerOver(this, core)
  }

  /** Returns the accounts that a call counts in. */
  of({ run, agent }: ModelCaller): TokenAccount[] {
    const ofRun = this.#ofRun(run)
    const all = [ofRun, this.#team].filter((account) => account !== undefined)
    if (all.length === 0) return all
    const agents = this.#atWork.get(run)
    if (agents) agents.add(agent)
    else this.#atWork.set(run, new Set([agent]))
    return all
  }

  /** Counts what the team has paid in earlier processes. */
  restore(earlier: Payments): void {
    const now = this.#core.clock.now()
    const paid = earlier.within(now)
    this.#payments.add(paid)
    for (const { agent, tokens, at } of paid) this.#team?.restore(agent, tokens, Math.max(0, now - at))
  }

  /** Yields what the window of the team counts, as the durable log has it. */
  facts(): Iterable<WindowFact> {
    return this.#payments.facts(this.#core.clock.now())
  }

  /**
   * Returns the tokens that an agent may still use in a run if no other agent takes them; Infinity without a budget.
   */
  left(run: RunState, { name }: Agent): number {
    const all = [this.#ofRun(run), this.#team]
    return Math.min(...all.map((account) => account?.left(name) ?? Number.POSITIVE_INFINITY))
  }

  /** Returns what is used of the limits of the team, and of these runs. */
  uses(runs: Iterable<RunState>): BudgetUse[] {
    const windowMs = this.#config.perTeam?.windowMs ?? null
    const { clock } = this.#core
    const all = this.#team ? usesOf(this.#team, { runId: null, windowMs, now: clock.now() }) : []
    for (const run of runs) {
      const account = this.#ofRun(run)
      if (account) all.push(...usesOf(account, { runId: run.id, windowMs: null, now: clock.now() }))
    }
    return all
  }

  /** Yields the limits of the team of which so much is used that calls are refused. */
  *#usedUp(): IterableIterator<LimitWait> {
    const { clock } = this.#core
    const begin = clock.now() - clock.monotonic()
    for (const { limit, agent, used, freeInMs, reachedAt } of this.#team?.uses() ?? []) {
      if (reachedAt === undefined) continue
      const until = freeInMs === undefined ? undefined : clock.now() + freeInMs
      const free = until === undefined ? '' : `, the next part is free at ${new Date(until).toISOString()}`
      const trouble = { kind: 'budget', words: `${used} of ${limit.tokens} tokens${free}` } as const
      const since = begin + reachedAt
      yield { option: limit.path, limit: limit.tokens, agent: agent ?? undefined, since, until, trouble }
    }
  }

  #ofRun(run: RunState): TokenAccount | undefined {
    const known = this.#ofRuns.get(run)
    if (known) return known
    const { perRun } = this.#config
    if (!perRun && !run.budget) return undefined
    const limits = { tokens: perRun?.tokens, perAgentTokens: perRun?.perAgentTokens, ...run.budget }
    const account = this.#account(run.budget ? 'budget' : 'budget.perRun', limits, () => run)
    for (const [agent, tokens] of run.spent.costs) account.restore(agent, tokens) // in an earlier process
    this.#ofRuns.set(run, account)
    return account
  }

  #account(
    path: string,
    { tokens, perAgentTokens }: TokenLimit,
    runOf: () => RunState | undefined,
    windowMs?: number,
  ): TokenAccount {
    const { clock } = this.#core
    const limit = (name: string, value: number): Limit => ({ path: `${path}.${name}`, tokens: value })
    return new TokenAccount({
      ...(tokens !== undefined && { total: limit('tokens', tokens) }),
      ...(perAgentTokens !== undefined && { perAgent: limit('perAgentTokens', perAgentTokens) }),
      ...(windowMs !== undefined && { windowMs }),
      now: () => clock.monotonic(),
      onLevel: (level: Level) => this.#core.journal.record(runOf(), { kind: 'budget', ...level }),
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
  letRest(ledger: TokenLedger): void {
    for (const [run, agents] of this.#atWork) {
      const ofRun = this.#ofRuns.get(run)
      const account = ofRun ?? this.#team
      for (const agent of agents) {
        if (agent.isAt(run) || (account && ledger.awaits(agent.name, account))) continue
        agents.delete(agent)
        if (ofRun && !hasNamed(agents, agent)) ledger.rest(agent.name, ofRun)
        if (this.#team && ![...this.#atWork.values()].some((others) => hasNamed(others, agent)))
          ledger.rest(agent.name, this.#team)
      }
      if (agents.size === 0) this.#atWork.delete(run)
    }
  }
}

interface OfAccount {
  readonly runId: string | null
  readonly windowMs: number | null
  readonly now: number
}

const usesOf = (account: TokenAccount, { runId, windowMs, now }: OfAccount): BudgetUse[] =>
  Array.from(account.uses(), ({ limit, agent, used, held, freeInMs }) => ({
    option: limit.path,
    runId,
    agent,
    used,
    held,
    limit: limit.tokens,
    windowMs,
    freeAt: freeInMs === undefined ? null : now + freeInMs,
  }))

function hasNamed(agents: ReadonlySet<Agent>, { name }: Agent): boolean {
  for (const agent of agents) if (agent.name === name) return true
  return false
}
