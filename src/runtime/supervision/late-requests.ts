/**
 * Requests without an answer by their deadline: rules 32 and 33. They are retried, then escalated, then they fail.
 *
 * The host has both the request and its turn, so a retry needs no second message. The same request, with its id, waits
 * again: for the message in its place in the mailbox, for the turn under way, or for the next attempt after an exit.
 * The reply is what that turn commits, and it commits once.
 */

import type { Logger } from '../../actors/definition/logger.ts'
import type { DramatisError } from '../../errors.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { OpenRequest } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { Escalations } from './escalations.ts'

export interface LateNeeds {
  readonly directory: AgentDirectory
  readonly escalations: Escalations
  readonly journal: Journal
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
    const { journal, logger } = this.#needs
    const { name: agent, index } = callee
    const messageId = idOf(envelope.memory, envelope.at)
    journal.record(run, { kind: 'request.retried', agent, index, caller: caller.name, messageId, tried })
    logger.warn(
      { agent, caller: caller.name, runId: run.id, messageId, tried },
      'a request without an answer by its deadline is asked again',
    )
    return true
  }

  /** Fails the request. The caller learns it after its manager does. */
  fail(request: OpenRequest, error: DramatisError): void {
    const { escalations, requests } = this.#needs
    this.#needs.overdue(request.run)
    escalations.unanswered(request, error)
    requests.answerWithError(request, error)
  }
}
