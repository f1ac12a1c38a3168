/**
 * What the turns of a thread have opened that may call back: timers, sockets, jobs of the thread pool and the like. A turn that
 * has such does not only wait for others, whether it keeps the thread alive or not; what an earlier turn or the module has left
 * open is no work of a later one. It is told of each by Node's async hooks (async-hook.ts).
 *
 * Whose it is: what is opened within a callback belongs to whom that callback's resource belongs, and so does what the promises
 * open that it settles. Of what begins with a message, or with an answer that a turn has got, nobody can tell turns of one
 * thread apart that are open at once: that belongs to all of them.
 */

/** What it needs of a turn. */
interface OpenTurn {
  readonly ended: boolean
}

/** By whose doing something was opened, and how much of it is open. */
interface Origin {
  turns: readonly OpenTurn[]
  open: number
}

/** One thing that was opened. */
interface Opened {
  readonly origin: Origin
  /** Somebody may wait for it. Others only lead to what is opened next. */
  readonly isWork: boolean
  readonly connection: Connection | undefined
}

/** One that may be kept for later turns: who writes to it waits for what comes back. */
interface Connection {
  readonly handle: Stream
  /** What had been written when no turn was open, or when something came last. */
  writtenBefore: number
  readBefore: number
  hears: boolean
}

interface Stream {
  readonly bytesWritten: number
  readonly bytesRead: number
}

const NO_TURNS: readonly OpenTurn[] = []

export class OwnWork {
  readonly #opened = new Map<number, Opened>()
  readonly #connections = new Set<Connection>()
  /** Those with something open. */
  readonly #live = new Set<Origin>()
  #turns: readonly OpenTurn[] = NO_TURNS
  #onEnd: (() => void) | undefined
  /** Of those turns that are open now. */
  #current: Origin = { turns: NO_TURNS, open: 0 }
  /** Whose callback ran last: the promises that it has settled go on behind it. undefined: whoever has a turn open. */
  #behind: Origin | undefined
  /** The runtime opens something for itself. */
  #isUnseen = false

  /** `turns`: those that are open, at each moment. `onEnd`: the last thing that somebody had open is done with. */
  follow(turns: readonly OpenTurn[], onEnd: () => void): void {
    this.#turns = turns
    this.#onEnd = onEnd
  }

  /** Whether the turn, or somebody with it, has something open that may call back. */
  isBusy(turn: OpenTurn): boolean {
    for (const origin of this.#live) {
      if (origin.turns.includes(turn)) return true
      if (!origin.turns.every(({ ended }) => ended)) continue
      origin.turns = NO_TURNS // lets them go
      this.#live.delete(origin)
    }
    for (const connection of this.#connections) if (isAwaited(connection)) return true
    return false
  }

  /** No turn is open: what was written until now is nobody's any more. */
  rest(): void {
    for (const connection of this.#connections) note(connection)
  }

  /** A message or an answer comes: perhaps behind the callback of an earlier turn, whose end it waited for. */
  stir(): void {
    this.#behind = undefined
  }

  // ---- what is opened

  /** `within`: the resource whose callback runs; 0 between callbacks, where promises go on. */
  opened(id: number, isWork: boolean, within: number, connection: Stream | undefined): void {
    if (this.#isUnseen) return
    const origin = this.#originOf(within)
    const kept = connection && { handle: connection, writtenBefore: 0, readBefore: 0, hears: false }
    if (kept) this.#connections.add(kept)
    this.#opened.set(id, { origin, isWork, connection: kept })
    if (isWork) this.#began(origin)
  }

  /** A callback of it begins. */
  calledBack(id: number): void {
    const opened = this.#opened.get(id)
    this.#behind = opened?.origin
    const connection = opened?.connection
    if (!opened || !connection) return
    connection.hears = true
    note(connection)
    // Later turns may ask by a connection that an earlier one has left open, and go on with what comes.
    if (isOver(opened.origin)) this.#behind = undefined
  }

  closed(id: number): void {
    const opened = this.#opened.get(id)
    if (!opened) return
    this.#opened.delete(id)
    if (opened.connection) this.#connections.delete(opened.connection)
    if (opened.isWork) this.#ended(opened.origin)
  }

  /** Something that Node's hooks do not hear of begins; what this gives is to be called when it ends. */
  begin(within: number): () => void {
    const origin = this.#originOf(within)
    this.#began(origin)
    return () => this.#ended(origin)
  }

  /** What is opened meanwhile is the runtime's own, for which nobody waits. */
  unseen<T>(open: () => T): T {
    this.#isUnseen = true
    try {
      return open()
    } finally {
      this.#isUnseen = false
    }
  }

  #began(origin: Origin): void {
    origin.open += 1
    if (origin.open === 1) this.#live.add(origin)
  }

  #ended(origin: Origin): void {
    origin.open -= 1
    if (origin.open > 0) return
    this.#live.delete(origin)
    if (origin.turns.length > 0) this.#onEnd?.()
  }

  #originOf(within: number): Origin {
    if (within === 0) return this.#behind ?? this.#now()
    return this.#opened.get(within)?.origin ?? this.#now()
  }

  #now(): Origin {
    const { turns } = this.#current
    const isSame = turns.length === this.#turns.length && turns.every((turn, i) => turn === this.#turns[i])
    if (!isSame) this.#current = { turns: [...this.#turns], open: 0 }
    return this.#current
  }
}

const isOver = ({ turns }: Origin): boolean => turns.every(({ ended }) => ended)

function note(connection: Connection): void {
  connection.writtenBefore = connection.handle.bytesWritten
  connection.readBefore = connection.handle.bytesRead
}

/** Somebody has written to it, and nothing has come back. One that another layer reads from tells so only by what it has read. */
function isAwaited({ handle, writtenBefore, readBefore, hears }: Connection): boolean {
  if (handle.bytesWritten <= writtenBefore) return false
  return hears || handle.bytesRead === readBefore
}
