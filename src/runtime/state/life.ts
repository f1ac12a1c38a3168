/** State that the host keeps for one worker thread of an agent. */
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { DramatisError } from '../../errors.ts'
import { LARGEST_FRAME } from '../../mailbox/foreign-frame.ts'
import { runOf, turnOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import {
  ASLEEP,
  AT_WORK,
  FrameJoiner,
  FrameWriter,
  PARKED,
  parkedWord,
  SURELY,
  TAKEN,
  Window,
} from '../../mailbox/window.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Thread } from '../threads/thread.ts'
import { QuietTurns } from './quiet-turns.ts'
import type { RunState } from './run-state.ts'
import { TurnDoings } from './turn-doings.ts'

/** Life of an agent in a worker thread, with its own rings (`Window`) and its own epoch. */
export class Life {
  readonly epoch: number
  readonly thread: Thread
  readonly window: Window
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
  /** True while it gets no new message, because another life is to replace it when its open turns have ended. */
  draining = false
  /** Why the host ends it in order, once it does: its end is no crash then. */
  retired: 'reloaded' | 'passivated' | undefined
  /** Time at which its thread answered that it has something to do, monotonic ms. */
  restlessAt = Number.NEGATIVE_INFINITY
  /** Settles when its stop hook has run; undefined as long as it was not asked to stop. */
  stopping: Promise<void> | undefined
  /** True when the outbox holds what no runtime code writes there: nothing more is read from it. */
  broken = false
  /** Number of refused frames, which no agent may write. */
  refusedFrames = 0
  /** Number of refused calls of verbs, which the trust of its role does not allow. */
  refusedVerbs = 0
  /** Turn and step of the last send or request that was routed, to know whether a claim was used. */
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
  wantsBell: 'none' | 'message' | 'reply' = 'none'
  /** Number of turns that may be open. */
  readonly #turns: number
  readonly #fence: (life: Life) => void

  /** `fence` is called when the host has ended the thread: a thread that does not exit soon is given up. */
  constructor(epoch: number, thread: Thread, turns: number, fence: (life: Life) => void) {
    this.epoch = epoch
    this.thread = thread
    this.window = thread.shared ? Window.ofSeat() : new Window()
    this.plain = new FrameWriter(this.window.plain)
    this.ranked = new FrameWriter(this.window.ranked)
    this.replies = new FrameWriter(this.window.replies)
    this.#turns = turns
    this.#fence = fence
  }

  /** Ends the thread because of what the agent did, or failed to do. */
  kill(verdict: DramatisError): void {
    if (this.verdict) return
    this.verdict = verdict
    this.end()
  }

  /** Ends the thread, whatever the cause. */
  end(): void {
    this.thread.terminate()
    this.#fence(this)
  }

  /** Checks whether the thread has begun with the message that it was handed. */
  begun(envelope: Envelope<RunState>): boolean {
    if (envelope.wasShelved) return true
    if (envelope.within) return envelope.startedAt !== NOT_YET
    return this.window[envelope.lane].taken(envelope.windowAt, envelope.windowEnd)
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
    const turn = Atomics.load(this.window.words, AT_WORK)
    return working.find((envelope) => envelope.turn === turn)
  }

  /** Wakes the thread for what was published, if it sleeps and that may wake it. */
  wake(): void {
    const { words } = this.window
    const state = Atomics.load(words, ASLEEP)
    const wakes = state === 1 || (state === 2 && this.wantsBell === 'reply')
    this.wantsBell = 'none'
    if (wakes && Atomics.compareExchange(words, ASLEEP, state, 0) === state) this.thread.ring()
  }

  /** Notes a frame that a turn may wait for; with turn 0 it is for the thread. `at`: epoch ms, 0 if it has no time. */
  gives(turn: number, at: number): void {
    this.told += 1
    if (turn !== 0) this.doings.stirs(turn, at)
    if (this.quiet.any) this.quiet.goesOn(turn)
  }

  /** Returns the first reply for that turn that is held back. */
  heldFor(turn: number): OwnFrame | undefined {
    return this.held.find(({ memory }) => turnOf(memory, 0) === turn)
  }

  /** Checks whether replies for that turn are held back. */
  awaits(turn: number): boolean {
    return this.heldFor(turn) !== undefined
  }

  /** Checks whether replies for that run are held back. */
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
    const { replies } = this.window
    return this.backlog.length > 0 || replies.readTo() !== replies.written || this.holds(run.index)
  }

  #says(word: number): boolean {
    for (let i = 0; i < this.#turns; i++) if (Atomics.load(this.window.words, PARKED + i) === word) return true
    return false
  }

  #replace(word: number, by: number): boolean {
    const { words } = this.window
    for (let i = 0; i < this.#turns; i++)
      if (Atomics.load(words, PARKED + i) === word && Atomics.compareExchange(words, PARKED + i, word, by) === word)
        return true
    return false
  }
}
