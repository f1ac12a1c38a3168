/** Steps of a turn: those that wait for the log, those that are held back, and those that are open. */

import type { OnMismatch } from '../../mailbox/mailbox.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { queueMicrotask } from '../../shared/timers.ts'
import { handled } from '../definition/promises.ts'
import type { Logged } from './logged-turn.ts'
import type { Replay } from './replay.ts'

/*
 * Steps that may not run twice, in a team with a durable log: each begins when the host has written that it does. After
 * the death of the process the log then tells whether it may have happened.
 */

/** Fields that identify a step. */
interface StepPlace {
  readonly turn: number
  readonly step: number
}

export class WrittenSteps {
  /** Functions that let a step begin. */
  readonly #waiting = new Map<string, () => void>()
  readonly #flush: () => void

  /** `flush` wakes the host for what was written to it. */
  constructor(flush: () => void) {
    this.#flush = flush
  }

  /** Resolves when the host has written that the step begins. */
  wait(place: StepPlace): Promise<void> {
    const written = new Promise<void>((resolve) => this.#waiting.set(keyOf(place), resolve))
    this.#flush()
    return written
  }

  /** Notes that the host has written it. The step may be one of an earlier incarnation. */
  written(place: StepPlace): void {
    const begin = this.#waiting.get(keyOf(place))
    this.#waiting.delete(keyOf(place))
    begin?.()
  }

  /** Lets go of the steps of a turn that has ended: they find that, and do not begin. */
  ended(turn: number): void {
    if (this.#waiting.size === 0) return
    for (const [key, begin] of this.#waiting) {
      if (!key.startsWith(`${turn} `)) continue
      this.#waiting.delete(key)
      begin()
    }
  }
}

const keyOf = ({ turn, step }: StepPlace): string => `${turn} ${step}`

/*
 * Holds back what a turn begins anew, in a run that goes on with the log of an earlier process, until the turn has
 * asked again for all that the log has of it. Code that is the same needs nothing but the log to ask for that, so it is
 * never held long. If all that a turn has open is held, its code has changed (nesting.ts).
 */

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

/*
 * Tracks the open steps of a turn and whether each may only wait for others, because a verb that it has called waits. A
 * tool has no verbs, so it never waits for others.
 *
 * The step that called a verb is certain only until that step first awaits something. After that, a wait counts for all
 * steps that were open when it began. So a turn that only waits is never taken for one that works.
 */

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
