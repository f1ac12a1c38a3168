/**
 * Requests without an answer by their deadline: rules 32 and 33. They are asked again, then escalated, then they fail.
 *
 * The host has both the request and the turn that it became, so asking again takes no second message: the same request,
 * with its id, waits once more for the message in its place in the mailbox, for the turn that is under way, or for the
 * next attempt after a death. The reply is what that turn commits, and it commits once.
 */
import type { DramatisError } from '../../errors.ts'
import { ASKS, SEND } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { OpenRequest } from '../state/cell.ts'
import type { Core } from '../state/core.ts'

export class LateRequests {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** False: it has been asked as often as it may. */
  askAgain(request: OpenRequest): boolean {
    if (request.tried > request.retries) return false
    request.tried += 1
    const { caller, callee, envelope, run, tried } = request
    this.#core.logger.warn(
      { agent: callee.name, caller: caller.name, runId: run.id, messageId: idOf(envelope.memory, envelope.at), tried },
      'a request without an answer by its deadline is asked again',
    )
    return true
  }

  /** Who asked learns it after its superior does. */
  fail(request: OpenRequest, error: DramatisError): void {
    this.#core.overdue(request.run)
    this.#escalate(request, error)
    this.#core.settlement.answerWithError(request, error)
  }

  /** A report to whom the caller's role escalates to, in the caller's name; not to the very one that does not answer. */
  #escalate({ caller, callee, run, envelope, tried }: OpenRequest, { code, message }: DramatisError): void {
    const { escalateTo } = caller.settings.info
    const superior = escalateTo === undefined ? undefined : this.#core.cell(escalateTo, run)
    if (!superior || superior === callee || superior === caller) return
    const messageId = idOf(envelope.memory, envelope.at)
    const frame = this.#core.frames.make({
      kind: SEND,
      type: 'report',
      flags: ASKS,
      sender: caller.index,
      recipient: superior.index,
      run: run.index,
      content: message,
      data: JSON.stringify({ event: 'unanswered', agent: callee.name, code, messageId, tried }),
    })
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    this.#core.admission.message(caller, run, frame.memory, 0, undefined)
  }
}
