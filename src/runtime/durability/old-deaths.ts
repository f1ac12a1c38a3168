/**
 * Fold of the deaths of earlier processes: at how many in a row a turn was open and had got no further. A process that
 * closed its team has not died, nor has one that ended by itself: what ends a process before JavaScript learns of it is
 * a native crash, a lack of memory, or a kill from outside.
 */
import {
  BEGINS_AGAIN,
  CALL,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  NOW,
  REQUEST,
  RESPONSE,
  RESULT,
  recipientOf,
  SEND,
  SLEEP,
  SLEPT,
  STEP_DONE,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { FrameBlock, GivenTurn, LogEntry } from '../log/records.ts'
import type { OpenMessage, OpenWork } from '../state/open-work.ts'

/**
 * Frames of a turn that a repeated attempt does not write again. The begin of a step is not among them: a step that may
 * run twice begins in each attempt.
 */
const PROGRESS: ReadonlySet<number> = new Set([SEND, REQUEST, CALL, STEP_DONE, NOW, SLEEP, SLEPT])

/** Progress of an open turn. Processes are numbered in their order. */
interface Progress {
  /** Process in which the turn has begun last. */
  begunIn: number
  /** Process in which it has got further last. */
  furtherIn: number
  /** Deaths in a row at which it was open and had got no further. */
  deaths: number
}

export class OldDeaths {
  readonly #work: OpenWork
  readonly #progress = new Map<OpenMessage, Progress>()
  readonly #byTurn = new Map<number, OpenMessage>()
  #process = 0
  #isOpen = false
  /** True if a turn has begun in the process. */
  #hasBegun = false
  /** Turns that nothing else was under way beside, in the order in which they began. */
  readonly #alone = new Set<OpenMessage>()
  #accused: readonly OpenMessage[] = []

  /** `work`: fold of the same log, which sees each entry after this one. */
  constructor(work: OpenWork) {
    this.#work = work
  }

  /** Turns one of which has ended the last process in which a turn had begun, in the order in which they began. */
  get accused(): readonly OpenMessage[] {
    return this.#accused
  }

  /** Returns the deaths in a row at which the turn of that message was open and had got no further. */
  of(message: OpenMessage): number {
    return this.#progress.get(message)?.deaths ?? 0
  }

  /** True if the last process has died. */
  hasDied = false

  see(entry: LogEntry): void {
    switch (entry.kind) {
      case 'frames':
        if (this.#byTurn.size > 0) this.#frames(entry)
        return
      case 'turn.started':
        return this.#begun([entry.index, entry.turn, entry.attempt, entry.messageId])
      case 'turns':
        if (!entry.again) for (const turn of entry.turns) this.#begun(turn)
        return
      case 'turn.begins':
        for (const turn of entry.turns) this.#begun(turn)
        return this.#begin(entry.alone ? entry.turns : [])
      case 'log.opened':
        this.#end(entry.ended === true)
        this.#process += 1
        this.#isOpen = true
        return
      case 'log.closed':
        return this.#closed()
    }
  }

  /** Notes that nothing follows. `byItself`: the last process has ended by itself. */
  end(byItself: boolean): void {
    this.hasDied = this.#isOpen && !byItself
    this.#end(byItself)
  }

  #end(byItself: boolean): void {
    this.#forgetEnded()
    if (this.#isOpen && !byItself) this.#died()
    this.#isOpen = false
    this.#hasBegun = false
    this.#alone.clear()
  }

  #died(): void {
    for (const progress of this.#progress.values()) {
      if (progress.begunIn !== this.#process) continue
      progress.deaths = progress.furtherIn === this.#process ? 1 : progress.deaths + 1
    }
    if (this.#hasBegun) this.#accused = [...this.#alone]
  }

  /** A process in which a turn was open, and that was closed in order, shows that the turn does no harm. */
  #closed(): void {
    for (const progress of this.#progress.values()) if (progress.begunIn === this.#process) progress.deaths = 0
    this.#isOpen = false
  }

  #forgetEnded(): void {
    for (const message of [...this.#progress.keys()]) {
      if (this.#work.message(message.id, message.recipient) === message) continue
      this.#progress.delete(message)
      this.#alone.delete(message)
      this.#byTurn.delete(keyOf(message.recipient, message.turn))
    }
  }

  #begun([index, turn, , id]: GivenTurn): void {
    const message = this.#work.message(id, index)
    if (!message) return
    this.#hasBegun = true
    this.#byTurn.set(keyOf(index, turn), message)
    const known = this.#progress.get(message)
    if (known) known.begunIn = this.#process
    else this.#progress.set(message, { begunIn: this.#process, furtherIn: 0, deaths: 0 })
  }

  #begin(turns: readonly GivenTurn[]): void {
    this.#alone.clear()
    for (const [index, , , id] of turns) {
      const message = this.#work.message(id, index)
      if (message) this.#alone.add(message)
    }
  }

  #frames({ memory, from, to }: FrameBlock): void {
    for (let at = from; at < to; at += lengthOf(memory, at)) this.#frame(memory, at)
  }

  #frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    if (PROGRESS.has(kind)) return this.#further(senderOf(memory, at), turnOf(memory, at))
    if (kind === RESULT) return this.#further(recipientOf(memory, at), turnOf(memory, at))
    if (kind !== END && kind !== RESPONSE) return
    const wait = this.#work.wait(recipientOf(memory, at), correlationOf(memory, at))
    if (wait) this.#further(wait.caller, wait.turn)
    if (kind !== END) return
    const [sender, turn] = [senderOf(memory, at), turnOf(memory, at)]
    this.#further(sender, turn)
    if (!(flagsOf(memory, at) & BEGINS_AGAIN)) this.#ended(keyOf(sender, turn))
  }

  #further(agent: number, turn: number): void {
    const message = this.#byTurn.get(keyOf(agent, turn))
    if (!message) return
    this.#alone.delete(message)
    const progress = this.#progress.get(message)
    if (progress) progress.furtherIn = this.#process
  }

  #ended(turn: number): void {
    const message = this.#byTurn.get(turn)
    if (!message) return
    this.#byTurn.delete(turn)
    this.#progress.delete(message)
  }
}

/** Returns a number for a turn of an agent: indices of agents have 16 bits, numbers of turns 31. */
const keyOf = (agent: number, turn: number): number => agent * 2 ** 32 + turn
