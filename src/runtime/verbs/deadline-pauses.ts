/**
 * Pauses deadlines while a model or a person works: for the turn that waits for the work, and for each turn that waits
 * for that turn by its requests. Those waits have limits of their own (`communication.modelTimeoutMs` and
 * `answerWithinMs`).
 *
 * A request may also queue behind turns that wait for a model or a person. Its sender then has no turn to wait for yet.
 * Its time in the queue is credited to the turns that wait for it when its own turn first waits for a model or a
 * person. It is also computed for a deadline that would pass earlier.
 *
 * State is kept per call of a model and per question; a message costs nothing.
 */

import { idOf, timeOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET, type OnMismatch } from '../../mailbox/mailbox.ts'
import { type DramatisError, UnknownAgentError } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Redelivery } from '../host/commits.ts'
import type { Core } from '../host/core.ts'
import type { Mailboxes, Requests } from '../host/mailboxes.ts'
import type { Permits } from '../host/permits.ts'
import type { RunState } from '../host/run.ts'
import type { VerbWaiter } from './calls.ts'

/** Number of times that are kept. Older ones are dropped: no deadline is that long. */
const MOST_TIMES = 100
/** Shortest gap that counts as an end. Between two turns of an agent there is always a moment without work. */
const SHORTEST_GAP_MS = 1_000

export class ThinkingTimes {
  /** Finished times, in order, without overlap. */
  readonly #past: { from: number; to: number }[] = []
  #open = 0
  #since = 0

  get isOpen(): boolean {
    return this.#open > 0
  }

  begin(now: number): void {
    this.#open += 1
    if (this.#open === 1) this.#since = now
  }

  end(now: number): void {
    this.#open -= 1
    if (this.#open > 0) return
    const last = this.#past.at(-1)
    if (last && this.#since - last.to < SHORTEST_GAP_MS) last.to = now
    else this.#past.push({ from: this.#since, to: now })
    if (this.#past.length > MOST_TIMES) this.#past.shift()
  }

  /** Returns how many ms between `from` and `to` a model or a person worked. */
  within(from: number, to: number): number {
    let ms = this.isOpen ? Math.max(0, to - Math.max(from, this.#since)) : 0
    for (const past of this.#past) ms += Math.max(0, Math.min(to, past.to) - Math.max(from, past.from))
    return ms
  }
}

interface PausedTurn {
  readonly agent: Agent
  readonly envelope: Envelope<RunState>
}

/** Time in which a turn waited, for one or several at once. Monotonic ms. */
interface Waited {
  /** Number of those that it waits for now. */
  open: number
  since: number
  /** Total time of the waits that are over. */
  ms: number
}

/** Pauses of one turn, for models and people. Monotonic ms. */
interface Pause extends Waited {
  /** The part of it that is for people. */
  readonly people: Waited
  /** Attempt that `msBefore` is for, by its start, and the paused time when that attempt began. */
  startedAt: number
  msBefore: number
  /** Time of the attempt that an earlier process has had. */
  spentMs: number
}

export class DeadlinePauses {
  readonly #core: Core
  readonly #requests: Requests
  readonly #pauses = new WeakMap<Envelope<RunState>, Pause>()
  /** Thinking times per agent (with all instances) and per run: a run's turns can also wait for its permits. */
  readonly #times = new WeakMap<Agent | RunState, ThinkingTimes>()

  #resumed: (agent: Agent, envelope: Envelope<RunState>) => void = () => {}

  constructor(core: Core, requests: Requests) {
    this.#core = core
    this.#requests = requests
  }

  onResume(listener: (agent: Agent, envelope: Envelope<RunState>) => void): void {
    this.#resumed = listener
  }

  /**
   * Runs work of a model or a person that this turn waits for, while deadlines are paused. Deadlines by wall clock are
   * paused for people alone.
   */
  async during<T>(waiter: VerbWaiter, work: () => Promise<T>, by: 'model' | 'person' = 'person'): Promise<T> {
    const { byIndex: agents } = this.#core.directory
    const paused = this.#turnsBehind(waiter.agent, waiter.turn)
    const times = [this.#timesOf(agents[waiter.agent.index]!), this.#timesOf(waiter.run)]
    this.#credit(paused)
    for (const each of times) each.begin(this.#core.clock.monotonic())
    for (const { envelope } of paused) this.#begin(envelope, by)
    try {
      return await work()
    } finally {
      for (const each of times) each.end(this.#core.clock.monotonic())
      for (const { agent, envelope } of paused) if (this.#end(envelope, by)) this.#resumed(agent, envelope)
    }
  }

  /**
   * Goes on with the deadlines of a turn that was open in an earlier process. `pausedMs`: its paused time so far;
   * `askedMs`: the part in which people were asked; `spentMs`: time of its attempt that counts for the limit of the
   * turn. The next attempt here is the same for it.
   */
  restore(envelope: Envelope<RunState>, pausedMs: number, askedMs: number, spentMs: number): void {
    const pause = Object.assign(this.#pauseOf(envelope), { ms: pausedMs, spentMs })
    pause.people.ms = askedMs
  }

  /** Checks whether any time of the turn has not counted. */
  isKnown(envelope: Envelope<RunState>): boolean {
    return this.#pauses.has(envelope)
  }

  isPaused(envelope: Envelope<RunState>, isWallClock = false): boolean {
    return (this.#waited(envelope, isWallClock)?.open ?? 0) > 0
  }

  /** Returns the paused time of all attempts of that turn together, in ms. `isWallClock`: for people alone. */
  pausedMs(envelope: Envelope<RunState>, now: number, isWallClock = false): number {
    const waited = this.#waited(envelope, isWallClock)
    return waited ? totalOf(waited, now) : 0
  }

  #waited(envelope: Envelope<RunState>, ofPeople: boolean): Waited | undefined {
    const pause = this.#pauses.get(envelope)
    return ofPeople ? pause?.people : pause
  }

  /**
   * Returns the paused time since the turn's current attempt began, in ms. It is below 0 for an attempt that an earlier
   * process has begun: that time counts.
   */
  pausedMsOfAttempt(envelope: Envelope<RunState>, now: number): number {
    const pause = this.#pauses.get(envelope)
    if (!pause) return 0
    const total = totalOf(pause, now)
    if (pause.startedAt !== envelope.startedAt) {
      pause.startedAt = envelope.startedAt
      pause.msBefore = total + pause.spentMs
      pause.spentMs = 0
    }
    return total - pause.msBefore
  }

  /**
   * Returns how long the requests that the turn waits for now have queued behind models and people. It walks the waits,
   * so it is only for a deadline that would pass.
   */
  inLineMs(agent: Agent, envelope: Envelope<RunState>, now: number): number {
    return this.#inLine(agent, envelope, now, new Set())
  }

  /**
   * Returns the longest queue time among the turn's waits, at any depth: the agent that it waits for may wait for
   * another one in a queue.
   */
  #inLine(agent: Agent, envelope: Envelope<RunState>, now: number, seen: Set<Envelope<RunState>>): number {
    const requests = [...this.#core.directory.byIndex[agent.index]!.open.values()].filter(
      ({ turn }) => turn === envelope.turn,
    )
    const { run } = envelope
    // The turn has its answers, and waits for a permit to resume: the turns with a permit have a model or a person at
    // work.
    if (requests.length === 0 && agent.withoutPermit.has(run.index))
      return this.#times.get(run)?.within(envelope.begunAt, now) ?? 0
    let longest = 0
    seen.add(envelope)
    for (const { callee, envelope: asked } of requests) {
      if (seen.has(asked)) continue
      const isCredited = this.#pauses.has(asked)
      const inLine = isCredited ? 0 : this.#stoodInLine(callee, asked, now)
      longest = Math.max(longest, inLine + (asked.begunAt === NOT_YET ? 0 : this.#inLine(callee, asked, now, seen)))
    }
    return longest
  }

  /** Returns how long a request queued while its agent, or others of its run, had a model or a person at work. */
  #stoodInLine(callee: Agent, { memory, at, run, begunAt }: Envelope<RunState>, now: number): number {
    const { byIndex: agents } = this.#core.directory
    const sentAt = this.#core.clock.monotonic() - (this.#core.clock.now() - timeOf(memory, at))
    const until = begunAt === NOT_YET ? now : begunAt
    const times = [this.#times.get(agents[callee.index]!), this.#times.get(run)]
    return Math.max(0, ...times.map((each) => each?.within(sentAt, until) ?? 0))
  }

  /**
   * Credits queue time when the turn first waits for a model or a person: the turns that wait for it get back the time
   * that its message queued.
   */
  #credit([first, ...behind]: PausedTurn[]): void {
    if (!first || behind.length === 0 || this.#pauses.has(first.envelope)) return
    const ms = this.#stoodInLine(first.agent, first.envelope, this.#core.clock.monotonic())
    if (ms > 0) for (const { envelope } of behind) this.#pauseOf(envelope).ms += ms
  }

  #timesOf(whose: Agent | RunState): ThinkingTimes {
    const times = this.#times.get(whose) ?? new ThinkingTimes()
    this.#times.set(whose, times)
    return times
  }

  #pauseOf(envelope: Envelope<RunState>): Pause {
    const known = this.#pauses.get(envelope)
    if (known) return known
    const people = { open: 0, since: 0, ms: 0 }
    const pause = { open: 0, since: 0, ms: 0, people, startedAt: envelope.startedAt, msBefore: 0, spentMs: 0 }
    this.#pauses.set(envelope, pause)
    return pause
  }

  /** Returns the turn itself, and those that wait for it, each by the request that the one before it answers. */
  #turnsBehind(agent: Agent, turn: number): PausedTurn[] {
    const found: PausedTurn[] = []
    for (let next = turnOf(agent, turn); next && !found.some(({ envelope }) => envelope === next?.envelope); ) {
      found.push(next)
      const request = this.#requests.of(next.envelope)
      next = request && turnOf(request.caller, request.turn)
    }
    return found
  }

  #begin(envelope: Envelope<RunState>, by: 'model' | 'person'): void {
    const now = this.#core.clock.monotonic()
    const pause = this.#pauseOf(envelope)
    for (const waited of by === 'person' ? [pause, pause.people] : [pause]) {
      waited.open += 1
      if (waited.open === 1) waited.since = now
    }
  }

  /** Ends a pause. True: some deadlines of the turn resume. */
  #end(envelope: Envelope<RunState>, by: 'model' | 'person'): boolean {
    const now = this.#core.clock.monotonic()
    const pause = this.#pauseOf(envelope)
    let resumes = false
    for (const waited of by === 'person' ? [pause, pause.people] : [pause]) {
      waited.open -= 1
      if (waited.open > 0) continue
      waited.ms += now - waited.since
      resumes = true
    }
    return resumes
  }
}

const totalOf = ({ open, since, ms }: Waited, now: number) => (open > 0 ? ms + now - since : ms)

function turnOf(agent: Agent, turn: number): PausedTurn | undefined {
  const envelope = agent.messageOf(turn)
  return envelope && { agent: agent.holderOf(turn) ?? agent, envelope }
}

/*
 * Turns whose code has changed since an earlier process began them, in runs that refuse that. Such a turn is set aside:
 * it is in no mailbox, no deadline passes for those that wait for it, and it comes again when its run is resumed.
 */

/** Functions that let a run go on that has such a turn. */
export interface SetAside {
  /** Returns why the turn cannot come again, if there is a reason. */
  hindrance(): DramatisError | undefined
  goOn(onMismatch: OnMismatch): void
}

export class ChangedTurns {
  readonly #core: Core
  readonly #permits: Permits
  readonly #mailboxes: Mailboxes
  readonly #pauses: DeadlinePauses
  readonly #redelivery: Redelivery

  constructor(core: Core, permits: Permits, mailboxes: Mailboxes, pauses: DeadlinePauses, redelivery: Redelivery) {
    this.#core = core
    this.#permits = permits
    this.#mailboxes = mailboxes
    this.#pauses = pauses
    this.#redelivery = redelivery
  }

  /** Sets the turn of that message aside. Its run is to be interrupted. */
  setAside(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): SetAside {
    const { memory, at, bytes, run, turn } = envelope
    let resume = () => {}
    const resumed = new Promise<void>((resolve) => {
      resume = resolve
    })
    void this.#pauses.during({ agent, turn, correlation: 0, run }, () => resumed)
    agent.mailbox.setAside(envelope)
    agent.suspects.delete(envelope)
    this.#mailboxes.freed(agent, bytes)
    if (agent.isDoneWith(run)) this.#permits.release(run, agent)
    this.#core.ready.touch(agent)
    this.#core.journal.record(run, { kind: 'step.mismatch', agent: agent.name, messageId: idOf(memory, at), error })
    return {
      hindrance: () => this.#hindrance(agent, run),
      goOn: (onMismatch) => {
        resume()
        this.#deliver(agent, envelope, onMismatch)
      },
    }
  }

  #hindrance({ index, name }: Agent, { id }: RunState): DramatisError | undefined {
    if (this.#core.directory.present(index)) return undefined
    const text = `Run "${id}" cannot go on: it has work for "${name}", which was removed from the team. Add the agent (team.addAgent) and resume the run, or cancel it.`
    return new UnknownAgentError(text, { agent: name, runId: id, missing: [name] })
  }

  #deliver({ index }: Agent, envelope: Envelope<RunState>, onMismatch: OnMismatch): void {
    const { directory, loop, team } = this.#core
    envelope.onMismatch = onMismatch
    envelope.announced = false
    envelope.startedAt = NOT_YET
    team.force(index, envelope.bytes)
    this.#redelivery.restore(directory.byIndex[index]!, envelope)
    loop.wake() // nothing else may be under way
  }
}
