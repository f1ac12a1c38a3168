/** The thread that an agent has now, and what is known of its open turns. */

import type { PatchNotice } from '../../actors/definition/assignment.ts'
import {
  ASLEEP,
  AT_WORK,
  BEAT,
  Channel,
  FrameJoiner,
  FrameWriter,
  PARKED,
  parkedWord,
  SURELY,
  TAKEN,
} from '../../mailbox/channel.ts'
import { LARGEST_FRAME, type Memory, runOf, turnOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Thread } from '../threads/thread.ts'
import type { RunState } from './run.ts'

/*
 * Keeps what the open turns of one thread do by themselves, as far as its frames tell: the steps, tools and sleeps that
 * have not ended, and when a turn last did something or was given something. That costs a message two numbers.
 */

/** Time without a sign after which a thread is said not to answer. */
const SILENT_MS = 1_000

/** Step, call of a tool, or sleep of a turn in its own thread. */
export interface OwnDoing {
  readonly kind: 'step' | 'tool' | 'sleep'
  readonly name: string
  /** Epoch ms. */
  readonly since: number
}

/**
 * Limit on the open steps that are kept of one turn, since code may begin any number at a time, and on the turns: what
 * code does behind the end of its turn is of none that ends.
 */
const MOST_OPEN = 1_000

class TurnDoings {
  /** Open steps by turn, then by the number of the step. */
  readonly #open = new Map<number, Map<number, OwnDoing>>()
  /** Turn that has stirred last, and epoch ms at which it did. */
  #turn = 0
  #at = 0
  /** The same for other open turns. */
  readonly #others = new Map<number, number>()

  /** Notes that a turn has done something, or was given something. */
  stirs(turn: number, at: number): void {
    if (turn !== this.#turn) {
      if (this.#turn !== 0) this.#leave(this.#turn, this.#at)
      this.#at = this.#others.get(turn) ?? 0
      this.#others.delete(turn)
      this.#turn = turn
    }
    if (at > this.#at) this.#at = at
  }

  #leave(turn: number, at: number): void {
    this.#others.set(turn, at)
    if (this.#others.size <= MOST_OPEN) return
    for (const [oldest] of this.#others) return void this.#others.delete(oldest)
  }

  begins(turn: number, step: number, doing: OwnDoing): void {
    let open = this.#open.get(turn)
    if (!open) {
      open = new Map()
      this.#open.set(turn, open)
    }
    if (open.size < MOST_OPEN) open.set(step, doing)
  }

  ends(turn: number, step: number): void {
    this.#open.get(turn)?.delete(step)
  }

  over(turn: number): void {
    if (turn === this.#turn) this.#turn = 0
    else if (this.#others.size > 0) this.#others.delete(turn)
    if (this.#open.size > 0) this.#open.delete(turn)
  }

  openIn(turn: number): Iterable<OwnDoing> {
    return this.#open.get(turn)?.values() ?? []
  }

  /** Returns the epoch ms at which the turn has last stirred; 0 if it has not since it began. */
  stirredAt(turn: number): number {
    return turn === this.#turn ? this.#at : (this.#others.get(turn) ?? 0)
  }
}

/**
 * The turns of a thread that are known to wait for others alone. The host asks about them while an agent gets its
 * messages one at a time (rule 7): a turn that waits does not count then. It counts again from the next frame on that
 * it is given.
 */
class QuietTurns {
  /** Numbers of the questions that are open, by turn. */
  readonly #asked = new Map<number, number>()
  readonly #quiet = new Set<number>()

  /** True if any turn is quiet, or was asked. */
  any = false

  has(turn: number): boolean {
    return this.#quiet.has(turn)
  }

  /** Checks whether the turn has been asked, and was given nothing since. */
  isKnown(turn: number): boolean {
    return this.#quiet.has(turn) || this.#asked.has(turn)
  }

  ask(turn: number, question: number): void {
    this.#asked.set(turn, question)
    this.any = true
  }

  /**
   * Notes the answer of a turn that waits, to that question or to a later one of others. Returns false if the turn was
   * given something since it was asked.
   */
  answered(turn: number, question: number): boolean {
    const asked = this.#asked.get(turn)
    if (asked === undefined || question < asked) return false
    this.#asked.delete(turn)
    this.#quiet.add(turn)
    return true
  }

  goesOn(turn: number): void {
    this.#asked.delete(turn)
    this.#quiet.delete(turn)
    this.any = this.#asked.size + this.#quiet.size > 0
  }
}

/** Incarnation of an agent in a worker thread, with its own rings (`Channel`) and its own epoch. */
export class Incarnation {
  readonly epoch: number
  readonly thread: Thread
  readonly channel: Channel
  readonly plain: FrameWriter
  readonly ranked: FrameWriter
  readonly replies: FrameWriter
  readonly joiner = new FrameJoiner(LARGEST_FRAME)
  /** Replies that the ring had no room for, in order. */
  readonly backlog: OwnFrame[] = []
  /** Replies for turns that gave up their permit, in order. Only for an agent with several turns at once. */
  held: OwnFrame[] = []
  /** Runs that the thread has been notified of. */
  readonly announced = new Set<number>()
  /** Runs that are over, of which the thread has not been notified yet. */
  readonly forgets: number[] = []
  /** Patches of turns that have not committed yet. */
  readonly patches = new Map<number, PatchNotice[]>()
  /** Large message that is half written to the ring. */
  sending: { memory: Memory; bytes: number; envelope: Envelope<RunState> } | undefined
  /** Message that was too large for the ring of its priority and went through the other one. */
  ranksLarge: Envelope<RunState> | undefined
  /** Redelivered message whose logged steps the thread has been given. */
  replayed: Envelope<RunState> | undefined
  /** Attempt that those steps were given for. */
  replayedFor = 0
  /** Run whose messages are in the rings. */
  run: RunState | undefined
  ready = false
  /** True while it gets no new message, because another incarnation is to replace it when its open turns have ended. */
  draining = false
  /** Why the host ends it in order, once it does: its end is no crash then. */
  retired: 'reloaded' | 'passivated' | undefined
  /** Time at which its thread answered that it has something to do, monotonic ms. */
  restlessAt = Number.NEGATIVE_INFINITY
  /** Settles when its stop hook has run; undefined as long as it was not asked to stop. */
  stopping: Promise<void> | undefined
  /** True when the outbox holds what no runtime code writes there: nothing more is read from it. */
  broken = false
  refusedFrames = 0
  refusedVerbs = 0
  /** Turn and step of the last send or request that was routed, to know whether a reservation was used. */
  lastTurn = 0
  lastStep = 0
  /** Error that the host ends the thread with, if it does. */
  verdict: DramatisError | undefined
  /** True if the watchdog ends the thread, but a lack of processor time alone may have made it silent. */
  starved = false
  /** Callbacks that wait for the end of the thread. Set when the host ends it because other agents are restarted. */
  recalled: (() => void)[] | undefined
  /** Number of frames given to its turns that they may have waited for. */
  told = 0
  /** Messages whose turns must stop, but are notified only when they get their permit back. */
  readonly unstopped = new Set<Envelope<RunState>>()
  readonly quiet = new QuietTurns()
  readonly doings = new TurnDoings()
  /** Turns that wait for the reader of their answer, each with the epoch ms since when. */
  readonly awaitReader = new Map<number, number>()
  wantsWakeup: 'none' | 'message' | 'reply' = 'none'
  /** Signs of its loop when it was asked for another one, and epoch ms at which it was. */
  #asked: { signs: number; at: number } | undefined
  readonly #turns: number
  readonly #fence: (incarnation: Incarnation) => void

  /** `fence` is called when the host has ended the thread: a thread that does not exit soon is given up. */
  constructor(epoch: number, thread: Thread, turns: number, fence: (incarnation: Incarnation) => void) {
    this.epoch = epoch
    this.thread = thread
    this.channel = thread.shared ? Channel.ofSeat() : new Channel()
    this.plain = new FrameWriter(this.channel.plain)
    this.ranked = new FrameWriter(this.channel.ranked)
    this.replies = new FrameWriter(this.channel.replies)
    this.#turns = turns
    this.#fence = fence
  }

  /** Ends the thread because of what the agent did, or failed to do. */
  kill(verdict: DramatisError): void {
    if (this.verdict) return
    this.verdict = verdict
    this.end()
  }

  end(): void {
    this.thread.terminate()
    this.#fence(this)
  }

  begun(envelope: Envelope<RunState>): boolean {
    if (envelope.wasSuspended) return true
    if (envelope.within) return envelope.startedAt !== NOT_YET
    return this.channel[envelope.ring].taken(envelope.ringAt, envelope.ringEnd)
  }

  /**
   * Returns the message whose turn was the only one running when the thread ended, out of those that had begun. Returns
   * undefined if none was. Quiet turns can only have waited, and so can the others of the same run.
   */
  atWork(begun: readonly Envelope<RunState>[]): Envelope<RunState> | undefined {
    const working = begun.length > 1 ? begun.filter(({ turn }) => !this.quiet.has(turn)) : begun
    const [first] = working
    if (working.length <= 1) return first
    if (working.some(({ run }) => run !== first!.run)) return undefined
    const turn = Atomics.load(this.channel.words, AT_WORK)
    return working.find((envelope) => envelope.turn === turn)
  }

  /** Number that grows with each turn of its event loop that hears a wakeup, or takes something. */
  get signs(): number {
    const { words, plain, ranked, replies } = this.channel
    return Atomics.load(words, BEAT) + plain.readTo() + ranked.readTo() + replies.readTo()
  }

  /**
   * Tells what the event loop of the thread does at this moment; undefined if it has none of its own. One that works is
   * asked for a sign, so a later look can tell that it does not answer. `now`: epoch ms.
   */
  loop(now: number): 'idle' | 'busy' | 'silent' | undefined {
    const before = this.thread.eventLoop()
    const after = this.thread.eventLoop()
    if (!before || !after) return undefined
    if (after.idle > before.idle) return 'idle'
    const { signs } = this
    if (this.#asked?.signs === signs) return now - this.#asked.at >= SILENT_MS ? 'silent' : 'busy'
    this.#asked = { signs, at: now }
    this.thread.wake()
    return 'busy'
  }

  /** Wakes the thread for what was published, if it sleeps and that may wake it. */
  wake(): void {
    const { words } = this.channel
    const state = Atomics.load(words, ASLEEP)
    const wakes = state === 1 || (state === 2 && this.wantsWakeup === 'reply')
    this.wantsWakeup = 'none'
    if (wakes && Atomics.compareExchange(words, ASLEEP, state, 0) === state) this.thread.wake()
  }

  /** Notes a frame that a turn may wait for; with turn 0 it is for the thread. `at`: epoch ms, 0 if it has no time. */
  gives(turn: number, at: number): void {
    this.told += 1
    if (turn !== 0) this.doings.stirs(turn, at)
    if (this.quiet.any) this.quiet.goesOn(turn)
  }

  heldFor(turn: number): OwnFrame | undefined {
    return this.held.find(({ memory }) => turnOf(memory, 0) === turn)
  }

  awaits(turn: number): boolean {
    return this.heldFor(turn) !== undefined
  }

  holds(run: number): boolean {
    return this.held.some(({ memory }) => runOf(memory, 0) === run)
  }

  /**
   * Checks whether the turn of that run waits for others alone. Looks at the replies first: the thread unparks before
   * it takes one.
   */
  parked(run: RunState): boolean {
    if (this.#isGiven(run)) return false
    return this.#says(parkedWord(run.index, SURELY)) || this.#says(parkedWord(run.index, TAKEN))
  }

  /**
   * Takes the permit of that run's turn, if it is parked. A thread that resumes at that moment either keeps the permit
   * or learns that it is gone.
   */
  takePermit(run: RunState): boolean {
    return !this.#isGiven(run) && this.#replace(parkedWord(run.index, SURELY), parkedWord(run.index, TAKEN))
  }

  /**
   * Takes the place of that run's turn, which is known to be quiet: nothing was given to it since. Returns false if it
   * goes on by itself at this moment.
   */
  takePlace(run: RunState): boolean {
    return this.#replace(parkedWord(run.index, SURELY), parkedWord(run.index, TAKEN))
  }

  /** Returns the permit. Must happen before the turn is given anything with its permit. */
  returnPermit(run: RunState): void {
    this.#replace(parkedWord(run.index, TAKEN), parkedWord(run.index, SURELY))
  }

  /** Checks whether a reply is on its way that a turn of that run may wait for. */
  #isGiven(run: RunState): boolean {
    const { replies } = this.channel
    return this.backlog.length > 0 || replies.readTo() !== replies.written || this.holds(run.index)
  }

  #says(word: number): boolean {
    for (let i = 0; i < this.#turns; i++) if (Atomics.load(this.channel.words, PARKED + i) === word) return true
    return false
  }

  #replace(word: number, by: number): boolean {
    const { words } = this.channel
    for (let i = 0; i < this.#turns; i++)
      if (Atomics.load(words, PARKED + i) === word && Atomics.compareExchange(words, PARKED + i, word, by) === word)
        return true
    return false
  }
}
