/**
 * Takes back requests and messages, together with everything that their turns wait for. Also removes a message from its
 * mailbox as a dead letter when its turn may not be retried.
 */

import { CANCEL, correlationOf, RESPONSE, senderOf, setKind } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { CancelledError, type DramatisError, errorFrom, RunAbortedError } from '../../shared/errors.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Agent, OpenRequest } from './agent.ts'
import type { Core } from './core.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { Mailboxes, Requests } from './mailboxes.ts'
import type { RunState } from './run.ts'

interface Withdrawal {
  callee: Agent
  envelope: Envelope<RunState>
  reason: DramatisError
  /** Reason in its dead letter, if the message still waits. */
  letter: 'cancelled' | 'expired'
}

export class Cancellation {
  readonly #core: Core
  readonly #dispatcher: Dispatcher
  readonly #mailboxes: Mailboxes
  readonly #requests: Requests

  constructor(core: Core, dispatcher: Dispatcher, mailboxes: Mailboxes, requests: Requests) {
    this.#core = core
    this.#dispatcher = dispatcher
    this.#mailboxes = mailboxes
    this.#requests = requests
  }

  /** Ends the caller's wait. A waiting message is removed; a turn under way is asked to stop. */
  cancel(caller: Agent, correlation: number, reason: DramatisError | undefined): void {
    const request = caller.open.get(correlation)
    if (!request) {
      if (caller.calls.has(correlation)) caller.cancelCall(correlation)
      else
        for (const sent of caller.broadcasts.get(correlation)?.copies ?? [correlation]) this.#cancelSend(caller, sent)
      return
    }
    this.#withdrawAll([this.#remove(request, reason)])
  }

  /** Takes back a request that the host has made. */
  recall(request: OpenRequest, reason: DramatisError): void {
    if (request.caller.open.get(request.correlation) !== request) return
    this.logCancel(request)
    this.#withdrawAll([this.#remove(request, reason)])
  }

  #remove(request: OpenRequest, reason: DramatisError | undefined): Withdrawal {
    const { caller, correlation, callee, envelope } = request
    caller.open.delete(correlation)
    const text = `The request of "${caller.name}" was withdrawn.`
    const why = reason ?? new CancelledError(text, { agent: callee.name, caller: caller.name })
    this.#requests.logResult(request, why)
    return { callee, envelope, reason: why, letter: 'cancelled' }
  }

  /** Withdraws a send that still waits for room. A send that has room by now was accepted and stays. */
  #cancelSend(caller: Agent, correlation: number): void {
    for (const callee of this.#core.directory.byIndex)
      for (const envelope of callee.mailbox.pending) {
        const { memory, at } = envelope
        if (senderOf(memory, at) !== caller.index || correlationOf(memory, at) !== correlation) continue
        const reason = new CancelledError(`A message of "${caller.name}" was withdrawn while it waited for room.`, {
          agent: callee.name,
          sender: caller.name,
        })
        return this.withdraw(callee, envelope, reason)
      }
  }

  withdraw(
    callee: Agent,
    envelope: Envelope<RunState>,
    reason: DramatisError,
    letter: 'cancelled' | 'expired' = 'cancelled',
  ): void {
    this.#withdrawAll([{ callee, envelope, reason, letter }])
  }

  /** Takes a message back, and answers the caller that waits for it with the error. */
  fail(callee: Agent, envelope: Envelope<RunState>, error: DramatisError): void {
    const request = this.#requests.of(envelope)
    if (request) this.#requests.answerWithError(request, error)
    this.withdraw(callee, envelope, error)
  }

  /** Answers a request from the host, in place of the agent that was asked. That agent is asked to stop. */
  answerInstead(request: OpenRequest, frame: OwnFrame): void {
    const { callee, envelope, run } = request
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    setKind(frame.memory, 0, RESPONSE)
    this.#requests.settle(request, frame.memory, 0)
    const text = `The request to "${callee.name}" was answered by somebody else.`
    this.withdraw(callee, envelope, new CancelledError(text, { agent: callee.name }))
    this.#core.loop.wake()
  }

  /** Dead-letters a message and removes it from its mailbox. A sender that waits is notified. */
  bury(
    agent: Agent,
    envelope: Envelope<RunState>,
    reason: 'cancelled' | 'poison' | 'failed' | 'stopped',
    error: DramatisError,
  ): void {
    const errors = reason === 'poison' ? (envelope.deaths ?? []).map((death) => errorFrom(death.error)) : [error]
    if (!this.#mailboxes.takeOut(agent, envelope, reason, errors, error)) return // the end of another turn has withdrawn it
    this.withdrawRequests(agent, envelope)
    agent.first.groups.forget(envelope.turn)
    this.#mailboxes.freed(agent, envelope.bytes)
  }

  /** Dead-letters the blocked tasks of an agent that is stopped permanently: they would never reach it. */
  buryBlocked(agent: Agent, gone: DramatisError): void {
    for (const { callee, envelope } of this.#core.blocked.all)
      if (callee === agent.first && this.#core.blocked.remove(envelope))
        this.#mailboxes.markDead(envelope, 'stopped', [gone], gone)
  }

  /**
   * Abandons a script in the host's own thread, where it shares the event loop with those of all other runs. The script
   * continues, and its frames are ignored.
   */
  abandon(agent: Agent, envelope: Envelope<RunState>): void {
    const { stopGraceMs } = agent.settings.supervision
    const { run } = envelope
    const text = `The protocol script of run "${run.id}" went on for ${stopGraceMs} ms after its run had ended; it is left alone, and what it still does is ignored. Watch orchestrator.signal in long scripts.`
    this.#core.logger.warn({ runId: run.id, stopGraceMs }, text)
    this.bury(agent, envelope, 'cancelled', new RunAbortedError(text, { runId: run.id, stopGraceMs }, run.ending))
    this.#core.loop.kick()
  }

  /** Withdraws the requests of a turn that is to end: nobody needs their answers any more. */
  withdrawRequests(agent: Agent, envelope: Envelope<RunState>): void {
    this.#withdrawAll(this.#waitsOf(agent, envelope))
  }

  /**
   * Logs the end of a wait as the thread would log it if it could. A reader of the log learns that nobody waits for the
   * answer.
   */
  logCancel({ caller, correlation, run, turn }: Pick<OpenRequest, 'caller' | 'correlation' | 'run' | 'turn'>): void {
    const fields = { kind: CANCEL, sender: caller.index, run: run.index, turn, correlation }
    const { memory, bytes } = this.#core.frames.make(fields)
    this.#core.journal.appendOwned(run, memory, bytes)
  }

  /**
   * Takes messages back, with all that their turns wait for, and so on down the chain. It uses a list, since a chain
   * may be longer than the stack. The turn that waits is taken back last.
   */
  #withdrawAll(left: Withdrawal[]): void {
    const found: Withdrawal[] = []
    for (let next = left.pop(); next; next = left.pop()) {
      const { callee, envelope, reason } = next
      if (envelope.cancelled) continue
      envelope.cancelled = true
      found.push(next)
      for (const wait of this.#waitsOf(callee, envelope)) left.push(wait)
      for (const nested of handedOffWithin(callee, envelope))
        left.push({ callee, envelope: nested, reason, letter: 'cancelled' })
    }
    for (const withdrawal of found.reverse()) this.#withdraw(withdrawal)
  }

  #waitsOf(agent: Agent, { turn, run }: Envelope<RunState>): Withdrawal[] {
    const waits: Withdrawal[] = []
    for (const request of [...agent.open.values()]) {
      if (request.turn !== turn) continue
      this.logCancel(request)
      waits.push(this.#remove(request, run.ending))
    }
    for (const [correlation, call] of [...agent.calls]) {
      if (call.turn !== turn) continue
      this.logCancel({ caller: agent, correlation, run, turn })
      agent.cancelCall(correlation)
    }
    return waits
  }

  #withdraw({ callee, envelope, reason, letter }: Withdrawal): void {
    const holder = callee.holderOf(envelope.turn)
    if (holder?.mailbox.holds(envelope)) return this.#dispatcher.stop(holder, envelope, reason)
    if (this.#mailboxes.withdrawPending(callee, envelope, reason)) this.#mailboxes.markDead(envelope, letter, [reason])
    else if (this.#mailboxes.takeOut(callee, envelope, letter, [reason])) this.#mailboxes.freed(callee, envelope.bytes)
  }
}

/**
 * Returns turns that run within that one and have handed their duty off. No wait leads to them any more, and they must
 * end with the outer turn.
 */
const handedOffWithin = (callee: Agent, envelope: Envelope<RunState>): Envelope<RunState>[] =>
  callee.settings.reentrancy === 'none'
    ? []
    : callee.instances.flatMap(({ mailbox }) =>
        [...mailbox.handed.values()].filter(({ within, handedOff }) => within === envelope && handedOff),
      )
