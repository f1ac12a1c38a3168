/**
 * Nested turns: a request that comes back to an agent while a turn of the same run waits for it runs inside that turn.
 * Then several turns of one run are open, one on top of the other.
 *
 * Only one of them executes at a time, so that the permit, the state and the handler's own variables have a single
 * user. A nested request begins when all open turns of its run wait for others. A reply is delivered when no other turn
 * of the run executes.
 */

import { AT_WORK } from '../../mailbox/channel.ts'
import { ABORT, kindOf, type Memory, ownCopyOf, QUIET, runOf, stepOf, turnOf } from '../../mailbox/frame.ts'
import type { Timer } from '../../shared/clock.ts'
import type { AgentThread } from '../turn/open-turn.ts'
import type { OwnWork } from '../turn/own-work.ts'
import type { Turn } from '../turn/turn.ts'

/*
 * Finds turns whose code has changed since an earlier process began them: all that such a turn has open is held back
 * (steps.ts), and nothing else in it can call back.
 */

/**
 * Time after which a turn counts as idle although that cannot be known: it may wait for a timer or a socket of its own.
 */
const UNKNOWN_MS = 1_000

interface Needs {
  /** Checks that the turn has no open work of its own in this thread. Returns false also if that is not known. */
  isQuiet(turn: Turn): boolean
  /** Calls `judge` once the event loop has turned. */
  later(): void
  timer(ms: number, task: () => void): Timer
  /** Called once for each turn whose code has changed. */
  changed(turn: Turn): void
}

export class HeldTurns {
  readonly #needs: Needs
  /** Turns with something held back, with the timer of those that may be idle. */
  readonly #turns = new Map<Turn, Timer | undefined>()
  /** True if there are such turns. To be read only. */
  any = false

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Notes that something of the turn is held back. */
  add(turn: Turn): void {
    if (!this.#turns.has(turn)) this.#turns.set(turn, undefined)
    this.any = true
    this.#needs.later()
  }

  /** Judges all such turns; call it when the loop is idle. */
  judge(): void {
    for (const [turn, timer] of [...this.#turns]) {
      if (turn.ended || !turn.holds) this.#forget(turn)
      else if (!turn.isHeld || timer) continue
      else if (this.#needs.isQuiet(turn)) this.#changed(turn)
      else this.#turns.set(turn, this.#waits(turn))
    }
  }

  #waits(turn: Turn): Timer {
    const before = turn.start.replay?.progress
    return this.#needs.timer(UNKNOWN_MS, () => {
      this.#turns.set(turn, undefined)
      this.any = true
      if (turn.isHeld && !turn.ended && turn.start.replay?.progress === before) this.#changed(turn)
      else this.#needs.later()
    })
  }

  #changed(turn: Turn): void {
    this.#forget(turn)
    this.#needs.changed(turn)
  }

  #forget(turn: Turn): void {
    this.#turns.get(turn)?.cancel()
    this.#turns.delete(turn)
    this.any = this.#turns.size > 0
  }
}

/** State of one run that has nested turns, or nested requests that have not begun. */
interface Strand {
  /** The turn that continued last. */
  works: Turn | undefined
  /** Nested requests that have not begun, in order. */
  readonly requests: Memory[]
  /** Replies held back until their turn may continue, in order. */
  replies: { readonly turn: Turn; readonly memory: Memory }[]
}

/** Identifies a turn and its run. */
interface Placed {
  readonly turn: number
  readonly run: number
}

/** Callbacks that let turns continue: deliver a reply, or begin a nested request. */
interface Actions {
  letIn(memory: Memory): void
  begin(memory: Memory): void
}

export class Nesting {
  /** All open turns of the thread. */
  readonly #turns: readonly Turn[]
  readonly #words: Int32Array
  readonly #strands = new Map<number, Strand>()
  /** True while any run has nested turns or held frames. To be read only. */
  isOpen = false

  constructor(turns: readonly Turn[], words: Int32Array) {
    this.#turns = turns
    this.#words = words
  }

  /** Number of runs that have open turns. */
  get runs(): number {
    return new Set(this.#turns.map(({ start }) => start.run)).size
  }

  of(run: number): Turn[] {
    return this.#turns.filter(({ start }) => start.run === run)
  }

  #othersThan({ start }: { readonly start: Placed }): Turn[] {
    return this.#turns.filter((other) => other.start.run === start.run && other.start.turn !== start.turn)
  }

  /** Checks that all other open turns of the same run are parked. */
  isAlone(turn: { readonly start: Placed }): boolean {
    return this.#othersThan(turn).every(({ parked }) => parked)
  }

  /** Checks whether another turn of the same run is open. Those turns share one slot. */
  shares(turn: Turn): boolean {
    return this.isOpen && this.#othersThan(turn).length > 0
  }

  // ---- incoming frames

  /** Adds a request that is to run inside an open turn. */
  bring(memory: Memory, at: number): void {
    const run = runOf(memory, at)
    let strand = this.#strands.get(run)
    if (!strand) {
      strand = { works: undefined, requests: [], replies: [] }
      this.#strands.set(run, strand)
      this.isOpen = true
    }
    strand.requests.push(ownCopyOf(memory, at))
  }

  /** Decides about a reply to the turn. Returns true if it is held back until no other turn of the run executes. */
  keeps(turn: Turn, memory: Memory, at: number): boolean {
    const strand = this.#strands.get(turn.start.run)
    if (!strand) return false
    const { works, replies } = strand
    const mayGoOn = (works === undefined || works === turn) && this.isAlone(turn)
    if (mayGoOn && !replies.some((reply) => reply.turn === turn)) {
      this.#goesOn(strand, turn)
      return false
    }
    const reply = { turn, memory: ownCopyOf(memory, at) }
    if (kindOf(memory, at) === ABORT)
      replies.unshift(reply) // an abort is delivered before the turn's other replies
    else replies.push(reply)
    return true
  }

  /** Removes and returns the nested request of that turn, so that it does not begin. */
  takeBack(turn: number): Memory | undefined {
    for (const { requests } of this.#strands.values()) {
      const at = requests.findIndex((request) => turnOf(request, 0) === turn)
      if (at >= 0) return requests.splice(at, 1)[0]
    }
    return undefined
  }

  ended(turn: Turn): void {
    const { run } = turn.start
    const strand = this.#strands.get(run)
    if (!strand) return
    if (strand.works === turn) strand.works = undefined
    strand.replies = strand.replies.filter((reply) => reply.turn !== turn) // their recipient is gone
    this.#drop(run, strand)
  }

  #drop(run: number, { requests, replies }: Strand): void {
    if (requests.length + replies.length > 0 || this.of(run).length > 1) return
    this.#strands.delete(run)
    this.isOpen = this.#strands.size > 0
    Atomics.store(this.#words, AT_WORK, 0)
  }

  // ---- continuing turns

  /** True if a request or a reply waits for the loop to be idle. */
  get waits(): boolean {
    for (const { requests, replies } of this.#strands.values()) if (requests.length + replies.length > 0) return true
    return false
  }

  /**
   * Lets one turn of each run continue, if no turn of that run executes. Call it when the loop is idle. Returns true if
   * a turn continued.
   */
  goOn(actions: Actions): boolean {
    let any = false
    for (const [run, strand] of [...this.#strands]) {
      if (this.#letIn(strand, actions) || this.#begin(run, strand, actions)) any = true
      this.#drop(run, strand)
    }
    return any
  }

  #letIn(strand: Strand, actions: Actions): boolean {
    const next = strand.replies.find(({ turn }) => this.isAlone(turn))?.turn
    if (!next) return false
    const mine = strand.replies.filter(({ turn }) => turn === next)
    strand.replies = strand.replies.filter(({ turn }) => turn !== next)
    this.#goesOn(strand, next)
    for (const { memory } of mine) actions.letIn(memory)
    return true
  }

  #begin(run: number, strand: Strand, actions: Actions): boolean {
    const open = this.of(run)
    if (!open.every(({ parked }) => parked)) return false
    // A request whose outer turn is not open stays: that turn opens later, or an abort removes the request.
    const at = strand.requests.findIndex((request) => open.some(({ start }) => start.turn === stepOf(request, 0)))
    if (at < 0) return false
    strand.works = undefined
    actions.begin(strand.requests.splice(at, 1)[0]!)
    return true
  }

  /** Notes that the nested request has become a turn. */
  began(turn: Turn): void {
    const strand = this.#strands.get(turn.start.run)
    if (strand) this.#goesOn(strand, turn)
  }

  #goesOn(strand: Strand, turn: Turn): void {
    strand.works = turn
    Atomics.store(this.#words, AT_WORK, turn.start.turn)
  }
}

/*
 * Answers the host's questions (PROBE) whether a turn only waits for others. The host asks before it declares that the
 * turn waits in vain. Only the thread knows: the turn may wait for a timer or a socket of its own handler.
 *
 * The answer is sent when the loop is idle, after all frames that the thread has written before. A turn that had other
 * work gets a second answer once that work is done.
 */

interface Asked {
  readonly turn: number
  readonly number: number
  /** Progress of the answer. 'twice' checks once more before it answers, because Node reports finished work late. */
  state: 'new' | 'twice' | 'busy'
}

/**
 * Maximum number of pending questions per turn that get a second answer. The host repeats older questions by itself.
 */
const MOST_TOLD = 8

export class Probes {
  readonly #work: OwnWork | undefined
  #asked: Asked[] = []
  /** True if there are questions. To be read only. */
  waiting = false

  constructor(work: OwnWork | undefined) {
    this.#work = work
  }

  /** Checks that the turn has no open work of its own in this thread. Returns false also if the runtime cannot tell. */
  isQuiet(turn: Turn): boolean {
    return this.#work !== undefined && !this.#work.isBusy(turn)
  }

  /** Adds a question. A turn may have several open questions at a time; each is answered. */
  add(turn: number, number: number): void {
    const told = this.#asked.filter((asked) => asked.turn === turn && asked.state === 'busy')
    if (told.length >= MOST_TOLD) this.#asked.splice(this.#asked.indexOf(told[0]!), 1)
    this.#asked.push({ turn, number, state: 'new' })
    this.waiting = true
  }

  /** Answers the open questions; call it when the loop is idle. Returns true if it must be called once more. */
  answer(
    loop: Pick<AgentThread, 'link' | 'writeControl'>,
    turns: readonly Turn[],
    isComing: (turn: number) => boolean,
  ): boolean {
    let again = false
    this.#asked = this.#asked.filter((asked) => {
      const turn = turns.find(({ start }) => start.turn === asked.turn)
      // The turn has ended: the host reads its end before it would read an answer. Or it is still to begin again.
      if (!turn) return isComing(asked.turn)
      const waits = turn.parked
      const isBusy = this.#work?.isBusy(turn)
      const quiet = waits && !isBusy
      if (quiet) loop.writeControl(QUIET, turn.start, asked.number, 1)
      else if (isBusy && turn.rests && asked.state === 'new') {
        asked.state = 'twice'
        again = true
      } else if (asked.state !== 'busy') {
        asked.state = 'busy'
        loop.writeControl(QUIET, turn.start, asked.number, turn.rests && !isBusy ? 2 : 0)
      }
      return !quiet
    })
    this.waiting = this.#asked.length > 0
    loop.link.flush()
    return again
  }
}
