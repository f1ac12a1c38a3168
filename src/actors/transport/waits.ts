/** Open waits of an agent, by the correlation number that their frames carry. */
/** The order in which the waits of a turn settle. */
interface Order {
  /** True if what arrives now may settle at once. */
  readonly isFree: boolean
  /** Notes an answer, or a piece of one. */
  answered(correlation: number, piece: number): void
  /** Settles what has arrived when it is its turn. */
  settle(settle: () => void): void
  /** Lets the handler go on before the next one settles. */
  pause(): void
}

/** An open wait of a turn. */
export interface Wait {
  readonly order: Order
  /** True if its answer has arrived: it cannot be withdrawn any more. */
  isAnswered: boolean
  /** Number of pieces of its answer that have arrived. */
  pieces: number
  readonly kind: 'request' | 'send'
  readonly correlation: number
  /** Receives the chunks that arrive before the answer. */
  stream: { push(piece: string): void } | undefined
  resolve(value: unknown): void
  reject(error: unknown): void
}

const HIGHEST = 0x7fff_ffff

export class Waits {
  readonly #byNumber = new Map<number, Wait>()
  readonly #step: number
  readonly #first: number
  #last: number

  /**
   * Creates the numbering.
   *
   * @param last highest number used by an earlier thread of this agent
   * @param step number of the agent's instances; each instance has its own numbers
   */
  constructor(last: number, step: number) {
    this.#step = step
    this.#last = last
    this.#first = ((((last - 1) % step) + step) % step) + 1
  }

  /** Returns the number for a new wait. */
  next(): number {
    this.#last = this.#last > HIGHEST - this.#step ? this.#first : this.#last + this.#step
    return this.#last
  }

  add(correlation: number, wait: Wait): void {
    this.#byNumber.set(correlation, wait)
  }

  delete(correlation: number): void {
    this.#byNumber.delete(correlation)
  }

  get(correlation: number): Wait | undefined {
    return this.#byNumber.get(correlation)
  }

  numberOf(wait: Wait): number | undefined {
    return this.#byNumber.get(wait.correlation) === wait ? wait.correlation : undefined
  }
}
