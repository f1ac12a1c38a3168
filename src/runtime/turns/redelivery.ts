/**
 * What becomes of the messages that a dead thread had: rules 6 and 7. Each may be tried again, with what the log has of
 * its earlier attempts, unless it may not: then its sender is told.
 */
import { AgentCrashedError, CancelledError, type DramatisError, errorData, OutcomeUnknownError } from '../../errors.ts'
import { errorOf } from '../../mailbox/codec.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Gate } from '../dispatch/permits.ts'
import type { Requests } from '../mailboxes/requests.ts'
import { isReadAlready, unknownStep } from '../state/attempt-log.ts'
import type { Cell } from '../state/cell.ts'
import type { Life } from '../state/life.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { Cancellation } from './cancellation.ts'

interface Fate {
  reason: 'cancelled' | 'poison' | 'failed'
  error: DramatisError
}

interface Needs {
  readonly cancellation: Cancellation
  readonly dispatcher: Dispatcher
  readonly gate: Gate
  readonly ready: Ready
  readonly requests: Requests
}

export class Redelivery {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Rules 6 and 7: what was under way comes again, at the front, unless it may not. True: it was poison. */
  giveBack(cell: Cell, life: Life, error: DramatisError, print: string | null): boolean {
    const handed = [...cell.mailbox.handed.values()]
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

  /** Rule 1: the life was ended for the sake of others. What was under way comes again and has nothing to answer for. */
  giveBackUncharged(cell: Cell, life: Life, error: DramatisError): void {
    const handed = [...cell.mailbox.handed.values()]
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
      envelope.attempt += 1
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

  /** Why a turn that was cut off may not be run again, whoever cut it off. */
  #hindrance(cell: Cell, envelope: Envelope<RunState>, error: DramatisError): Fate | undefined {
    if (envelope.cancelled || envelope.run.ending) return { reason: 'cancelled', error }
    // Within the turn that it ran in it cannot come again: that one waits for the target now.
    if (envelope.within && envelope.handedOff)
      return { reason: 'cancelled', error: cutOffAfterHandoff(cell.name, error) }
    if (envelope.run.log.forgottenTo >= envelope.handedSeq) {
      const unknown = new OutcomeUnknownError(
        `Agent "${cell.name}" died in a turn so long that the log had to forget how it began, so it is not run again. Use shorter turns.`,
        { agent: cell.name },
        error,
      )
      return { reason: 'failed', error: unknown }
    }
    const step = unknownStep(cell, envelope)
    if (step) {
      const unknown = new OutcomeUnknownError(
        `Agent "${cell.name}" died while its ${step.kind} "${step.name}" was under way: it may have happened, or not, so it is not run again. Mark the ${step.kind} { idempotent: true } if it may.`,
        { agent: cell.name, [step.kind]: step.name },
        error,
      )
      return { reason: 'failed', error: unknown }
    }
    return undefined
  }

  /**
   * Rule 7: a message that was there when its agent died answers for it. Not where the thread may only have wanted for a
   * processor; as that often happens to few, such a message is let off as often as others may cost a life.
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

  /**
   * Its caller has asked again, and it may be done twice: the turn is told to stop, and begins again when it has. Not
   * where a death has ended it already, nor over a step that may not run twice, nor where a model's words were read.
   */
  beginAgain(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    if (!cell.mailbox.holds(envelope) || !cell.life?.begun(envelope)) return
    if (unknownStep(cell, envelope) || isReadAlready(cell, envelope)) return
    this.#needs.dispatcher.stop(cell, envelope, reason)
  }

  /** Rule 0: a handler that threw has failed; by option its turn is tried again, in this life or in a new one. So is one that began again. */
  tryAgain(cell: Cell, envelope: Envelope<RunState>, memory: Memory, at: number): boolean {
    const { onHandlerError, poisonAttempts } = cell.settings.supervision
    const charged = envelope.attempt - envelope.uncharged
    const mayBeginAgain = this.#needs.requests.of(envelope)?.idempotent === true
    if (envelope.cancelled || envelope.run.ending || (onHandlerError === 'fail' && !mayBeginAgain)) return false
    const error = errorOf(memory, at)
    const late = mayBeginAgain && error.code === 'REQUEST_TIMEOUT'
    if (!late && (onHandlerError === 'fail' || error.code !== 'AGENT_FAILED' || charged >= poisonAttempts)) return false
    if (unknownStep(cell, envelope) || isReadAlready(cell, envelope)) return false
    if (!late && onHandlerError === 'restart') {
      cell.life?.kill(error)
      // The turn has ended, but not in a commit: the death gives it back like any other.
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

/** Of a nested turn: nobody waits for what was left of it. */
export const cutOffAfterHandoff = (agent: string, cause?: DramatisError): CancelledError =>
  new CancelledError(
    `A turn of "${agent}" was cut off when it had handed its duty off; what was left of it is not tried again.`,
    { agent },
    cause,
  )
