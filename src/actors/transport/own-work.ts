/**
 * Tracks resources opened by turns of a thread that may call back: timers, sockets, thread pool jobs and the like. A
 * turn with such work does not only wait for others, whether or not the work keeps the thread alive. Work left open by
 * an earlier turn or by the module does not count for later turns. Node's async hooks report each resource
 * (async-hook.ts).
 *
 * Ownership: a resource opened within a callback belongs to the owner of that callback's resource. So does everything
 * opened by promises that the callback settles. Work that begins with a message or an answer cannot be attributed to
 * one of several open turns. Therefore it belongs to all turns that are open in the thread.
 */

/** The field of a turn that is needed here. */
interface OpenTurn {
  readonly ended: boolean
}

/** The turns that opened a group of resources, and the number of them that are open. */
interface Origin {
  turns: readonly OpenTurn[]
  open: number
}

/** An opened resource. */
interface Opened {
  readonly origin: Origin
  /** True if a turn may wait for it. Other resources only lead to what is opened next. */
  readonly isWork: boolean
  readonly connection: Connection | undefined
}

/** A connection that may be kept for later turns. A turn that writes to it waits for the response. */
interface Connection {
  readonly handle: Stream
  /** Bytes written up to the last moment at which no turn was open, or data arrived. */
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
  /** The origins that have open work. */
  readonly #live = new Set<Origin>()
  #turns: readonly OpenTurn[] = NO_TURNS
  #onEnd: (() => void) | undefined
  /** Origin for the turns that are open now. */
  #current: Origin = { turns: NO_TURNS, open: 0 }
  /** Origin of the callback that ran last; the promises it settled continue after it. undefined: all open turns. */
  #behind: Origin | undefined
  /** True while the runtime opens a resource for itself. */
  #isUnseen = false

  /**
   * Sets `turns`, a list of the open turns that the caller keeps up to date. `onEnd` is called when the last open work
   * of an origin is done.
   */
  follow(turns: readonly OpenTurn[], onEnd: () => void): void {
    this.#turns = turns
    this.#onEnd = onEnd
  }

  /** Checks whether the turn, alone or together with others, has open work that may call back. */
  isBusy(turn: OpenTurn): boolean {
    for (const origin of this.#live) {
      if (origin.turns.includes(turn)) return true
      if (!origin.turns.every(({ ended }) => ended)) continue
      origin.turns = NO_TURNS // releases the references to the turns
      this.#live.delete(origin)
    }
    for (const connection of this.#connections) if (isAwaited(connection)) return true
    return false
  }

  /** Resets the connections while no turn is open: data written so far belongs to no turn. */
  rest(): void {
    for (const connection of this.#connections) note(connection)
  }

  /**
   * Marks that a message or an answer arrives. It may follow the callback of an earlier turn, for whose end it waited.
   */
  stir(): void {
    this.#behind = undefined
  }

  // ---- opened resources

  /**
   * Records an opened resource. `within` is the resource whose callback runs; 0 between callbacks, where promises
   * continue.
   */
  opened(id: number, isWork: boolean, within: number, connection: Stream | undefined): void {
    if (this.#isUnseen) return
    const origin = this.#originOf(within)
    const kept = connection && { handle: connection, writtenBefore: 0, readBefore: 0, hears: false }
    if (kept) this.#connections.add(kept)
    this.#opened.set(id, { origin, isWork, connection: kept })
    if (isWork) this.#began(origin)
  }

  /** Records that a callback of the resource begins. */
  calledBack(id: number): void {
    const opened = this.#opened.get(id)
    this.#behind = opened?.origin
    const connection = opened?.connection
    if (!opened || !connection) return
    connection.hears = true
    note(connection)
    // A later turn may use a connection that an earlier one left open. Then what follows belongs to the open turns.
    if (isOver(opened.origin)) this.#behind = undefined
  }

  closed(id: number): void {
    const opened = this.#opened.get(id)
    if (!opened) return
    this.#opened.delete(id)
    if (opened.connection) this.#connections.delete(opened.connection)
    if (opened.isWork) this.#ended(opened.origin)
  }

  /** Begins work that Node's hooks do not report. Returns the function to call when the work ends. */
  begin(within: number): () => void {
    const origin = this.#originOf(within)
    this.#began(origin)
    return () => this.#ended(origin)
  }

  /** Runs `open`; the resources opened by it belong to the runtime and count for no turn. */
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

/**
 * Checks whether data was written to the connection and no response has come back. If another layer reads the
 * connection, only its count of read bytes shows a response.
 */
function isAwaited({ handle, writtenBefore, readBefore, hears }: Connection): boolean {
  if (handle.bytesWritten <= writtenBefore) return false
  return hears || handle.bytesRead === readBefore
}
