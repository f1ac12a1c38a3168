/**
 * Tracks the open steps of a turn and whether each may only wait for others, because a verb that it has called waits. A
 * tool has no verbs, so it never waits for others.
 *
 * The step that called a verb is certain only until that step first awaits something. After that, a wait counts for all
 * steps that were open when it began. So a turn that only waits is never taken for one that works.
 */
import { queueMicrotask } from '../../timers.ts'

/** An open step. */
interface OpenStep {
  /** Number of open waits for others that this step may have begun. */
  waits: number
  /**
   * True if waits that begin now do not belong to this step. The step is a tool, or it has returned its promise and its
   * caller has not awaited anything since.
   */
  beside: boolean
}

/** Shared value for waits that belong to no step, which is the usual case. */
const OF_NONE: readonly OpenStep[] = []

export class OpenSteps {
  readonly #open = new Set<OpenStep>()
  /** Number of steps that have work of their own. */
  #working = 0

  /** True if a step has work of its own, as far as this can be known. */
  get work(): boolean {
    return this.#working > 0
  }

  /** Registers a step that begins. */
  begin(): OpenStep {
    return this.#begin(false)
  }

  /** Registers a tool that begins. Waits that begin while it is open never belong to it. */
  beginTool(): OpenStep {
    return this.#begin(true)
  }

  #begin(beside: boolean): OpenStep {
    const step: OpenStep = { waits: 0, beside }
    this.#open.add(step)
    this.#working += 1
    return step
  }

  /** Runs the body of the step. */
  call<T>(step: OpenStep, body: () => T): T {
    queueMicrotask(() => {
      step.beside = false
    }) // queued before any microtask of the body
    const result = body()
    step.beside = true
    return result
  }

  end(step: OpenStep): void {
    this.#open.delete(step)
    if (step.waits === 0) this.#working -= 1
  }

  /** Notes that a wait for others begins. Returns the steps to which it may belong, for `settled`. */
  began(): readonly OpenStep[] {
    if (this.#open.size === 0) return OF_NONE
    const steps = [...this.#open].filter(({ beside }) => !beside)
    for (const step of steps) {
      if (step.waits === 0) this.#working -= 1
      step.waits += 1
    }
    return steps
  }

  /** Notes that the wait of those steps is over. */
  settled(steps: readonly OpenStep[]): void {
    for (const step of steps) {
      step.waits -= 1
      if (step.waits === 0 && this.#open.has(step)) this.#working += 1
    }
  }
}
