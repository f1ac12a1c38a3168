/** Waits until nothing is under way in a team any more: no run, and no message from outside with what it caused. */
import type { EndedRuns } from './ended-runs.ts'
import type { Holds } from './process-holds.ts'
import type { RunEntry } from './run-entries.ts'
import type { RunLine } from './run-queue.ts'

interface Needs {
  readonly line: RunLine<RunEntry>
  readonly ended: EndedRuns
  readonly holds: Holds
}

export class RunDrain {
  readonly #needs: Needs
  readonly listeners = new Set<() => void>()
  readonly #entering = new Set<Promise<unknown>>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Calls back after each batch of records. Returns a function that ends this. */
  readonly onRecords = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** Tells those who wait that there are records. */
  tell(): void {
    for (const listener of [...this.listeners]) listener()
  }

  /** Tracks a message from outside on its way to its run: `drained` waits for it. */
  entering<T>(sent: Promise<T>): Promise<T> {
    this.#entering.add(this.#needs.holds.until(sent))
    const done = () => void this.#entering.delete(sent)
    sent.then(done, done)
    return sent
  }

  /** Resolves when no run is under way or queued. */
  async quiet(): Promise<void> {
    const { line } = this.#needs
    while (!line.isEmpty) {
      await Promise.all(line.all.map(({ handle }) => handle.result.catch(() => {})))
    }
  }

  /**
   * Resolves when nothing is under way any more, including messages that nobody waits for. A run that waits for a
   * person is not waited for: who answers may take days. With a durable log a later process asks on.
   */
  async drained(): Promise<void> {
    const { line, ended } = this.#needs
    for (;;) {
      if (this.#entering.size > 0) await Promise.allSettled(this.#entering)
      else if (!line.onlyAsks || !ended.areQuiet) await this.#nextRecords()
      else return
    }
  }

  #nextRecords(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.onRecords(() => {
        stop()
        resolve()
      })
    })
  }
}
