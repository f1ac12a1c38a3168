/** How turns and requests end: in a commit, in an error, or answered by somebody else. Those that are withdrawn are in cancellation.ts. */
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import { CancelledError, type DramatisError, describe, StepMismatchError } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  correlationOf,
  flagsOf,
  HAS_METADATA,
  kindOf,
  MOST_GROUPS,
  REQUEST,
  RESPONSE,
  recipientOf,
  senderOf,
  setCorrelation,
  setFlag,
  setKind,
  setRecipient,
  startedOf,
  timeOf,
  turnOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { copyId, idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import { type Cell, groupKey, type OpenRequest } from '../state/cell.ts'
import type { Core, Settling } from '../state/core.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'

// What an agent's turns take is learnt quickly from short ones: a long one may be the machine's. Where turns are truly long,
// a sixteenth of one is long enough.
const TURNS_TO_SPEED = 2
const TURNS_TO_SLOW = 16
/** That one turn leaves: of its agent's state, and of its run's. */
const MOST_PATCHES = 2

export class Settlement implements Settling {
  readonly #core: Core
  /** Requests whose duty was handed off, by the message of who has it now: that was sent by another than who is to be answered. */
  readonly #moved = new WeakMap<Envelope<RunState>, OpenRequest>()

  constructor(core: Core) {
    this.#core = core
  }

  // ---- the end of a turn

  end(cell: Cell, life: Life, run: RunState, memory: Memory, at: number): void {
    const { delivery, gate, redelivery } = this.#core
    const turn = turnOf(memory, at)
    const failed = isFailure(memory, at)
    const envelope = cell.mailbox.handed.get(turn)
    if (!envelope) return
    addressEnd(envelope, memory, at)
    if (envelope.attempt > 1) this.#core.withdrawals.withdrawRequests(cell, envelope) // what an earlier attempt had asked, and this one had not
    if (envelope.announced) setFlag(memory, at, ANNOUNCED)
    if (failed && redelivery.tryAgain(cell, envelope, memory, at)) {
      life.patches.delete(turn)
      return setCorrelation(memory, at, 0) // a turn that is tried again has not answered
    }
    if (failed && correlationOf(memory, at) === 0) cell.mailbox.discard(envelope)
    else cell.mailbox.commit(turn)
    run.open -= 1
    cell.turns += 1
    cell.suspects.delete(envelope)
    if (!envelope.within) cell.lastEndAt = this.#core.clock.monotonic() // what it ran within goes on
    const off = Math.max(0, timeOf(memory, at) - startedOf(memory, at)) - cell.turnMs
    cell.turnMs += off > 0 ? off / TURNS_TO_SLOW : off / TURNS_TO_SPEED
    if (cell.groups.size > 0)
      for (let group = 1; group <= MOST_GROUPS; group++) cell.groups.delete(groupKey(turn, group))
    if (life.patches.size > 0) {
      if (!failed) this.#applyPatches(cell, life, run, turn)
      life.patches.delete(turn)
    }
    this.#core.mailboxRoom.freed(cell, envelope.bytes)
    if (cell.isDoneWith(run)) gate.release(run, cell)
    delivery.touch(cell)
    if (!failed && flagsOf(memory, at) & HAS_METADATA) this.#mismatch(cell, run, memory, at, readMissed(memory, at))
    this.#settleEnd(run, envelope, memory, at, failed)
  }

  #settleEnd(run: RunState, envelope: Envelope<RunState>, memory: Memory, at: number, failed: boolean): void {
    const correlation = correlationOf(memory, at)
    if (correlation === 0) {
      if (failed)
        this.#core.journal.deadLetter(run, envelope.memory, envelope.at, envelope.cancelled ? 'cancelled' : 'failed', [
          errorOf(memory, at),
        ])
      return
    }
    const caller = this.#core.cells[recipientOf(memory, at)]
    const request = caller?.open.get(correlation)
    if (!caller || !request || request.envelope !== envelope) {
      const duty = this.requestOf(envelope)
      if (duty) return this.conclude(duty, memory, at)
      if (!failed || !envelope.cancelled) this.#core.journal.deadLetter(run, memory, at, 'late', [])
      return setCorrelation(memory, at, 0) // who asked has had an answer, and has it alone
    }
    this.#passOn(request, memory, at)
  }

  /** The answer goes to who waits for it. */
  #passOn(request: OpenRequest, memory: Memory, at: number): void {
    const { caller, correlation, group, settle, turn } = request
    caller.open.delete(correlation)
    if (group && group.need > 1 && !isFailure(memory, at)) group.need -= 1
    if (settle) return settle(memory, at)
    this.#core.delivery.passOn(caller, memory, at, RESPONSE, turn)
  }

  #mismatch(cell: Cell, run: RunState, memory: Memory, at: number, missed: string[]): void {
    const error = new StepMismatchError(
      `Agent "${cell.name}" took another way when its turn was tried again: it did not ask again for ${missed.join(', ')}. What the earlier attempt did stands beside it. Decide by the message and by steps alone.`,
      { agent: cell.name, missed },
    )
    this.#core.journal.record(run, { kind: 'step.mismatch', agent: cell.name, messageId: idOf(memory, at), error })
  }

  patch(life: Life, memory: Memory, at: number): void {
    const turn = turnOf(memory, at)
    const notices = life.patches.get(turn) ?? []
    if (notices.length === MOST_PATCHES) throw new Error(`a turn has up to ${MOST_PATCHES} patches`)
    notices.push(Object(jsonIn(readBody(memory, at).data)) as PatchNotice)
    life.patches.set(turn, notices)
  }

  #applyPatches(cell: Cell, life: Life, run: RunState, turn: number): void {
    try {
      for (const notice of life.patches.get(turn) ?? []) this.#core.lives.applyPatch(cell, run, notice)
    } catch (error) {
      const text = 'the state that a turn of the agent left cannot be read; it stays what it was'
      this.#core.logger.error({ agent: cell.name, turn, error: describe(error) }, text)
    }
  }

  // ---- answers that the host makes

  /** Settles a request with an error of the host's making. The log has it too: a redelivered turn gets the same answer. */
  answerWithError(request: OpenRequest, error: DramatisError): void {
    if (!request.caller.open.delete(request.correlation)) return
    this.answer(
      request.caller,
      request.run,
      request.correlation,
      request.callee.index,
      request.turn,
      error,
      request.settle,
      request.envelope,
    )
  }

  answer(
    caller: Cell,
    run: RunState,
    correlation: number,
    from: number,
    turn: number,
    error: DramatisError,
    settle: OpenRequest['settle'],
    request: { memory: Memory; at: number },
  ): void {
    const frame = this.#core.frames.failure(
      RESPONSE,
      { sender: from, recipient: caller.index, run: run.index, turn, correlation },
      error,
    )
    copyId(request.memory, request.at, frame.memory, 0)
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    if (settle) settle(frame.memory, 0)
    else this.#core.delivery.reply(caller, frame)
    this.#core.wake()
  }

  /** Somebody in the host answers in the place of the agent that was asked; that agent is told to stop. */
  answerInstead(request: OpenRequest, frame: OwnFrame): void {
    const { callee, envelope, run } = request
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    setKind(frame.memory, 0, RESPONSE)
    this.#passOn(request, frame.memory, 0)
    this.#core.withdrawals.withdraw(
      callee,
      envelope,
      new CancelledError(`The request to "${callee.name}" was answered by somebody else.`, { agent: callee.name }),
    )
    this.#core.wake()
  }

  /** The request that a message is, if its caller still waits. */
  requestOf(envelope: Envelope<RunState>): OpenRequest | undefined {
    if (kindOf(envelope.memory, envelope.at) !== REQUEST) return undefined
    const request = this.#core.cells[senderOf(envelope.memory, envelope.at)]!.open.get(
      correlationOf(envelope.memory, envelope.at),
    )
    if (request?.envelope === envelope) return request
    const duty = this.#moved.get(envelope)
    return duty?.envelope === envelope && duty.caller.open.get(duty.correlation) === duty ? duty : undefined
  }

  // ---- handoffs

  /** Who waited for the one turn waits for the message of that offer from now on. */
  move(duty: OpenRequest, offer: OpenRequest): void {
    offer.caller.open.delete(offer.correlation)
    if (typeOf(duty.envelope.memory, duty.envelope.at) === 'delegate') duty.replaced += 1
    duty.callee = offer.callee
    duty.envelope = offer.envelope
    duty.tried = 1
    duty.grantedMs = 0
    this.#moved.set(offer.envelope, duty)
  }

  /** An answer comes from who has the duty now: it goes to who has asked, under the number of what was asked. */
  conclude(duty: OpenRequest, memory: Memory, at: number): void {
    setRecipient(memory, at, duty.caller.index)
    setCorrelation(memory, at, duty.correlation)
    this.#passOn(duty, memory, at)
  }

  /** The message is out of its mailbox and dead. */
  drop(
    envelope: Envelope<RunState>,
    reason: 'cancelled' | 'stopped' | 'expired' | 'poison' | 'failed' | 'overflow',
    errors: DramatisError[],
  ): void {
    envelope.run.open -= 1
    this.#core.journal.deadLetter(envelope.run, envelope.memory, envelope.at, reason, errors)
  }
}

/** Whom an END answers is not its writer's to say: who asked, under that number, or nobody. */
function addressEnd(envelope: Envelope<RunState>, memory: Memory, at: number): void {
  const asked = kindOf(envelope.memory, envelope.at) === REQUEST && !envelope.handedOff
  setCorrelation(memory, at, asked ? correlationOf(envelope.memory, envelope.at) : 0)
  setRecipient(memory, at, senderOf(envelope.memory, envelope.at))
  copyId(envelope.memory, envelope.at, memory, at)
}

/** What a redelivered turn did not ask for again: an END has no other metadata. */
function readMissed(memory: Memory, at: number): string[] {
  const { missed } = Object(jsonIn(readBody(memory, at).metadata)) as { missed?: unknown }
  return Array.isArray(missed) ? missed.map(String) : []
}
