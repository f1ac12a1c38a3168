/**
 * The steps of a turn that are open: of each whether it may be doing nothing but wait for others, because a verb that it has
 * called does. A tool has no verbs, so it never waits for others. Which step has called a verb is certain only until the step first awaits something. After that a wait counts
 * for all that were open when it began, so that a turn that only waits is never taken for one that works.
 */

/** One that is open. */
interface OpenStep {
  /** Waits for others that it may have begun, and that are open. */
  waits: number
  /** It is a tool, or it has returned its promise and who called it has not awaited anything since: what begins now is not the step's. */
  beside: boolean
}

/** One of no step: so are most. */
const OF_NONE: readonly OpenStep[] = []

export class OpenSteps {
  readonly #open = new Set<OpenStep>()
  /** How many have something of their own to do. */
  #working = 0

  /** Whether one of them has something of its own to do, as far as can be told. */
  get work(): boolean {
    return this.#working > 0
  }

  /** A step begins. */
  begin(): OpenStep {
    return this.#begin(false)
  }

  /** A tool begins: no wait that begins while it is open is its own. */
  beginTool(): OpenStep {
    return this.#begin(true)
  }

  #begin(beside: boolean): OpenStep {
    const step: OpenStep = { waits: 0, beside }
    this.#open.add(step)
    this.#working += 1
    return step
  }

  /** Calls what the step is to do. */
  call<T>(step: OpenStep, body: () => T): T {
    queueMicrotask(() => {
      step.beside = false
    }) // queued before whatever the body awaits
    const result = body()
    step.beside = true
    return result
  }

  end(step: OpenStep): void {
    this.#open.delete(step)
    if (step.waits === 0) this.#working -= 1
  }

  /** A wait for others begins: for which of them it may be, for `settled`. */
  began(): readonly OpenStep[] {
    if (this.#open.size === 0) return OF_NONE
    const steps = [...this.#open].filter(({ beside }) => !beside)
    for (const step of steps) {
      if (step.waits === 0) this.#working -= 1
      step.waits += 1
    }
    return steps
  }

  /** That wait is over. */
  settled(steps: readonly OpenStep[]): void {
    for (const step of steps) {
      step.waits -= 1
      if (step.waits === 0 && this.#open.has(step)) this.#working += 1
    }
  }
}
