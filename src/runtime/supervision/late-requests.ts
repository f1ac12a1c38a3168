/**
 * Requests without an answer by their deadline: rules 32 and 33. They are retried, then escalated, then they fail.
 *
 * The host has both the request and its turn, so a retry needs no second message. The same request, with its id, waits
 * again: for the message in its place in the mailbox, for the turn under way, or for the next attempt after an exit.
 * The reply is what that turn commits, and it commits once.
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
  /** Called when a wait in that run has ended only because its time was up. */
  overdue(run: RunState): void
}

export class LateRequests {
  readonly #needs: LateNeeds

  constructor(needs: LateNeeds) {
    this.#needs = needs
  }

  /** Retries the request. Returns false if it has no retries left. */
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

  /** Fails the request. The caller learns it after its manager does. */
  fail(request: OpenRequest, error: DramatisError): void {
    this.#needs.overdue(request.run)
    this.#escalate(request, error)
    this.#needs.requests.answerWithError(request, error)
  }

  /**
   * Sends a report, in the caller's name, to the agent that the caller's role escalates to. Sends none if that is the
   * agent that does not answer.
   */
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
