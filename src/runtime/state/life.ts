/** One life of an agent: what the host knows of the thread that is the agent for a time. */
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { DramatisError } from '../../errors.ts'
import { LARGEST_FRAME } from '../../mailbox/foreign-frame.ts'
import { runOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import {
  AT_WORK,
  FrameJoiner,
  FrameWriter,
  PARKED,
  PERHAPS,
  parkedWord,
  SURELY,
  TAKEN,
  Window,
} from '../../mailbox/window.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Thread } from '../threads/thread.ts'
import type { RunState } from './run-state.ts'

/** One thread's time as the agent: fresh windows, a new epoch. */
export class Life {
  readonly epoch: number
  readonly thread: Thread
  readonly window = new Window()
  readonly plain = new FrameWriter(this.window.plain)
  readonly ranked = new FrameWriter(this.window.ranked)
  readonly replies = new FrameWriter(this.window.replies)
  readonly joiner = new FrameJoiner(LARGEST_FRAME)
  /** Replies that the ring had no room for, in order. */
  readonly backlog: OwnFrame[] = []
  /** Of an agent with several turns at once: replies for those that gave their permit up, in order. */
  held: OwnFrame[] = []
  /** Runs that the thread has been told of. */
  readonly announced = new Set<number>()
  /** Patches of turns that have not committed yet. */
  readonly patches = new Map<number, PatchNotice[]>()
  /** A large message that is half in the window. */
  sending: { memory: Memory; bytes: number; envelope: Envelope<RunState> } | undefined
  /** A message that was too large for the lane of its priority, and went by the other. */
  ranksLarge: Envelope<RunState> | undefined
  /** The redelivered message whose logged steps the thread has been given. */
  replayed: Envelope<RunState> | undefined
  /** For which attempt. */
  replayedFor = 0
  /** Whose messages are in the window. */
  run: RunState | undefined
  ready = false
  /** Its outbox holds what no thread of ours leaves there: nothing more is read from it. */
  broken = false
  /** Frames that were refused because no agent may write them. */
  refusedFrames = 0
  /** Calls of verbs that its role's trust does not allow. */
  refusedVerbs = 0
  /** The last send or request that was routed, to know whether a claim was used. */
  lastTurn = 0
  lastStep = 0
  /** Why the host ends it, when it does. */
  verdict: DramatisError | undefined
  /** The watchdog ends it, but it may have been silent for want of a processor alone. */
  starved = false
  /** The host ends it for the sake of others; who waits for that is here. */
  recalled: (() => void)[] | undefined
  /** How many frames its turns were given that they may have waited for. */
  told = 0
  /** Messages whose turns are to stop, and are told so with their permit. */
  readonly unstopped = new Set<Envelope<RunState>>()
  /** Turns that wait for the reader of their answer. */
  readonly awaitReader = new Set<number>()
  wantsBell: 'none' | 'message' | 'reply' = 'none'
  /** How many turns may be open. */
  readonly #turns: number
  readonly #fence: (life: Life) => void

  /** `fence` is called when the host has ended the thread: it is given up when it is not gone soon. */
  constructor(epoch: number, thread: Thread, turns: number, fence: (life: Life) => void) {
    this.epoch = epoch
    this.thread = thread
    this.#turns = turns
    this.#fence = fence
  }

  /** Ends it because of what the agent did, or did not do. */
  kill(verdict: DramatisError): void {
    if (this.verdict) return
    this.verdict = verdict
    this.end()
  }

  /** Ends the thread, whoever is to blame. */
  end(): void {
    this.thread.terminate()
    this.#fence(this)
  }

  /** Whether the thread has begun with the message that it was handed. */
  begun(envelope: Envelope<RunState>): boolean {
    if (envelope.within) return envelope.startedAt !== NOT_YET
    return this.window[envelope.lane].taken(envelope.windowAt, envelope.windowEnd)
  }

  /** Of those that it had begun with the one that was at work alone, if one was: others of its run can only have waited. */
  atWork(begun: readonly Envelope<RunState>[]): Envelope<RunState> | undefined {
    const [first] = begun
    if (begun.length <= 1) return first
    if (begun.some(({ run }) => run !== first!.run)) return undefined
    const turn = Atomics.load(this.window.words, AT_WORK)
    return begun.find((envelope) => envelope.turn === turn)
  }

  /** Whether replies for that run are held back. */
  holds(run: number): boolean {
    return this.held.some(({ memory }) => runOf(memory, 0) === run)
  }

  /** The turn of that run has waits, but nobody has asked the thread whether it has nothing else. */
  mayBeParked(run: RunState): boolean {
    return this.#says(parkedWord(run.index, PERHAPS))
  }

  /** The turn of that run waits for others alone. Looks at the replies first: the thread unparks before it takes one. */
  parked(run: RunState): boolean {
    if (this.#isGiven(run)) return false
    return this.#says(parkedWord(run.index, SURELY)) || this.#says(parkedWord(run.index, TAKEN))
  }

  /** Takes the permit of that run's turn, if it is parked. A thread that goes on at that moment has it, or learns that it is gone. */
  takePermit(run: RunState): boolean {
    return !this.#isGiven(run) && this.#replace(parkedWord(run.index, SURELY), parkedWord(run.index, TAKEN))
  }

  /** Before anything that the turn is given with its permit. */
  returnPermit(run: RunState): void {
    this.#replace(parkedWord(run.index, TAKEN), parkedWord(run.index, SURELY))
  }

  /** Something is on its way that a turn of that run may wait for. */
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
