/**
 * Shares one listener on a signal among all that wait under it. A caller may give one signal to a hundred requests, and
 * with a listener for each Node warns of a leak.
 */
interface Waiting {
  readonly tasks: Set<() => void>
  readonly listener: () => void
}

const waitingUnder = new WeakMap<AbortSignal, Waiting>()

/**
 * Calls `task` when the signal is aborted, in the order of the calls; not if it is already. Returns what takes that
 * back.
 */
export function onAbort(signal: AbortSignal, task: () => void): () => void {
  const { tasks, listener } = waitingUnder.get(signal) ?? listen(signal)
  tasks.add(task)
  return () => {
    if (!tasks.delete(task) || tasks.size > 0) return
    waitingUnder.delete(signal)
    signal.removeEventListener('abort', listener)
  }
}

/** Waits for something, until the signal is aborted: then it rejects with its reason, and nobody waits any more. */
export async function unlessAborted<T>(signal: AbortSignal, done: Promise<T>): Promise<T> {
  done.catch(() => {}) // told to nobody after an abort
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(signal.reason))
    done.then(resolve, reject).finally(forget)
  })
}

/**
 * A signal that is aborted with the first of those, until `forget` is called. In place of `AbortSignal.any` for who
 * never stops to listen: Node keeps such a signal, and all that its listeners hold, as long as it has any.
 */
export function anyAborted(signals: readonly AbortSignal[]): { signal: AbortSignal; forget(): void } {
  const first = new AbortController()
  const aborted = signals.find((signal) => signal.aborted)
  if (aborted) first.abort(aborted.reason)
  const forgets = signals.map((signal) => onAbort(signal, () => first.abort(signal.reason)))
  return {
    signal: first.signal,
    forget() {
      for (const forget of forgets) forget()
    },
  }
}

function listen(signal: AbortSignal): Waiting {
  const tasks = new Set<() => void>()
  const listener = () => {
    waitingUnder.delete(signal)
    for (const task of tasks) task()
  }
  const waiting = { tasks, listener }
  signal.addEventListener('abort', listener, { once: true })
  waitingUnder.set(signal, waiting)
  return waiting
}

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
