/**
 * What becomes of the messages that a dead thread had: rules 6 and 7. Each may be tried again, with what the log has of
 * its earlier attempts, unless it may not: then its sender is told.
 */
import { isAnswer, isStep } from '../../actors/turn/replay.ts'
import {
  AgentCrashedError,
  CancelledError,
  type DramatisError,
  errorData,
  errorFrom,
  OutcomeUnknownError,
} from '../../errors.ts'
import { errorOf } from '../../mailbox/codec.ts'
import {
  CALL,
  CHUNK,
  correlationOf,
  END,
  FAILED,
  flagsOf,
  kindOf,
  lengthOf,
  REQUEST,
  recipientOf,
  SEND,
  STEP_BEGAN,
  STEP_DONE,
  STREAM_READ,
  STREAMS,
  senderOf,
  stepOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Cell } from '../state/cell.ts'
import type { Core, Redelivering } from '../state/core.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'

/** Of an answer that somebody else streams to this agent. */
const isPiece = (cell: Cell, memory: Memory, at: number) =>
  kindOf(memory, at) === CHUNK && (flagsOf(memory, at) & STREAMS) !== 0 && senderOf(memory, at) !== cell.index

interface Fate {
  reason: 'cancelled' | 'poison' | 'failed'
  error: DramatisError
}

interface Logged {
  memory: Memory
  at: number
  bytes: number
}

export class Redelivery implements Redelivering {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
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
      this.bury(cell, envelope, fate.reason, fate.error)
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
      if (fate) this.bury(cell, envelope, fate.reason, fate.error)
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
    for (const envelope of dead) this.bury(cell, envelope, 'cancelled', error)
    cell.mailbox.giveBack(
      again,
      untouched.filter((envelope) => !envelope.cancelled),
    )
    this.#core.delivery.touch(cell) // another instance may be free
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
    const step = this.#unknownStep(cell, envelope)
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

  /** The message leaves the mailbox dead; its sender, if it waits, is told. */
  bury(
    cell: Cell,
    envelope: Envelope<RunState>,
    reason: 'cancelled' | 'poison' | 'failed' | 'stopped',
    error: DramatisError,
  ): void {
    const { mailboxRoom, settlement, withdrawals } = this.#core
    if (!cell.mailbox.discard(envelope)) return // the end of another has withdrawn it
    cell.suspects.delete(envelope)
    const request = settlement.requestOf(envelope)
    const errors = reason === 'poison' ? (envelope.deaths ?? []).map((death) => errorFrom(death.error)) : [error]
    settlement.drop(envelope, reason, errors)
    if (request) settlement.answerWithError(request, error)
    withdrawals.withdrawRequests(cell, envelope)
    mailboxRoom.freed(cell, envelope.bytes)
  }

  // ---- the next attempt

  /** What the log has of the earlier attempts of a turn, as one frame. */
  replayOf(cell: Cell, envelope: Envelope<RunState>): OwnFrame | undefined {
    const logged = this.#loggedSteps(cell, envelope)
    return logged.length === 0 ? undefined : this.#core.frames.replay(envelope.turn, logged)
  }

  #loggedSteps(cell: Cell, envelope: Envelope<RunState>): Logged[] {
    const steps: Logged[] = []
    const sends = new Set<number>()
    const requests = new Set<number>()
    for (const entry of envelope.run.log.entries()) {
      if (entry.kind !== 'frames') continue
      const { memory } = entry
      for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
        const kind = kindOf(memory, at)
        const correlation = correlationOf(memory, at)
        const byIt = senderOf(memory, at) === cell.index && turnOf(memory, at) === envelope.turn
        const forIt = recipientOf(memory, at) === cell.index && (sends.has(correlation) || requests.has(correlation))
        const ended = kind === END && byIt
        const mine =
          (isAnswer(kind) && !ended) || isPiece(cell, memory, at)
            ? forIt
            : byIt && (isStep(kind) || ended || kind === STREAM_READ)
        if (!mine) continue
        if (kind === SEND) sends.add(correlation)
        if (kind === REQUEST || kind === CALL) requests.add(correlation)
        if (ended) requests.clear() // an attempt that ends withdraws them: what comes later is for nobody
        steps.push({ memory, at, bytes: lengthOf(memory, at) })
      }
    }
    return steps
  }

  /** A step that ran in the dead thread itself, had begun, is not logged as finished, and may not run twice. */
  #unknownStep(cell: Cell, envelope: Envelope<RunState>): { kind: 'step' | 'tool'; name: string } | undefined {
    const begun = new Map<number, { kind: 'step' | 'tool'; name: string }>()
    for (const { memory, at } of this.#loggedSteps(cell, envelope)) {
      const kind = kindOf(memory, at)
      if (kind === STEP_BEGAN && flagsOf(memory, at) & FAILED) {
        const { content: name, threadId } = readBody(memory, at)
        begun.set(stepOf(memory, at), { kind: threadId === undefined ? 'step' : 'tool', name })
      }
      if (kind === STEP_DONE) begun.delete(stepOf(memory, at))
    }
    return begun.values().next().value
  }

  /** A model that is asked again begins another answer, and of this one somebody has read a part. */
  #isReadAlready(cell: Cell, envelope: Envelope<RunState>): boolean {
    if (!cell.settings.playedByModel) return false
    return this.#loggedSteps(cell, envelope).some(
      ({ memory, at }) => kindOf(memory, at) === CHUNK && senderOf(memory, at) === cell.index,
    )
  }

  /**
   * Its caller has asked again, and it may be done twice: the turn is told to stop, and begins again when it has. Not
   * where a death has ended it already, nor over a step that may not run twice, nor where a model's words were read.
   */
  beginAgain(cell: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    if (!cell.mailbox.holds(envelope) || !cell.life?.begun(envelope)) return
    if (this.#unknownStep(cell, envelope) || this.#isReadAlready(cell, envelope)) return
    this.#core.delivery.stop(cell, envelope, reason)
  }

  /** Rule 0: a handler that threw has failed; by option its turn is tried again, in this life or in a new one. So is one that began again. */
  tryAgain(cell: Cell, envelope: Envelope<RunState>, memory: Memory, at: number): boolean {
    const { onHandlerError, poisonAttempts } = cell.settings.supervision
    const charged = envelope.attempt - envelope.uncharged
    const mayBeginAgain = this.#core.settlement.requestOf(envelope)?.idempotent === true
    if (envelope.cancelled || envelope.run.ending || (onHandlerError === 'fail' && !mayBeginAgain)) return false
    const error = errorOf(memory, at)
    const late = mayBeginAgain && error.code === 'REQUEST_TIMEOUT'
    if (!late && (onHandlerError === 'fail' || error.code !== 'AGENT_FAILED' || charged >= poisonAttempts)) return false
    if (this.#unknownStep(cell, envelope) || this.#isReadAlready(cell, envelope)) return false
    if (!late && onHandlerError === 'restart') {
      this.#core.deaths.kill(cell, error)
      // The turn has ended, but not in a commit: the death gives it back like any other.
      return true
    }
    envelope.attempt += 1
    envelope.announced = false
    envelope.startedAt = NOT_YET
    cell.mailbox.giveBack([envelope], [])
    if (cell.isDoneWith(envelope.run)) this.#core.gate.release(envelope.run, cell)
    this.#core.delivery.touch(cell)
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
