/** When models and people were at work for somebody: an agent, or a run. Monotonic ms. */

/** The rest is forgotten, the oldest first: no deadline is that patient. */
const MOST_TIMES = 100
/** Between two turns of an agent nobody thinks for a moment: that is no end. */
const SHORTEST_GAP_MS = 1_000

export class ThinkingTimes {
  /** Over, in their order, and apart. */
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

  /** How much of that time somebody thought. */
  within(from: number, to: number): number {
    let ms = this.isOpen ? Math.max(0, to - Math.max(from, this.#since)) : 0
    for (const past of this.#past) ms += Math.max(0, Math.min(to, past.to) - Math.max(from, past.from))
    return ms
  }
}
