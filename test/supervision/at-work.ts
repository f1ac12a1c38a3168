/** How many turns of each run are at work at one moment, as their threads count it themselves in shared memory. */
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

const KEY = 'dramatis.test.at-work'
const MOST_RUNS = 64

export class AtWork {
  /** For each run: how many are at work, and the most that ever were. */
  readonly #words: Int32Array

  constructor(words: Int32Array = new Int32Array(new SharedArrayBuffer(2 * MOST_RUNS * 4))) {
    this.#words = words
  }

  /** For the threads that start from now on. */
  share(): void {
    setEnvironmentData(KEY, this.#words)
  }

  static ofThread(): AtWork {
    return new AtWork(getEnvironmentData(KEY) as Int32Array)
  }

  /** Keeps the thread busy for that long. Runs are named `run0`, `run1` and so on. */
  work(runId: string, ms: number): void {
    const at = 2 * Number(runId.slice('run'.length))
    const now = Atomics.add(this.#words, at, 1) + 1
    for (let most = Atomics.load(this.#words, at + 1); now > most; most = Atomics.load(this.#words, at + 1))
      Atomics.compareExchange(this.#words, at + 1, most, now)
    for (const until = performance.now() + ms; performance.now() < until; );
    Atomics.sub(this.#words, at, 1)
  }

  mostOf(run: number): number {
    return Atomics.load(this.#words, 2 * run + 1)
  }
}
