/**
 * Decides on the messages of a dead thread: rules 6 and 7. Each message may be retried, with what the log has of its
 * earlier attempts, unless something forbids it: then its sender is notified.
 */
import { AgentCrashedError, CancelledError, type DramatisError, errorData, OutcomeUnknownError } from '../../errors.ts'
import { errorOf } from '../../mailbox/codec.ts'
import type { TurnRetries } from '../../mailbox/envelope.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Gate } from '../dispatch/permits.ts'
import type { Requests } from '../mailboxes/requests.ts'
import { isForgotten, isReadAlready, unknownStep } from '../state/attempt-log.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { Cancellation } from './cancellation.ts'
import { outcomeUnknown } from './recalls.ts'
import { isFinal } from './tries.ts'

interface Fate {
  reason: 'cancelled' | 'poison' | 'failed'
  error: DramatisError
}

/** Retries of a turn that was not tried again. */
const NO_RETRIES: Readonly<TurnRetries> = { count: 0, late: undefined, instance: undefined }

interface Needs {
  readonly cancellation: Cancellation
  readonly dispatcher: Dispatcher
  readonly gate: Gate
  readonly journal: Journal
  readonly ready: Ready
  readonly requests: Requests
  /** Returns the name of a tool that the host runs for that turn, and that may not run twice. */
  unrepeatableTool(cell: Cell, turn: number): string | undefined
}

export class Redelivery {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /**
   * Rules 6 and 7: redelivers what was under way, at the front of the queue, unless something forbids it. True: a
   * message was poison.
   */
  giveBack(cell: Cell, life: Life, error: DramatisError, print: string | null): boolean {
    const handed = [...cell.mailbox.handed.all()]
    const begun = handed.filter((envelope) => life.begun(envelope))
    const untouched = handed.filter((envelope) => !life.begun(envelope))
    const alone = life.atWork(begun)
    let poisoned = false
    const again = begun.filter((envelope) => {
      const fate =
        this.#hindrance(cell, envelope, error) ?? this.#charge(cell, life, envelope, error, print, envelope === alone)
      if (!fate) return true
      this.#needs.cancellation.bury(cell, envelope, fate.reason, fate.error)
      if (fate.reason === 'poison') poisoned = true
      return false
    })
    if (!alone) for (const envelope of again) cell.suspects.add(envelope)
    this.#queueAgain(cell, again, untouched, error)
    return poisoned
  }

  /**
   * Takes up a message whose turn was open when an earlier process died. Its next attempt gets what the log has of the
   * earlier ones.
   */
  takeUp(cell: Cell, envelope: Envelope<RunState>): void {
    envelope.attempt += 1
    envelope.uncharged += 1
    cell.mailbox.takeUp(envelope, true)
    this.#needs.ready.touch(cell)
  }

  /** Buries a message that was taken up if something forbids another attempt of its turn. True: nothing does. */
  judgeTakenUp(cell: Cell, envelope: Envelope<RunState>): boolean {
    const error = new AgentCrashedError(`The process of agent "${cell.name}" ended.`, { agent: cell.name })
    const fate = this.#hindrance(cell, envelope, error)
    if (fate) this.#needs.cancellation.bury(cell, envelope, fate.reason, fate.error)
    return !fate
  }

  /**
   * Rule 1: redelivers what was under way in a thread that was ended because of other agents. No message is charged.
   */
  giveBackUncharged(cell: Cell, life: Life, error: DramatisError): void {
    const handed = [...cell.mailbox.handed.all()]
    const untouched = handed.filter((envelope) => !life.begun(envelope))
    const again = handed.filter((envelope) => {
      if (!life.begun(envelope)) return false
      const fate = this.#hindrance(cell, envelope, error)
      if (fate) this.#needs.cancellation.bury(cell, envelope, fate.reason, fate.error)
      return !fate
    })
    for (const envelope of again) envelope.uncharged += 1
    this.#queueAgain(cell, again, untouched, error)
  }

  #queueAgain(cell: Cell, again: Envelope<RunState>[], untouched: Envelope<RunState>[], error: DramatisError): void {
    for (const envelope of again) {
      if (envelope.retries?.late) this.#countRetry(cell, envelope, error)
      envelope.attempt += 1
      envelope.wasShelved = false
      envelope.announced = false
      envelope.startedAt = NOT_YET
    }
    for (const envelope of untouched) {
      envelope.announced = false
      envelope.startedAt = NOT_YET
      if (envelope.attempt === 1) envelope.begunAt = NOT_YET
    }
    const dead = untouched.filter((envelope) => envelope.cancelled)
    for (const envelope of dead) this.#needs.cancellation.bury(cell, envelope, 'cancelled', error)
    cell.mailbox.giveBack(
      again,
      untouched.filter((envelope) => !envelope.cancelled),
    )
    this.#needs.ready.touch(cell) // another instance may be free
  }

  /** Returns why an interrupted turn may not run again, whatever interrupted it. */
  #hindrance(cell: Cell, envelope: Envelope<RunState>, error: DramatisError): Fate | undefined {
    if (envelope.cancelled || envelope.run.ending) return { reason: 'cancelled', error }
    // A nested turn cannot be redelivered within its outer turn: that one waits for the target of the handoff now.
    if (envelope.within && envelope.handedOff)
      return { reason: 'cancelled', error: cutOffAfterHandoff(cell.name, error) }
    if (isForgotten(envelope)) {
      if (this.#needs.journal.isKept) return undefined // what it had done is read, and judged, before it begins again
      const text = `Agent "${cell.name}" died in a turn so long that the log in memory had to forget how it began, so it is not run again. Use shorter turns, or a durable log (stateManagement).`
      return { reason: 'failed', error: new OutcomeUnknownError(text, { agent: cell.name }, error) }
    }
    const step = unknownStep(cell, envelope)
    return step && { reason: 'failed', error: outcomeUnknown(cell, step, error) }
  }

  /**
   * Rule 7: charges a message that was under way when its agent died. A message is not charged if the thread may only
   * have lacked a processor. That often happens to the same few messages, so each is released from a charge only as
   * often as a message may cost a thread (`poisonAttempts`).
   */
  #charge(
    cell: Cell,
    life: Life,
    envelope: Envelope<RunState>,
    error: DramatisError,
    print: string | null,
    alone: boolean,
  ): Fate | undefined {
    if (life.starved && envelope.uncharged < cell.settings.supervision.poisonAttempts) {
      envelope.uncharged += 1
      return undefined
    }
    envelope.deaths ??= []
    const { deaths } = envelope
    const data = errorData(error)
    data.details.epoch = life.epoch
    deaths.push({ error: data, epoch: life.epoch, alone, fingerprint: print })
    const charged = deaths.filter((death) => death.alone)
    const same = print !== null && charged.filter((death) => death.fingerprint === print).length >= 2
    if (charged.length < cell.settings.supervision.poisonAttempts && !same) return undefined
    const epochs = new Set(deaths.map((death) => death.epoch))
    for (const each of cell.instances) each.restartTimes = each.restartTimes.filter(({ epoch }) => !epochs.has(epoch))
    const poison = new AgentCrashedError(
      `Agent "${cell.name}" died ${charged.length} times on this message, ${same ? 'in the same way' : 'which is as often as it may'}; it is not tried again. The last time: ${error.message}`,
      {
        agent: cell.name,
        attempts: envelope.attempt,
        deaths: deaths.map((death) => ({ epoch: death.epoch, message: death.error.message })),
      },
      error.cause ?? error,
    )
    return { reason: 'poison', error: poison }
  }

  // ---- the next attempt

  /** Checks whether a turn that threw has a try left that may end differently. */
  #mayFailAgain({ settings }: Cell, envelope: Envelope<RunState>, error: DramatisError): boolean {
    const { onHandlerError, poisonAttempts } = settings.supervision
    if (error.code !== 'AGENT_FAILED') return false
    if (onHandlerError !== 'fail') return envelope.attempt - envelope.uncharged < poisonAttempts
    const { count } = envelope.retries ?? NO_RETRIES
    if (count >= settings.turnRetries || envelope.handedOff || isFinal(error)) return false
    // A model that hangs may not take the time of the whole run.
    return error.modelFailure?.reason !== 'timeout' || envelope.run.leftMs > settings.modelTimeoutMs
  }

  /**
   * Tells a late turn to stop, so that it begins again when it has: at the latest when the end of its thread has ended
   * it. Returns the error that it ends with if it may not.
   */
  retryLate(cell: Cell, envelope: Envelope<RunState>, error: DramatisError): DramatisError | undefined {
    const { count } = envelope.retries ?? NO_RETRIES
    if (count >= cell.settings.turnRetries || envelope.cancelled || envelope.run.ending || envelope.handedOff)
      return error
    if (!cell.mailbox.holds(envelope) || !cell.life?.begun(envelope)) return error
    if (isForgotten(envelope) || isReadAlready(cell, envelope)) return error
    const step = this.#unknown(cell, envelope)
    if (step) return outcomeUnknown(cell, step, error)
    envelope.retries ??= { ...NO_RETRIES }
    envelope.retries.late = error
    this.#needs.dispatcher.stop(cell, envelope, error)
    return undefined
  }

  #countRetry(cell: Cell, envelope: Envelope<RunState>, thrown: DramatisError): void {
    const { count, late } = envelope.retries ?? NO_RETRIES
    const { memory, at, run } = envelope
    envelope.retries = { count: count + 1, late: undefined, instance: cell.instance }
    const messageId = idOf(memory, at)
    const error = late ?? thrown
    this.#needs.journal.record(run, { kind: 'turn.retried', ...cell.whose, messageId, tried: count + 2, error })
  }

  /**
   * Restarts a turn after its caller has retried an idempotent request: the turn is asked to stop, and begins again
   * when it has. It does not restart if a crash has ended it already. Nor does it if a step was under way that may not
   * run twice, or if a part of a model's answer was read.
   */
  beginAgain(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    if (!cell.mailbox.holds(envelope) || !cell.life?.begun(envelope)) return
    if (!this.#mayRepeat(cell, envelope)) return
    this.#needs.dispatcher.stop(cell, envelope, reason)
  }

  /** Checks that nothing is known of the turn that may not be done twice. */
  #mayRepeat(cell: Cell, envelope: Envelope<RunState>): boolean {
    if (isForgotten(envelope)) return this.#needs.journal.isKept && !cell.settings.playedByModel
    return !this.#unknown(cell, envelope) && !isReadAlready(cell, envelope)
  }

  /** Finds a step of the turn that is under way, in its thread or in the host, and may not run twice. */
  #unknown(cell: Cell, envelope: Envelope<RunState>): ReturnType<typeof unknownStep> {
    const tool = this.#needs.unrepeatableTool(cell, envelope.turn)
    return tool === undefined ? unknownStep(cell, envelope) : { kind: 'tool', name: tool }
  }

  /**
   * Rule 0: a handler that threw has failed. By option its turn is retried, in this thread or in a new one. A turn that
   * was told to stop because it was late, or because its request was retried, is retried as well.
   */
  tryAgain(cell: Cell, envelope: Envelope<RunState>, memory: Memory, at: number): boolean {
    const { onHandlerError } = cell.settings.supervision
    const mayBeginAgain = this.#needs.requests.of(envelope)?.idempotent === true
    const mayRetry = onHandlerError !== 'fail' || cell.settings.turnRetries > 0
    if (envelope.cancelled || envelope.run.ending || !(mayRetry || mayBeginAgain)) return false
    const error = errorOf(memory, at)
    const isLate = envelope.retries?.late !== undefined
    const isAskedAgain = !isLate && mayBeginAgain && error.code === 'REQUEST_TIMEOUT'
    if (!isLate && !isAskedAgain && !this.#mayFailAgain(cell, envelope, error)) return false
    if (!this.#mayRepeat(cell, envelope)) return false
    if (!isAskedAgain) this.#countRetry(cell, envelope, error)
    if (!isLate && !isAskedAgain && onHandlerError === 'restart') {
      cell.life?.kill(error)
      // The turn has ended, but not in a commit: the exit of the thread gives it back like any other.
      return true
    }
    envelope.attempt += 1
    envelope.announced = false
    envelope.startedAt = NOT_YET
    cell.mailbox.giveBack([envelope], [])
    if (cell.isDoneWith(envelope.run)) this.#needs.gate.release(envelope.run, cell)
    this.#needs.ready.touch(cell)
    return true
  }
}

/** Makes the error for a nested turn that was interrupted after its handoff: nobody waits for the rest of it. */
export const cutOffAfterHandoff = (agent: string, cause?: DramatisError): CancelledError =>
  new CancelledError(
    `A turn of "${agent}" was cut off when it had handed its duty off; what was left of it is not tried again.`,
    { agent },
    cause,
  )
