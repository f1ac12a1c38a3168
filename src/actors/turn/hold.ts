/**
 * Holds back what a turn begins anew, in a run that goes on with the log of an earlier process, until the turn has
 * asked again for all that the log has of it. Code that is the same needs nothing but the log to ask for that, so it is
 * never held long. If all that a turn has open is held, its code has changed (loop/held-turns.ts).
 */
import type { DramatisError } from '../../errors.ts'
import type { OnMismatch } from '../../mailbox/envelope.ts'
import { queueMicrotask } from '../../timers.ts'
import { handled } from '../definition/promises.ts'
import type { Logged } from './logged-turn.ts'
import type { OpenSteps } from './open-steps.ts'
import type { Replay } from './replay.ts'

interface Held {
  /** Steps that the log has in its place, as far as is known: if nobody asks for them, its code has changed. */
  readonly doubts: readonly Logged[]
  /** Describes what is held, for people. */
  readonly step: string
  /** True if its turn counts it as work of its own. */
  readonly isWork: boolean
  begin(): void
  refuse(reason: DramatisError): void
}

interface Needs {
  readonly replay: Replay
  readonly onMismatch: OnMismatch
  /** Returns the open steps of the turn. */
  steps(): OpenSteps | undefined
  /** Called when something is held back. */
  began(): void
}

export class Hold {
  readonly onMismatch: OnMismatch
  readonly #needs: Needs
  readonly #held = new Set<Held>()
  #isOver = false

  constructor(needs: Needs) {
    this.#needs = needs
    this.onMismatch = needs.onMismatch
  }

  /** Lets begin what need not wait any more. Called when the turn has got on. */
  check(): void {
    if (this.#held.size === 0 || this.isOpen) return
    const { replay } = this.#needs
    this.#begin((held) => held.doubts.every((step) => replay.isMatched(step)))
  }

  /** True if what is not in the log has to wait. */
  get isOpen(): boolean {
    const { awaited, script } = this.#needs.replay
    return !this.#isOver && (awaited > 0 || script.open < Number.POSITIVE_INFINITY)
  }

  get count(): number {
    return this.#held.size
  }

  /** Number of held verbs that the turn counts as work of its own. */
  get works(): number {
    let works = 0
    for (const { isWork } of this.#held) if (isWork) works += 1
    return works
  }

  /** Descriptions of all that is held back. */
  get steps(): string[] {
    return Array.from(this.#held, ({ step }) => step)
  }

  /** Begins a verb when it need not wait any more. Rejects if its turn is told to stop before. */
  until<T>(step: string, verb: () => Promise<T>, isWork = false): Promise<T> {
    const open = this.#needs.steps()
    const ofSteps = open?.began()
    const begun = new Promise<void>((resolve, reject) => this.#add({ step, isWork, begin: resolve, refuse: reject }))
    const settled = () => {
      if (ofSteps) open?.settled(ofSteps)
    }
    begun.then(settled, settled)
    return handled(begun.then(verb))
  }

  /** Ends the turn when it need not wait any more, or is told to stop. */
  untilEnd(how: string, end: () => void): void {
    this.#add({ step: how, isWork: false, begin: () => queueMicrotask(end), refuse: () => queueMicrotask(end) })
  }

  #add(held: Omit<Held, 'doubts'>): void {
    this.#held.add({ ...held, doubts: this.#needs.replay.doubts() })
    this.#needs.began()
  }

  /** Lets everything begin, in the order in which it was held back, and holds nothing any more. */
  release(): void {
    this.#begin(() => true)
  }

  #begin(may: (held: Held) => boolean): void {
    this.#isOver = true
    for (const held of [...this.#held]) {
      if (!may(held)) continue
      this.#held.delete(held)
      held.begin()
    }
  }

  /** Refuses what is held back: its turn must stop. */
  fail(reason: DramatisError): void {
    this.#isOver = true
    const held = [...this.#held]
    this.#held.clear()
    for (const each of held) each.refuse(reason)
  }

  /** Leaves what is held back unsettled for ever: none of the code behind it runs. */
  drop(): void {
    this.#isOver = true
    this.#held.clear()
  }
}
