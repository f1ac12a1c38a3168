/**
 * Reports failures to managers (`escalateTo` of a role): rule 32. A request without an answer goes to the manager of
 * who asked, a turn that failed after all of its tries to the manager of its agent. Who asked gets the error anyway.
 */
import type { DramatisError } from '../../errors.ts'
import { ASKS, SEND, senderOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly hostMessages: HostMessages
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
}

/** Failure that is reported. `sender`: the agent in whose name the report is. */
interface Report {
  readonly sender: Cell
  readonly event: 'unanswered' | 'failed'
  /** Agent that failed, or did not answer. */
  readonly agent: Cell
  readonly envelope: Envelope<RunState>
  /** Number of tries that there were. */
  readonly tried: number
  readonly error: DramatisError
}

export class Escalations {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Reports a request that had no answer in time, unless the manager is the agent that does not answer. */
  unanswered({ caller, callee, envelope, tried }: OpenRequest, error: DramatisError): void {
    const superior = this.#superiorOf(caller, envelope.run)
    if (superior === callee) return
    this.#report(superior, { sender: caller, event: 'unanswered', agent: callee, envelope, tried, error })
  }

  /** Reports a turn that failed after it was tried again, unless the manager is who asked. */
  failed({ first: agent }: Cell, envelope: Envelope<RunState>, error: DramatisError): void {
    const { retries, run, memory, at } = envelope
    if (!retries?.count || run.ending || run.over) return
    const superior = this.#superiorOf(agent, run)
    if (superior?.index === senderOf(memory, at)) return
    this.#report(superior, { sender: agent, event: 'failed', agent, envelope, tried: retries.count + 1, error })
  }

  #superiorOf(agent: Cell, run: RunState): Cell | undefined {
    const { escalateTo } = agent.settings.info
    const superior = escalateTo === undefined ? undefined : this.#needs.directory.cell(escalateTo, run)
    return superior === agent ? undefined : superior
  }

  #report(superior: Cell | undefined, { sender, event, agent, envelope, tried, error }: Report): void {
    if (!superior) return
    const { frames, hostMessages, journal } = this.#needs
    const { run, memory, at } = envelope
    const messageId = idOf(memory, at)
    const { code, message } = error
    journal.record(run, { kind: 'escalated', agent: agent.name, to: superior.name, messageId, tried, error })
    const frame = frames.make({
      kind: SEND,
      type: 'report',
      flags: ASKS,
      sender: sender.index,
      recipient: superior.index,
      run: run.index,
      content: message,
      data: JSON.stringify({ event, agent: agent.name, code, messageId, tried }),
    })
    hostMessages.put(sender, run, frame)
  }
}
