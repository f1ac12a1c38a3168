/** Times in which models and people worked for an agent or for a run. Monotonic ms. */

/** Number of times that are kept. Older ones are dropped: no deadline is that long. */
const MOST_TIMES = 100
/** Shortest gap that counts as an end. Between two turns of an agent there is always a moment without work. */
const SHORTEST_GAP_MS = 1_000

export class ThinkingTimes {
  /** Finished times, in order, without overlap. */
  readonly #past: { from: number; to: number }[] = []
  #open = 0
  #since = 0

  get isOpen(): boolean {
    return this.#open > 0
  }

  begin(now: number): void {
    this.#open += 1
    if (this.#open === 1) this.#since = now
  }

  end(now: number): void {
    this.#open -= 1
    if (this.#open > 0) return
    const last = this.#past.at(-1)
    if (last && this.#since - last.to < SHORTEST_GAP_MS) last.to = now
    else this.#past.push({ from: this.#since, to: now })
    if (this.#past.length > MOST_TIMES) this.#past.shift()
  }

  /** Returns how many ms between `from` and `to` a model or a person worked. */
  within(from: number, to: number): number {
    let ms = this.isOpen ? Math.max(0, to - Math.max(from, this.#since)) : 0
    for (const past of this.#past) ms += Math.max(0, Math.min(to, past.to) - Math.max(from, past.from))
    return ms
  }
}
