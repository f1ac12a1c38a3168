/**
 * Requests that came back to a turn which waits for them, and the turns that they become: several turns of one run are
 * open then, one on top of the other. Of these one works at a time, so that the permit, the state and what a handler keeps
 * for itself have one user: a request begins when all that is open of its run waits for others, and what a turn waits for
 * is let in when no other one is at work.
 */
import { ABORT, kindOf, ownCopyOf, runOf, stepOf, turnOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { AT_WORK } from '../../mailbox/window.ts'
import type { Turn } from '../turn/turn.ts'

/** The open turns of one run, where some are nested or are to be. */
interface Strand {
  /** The one that went on last. */
  works: Turn | undefined
  /** Requests that have not begun, in order. */
  readonly requests: Memory[]
  /** What turns wait for and must not have yet, in order. */
  replies: { readonly turn: Turn; readonly memory: Memory }[]
}

/** Which turn it is. */
interface Placed {
  readonly turn: number
  readonly run: number
}

/** What lets the turns go on. */
interface Actions {
  letIn(memory: Memory): void
  begin(memory: Memory): void
}

export class Nesting {
  /** All of the thread. */
  readonly #turns: readonly Turn[]
  readonly #words: Int32Array
  readonly #strands = new Map<number, Strand>()

  constructor(turns: readonly Turn[], words: Int32Array) {
    this.#turns = turns
    this.#words = words
  }

  /** Whether it has anything to say. */
  get isOpen(): boolean {
    return this.#strands.size > 0
  }

  /** Of how many runs there are turns. */
  get runs(): number {
    return new Set(this.#turns.map(({ start }) => start.run)).size
  }

  /** The open turns of that run. */
  of(run: number): Turn[] {
    return this.#turns.filter(({ start }) => start.run === run)
  }

  #othersThan({ start }: { readonly start: Placed }): Turn[] {
    return this.#turns.filter((other) => other.start.run === start.run && other.start.turn !== start.turn)
  }

  /** No turn of its run is at work but it. */
  isAlone(turn: { readonly start: Placed }): boolean {
    return this.#othersThan(turn).every(({ parked }) => parked)
  }

  /** Another turn of its run is open: they have one place. */
  shares(turn: Turn): boolean {
    return this.isOpen && this.#othersThan(turn).length > 0
  }

  // ---- what comes

  /** A request for within a turn. */
  bring(memory: Memory, at: number): void {
    const run = runOf(memory, at)
    let strand = this.#strands.get(run)
    if (!strand) {
      strand = { works: undefined, requests: [], replies: [] }
      this.#strands.set(run, strand)
    }
    strand.requests.push(ownCopyOf(memory, at))
  }

  /** What the turn waits for has come. True: it is kept until no other of its run is at work. */
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
      replies.unshift(reply) // of what the turn is given it comes first
    else replies.push(reply)
    return true
  }

  /** Takes the request of that turn out: it is not to begin any more. */
  takeBack(turn: number): Memory | undefined {
    for (const { requests } of this.#strands.values()) {
      const at = requests.findIndex((request) => turnOf(request, 0) === turn)
      if (at >= 0) return requests.splice(at, 1)[0]
    }
    return undefined
  }

  /** A turn has ended. */
  ended(turn: Turn): void {
    const { run } = turn.start
    const strand = this.#strands.get(run)
    if (!strand) return
    if (strand.works === turn) strand.works = undefined
    strand.replies = strand.replies.filter((reply) => reply.turn !== turn) // for nobody
    this.#drop(run, strand)
  }

  #drop(run: number, { requests, replies }: Strand): void {
    if (requests.length + replies.length > 0 || this.of(run).length > 1) return
    this.#strands.delete(run)
    Atomics.store(this.#words, AT_WORK, 0)
  }

  // ---- what may go on

  /** Something waits for the loop to be idle. */
  get waits(): boolean {
    for (const { requests, replies } of this.#strands.values()) if (requests.length + replies.length > 0) return true
    return false
  }

  /** In an idle loop: lets one turn of each run go on, if none of it is at work. True: there was one. */
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
    // One whose turn is not open comes with that turn, or with word that it is not to begin.
    const at = strand.requests.findIndex((request) => open.some(({ start }) => start.turn === stepOf(request, 0)))
    if (at < 0) return false
    strand.works = undefined
    actions.begin(strand.requests.splice(at, 1)[0]!)
    return true
  }

  /** The request has become a turn. */
  began(turn: Turn): void {
    const strand = this.#strands.get(turn.start.run)
    if (strand) this.#goesOn(strand, turn)
  }

  #goesOn(strand: Strand, turn: Turn): void {
    strand.works = turn
    Atomics.store(this.#words, AT_WORK, turn.start.turn)
  }
}
