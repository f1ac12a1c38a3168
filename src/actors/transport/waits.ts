/** The open waits of a life, by the number that frames have for them. */
/** One open wait of a turn. */
export interface Wait {
  readonly kind: 'request' | 'send'
  /** Takes the pieces that come before the answer. */
  stream: { push(piece: string): void } | undefined
  resolve(value: unknown): void
  reject(error: unknown): void
}

const HIGHEST = 0x7fff_ffff

export class Waits {
  readonly #byNumber = new Map<number, Wait>()
  readonly #numbers = new Map<Wait, number>()
  readonly #step: number
  readonly #first: number
  #last: number

  /** `last`: the highest number that an earlier life has used. `step`: of so many instances each has its own numbers. */
  constructor(last: number, step: number) {
    this.#step = step
    this.#last = last
    this.#first = ((((last - 1) % step) + step) % step) + 1
  }

  /** A number for a new wait. */
  next(): number {
    this.#last = this.#last > HIGHEST - this.#step ? this.#first : this.#last + this.#step
    return this.#last
  }

  add(correlation: number, wait: Wait): void {
    this.#byNumber.set(correlation, wait)
    this.#numbers.set(wait, correlation)
  }

  delete(correlation: number): void {
    const wait = this.#byNumber.get(correlation)
    if (wait) this.#numbers.delete(wait)
    this.#byNumber.delete(correlation)
  }

  get(correlation: number): Wait | undefined {
    return this.#byNumber.get(correlation)
  }

  numberOf(wait: Wait): number | undefined {
    return this.#numbers.get(wait)
  }
}
