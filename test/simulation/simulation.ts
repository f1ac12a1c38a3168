/**
 * The real supervisor with agents in this thread, in virtual time, playing a random program while lives and runs are
 * ended at random. Safety: what must hold at every moment is checked with every record. Liveness: when the faults have
 * stopped everything comes to its end, also where agents come to wait for each other.
 */
import { turnBehind } from '../../src/actors/turn/context.ts'
import {
  type AgentContext,
  type AgentMessage,
  defineAgent,
  type OrchestrationTrace,
  type Run,
} from '../../src/index.ts'
import { OpenWork } from '../../src/runtime/durability/open-work.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import type { Incarnation } from '../../src/runtime/host/incarnation.ts'
import type { Batch, Unrecorded } from '../../src/runtime/log/records.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import type { ThreadExit } from '../../src/runtime/threads/thread.ts'
import { Dice } from '../dice.ts'
import { imbalances, leftovers, unclaimed } from '../kit/accounts.ts'
import { OpenTeam } from '../kit/team.ts'
import { answeredTwice, BoardFold, lostInBytes, Restarts, unfolded } from './invariants.ts'
import {
  type Action,
  entangledPlan,
  MEETING,
  MEMBERS,
  type Plan,
  plansIn,
  randomPlan,
  type Telling,
  type Verbs,
} from './random-program.ts'
import { ALL, entangledTeam, MANAGERS, NAMES, orderlyTeam, talkativeTeam } from './random-team.ts'
import { type Mode, type Outcome, Seen } from './seen.ts'
import { isGuidance, mayAskAgain, passOver, pathOf, pieceOf, Torn, tell, waitOf } from './telling.ts'
import { type Asked, Truth, type Wait, type Work } from './truth.ts'
import { overdone } from './works.ts'

/** How a run may end when its agents are killed, fail and are cancelled. A run that hangs ends otherwise. */
const ENDS = ['RUN_ABORTED', 'AGENT_FAILED', 'AGENT_CRASHED', 'OUTCOME_UNKNOWN', 'AGENT_TERMINATED']
const LIMITS = ['MAILBOX_FULL', 'MESSAGE_EXPIRED', 'REQUEST_TIMEOUT']

export type Threads = { max?: number; idleMs?: number }

const BY_HOST = { kind: 'host' } as const
const optionsFor = { orderly: orderlyTeam, talkative: talkativeTeam, entangled: entangledTeam }

/** Looks at a team while it plays; returns what is wrong, when everything has come to its end. */
export type Watch = (team: OpenTeam) => () => Promise<string[]>

export interface Extras {
  /** Bounds of the agents' threads, if there are any. */
  threads?: Threads | undefined
  /** Every second agent shares a thread with the others of these: when one dies, all of them do. */
  shares?: boolean
  watch?: Watch
}

export async function simulate(seed: number, mode: Mode, extras: Extras = {}): Promise<Outcome> {
  const play = new Play(seed, mode, extras)
  await play.perform()
  return play.outcome()
}

class Play {
  readonly problems: string[] = []
  readonly #mode: Mode
  readonly #seen = new Seen()
  readonly #dice: Dice
  readonly #limit: number
  readonly #team: OpenTeam
  readonly #runs: Run[] = []
  readonly #traces: OrchestrationTrace[] = []
  readonly #plans = new Map<string, Plan>()
  readonly #effects = new Map<string, number>()
  /** Of requests that failed or whose answer came second: a turn that is tried again asks them again. */
  readonly #askedAgain = new Set<string>()
  readonly #lastHeard = new Map<string, number>()
  readonly #truth: Truth
  readonly #restarts: Restarts
  readonly #boards = new BoardFold()
  readonly #work: OpenWork
  readonly #buried = new Set<string>()
  readonly #threads: Threads | undefined
  readonly #watched: (() => Promise<string[]>) | undefined
  readonly #sharing: readonly string[]

  constructor(seed: number, mode: Mode, { threads, shares = false, watch }: Extras) {
    const dice = new Dice(seed)
    this.#mode = mode
    this.#dice = dice
    this.#limit = 1 + dice.upTo(3)
    const definition = defineAgent({
      receive: (message, context) => this.#receive(message, context),
      ...(mode === 'talkative' && { observe: () => this.#seen.hear() }),
    })
    const options = optionsFor[mode](dice, this.#limit)
    this.#threads = threads
    this.#sharing = shares ? ALL.filter((_, at) => at % 2 === 0) : []
    this.#team = new OpenTeam(
      { ...options, ...(threads && { threads }) },
      new Map(ALL.map((name) => [name, definition])),
      seed,
    )
    const { directory, runs } = this.#team.host
    this.#work = new OpenWork((name, run) => directory.agent(name, runs.get(run))?.index)
    this.#truth = new Truth((agent) => this.#team.host.directory.agent(agent)!.instances)
    const { maxRestarts = 3, withinMs = 60_000 } = options.supervision ?? {}
    this.#restarts = new Restarts(maxRestarts, withinMs, () => this.#team.clock.monotonic())
    this.#team.host.journal.records$.subscribe((batch) => this.#check(batch))
    this.#listen(this.#team.host)
    this.#watched = watch?.(this.#team)
  }

  /** Hears what the host says when it says it: what it does about it may be in the same batch of records. */
  #listen(host: Supervisor): void {
    const record = host.journal.record.bind(host.journal)
    host.journal.record = (run, fields) => {
      this.#hear(fields)
      return record(run, fields)
    }
  }

  async perform(): Promise<void> {
    await this.#team.start()
    for (let round = 0; round < 40; round++) {
      if (round % 10 === 0 || this.#dice.chance(0.2)) this.#launch(`run${this.#runs.length}`)
      if (this.#dice.chance(0.25))
        this.#crash(this.#dice.pick(this.#team.host.directory.agent(this.#dice.pick(ALL))!.instances))
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
    const plan =
      this.#mode === 'entangled'
        ? entangledPlan(this.#dice, ALL, runId)
        : randomPlan(this.#dice, NAMES, runId, this.#verbs())
    for (const each of plansIn(plan)) this.#plans.set(each.path, each)
    this.#runs.push(this.#team.launch(runId, { runId }))
  }

  #verbs(): Verbs {
    const agents = NAMES.map((name) => this.#team.host.directory.agent(name)!)
    const reentrant = agents.filter(({ settings }) => settings.reentrancy === 'chain').map(({ name }) => name)
    const verbs = { reentrant, tasks: true, meetings: true }
    if (this.#mode === 'orderly') return verbs
    // A full mailbox of who waits for its sender would be a deadlock.
    const broadcasts = agents.every(({ settings }) => settings.mailbox.capacity > 1_000)
    return { ...verbs, talk: true, broadcasts, managers: MANAGERS }
  }

  #crash({ name, incarnation }: Agent): void {
    if (!incarnation) return
    this.#kill(incarnation, { code: 1, error: undefined, outside: true })
    if (!this.#sharing.includes(name)) return
    const bystander = { culprit: name, why: 'it was killed by chance' }
    for (const { incarnation: other } of this.#sharing.flatMap(
      (each) => this.#team.host.directory.agent(each)!.instances,
    ))
      if (other && other !== incarnation) this.#kill(other, { code: 1, error: undefined, bystander })
  }

  #kill(incarnation: Incarnation, exit: ThreadExit): void {
    if (!(incarnation.thread instanceof LocalThread)) return
    this.#seen.crashes += 1
    this.#truth.killed.add(incarnation)
    incarnation.thread.kill(exit)
  }

  // ---- what the agents do

  async #receive(message: AgentMessage, context: AgentContext): Promise<string> {
    const { name } = context.role
    const { id } = message
    const path = pathOf(message)
    const { actions } = this.#plans.get(path)!
    this.#checkOrder(name, path)
    const work = this.#begin(path, context)
    let well = false
    try {
      for (const [i, action] of actions.entries()) {
        if (this.#mode === 'talkative') context.emit(pieceOf(i))
        await this.#act(action, `${this.#mayComeAgain(path) ? id : path}:${i}@${name}`, context, work)
        if (!this.#truth.alive(work)) return await new Promise<never>(() => {}) // one that nobody else holds: what waits can be collected
      }
      well = true
      return `${name} did ${path} ${actions.length}`
    } finally {
      this.#truth.end(work, well)
    }
  }

  #begin(path: string, context: AgentContext): Work {
    const { runId, signal } = context
    const { name } = context.role
    const agent = this.#agentOf(name, context)
    const { concurrency } = agent.settings
    // In its first attempt it asks nothing that was asked before: what came of that is of an earlier message with the same plan.
    const again = context.attempt === 1 || this.#truth.hasFailed({ path, agent: name })
    const work = {
      name,
      runId,
      path,
      again,
      agent,
      incarnation: agent.incarnation!,
      signal,
      concurrency,
      wait: undefined,
      handsOff: false,
    }
    this.#truth.begin(work)
    this.#checkWorks(work)
    return work
  }

  /** In whose thread the turn is. */
  #agentOf(name: string, context: AgentContext): Agent {
    const turn = turnBehind(context)
    if (!turn) throw new Error('no turn is behind this context')
    return this.#team.host.directory.agent(name)!.holderOf(turn.start.turn)!
  }

  async #act(action: Action, id: string, context: AgentContext, work: Work): Promise<unknown> {
    switch (action.do) {
      case 'fail':
        throw new Error(`${id} fails`)
      case 'sleep':
        return context.sleep(action.ms)
      case 'draw':
        return [context.random(), context.now()]
      case 'step':
        return context.step(id, () => void this.#effects.set(id, (this.#effects.get(id) ?? 0) + 1))
      case 'meet':
        return this.#meet(context, work)
      case 'broadcast':
        return this.#waiting(work, BY_HOST, context.broadcast(id))
      case 'publish':
        return this.#waiting(work, BY_HOST, context.publish(action.key, id, 'note'))
      case 'waitFor':
        return this.#waiting(work, BY_HOST, context.blackboard.waitFor(action.key, action).catch(passOver))
      default:
        return this.#tell(action, context, work)
    }
  }

  async #meet(context: AgentContext, work: Work): Promise<void> {
    const others = MEMBERS.filter((name) => name !== work.name)
    const met = await this.#waiting(work, { kind: 'meeting', of: others }, context.sync(MEETING, work.path))
    if (met.missing.length === 0) this.#seen.meetings += 1
  }

  async #tell(action: Telling, context: AgentContext, work: Work): Promise<void> {
    const { path } = action.plan
    const asked: Asked[] = [action.to].flat().map((agent) => ({ path, agent }))
    if (work.again) this.#truth.again(path)
    for (const each of asked) this.#truth.tells(work, each)
    work.handsOff = action.do === 'handoff'
    try {
      const outcome = await this.#waiting(work, waitOf(action, asked), tell(action, context))
      if (mayAskAgain(action, outcome)) this.#askedAgain.add(path)
      if (action.do === 'delegate') this.#seen.tasks += 1
      if (action.do === 'requestStream') this.#seen.streams += 1
      if (isGuidance(outcome)) this.#seen.guidance += 1
      if (action.do === 'handoff') this.#handedOff(work, asked[0]!)
    } catch (error) {
      if (error instanceof Torn) this.#problem(`${work.name}: ${error.message}`)
      this.#askedAgain.add(path)
      throw error
    }
  }

  #handedOff(work: Work, to: Asked): void {
    this.#seen.handoffs += 1
    this.#truth.moved({ path: work.path, agent: work.name }, to)
  }

  async #waiting<T>(work: Work, wait: Wait, answer: Promise<T>): Promise<T> {
    work.wait = wait
    try {
      return await answer
    } finally {
      // A run that is over is not limited any more: all of its turns are told to stop.
      if (!this.#isOver(work)) {
        work.wait = undefined
        this.#checkWorks(work)
      }
    }
  }

  #isOver({ runId }: Work): boolean {
    return this.#runs.find(({ id }) => id === runId)?.status !== 'running'
  }

  // ---- what must hold

  /** A retry asks again what had failed, or was not waited for: another message with the same plan. */
  #mayComeAgain(path: string): boolean {
    return [...this.#askedAgain].some((again) => path === again || path.startsWith(`${again}.`))
  }

  #problem(what: string): void {
    this.problems.push(`at ${this.#team.clock.monotonic()}: ${what}`)
  }

  #hear(record: Unrecorded): void {
    if (record.kind !== 'alarm') return
    if (record.name === 'stall') this.#problem(`a stall: ${record.sentence}`)
    if (record.name !== 'deadlock') return
    const { cycle, victim } = record.fields
    this.#seen.deadlocks += 1
    // Who meets may do so in two runs at once, each with the other one first.
    if (this.#mode !== 'entangled' && !cycle.every((name) => MEMBERS.some((member) => member === name)))
      this.#problem(`a deadlock of ${cycle.join(', ')}`)
    const refuted = victim === null ? this.#truth.refute(cycle) : undefined
    if (refuted) this.#problem(`no deadlock of ${cycle.join(', ')}: ${refuted}`)
  }

  #checkWorks(work: Work): void {
    for (const found of overdone(this.#truth, work, this.#limit, this.#seen)) this.#problem(found)
  }

  #check(batch: Batch = []): void {
    for (const entry of batch) {
      this.#restarts.next(entry)
      this.#boards.next(entry)
      this.#work.see(entry)
      if (entry.kind === 'message.dead') this.#buried.add(entry.letter.message.id)
    }
    for (const found of lostInBytes(batch)) this.#problem(found)
    const { host } = this.#team
    for (const found of [...imbalances(host), ...unclaimed(host)]) this.#problem(found)
    if (!host.journal.hasNews)
      for (const found of unfolded(host, this.#work)) if (!this.#isBuried(found)) this.#problem(found)
    for (const [id, times] of this.#effects) if (times > 1) this.#problem(`${id} was done ${times} times`)
    for (const agent of this.#team.host.directory.byIndex) for (const found of orphans(agent)) this.#problem(found)
  }

  /** A task that was handed off and has no caller is a dead letter as soon as it fails, and its turn may still be stopping. */
  #isBuried(found: string): boolean {
    return found.startsWith('the fold lacks the message') && this.#buried.has(found.split(' ').at(-1)!)
  }

  /** What one turn has told one agent arrives in its order; the message under way may come again. */
  #checkOrder(name: string, path: string): void {
    const at = path.lastIndexOf('.')
    // Of several instances one may be slower than the other, or die with what it was handed.
    if (this.#team.host.directory.agent(name)!.instances.length > 1) return
    if (at < 0 || this.#mayComeAgain(path)) return
    const key = `${path.slice(0, at)} to ${name}`
    const number = Number(path.slice(at + 1))
    const last = this.#lastHeard.get(key) ?? -1
    if (number < last) this.#problem(`${name} heard ${path} after number ${last}`)
    this.#lastHeard.set(key, Math.max(number, last))
  }

  async #judge(): Promise<void> {
    const ends = this.#mode === 'entangled' ? [...ENDS, 'DEADLOCK'] : [...ENDS, ...LIMITS]
    for (const run of this.#runs) {
      if (run.status === 'running' || run.status === 'queued') this.#problem(`${run.id} never ended`)
      else {
        const { error, orchestrationTrace } = await run.result
        this.#traces.push(orchestrationTrace)
        if (error && !ends.includes(error.code)) this.#problem(`${run.id}: ${error.message}`)
      }
      for (const twice of answeredTwice(run.messageHistory)) this.#problem(`${run.id}: ${twice}`)
    }
    for (const { id, index } of this.#team.host.runs.values())
      for (const what of await this.#boards.differences(index, this.#team.getBlackboard(id)))
        this.#problem(`${id}: ${what}`)
    this.#seen.entries = this.#boards.size
    this.#check()
    if (this.#threads) this.#judgeThreads(this.#threads)
    for (const broken of this.#restarts.broken) this.#problem(broken)
    for (const left of leftovers(this.#team.host)) this.#problem(`left over: ${left}`)
    for (const found of (await this.#watched?.()) ?? []) this.#problem(found)
  }

  /** Nothing is left to do, so no agent has a thread, and no place among the threads is taken for nothing. */
  #judgeThreads({ idleMs }: Threads): void {
    const { directory, passivation, places } = this.#team.host
    this.#seen.passivations = passivation.count
    if (places.waiting > 0) this.#problem(`${places.waiting} agents wait for a thread`)
    if (idleMs === undefined) return
    const living = directory.living.filter(({ settings }) => settings.isAgent).map(({ name }) => name)
    if (living.length > 0) this.#problem(`idle, and with threads: ${living}`)
    if (places.taken !== 0) this.#problem(`${places.taken} threads too many are counted`)
  }

  outcome(): Outcome {
    const { host } = this.#team
    const runs = this.#runs.map((run) => this.#team.getMessageHistory(run.id))
    const letters = this.#team.deadLetters.list().map(({ id, reason, at }) => ({ id, reason, at }))
    const turns = host.directory.actors.map(({ name, turns, epoch, mailbox }) => [name, turns, epoch, mailbox.handled])
    this.#seen.messages = runs.flat().length
    return {
      problems: this.problems,
      story: JSON.stringify({ traces: this.#traces, runs, letters, turns }),
      seen: this.#seen,
    }
  }
}

/** Requests that are to run within a turn that is gone: with a turn goes what it waits for. One that is handed off it waits for no more. */
const orphans = (agent: Agent): string[] =>
  [...agent.mailbox.queued(), ...agent.instances.flatMap(({ mailbox }) => [...mailbox.handed.values()])].flatMap(
    ({ within, cancelled, handedOff }) =>
      within && !cancelled && !handedOff && agent.messageOf(within.turn) !== within
        ? [`${agent.name} has an orphan`]
        : [],
  )
