/**
 * The real supervisor with agents in this thread, in virtual time, playing a random program while lives and runs are
 * ended at random. Safety: what must hold at every moment is checked with every record. Liveness: when the faults have
 * stopped everything comes to its end.
 */

import {
  type AgentContext,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type OrchestrationTrace,
  type Run,
} from '../../src/index.ts'
import { LocalThread } from '../../src/runtime/local-thread.ts'
import { imbalances, leftovers } from '../supervision/accounts.ts'
import { never, OpenTeam, silent } from '../supervision/teams.ts'
import { type Action, Dice, type Plan, randomPlan } from './random-program.ts'

const NAMES = ['ann', 'bob', 'cleo', 'dan', 'eve']
/** How a run may end when its agents are killed, fail and are cancelled. A run that hangs ends otherwise. */
const ENDS = ['RUN_ABORTED', 'AGENT_FAILED', 'AGENT_CRASHED', 'OUTCOME_UNKNOWN', 'AGENT_TERMINATED']
const LIMITS = ['MAILBOX_FULL', 'MESSAGE_EXPIRED', 'REQUEST_TIMEOUT']

export interface Outcome {
  /** What did not hold; empty when all did. */
  problems: string[]
  /** Everything that the runs say of themselves, to compare one play with another. */
  story: string
  crashes: number
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
  /** Who works now, and for which run; what an agent whose life has ended still does is none. */
  readonly #working = new Map<string, string>()
  readonly #lives = new Map<string, number>()
  #crashes = 0

  constructor(seed: number) {
    const dice = new Dice(seed)
    this.#dice = dice
    this.#limit = 1 + dice.upTo(3)
    const definition = defineAgent({
      receive: (message, context) => this.#receive(message as AgentMessage<Plan>, context),
    })
    this.#team = new OpenTeam(this.#options(), new Map(NAMES.map((name) => [name, definition])), seed)
    this.#team.host.records$.subscribe(() => this.#check())
  }

  #options() {
    const dice = this.#dice
    const agents: AgentRole[] = NAMES.map((name) => ({
      name,
      priority: dice.upTo(3),
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
      if (round % 10 === 0) this.#launch(`run${round / 10}`)
      if (this.#dice.chance(0.25)) this.#crash(this.#dice.pick(NAMES))
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
    const plan = randomPlan(this.#dice, NAMES, runId)
    this.#runs.push(this.#team.launch(JSON.stringify(plan), { runId }))
  }

  #crash(name: string): void {
    const thread = this.#team.host.cell(name)?.life?.thread
    if (!(thread instanceof LocalThread)) return
    this.#crashes += 1
    this.#lives.set(name, this.#lifeOf(name) + 1)
    this.#working.delete(name)
    thread.kill({ code: 1, error: undefined, outside: true })
  }

  #lifeOf(name: string): number {
    return this.#lives.get(name) ?? 0
  }

  // ---- what the agents do

  async #receive({ id, structuredData: plan, content: heard }: AgentMessage<Plan>, context: AgentContext) {
    const { name } = context.role
    const epoch = this.#team.host.cell(name)!.epoch
    const alive = () => this.#team.host.cell(name)!.life?.epoch === epoch && !this.#dead(name, life)
    const life = this.#lifeOf(name)
    this.#checkOrder(name, heard)
    this.#work(name, context)
    try {
      for (const [i, action] of plan.actions.entries()) {
        await this.#act(action, `${this.#mayComeAgain(plan.path) ? id : plan.path}:${i}@${name}`, context)
        if (!alive()) return await never
      }
      return `${name} did ${plan.path}`
    } finally {
      if (alive()) this.#working.delete(name)
    }
  }

  #dead(name: string, life: number): boolean {
    return this.#lifeOf(name) !== life
  }

  #work(name: string, context: AgentContext): void {
    this.#working.set(name, context.runId)
    const others = [...this.#working.values()].filter((run) => run === context.runId)
    if (others.length > this.#limit) this.#problem(`${others.length} turns of ${context.runId} are under way`)
  }

  async #act(action: Action, id: string, context: AgentContext): Promise<void> {
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
        return this.#tell(action, context)
    }
  }

  async #tell(action: Extract<Action, { plan: Plan }>, context: AgentContext): Promise<void> {
    const { name } = context.role
    const life = this.#lifeOf(name)
    const told = tell(action, context)
    this.#working.delete(name)
    try {
      const outcome = await told
      if (action.do === 'requestAny' || failedPartly(outcome)) this.#askedAgain.add(action.plan.path)
    } catch (error) {
      this.#askedAgain.add(action.plan.path)
      throw error
    } finally {
      if (!this.#dead(name, life) && !context.signal.aborted) this.#work(name, context)
    }
  }

  // ---- what must hold

  /** A retry asks again what had failed, or was not waited for: another message with the same plan. */
  #mayComeAgain(path: string): boolean {
    return [...this.#askedAgain].some((again) => path === again || path.startsWith(`${again}.`))
  }

  #problem(what: string): void {
    this.problems.push(`at ${this.#team.clock.monotonic()}: ${what}`)
  }

  #check(): void {
    for (const found of imbalances(this.#team.host)) this.#problem(found)
    for (const [id, times] of this.#effects) if (times > 1) this.#problem(`${id} was done ${times} times`)
  }

  /** What one turn has told one agent arrives in its order; the message under way may come again. */
  #checkOrder(name: string, path: string): void {
    const at = path.lastIndexOf('.')
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
    const turns = host.cells.map(({ name, turns, epoch, mailbox }) => [name, turns, epoch, mailbox.handled])
    return {
      problems: this.problems,
      story: JSON.stringify({ traces: this.#traces, runs, letters, turns }),
      crashes: this.#crashes,
      messages: runs.flat().length,
    }
  }
}

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
