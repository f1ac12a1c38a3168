/** Requests and messages that are taken back: nobody waits for them any more, nor for what their turns wait for. */
import { CancelledError, type DramatisError } from '../../errors.ts'
import { CANCEL, correlationOf, senderOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { Core, Withdrawing } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

/** A message that is to be taken back, and why. */
interface Withdrawal {
  callee: Cell
  envelope: Envelope<RunState>
  reason: DramatisError
}

export class Withdrawals implements Withdrawing {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** The caller no longer waits. A message that waits is taken out; a turn under way is told to stop. */
  cancel(caller: Cell, correlation: number, reason: DramatisError | undefined): void {
    const request = caller.open.get(correlation)
    if (!request) {
      if (caller.calls.has(correlation)) caller.cancelCall(correlation)
      else
        for (const sent of caller.broadcasts.get(correlation)?.copies ?? [correlation]) this.#cancelSend(caller, sent)
      return
    }
    this.#takeBackAll([this.#takeOut(request, reason)])
  }

  /** Nobody waits for it any more. */
  #takeOut({ caller, correlation, callee, envelope }: OpenRequest, reason: DramatisError | undefined): Withdrawal {
    caller.open.delete(correlation)
    const text = `The request of "${caller.name}" was withdrawn.`
    return { callee, envelope, reason: reason ?? new CancelledError(text, { agent: callee.name, caller: caller.name }) }
  }

  /** A send that still waits for room; one that has it by now was accepted. */
  #cancelSend(caller: Cell, correlation: number): void {
    for (const callee of this.#core.cells)
      for (const envelope of callee.mailbox.parked) {
        const { memory, at } = envelope
        if (senderOf(memory, at) !== caller.index || correlationOf(memory, at) !== correlation) continue
        const reason = new CancelledError(`A message of "${caller.name}" was withdrawn while it waited for room.`, {
          agent: callee.name,
          sender: caller.name,
        })
        return this.withdraw(callee, envelope, reason)
      }
  }

  /** Takes a message back, wherever it is. */
  withdraw(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    this.#takeBackAll([{ callee, envelope, reason }])
  }

  /** What a turn that is to end was waiting for is wanted by nobody any more. */
  withdrawRequests(cell: Cell, envelope: Envelope<RunState>): void {
    this.#takeBackAll(this.#waitsOf(cell, envelope))
  }

  /** As its thread says it where it can: who reads the log learns that nobody waits for the answer. */
  #logCancel({ caller, correlation, run, turn }: OpenRequest): void {
    const fields = { kind: CANCEL, sender: caller.index, run: run.index, turn, correlation }
    const { memory, bytes } = this.#core.frames.make(fields)
    this.#core.journal.appendOwned(run, memory, bytes)
  }

  /** With all that their turns wait for, and the turns of that; a chain may be longer than the stack. Who waits comes last. */
  #takeBackAll(left: Withdrawal[]): void {
    const found: Withdrawal[] = []
    for (let next = left.pop(); next; next = left.pop()) {
      const { callee, envelope, reason } = next
      if (envelope.cancelled) continue
      envelope.cancelled = true
      found.push(next)
      for (const wait of this.#waitsOf(callee, envelope)) left.push(wait)
      for (const nested of handedOffWithin(callee, envelope)) left.push({ callee, envelope: nested, reason })
    }
    for (const { callee, envelope, reason } of found.reverse()) this.#takeBack(callee, envelope, reason)
  }

  #waitsOf(cell: Cell, { turn, run }: Envelope<RunState>): Withdrawal[] {
    const waits: Withdrawal[] = []
    for (const request of [...cell.open.values()]) {
      if (request.turn !== turn) continue
      this.#logCancel(request)
      waits.push(this.#takeOut(request, run.ending))
    }
    for (const [correlation, call] of [...cell.calls]) if (call.turn === turn) cell.cancelCall(correlation)
    return waits
  }

  #takeBack(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): void {
    const holder = callee.holderOf(envelope.turn)
    if (holder?.mailbox.holds(envelope)) {
      this.#core.delivery.stop(holder, envelope, reason)
      return
    }
    if (this.#core.mailboxRoom.withdrawParked(callee, envelope, reason))
      this.#core.settlement.drop(envelope, 'cancelled', [reason])
    else if (callee.mailbox.discard(envelope)) {
      callee.suspects.delete(envelope)
      this.#core.settlement.drop(envelope, 'cancelled', [reason])
      this.#core.mailboxRoom.freed(callee, envelope.bytes)
    }
  }
}

/** Turns that run within that one and have handed their duty off: no wait leads to them any more, and with that one they have to end. */
const handedOffWithin = (callee: Cell, envelope: Envelope<RunState>): Envelope<RunState>[] =>
  callee.settings.reentrancy === 'none'
    ? []
    : callee.instances.flatMap(({ mailbox }) =>
        [...mailbox.handed.values()].filter(({ within, handedOff }) => within === envelope && handedOff),
      )
