/**
 * The real supervisor with agents in this thread, in virtual time, playing a random program while lives and runs are
 * ended at random. Safety: what must hold at every moment is checked with every record. Liveness: when the faults have
 * stopped everything comes to its end.
 */

import { Turn } from '../../src/actors/turn.ts'
import {
  type AgentContext,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type OrchestrationTrace,
  type Run,
} from '../../src/index.ts'
import type { Cell, Life } from '../../src/runtime/cell.ts'
import { LocalThread } from '../../src/runtime/local-thread.ts'
import { Dice } from '../dice.ts'
import { imbalances, leftovers } from '../supervision/accounts.ts'
import { OpenTeam, silent } from '../supervision/teams.ts'
import { type Action, type Plan, randomPlan } from './random-program.ts'

const NAMES = ['ann', 'bob', 'cleo', 'dan', 'eve']
/** How a run may end when its agents are killed, fail and are cancelled. A run that hangs ends otherwise. */
const ENDS = ['RUN_ABORTED', 'AGENT_FAILED', 'AGENT_CRASHED', 'OUTCOME_UNKNOWN', 'AGENT_TERMINATED']
const LIMITS = ['MAILBOX_FULL', 'MESSAGE_EXPIRED', 'REQUEST_TIMEOUT']

/** One handler at its message. */
interface Work {
  readonly name: string
  readonly runId: string
  readonly cell: Cell
  readonly life: Life
  readonly concurrency: number
  /** It does not wait for others. */
  busy: boolean
}

export interface Outcome {
  /** What did not hold; empty when all did. */
  problems: string[]
  /** Everything that the runs say of themselves, to compare one play with another. */
  story: string
  crashes: number
  /** How often an agent was seen at several turns. */
  interleaved: number
  /** How often two instances of an agent were seen at work. */
  beside: number
  /** How often a turn began within another one. */
  nested: number
  messages: number
}

export async function simulate(seed: number): Promise<Outcome> {
  const play = new Play(seed)
  await play.perform()
  return play.outcome()
}

class Play {
  readonly problems: string[] = []
  readonly #dice: Dice
  readonly #limit: number
  readonly #team: OpenTeam
  readonly #runs: Run[] = []
  readonly #traces: OrchestrationTrace[] = []
  readonly #effects = new Map<string, number>()
  /** Of requests that failed or whose answer came second: a turn that is tried again asks them again. */
  readonly #askedAgain = new Set<string>()
  readonly #lastHeard = new Map<string, number>()
  /** Who is at work now; what an agent whose life has ended still does is none. */
  readonly #works = new Set<Work>()
  readonly #killed = new Set<Life>()
  #crashes = 0
  #interleaved = 0
  #beside = 0
  #nested = 0

  constructor(seed: number) {
    const dice = new Dice(seed)
    this.#dice = dice
    this.#limit = 1 + dice.upTo(3)
    const definition = defineAgent({
      receive: (message, context) => this.#receive(message as AgentMessage<Plan>, context),
    })
    this.#team = new OpenTeam(this.#options(), new Map(NAMES.map((name) => [name, definition])), seed)
    this.#team.host.records$.subscribe((batch) => {
      for (const { kind } of batch)
        if (kind === 'deadlock' || kind === 'stall')
          this.#problem(`a ${kind} was found where nobody waits for who came before`)
      this.#check()
    })
  }

  #options() {
    const dice = this.#dice
    const agents: AgentRole[] = NAMES.map((name) => ({
      name,
      priority: dice.upTo(3),
      concurrency: dice.chance(0.4) ? 2 + dice.upTo(3) : 1,
      instances: dice.chance(0.4) ? 2 + dice.upTo(2) : 1,
      reentrancy: dice.chance(0.5) ? 'chain' : 'none',
      supervision: { onHandlerError: dice.pick(['fail', 'fail', 'retry', 'restart'] as const) },
    }))
    return {
      agents,
      logger: silent,
      maxConcurrentAgents: this.#limit,
      supervision: { maxRestarts: dice.chance(0.3) ? 3 : Number.POSITIVE_INFINITY, coolDownMs: 500 },
      communication: {
        ...(dice.chance(0.4) && { mailboxCapacity: 1 + dice.upTo(3) }),
        ...(dice.chance(0.2) && { overflow: dice.pick(['reject', 'drop_oldest', 'drop_newest'] as const) }),
        ...(dice.chance(0.2) && { queueTimeoutMs: 40 }),
        ...(dice.chance(0.2) && { responseTimeoutMs: 60 }),
        ...(dice.chance(0.3) && { retries: 1 + dice.upTo(2) }),
      },
      orchestration: {
        strategy: 'custom' as const,
        run: async (script: AgentContext, query: string) => {
          const plan = JSON.parse(query) as Plan
          return (await script.request(NAMES[0]!, plan.path, { structuredData: plan })).content
        },
      },
    }
  }

  async perform(): Promise<void> {
    await this.#team.start()
    for (let round = 0; round < 40; round++) {
      if (round % 10 === 0 || this.#dice.chance(0.2)) this.#launch(`run${this.#runs.length}`)
      if (this.#dice.chance(0.25)) this.#crash(this.#dice.pick(this.#team.host.cell(this.#dice.pick(NAMES))!.instances))
      if (this.#dice.chance(0.03)) void this.#dice.pick(this.#runs).cancel('by chance')
      await this.#team.clock.advance(this.#dice.upTo(15))
    }
    await this.#team.clock.runToIdle()
    await this.#judge()
    const closed = this.#team.close()
    await this.#team.clock.runToIdle()
    await closed
  }

  #launch(runId: string): void {
    const reentrant = NAMES.filter((name) => this.#team.host.cell(name)!.settings.reentrancy === 'chain')
    const plan = randomPlan(this.#dice, NAMES, runId, reentrant)
    this.#runs.push(this.#team.launch(JSON.stringify(plan), { runId }))
  }

  #crash({ life }: Cell): void {
    if (!(life?.thread instanceof LocalThread)) return
    this.#crashes += 1
    this.#killed.add(life)
    life.thread.kill({ code: 1, error: undefined, outside: true })
  }

  /** Its thread has not been ended. */
  #alive({ cell, life }: Work): boolean {
    return cell.life === life && !this.#killed.has(life)
  }

  // ---- what the agents do

  async #receive({ id, structuredData: plan, content: heard }: AgentMessage<Plan>, context: AgentContext) {
    const { name } = context.role
    this.#checkOrder(name, heard)
    const work = this.#begin(context)
    try {
      for (const [i, action] of plan.actions.entries()) {
        await this.#act(action, `${this.#mayComeAgain(plan.path) ? id : plan.path}:${i}@${name}`, context, work)
        if (!this.#alive(work)) return await new Promise<never>(() => {}) // one that nobody else holds: what waits can be collected
      }
      return `${name} did ${plan.path}`
    } finally {
      this.#works.delete(work)
    }
  }

  #begin(context: AgentContext): Work {
    const { name } = context.role
    const cell = this.#cellOf(name, context)
    const { concurrency } = cell.settings
    const work = { name, runId: context.runId, cell, life: cell.life!, concurrency, busy: true }
    this.#works.add(work)
    this.#checkWorks(work)
    return work
  }

  /** In whose thread the turn is. */
  #cellOf(name: string, context: AgentContext): Cell {
    if (!(context instanceof Turn)) throw new Error('a context is a turn')
    return this.#team.host.cell(name)!.holderOf(context.start.turn)!
  }

  async #act(action: Action, id: string, context: AgentContext, work: Work): Promise<void> {
    switch (action.do) {
      case 'fail':
        throw new Error(`${id} fails`)
      case 'sleep':
        return context.sleep(action.ms)
      case 'draw':
        context.random()
        context.now()
        return
      case 'step':
        return context.step(id, () => void this.#effects.set(id, (this.#effects.get(id) ?? 0) + 1))
      default:
        return this.#tell(action, context, work)
    }
  }

  async #tell(action: Extract<Action, { plan: Plan }>, context: AgentContext, work: Work): Promise<void> {
    const told = tell(action, context)
    work.busy = false
    try {
      const outcome = await told
      if (action.do === 'requestAny' || failedPartly(outcome)) this.#askedAgain.add(action.plan.path)
    } catch (error) {
      this.#askedAgain.add(action.plan.path)
      throw error
    } finally {
      if (!context.signal.aborted) this.#goOn(work)
    }
  }

  #goOn(work: Work): void {
    work.busy = true
    this.#checkWorks(work)
  }

  // ---- what must hold

  /** A retry asks again what had failed, or was not waited for: another message with the same plan. */
  #mayComeAgain(path: string): boolean {
    return [...this.#askedAgain].some((again) => path === again || path.startsWith(`${again}.`))
  }

  #problem(what: string): void {
    this.problems.push(`at ${this.#team.clock.monotonic()}: ${what}`)
  }

  /** Rule 19; and of each thread: turns of as many runs as `concurrency` says, and one of each at work. */
  #checkWorks(work: Work): void {
    if (!this.#alive(work)) return
    const living = [...this.#works].filter((other) => this.#alive(other))
    const busy = living.filter(({ busy, runId }) => busy && runId === work.runId).length
    if (busy > this.#limit) this.#problem(`${busy} turns of ${work.runId} are under way`)
    const beside = living.filter(({ life }) => life === work.life)
    const runs = new Set(beside.map(({ runId }) => runId)).size
    if (runs > work.concurrency) this.#problem(`${work.name} has turns of ${runs} runs open`)
    if (runs > 1) this.#interleaved += 1
    if (living.some(({ name, life }) => name === work.name && life !== work.life)) this.#beside += 1
    const own = beside.filter(({ runId }) => runId === work.runId)
    if (own.length === 1) return
    this.#nested += 1
    if (work.cell.settings.reentrancy === 'none') this.#problem(`${work.name} has two turns of one run open`)
    if (own.some((other) => other !== work && other.busy)) this.#problem(`${work.name} is at two turns of one run`)
  }

  #check(): void {
    for (const found of imbalances(this.#team.host)) this.#problem(found)
    for (const [id, times] of this.#effects) if (times > 1) this.#problem(`${id} was done ${times} times`)
    for (const cell of this.#team.host.cells) for (const found of orphans(cell)) this.#problem(found)
  }

  /** What one turn has told one agent arrives in its order; the message under way may come again. */
  #checkOrder(name: string, path: string): void {
    const at = path.lastIndexOf('.')
    // Of several instances one may be slower than the other, or die with what it was handed.
    if (this.#team.host.cell(name)!.instances.length > 1) return
    if (at < 0 || this.#mayComeAgain(path)) return
    const key = `${path.slice(0, at)} to ${name}`
    const number = Number(path.slice(at + 1))
    const last = this.#lastHeard.get(key) ?? -1
    if (number < last) this.#problem(`${name} heard ${path} after number ${last}`)
    this.#lastHeard.set(key, Math.max(number, last))
  }

  async #judge(): Promise<void> {
    for (const run of this.#runs) {
      if (run.status === 'running' || run.status === 'queued') this.#problem(`${run.id} never ended`)
      else {
        const { error, orchestrationTrace } = await run.result
        this.#traces.push(orchestrationTrace)
        if (error && ![...ENDS, ...LIMITS].includes(error.code)) this.#problem(`${run.id}: ${error.message}`)
      }
    }
    this.#check()
    for (const left of leftovers(this.#team.host)) this.#problem(`left over: ${left}`)
  }

  outcome(): Outcome {
    const { host } = this.#team
    const runs = this.#runs.map((run) => this.#team.getMessageHistory(run.id))
    const letters = this.#team.deadLetters.list().map(({ id, reason, at }) => ({ id, reason, at }))
    const turns = host.actors.map(({ name, turns, epoch, mailbox }) => [name, turns, epoch, mailbox.handled])
    return {
      problems: this.problems,
      story: JSON.stringify({ traces: this.#traces, runs, letters, turns }),
      crashes: this.#crashes,
      interleaved: this.#interleaved,
      beside: this.#beside,
      nested: this.#nested,
      messages: runs.flat().length,
    }
  }
}

/** Requests that are to run within a turn that is gone: with a turn goes what it waits for. */
const orphans = (cell: Cell): string[] =>
  [...cell.mailbox.queued(), ...cell.instances.flatMap(({ mailbox }) => [...mailbox.handed.values()])].flatMap(
    ({ within, cancelled }) =>
      within && !cancelled && cell.messageOf(within.turn) !== within ? [`${cell.name} has an orphan`] : [],
  )

const failedPartly = (outcome: unknown) => Array.isArray(outcome) && outcome.some(({ ok }: { ok: boolean }) => !ok)

function tell(action: Extract<Action, { plan: Plan }>, context: AgentContext): Promise<unknown> {
  const { plan } = action
  const options = { structuredData: plan }
  switch (action.do) {
    case 'send':
      return context.send(action.to, plan.path, options)
    case 'request':
      return context.request(action.to, plan.path, options)
    case 'requestAll':
      return context.requestAll(action.to, plan.path, options)
    case 'requestAny':
      return context.requestAny(action.to, plan.path, options)
  }
}
