import { correlationOf, kindOf, lengthOf, limitOf, type Memory, QUIET, senderOf, turnOf } from '../../mailbox/frame.ts'
import type { Timer } from '../../shared/clock.ts'
import { DeadlockError, type DramatisError, StallError } from '../../shared/errors.ts'
import type { Incarnation } from '../host/incarnation.ts'
import type { Reader } from '../host/journal.ts'
import { isProbe } from '../host/replies.ts'
import type { RunState } from '../host/run.ts'
import type { Alarm, Batch } from '../log/records.ts'
import { BoundedMap } from '../log/run-log.ts'
import type { Supervisor } from '../supervision/host.ts'
import { namedWaits, type Stuck, Suspicion, sentenceOf, stuckNow, waitKey } from './stalls.ts'
import type { OpenWait, TurnNode } from './wait-for-graph.ts'

/** Chooses the turn of a cycle that gives up its wait so that the others go on: rule 26. */

export interface Candidate {
  readonly agent: string
  /** A higher number is more urgent. */
  readonly priority: number
  /** Tokens that the turn has spent on models; they would be lost. */
  readonly tokens: number
  /** Start of the wait; epoch ms. */
  readonly since: number
}

/** Maximum number of times in a row that one agent is the victim, and so the number of earlier victims to remember. */
const MOST_IN_A_ROW = 3

/**
 * Returns the victim: the least urgent of the cycle, then the one that has spent the fewest tokens, then the one that
 * has waited the shortest time; of equals the first. An agent that was the victim `MOST_IN_A_ROW` times in a row is
 * spared, unless the cycle has no other: it must be broken. `earlier` has the names of earlier victims, the latest
 * last.
 */
export function chooseVictim<T extends Candidate>(cycle: readonly T[], earlier: readonly string[]): T | undefined {
  const recent = earlier.slice(-MOST_IN_A_ROW)
  const isSpared = ({ agent }: T) => recent.length === MOST_IN_A_ROW && recent.every((victim) => victim === agent)
  const others = cycle.filter((candidate) => !isSpared(candidate))
  const [victim] = (others.length > 0 ? others : cycle).toSorted(
    (a, b) => a.priority - b.priority || a.tokens - b.tokens || b.since - a.since,
  )
  return victim
}

const candidate = (turn: TurnNode, wait: OpenWait) => {
  const { name, settings } = turn.agent
  const priority = settings.info.priority ?? 0
  return { turn, wait, agent: name, priority, tokens: tokensOf(turn), since: wait.since }
}

/** Returns the tokens that the turn has spent on models. It is less if the log has discarded a part. */
function tokensOf({ agent, envelope }: TurnNode): number {
  let tokens = 0
  for (const entry of envelope.run.log.entries())
    if (entry.kind === 'model.called' && entry.index === agent.index && entry.turn === envelope.turn)
      tokens += entry.usage.totalTokens
  return tokens
}

function errorOf(stuck: Stuck, victim: TurnNode, wait: OpenWait | undefined): DramatisError {
  const { cycle, tail, turns } = stuck
  const runIds = [...stuck.runs].map(({ id }) => id)
  const agent = victim.agent.name
  const done = wait ? `The wait of "${agent}" was ended` : `The thread of "${agent}" was ended`
  if (cycle.length === 0) {
    const evidence = turns.map(sentenceOf)
    const text = `Nobody is left who could go on: ${evidence.join('; ')}. ${done}. Let somebody write or answer what is waited for before all wait, or give the wait a timeoutMs.`
    return new StallError(text, { agent, evidence, runIds })
  }
  const names = cycle.map((turn) => turn.agent.name)
  const text = `A deadlock: ${cycle.map(sentenceOf).join('; ')}. ${done} so that the others go on. Ask in one order everywhere, or let one of them send what it has before it asks.`
  return new DeadlockError(text, { agent, cycle: names, tail: tail.map((turn) => turn.agent.name), runIds })
}

/*
 * Finds turns that wait for each other, or for something that nobody can bring; reports them and breaks the deadlock or
 * stall (rules 22 to 27). It looks when the start or the end of a wait can have closed a cycle, and reads the host's
 * own records. Before it reports, each thread concerned has confirmed that its turn only waits; before it breaks, once
 * more.
 */

const MOST_REMEMBERED = 1_024
/** Longest pause before a turn that has something else to do is asked again. The pauses grow up to this. */
const LONGEST_PAUSE_MS = 60_000

/** Group of turns that look stuck. */
interface Case {
  stuck: Stuck
  /** All waits that the turns had when they were last asked. A new wait shows that its turn has done something. */
  waits: ReadonlySet<string>
  /** Number of turns that have not answered yet whether they only wait. */
  asked: number
  busy: boolean
  /**
   * Number of frames that each thread had been given when its turn was asked. With a later frame the turn may go on.
   */
  readonly told: Map<Incarnation, number>
  /** Time since which all turns are known to do nothing but wait. Monotonic ms. */
  confirmedAt: number | undefined
  /** Pause before the next questions while one of the turns has something else to do. */
  busyMs: number
  /** Pause before the next questions while a frame is on its way to one of the turns. */
  settlingMs: number
  timer: Timer | undefined
}

/** Question to a thread or to the host whether a turn only waits. */
interface Question {
  readonly of: Case
  /** undefined: the question is for the host, which answers when it has nothing else to do. */
  readonly turn: TurnNode | undefined
  /** True if the turn has answered that it has something else to do. */
  isBusy: boolean
}

export const deadlock =
  (mode: 'break' | 'report', confirmMs: number, foreignScript: boolean): ((host: Supervisor) => Reader) =>
  (host) =>
    new Detector(host, mode, confirmMs, foreignScript)

/**
 * Checks whether a turn may still go on: by a frame that came after the question, or by one that waits in the host for
 * a permit or for room. What a suspended turn waits for is held until it has a place: here a stuck turn has that.
 */
const mayGoOn = ({ told, stuck }: Case): boolean =>
  [...told].some(([incarnation, before]) => incarnation.told !== before || !incarnation.backlog.every(isProbe)) ||
  stuck.turns.some(
    ({ agent: { incarnation, mailbox }, envelope: { run, turn } }) =>
      incarnation?.holds(run.index) && !mailbox.handed.suspended.has(turn),
  )

/**
 * Checks for a redelivered turn whose thread has not begun it yet. Perhaps it does not ask again for what it waited for
 * before.
 */
const isToBegin = ({ agent: { incarnation }, envelope }: TurnNode): boolean => !incarnation?.begun(envelope)

const waitsOf = ({ turns }: Stuck): Set<string> =>
  new Set(turns.flatMap((turn) => turn.waits.map((wait) => waitKey(turn, wait))))

class Detector implements Reader {
  readonly #host: Supervisor
  readonly #mode: 'break' | 'report'
  readonly #confirmMs: number
  /** True if the protocol is a function of the user, in the host. */
  readonly #foreignScript: boolean
  /** Names of the last victims, the latest last. */
  #victims: string[] = []
  /** Turns whose wait was rejected once. */
  readonly #rejected = new BoundedMap<string, true>(MOST_REMEMBERED)
  readonly #suspicion: Suspicion
  readonly #cases = new Map<string, Case>()
  readonly #told = new BoundedMap<string, true>(MOST_REMEMBERED)
  /** Open questions by their number, each with its case and its turn. */
  readonly #questions = new Map<number, Question>()
  /** Number of the last question to the host: they are below 0, since those to turns are above. */
  #lastToHost = 0

  constructor(host: Supervisor, mode: 'break' | 'report', confirmMs: number, foreignScript: boolean) {
    this.#foreignScript = foreignScript
    this.#host = host
    this.#mode = mode
    this.#confirmMs = confirmMs
    this.#suspicion = new Suspicion(host.directory)
  }

  next(batch: Batch): void {
    if (this.#questions.size > 0) for (const entry of batch) if (entry.kind === 'frames') this.#answers(entry)
    if (this.#suspicion.has(batch) || this.#cases.size > 0) this.#look()
  }

  close(): void {
    for (const each of this.#cases.values()) each.timer?.cancel()
  }

  // ---- find stuck turns

  #look(): void {
    this.#suspicion.looked()
    const found = new Map(stuckNow(this.#host).map((stuck) => [stuck.key, stuck]))
    for (const [key, each] of this.#cases) if (!found.has(key)) this.#drop(key, each)
    for (const [key, stuck] of found) {
      const known = this.#cases.get(key)
      if (known) this.#follow(known, stuck)
      else this.#open(key, stuck)
    }
    for (const [key, each] of [...this.#cases]) if (each.asked === 0 && !each.timer) this.#judge(key, each)
  }

  /** Removes a case that is not stuck any more: time, or another part, has freed it. */
  #drop(key: string, dropped: Case): void {
    dropped.timer?.cancel()
    this.#cases.delete(key)
    this.#forgetQuestions(dropped)
  }

  #forgetQuestions(of: Case): void {
    for (const [number, question] of this.#questions) if (question.of === of) this.#questions.delete(number)
    of.asked = 0
  }

  /** Forgets the questions to turns that have ended, or whose thread has ended: nobody answers them. */
  #forgetEnded(known: Case): void {
    const still = new Set(known.stuck.turns.map(({ envelope }) => envelope))
    for (const [number, { of, turn, isBusy }] of this.#questions) {
      if (of !== known || !turn || still.has(turn.envelope)) continue
      this.#questions.delete(number)
      if (!isBusy) known.asked -= 1
    }
  }

  #open(key: string, stuck: Stuck): void {
    const opened: Case = {
      stuck,
      waits: waitsOf(stuck),
      asked: 0,
      busy: false,
      told: new Map(),
      confirmedAt: undefined,
      busyMs: Math.max(1, this.#confirmMs),
      settlingMs: 1,
      timer: undefined,
    }
    this.#cases.set(key, opened)
    this.#ask(opened)
  }

  /**
   * Updates a case that is still stuck. If its waits are the same or fewer, its turns have done nothing. Otherwise the
   * time for confirmation starts again.
   */
  #follow(known: Case, stuck: Stuck): void {
    known.stuck = stuck
    this.#forgetEnded(known)
    const waits = waitsOf(stuck)
    const isNew = [...waits].some((wait) => !known.waits.has(wait))
    known.waits = waits
    if (!isNew) return
    known.confirmedAt = undefined
    this.#ask(known)
  }

  #ask(asking: Case): void {
    asking.timer?.cancel()
    asking.timer = undefined
    this.#forgetQuestions(asking)
    asking.busy = false
    asking.told.clear()
    const { turns } = asking.stuck
    if (turns.some(isToBegin)) return this.#settle(asking)
    for (const turn of turns) {
      const { incarnation } = turn.agent
      if (incarnation) asking.told.set(incarnation, incarnation.told)
      this.#question(asking, turn, this.#host.replies.probe(turn.agent, turn.envelope.turn))
    }
    if (turns.every(({ agent }) => agent.incarnation?.thread.isolated)) this.#askHost(asking)
  }

  #question(of: Case, turn: TurnNode | undefined, number: number): void {
    this.#questions.set(number, { of, turn, isBusy: false })
    of.asked += 1
  }

  /**
   * Waits until the host has finished the verbs that it has begun: threads can answer earlier, when for example an
   * entry is there already.
   */
  #askHost(asking: Case): void {
    this.#lastToHost -= 1
    const question = this.#lastToHost
    this.#question(asking, undefined, question)
    this.#host.clock.defer(() => {
      if (!this.#questions.delete(question)) return
      asking.asked -= 1
      this.#look()
      this.#host.loop.wake()
    })
  }

  #answers({ memory, from, to }: Extract<Batch[number], { kind: 'frames' }>): void {
    for (let at = from; at < to; at += lengthOf(memory, at))
      if (kindOf(memory, at) === QUIET) this.#answered(memory, at)
  }

  /** Handles the answer of a turn. A busy turn answers once more when it has nothing else to do. */
  #answered(memory: Memory, at: number): void {
    const question = this.#questions.get(correlationOf(memory, at))
    if (!question?.turn || question.turn.agent.index !== senderOf(memory, at)) return
    if (question.turn.envelope.turn !== turnOf(memory, at)) return
    const isQuiet = limitOf(memory, at) === 1
    if (question.isBusy) {
      if (isQuiet) this.#ask(question.of)
      return
    }
    question.of.asked -= 1
    if (isQuiet) this.#questions.delete(correlationOf(memory, at))
    else {
      question.isBusy = true
      question.of.busy = true
    }
  }

  #judge(key: string, judged: Case): void {
    const now = this.#host.clock.monotonic()
    if (judged.busy) {
      judged.confirmedAt = undefined
      this.#later(judged, judged.busyMs)
      judged.busyMs = Math.min(judged.busyMs * 2, LONGEST_PAUSE_MS)
    } else if (mayGoOn(judged)) {
      this.#settle(judged)
    } else {
      judged.confirmedAt ??= now
      if (this.#isForOthers(judged.stuck)) return
      this.#name(key, judged.stuck)
      if (this.#mode === 'report') return
      const left = judged.confirmedAt + this.#confirmMs - now
      // In the host's own thread, and so in virtual time, nothing more can come.
      if (left <= 0 || !judged.stuck.turns.some(({ agent }) => agent.incarnation?.thread.isolated))
        this.#break(key, judged)
      else this.#later(judged, left)
    }
  }

  /**
   * Checks for a wait for an entry that others may still write: the owner of a handle of the run, or a script of the
   * user in the host's own thread. There nobody can tell which open work belongs to the script. Built-in scripts wait
   * only for their verbs.
   */
  #isForOthers({ isOpen, runs, turns }: Stuck): boolean {
    if (!isOpen) return false
    if ([...runs].some(({ held }) => held !== false)) return true
    return (
      this.#foreignScript && !this.#host.clock.virtual && turns.some(({ agent }) => !agent.incarnation?.thread.isolated)
    )
  }

  #settle(asking: Case): void {
    this.#later(asking, asking.settlingMs)
    asking.settlingMs = Math.min(asking.settlingMs * 2, Math.max(1, this.#confirmMs))
  }

  #later(asking: Case, ms: number): void {
    asking.timer?.cancel()
    asking.timer = this.#host.clock.timer(ms, () => {
      this.#ask(asking)
      this.#host.loop.wake()
    })
  }

  /**
   * Reports confirmed cases of a run in which a time limit has ended a wait: others could have ended that wait, but
   * nobody has.
   */
  overdue(run: RunState): void {
    for (const [key, { stuck, confirmedAt }] of this.#cases)
      if (confirmedAt !== undefined && stuck.runs.has(run)) this.#name(key, stuck)
  }

  // ---- report and break

  #name(key: string, stuck: Stuck): void {
    if (this.#told.has(key)) return
    this.#told.set(key, true)
    this.#tell(stuck, null)
  }

  #tell(stuck: Stuck, victim: string | null): void {
    const alarm = stuck.cycle.length === 0 ? stallAlarm(stuck) : deadlockAlarm(stuck, victim)
    for (const run of stuck.runs) this.#host.journal.record(run, { kind: 'alarm', ...alarm })
  }

  #break(key: string, broken: Case): void {
    this.#drop(key, broken)
    const victim = this.#rejectOne(broken.stuck)
    if (victim && broken.stuck.cycle.length > 0) this.#tell(broken.stuck, victim)
  }

  /**
   * Ends a deadlock or a stall by rejecting one wait of one turn, the victim. If a wait of that turn was rejected
   * before, in the same deadlock or another, its agent is restarted (rule 26). Returns the name of the victim.
   */
  #rejectOne(stuck: Stuck): string | undefined {
    const candidates = [...stuck.waits].flatMap(([turn, wait]) =>
      wait.kind === 'reader' || wait.kind === 'place' ? [] : candidate(turn, wait),
    )
    const victim = chooseVictim(candidates, this.#victims)
    if (!victim) return this.#restartOne(stuck)
    const { turn, wait } = victim
    this.#victims = [...this.#victims, turn.agent.name].slice(-MOST_IN_A_ROW)
    const error = errorOf(stuck, turn, wait)
    this.#reject(wait, error)
    this.#again(turn, error)
    return turn.agent.name
  }

  #reject({ request, sent, call, generation }: OpenWait, error: DramatisError): void {
    if (generation) generation.giveUp(error)
    else if (request) this.#host.cancellation.fail(request.callee, request.envelope, error)
    else if (sent) this.#host.cancellation.withdraw(sent.callee, sent.envelope, error)
    else call?.fail(error)
  }

  /**
   * Ends the agent's thread if a wait of the same turn was rejected before. The message counts that exit, and becomes a
   * poison message in the end. The turn of a protocol script is the whole run, so a second rejection in it is no sign
   * that it repeats itself.
   */
  #again(turn: TurnNode, error: DramatisError): void {
    if (!turn.agent.settings.isAgent) return
    const key = `${turn.agent.index}.${turn.envelope.turn}`
    if (this.#rejected.has(key)) turn.agent.incarnation?.kill(error)
    else this.#rejected.set(key, true)
  }

  /** Ends the thread of an agent if all of the cycle wait for their readers: no answer can reject such a wait. */
  #restartOne(stuck: Stuck): string | undefined {
    const [turn] = stuck.cycle
    if (!turn) return undefined
    turn.agent.incarnation?.kill(errorOf(stuck, turn, undefined))
    return turn.agent.name
  }
}

function deadlockAlarm(stuck: Stuck, victim: string | null): Alarm {
  const cycle = stuck.cycle.map((turn) => turn.agent.name)
  const tail = stuck.tail.map((turn) => turn.agent.name)
  const round = cycle.join(' -> ')
  return {
    name: 'deadlock',
    agents: cycle,
    title: victim === null ? 'agents wait for each other' : `"${victim}" gives way, so that the others go on`,
    sentence: victim === null ? round : `${round}; ${victim} gives way`,
    fields: { cycle, tail, waits: namedWaits(stuck), victim },
  }
}

function stallAlarm({ turns }: Stuck): Alarm {
  const evidence = turns.map(sentenceOf)
  return {
    name: 'stall',
    agents: [],
    title: 'nobody is left who could go on',
    sentence: evidence.join('; '),
    fields: { evidence },
  }
}
