/** Runs in the order in which they started. */
import { isNewer, type ListedRun } from '../runs/run-list.ts'

export class RunOrder<R extends Pick<ListedRun, 'index' | 'startedAt'>> {
  readonly #runs: R[] = []

  /** Most come in their order, so the place of one is looked for from the end. */
  add(run: R): void {
    this.#runs.splice(this.#runs.findLastIndex((other) => isNewer(run, other)) + 1, 0, run)
  }

  delete(run: R): void {
    const at = this.#runs.indexOf(run)
    if (at >= 0) this.#runs.splice(at, 1)
  }

  get size(): number {
    return this.#runs.length
  }

  /** Yields the runs, the one that started last is first. */
  *newest(): Iterable<R> {
    for (let at = this.#runs.length - 1; at >= 0; at--) yield this.#runs[at]!
  }
}
