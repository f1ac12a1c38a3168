/** A watcher of a team gets each line, or, if it reads too slowly, the state of the team in place of many. */
import type { Digest } from './digest-line.ts'

/** Lines that a slow reader may be behind: five seconds of a busy team. */
const MOST_LINES = 50

export class Watcher {
  /** True if it is to get the state of the team next: in the beginning, and when it has missed lines. */
  isBehind = true
  #lines: Digest[] = []
  #isOver = false
  #wake: (() => void) | undefined

  /** Begins with the state of the team. */
  begin(state: Digest): void {
    this.isBehind = false
    this.#lines = [state]
  }

  push(line: Digest): void {
    if (this.isBehind) return
    if (this.#lines.length >= MOST_LINES) {
      this.#lines = []
      this.isBehind = true
    } else this.#lines.push(line)
    this.#wake?.()
  }

  end(): void {
    this.#isOver = true
    this.#wake?.()
  }

  /** Resolves to the lines that have come, or to none once it is over. */
  async next(): Promise<Digest[]> {
    while (this.#lines.length === 0 && !this.#isOver && !this.isBehind)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    return this.#lines.splice(0)
  }
}
