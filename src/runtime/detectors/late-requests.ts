/**
 * Requests without an answer by their deadline: rules 32 and 33. They are asked again, then escalated, then they fail.
 *
 * The host has both the request and the turn that it became, so asking again takes no second message: the same request,
 * with its id, waits once more for the message in its place in the mailbox, for the turn that is under way, or for the
 * next attempt after a death. The reply is what that turn commits, and it commits once.
 */

import type { Logger } from '../../actors/definition/logger.ts'
import type { DramatisError } from '../../errors.ts'
import { ASKS, SEND } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { OpenRequest } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

export interface LateNeeds {
  readonly hostMessages: HostMessages
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly logger: Logger
  readonly requests: Requests
  /** A wait in that run has come to its end by its time alone. */
  overdue(run: RunState): void
}

export class LateRequests {
  readonly #needs: LateNeeds

  constructor(needs: LateNeeds) {
    this.#needs = needs
  }

  /** False: it has been asked as often as it may. */
  askAgain(request: OpenRequest): boolean {
    if (request.tried > request.retries) return false
    request.tried += 1
    const { caller, callee, envelope, run, tried } = request
    this.#needs.logger.warn(
      { agent: callee.name, caller: caller.name, runId: run.id, messageId: idOf(envelope.memory, envelope.at), tried },
      'a request without an answer by its deadline is asked again',
    )
    return true
  }

  /** Who asked learns it after its superior does. */
  fail(request: OpenRequest, error: DramatisError): void {
    this.#needs.overdue(request.run)
    this.#escalate(request, error)
    this.#needs.requests.answerWithError(request, error)
  }

  /** A report to whom the caller's role escalates to, in the caller's name; not to the very one that does not answer. */
  #escalate({ caller, callee, run, envelope, tried }: OpenRequest, { code, message }: DramatisError): void {
    const { escalateTo } = caller.settings.info
    const superior = escalateTo === undefined ? undefined : this.#needs.directory.cell(escalateTo, run)
    if (!superior || superior === callee || superior === caller) return
    const messageId = idOf(envelope.memory, envelope.at)
    const frame = this.#needs.frames.make({
      kind: SEND,
      type: 'report',
      flags: ASKS,
      sender: caller.index,
      recipient: superior.index,
      run: run.index,
      content: message,
      data: JSON.stringify({ event: 'unanswered', agent: callee.name, code, messageId, tried }),
    })
    this.#needs.hostMessages.put(caller, run, frame)
  }
}
