/** A number of places; who finds none free waits in a row, and may give up. */
import { onAbort } from './on-abort.ts'

export class Slots {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Resolves, with what gives the place back, when it is one's turn. Rejects with the signal's reason. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(signal)
    return () => this.#give()
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => {
        this.#waiting.splice(this.#waiting.indexOf(turn), 1)
        reject(signal.reason)
      })
      const turn = () => {
        forget()
        resolve()
      }
      this.#waiting.push(turn)
    })
  }

  #give(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free += 1
  }
}
