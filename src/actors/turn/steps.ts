/** Runs the steps of one turn. Each step runs once; a redelivered turn gets the step's result from the log. */

import { isFailure } from '../../mailbox/codec.ts'
import { AWAITS_LOG, FAILED, REPLAYED, readBody, STEP_BEGAN, STEP_DONE } from '../../mailbox/frame.ts'
import type { OnMismatch } from '../../mailbox/mailbox.ts'
import { DramatisError, type ErrorData, errorData, errorFrom } from '../../shared/errors.ts'
import { queueMicrotask } from '../../shared/timers.ts'
import { checkFunction, checkStepOptions, checkText, encodeForm } from '../definition/checks.ts'
import { handled } from '../definition/promises.ts'
import type { Outbox } from './link.ts'
import type { Logged, Settled, Settlements } from './logged-turn.ts'
import type { GoingOn } from './parking.ts'
import type { Replay, TurnStart } from './replay.ts'
import type { StepOf } from './tools.ts'

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

  /** Notes that the host has written it. The step may be one of an earlier life. */
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

export interface StepNeeds {
  readonly outbox: Outbox
  readonly goingOn: GoingOn
  /** Present in a team with a durable log. */
  readonly writtenSteps: WrittenSteps | undefined
  /** Returns the time in epoch ms. */
  now(): number
  /** Converts anything thrown into an error that names the agent and the activity that failed. */
  failure(thrown: unknown, at: string): DramatisError
  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
}

/** The parts of its turn that are needed here. */
export interface SteppingTurn {
  readonly start: TurnStart
  readonly ended: boolean
  /** Holds back what the log does not have; undefined for most turns. */
  readonly hold: Hold | undefined
  readonly settlements: Settlements
  /** True if the reader of the answer is far behind. */
  readonly breathless: boolean
  /** Returns the reason why verbs no longer work, if there is one. */
  refusal(): DramatisError | undefined
  nextStep(): number
}

export class StepRunner {
  readonly open = new OpenSteps()
  readonly #needs: StepNeeds
  readonly #turn: SteppingTurn
  readonly #gate: () => Promise<void>

  /** Creates the runner; `gate` waits for the reader of the answer. */
  constructor(needs: StepNeeds, turn: SteppingTurn, gate: () => Promise<void>) {
    this.#needs = needs
    this.#turn = turn
    this.#gate = gate
  }

  /** Runs a step that the handler has named. */
  async own<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T> {
    const refusal = this.#turn.refusal()
    if (refusal) throw refusal
    checkText(name, 'name')
    checkFunction(run, 'run')
    if (options !== undefined) checkStepOptions(options)
    const { keys } = this.#needs.outbox
    return this.run({ name: keys ? keys.text(name) : name, idempotent: options?.idempotent === true }, run)
  }

  async run<T>({ name, idempotent, tool }: StepOf, run: () => Promise<T> | T): Promise<T> {
    if (this.#turn.breathless) await this.#gate()
    const { replay } = this.#turn.start
    const logged = replay?.matchStep(name, tool?.callId)
    if (logged?.settled) {
      this.#record(REPLAYED, logged.number, name, undefined, 0)
      return this.#again<T>(logged.settled)
    }
    const { hold, settlements } = this.#turn
    if (hold?.isOpen && !logged) await hold.until(`${tool ? 'tool' : 'step'} ${name}`, () => Promise.resolve())
    // The turn begins work of its own, so it does not only wait.
    const permit = this.#needs.goingOn.permit(this.#turn.start)
    if (permit) await permit
    const step = logged?.number ?? this.#turn.nextStep()
    // A tool that may run twice waits too: a later process has to find its call, which has the idempotency key.
    const written = idempotent && !tool ? undefined : this.#needs.writtenSteps
    const flags = (idempotent ? 0 : FAILED) | (written ? AWAITS_LOG : 0)
    this.#record(STEP_BEGAN, step, name, tool?.input, flags, tool?.callId, undefined, tool?.polling)
    const open = tool ? this.open.beginTool() : this.open.begin()
    const beganAt = tool && this.#needs.now()
    settlements.began()
    try {
      if (written) await this.#isWritten(written, step)
      const result = await (tool ? run() : this.open.call(open, run))
      const { data, value } = this.#said(encodeForm(result, `step "${name}"`))
      this.#record(STEP_DONE, step, name, data, 0, tool?.callId, beganAt)
      return value as T
    } catch (error) {
      const failure = tool && error instanceof DramatisError ? error : this.#needs.failure(error, `step "${name}"`)
      if (!this.#turn.ended)
        this.#record(STEP_DONE, step, name, JSON.stringify(errorData(failure)), FAILED, tool?.callId, beganAt)
      throw error
    } finally {
      this.open.end(open)
      if (!settlements.isFree) await settlements.turn()
      settlements.ended()
      this.#needs.mayPark(this.#turn.start)
    }
  }

  /** Returns a result as the log has it, where it holds a granted key: a later attempt gets nothing else. */
  #said(form: ReturnType<typeof encodeForm>): ReturnType<typeof encodeForm> {
    const { keys } = this.#needs.outbox
    if (!keys || form.data === undefined) return form
    const data = keys.text(form.data)
    return data === form.data ? form : { data, value: JSON.parse(data) }
  }

  /** Settles a step as the log has it. */
  async #again<T>(settled: Settled): Promise<T> {
    const { settlements } = this.#turn
    const { memory, at } = settled.frame!
    settlements.began()
    await new Promise<void>((resolve) => settlements.again(settled, resolve))
    settlements.ended()
    const { data } = readBody(memory, at)
    if (isFailure(memory, at)) throw errorFrom(JSON.parse(data!) as ErrorData)
    return (data === undefined ? undefined : JSON.parse(data)) as T
  }

  /** Resolves when the step may begin. Rejects if its turn has ended meanwhile. */
  async #isWritten(written: WrittenSteps, step: number): Promise<void> {
    const { start } = this.#turn
    await written.wait({ turn: start.turn, step })
    const refusal = this.#turn.refusal()
    if (refusal) throw refusal
  }

  #record(
    kind: number,
    step: number,
    content: string,
    data: string | undefined,
    flags: number,
    callId?: string,
    beganAt?: number,
    polling = false,
  ): void {
    const { outbox } = this.#needs
    const { start, ended } = this.#turn
    if (ended) throw this.#turn.refusal()
    const fields = outbox.begin(kind, start.run, start.turn, step, content, data)
    fields.flags = flags
    fields.threadId = callId
    fields.polling = polling
    if (kind === STEP_DONE) this.#turn.settlements.mark(fields)
    if (beganAt !== undefined) fields.limit = Math.min(Math.round(this.#needs.now() - beganAt), 2 ** 31 - 1)
    fields.attempt = start.attempt
    outbox.checkedSize()
    outbox.writeAbout(start.id)
  }
}
