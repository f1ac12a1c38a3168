/** Runs the steps of one turn. Each step runs once; a redelivered turn gets the step's result from the log. */
import { DramatisError, type ErrorData, errorData, errorFrom } from '../../errors.ts'
import { isFailure } from '../../mailbox/codec.ts'
import { AWAITS_LOG, FAILED, REPLAYED, STEP_BEGAN, STEP_DONE } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { checkFunction, checkStepOptions, checkText, encodeForm } from '../definition/checks.ts'
import type { GoingOn } from '../transport/going-on.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { WrittenSteps } from '../transport/written-steps.ts'
import type { Hold } from './hold.ts'
import type { Settled } from './logged-turn.ts'
import { OpenSteps } from './open-steps.ts'
import type { Settlements } from './settlements.ts'
import type { StepOf } from './tools.ts'
import type { TurnStart } from './turn-start.ts'

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
