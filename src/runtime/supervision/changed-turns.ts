/**
 * Turns whose code has changed since an earlier process began them, in runs that refuse that. Such a turn is set aside:
 * it is in no mailbox, no deadline passes for those that wait for it, and it comes again when its run is resumed.
 */

import { idOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET, type OnMismatch } from '../../mailbox/mailbox.ts'
import type { TeamMemory } from '../../mailbox/team-memory.ts'
import { type DramatisError, UnknownAgentError } from '../../shared/errors.ts'
import type { Cell } from '../host/agent.ts'
import type { Redelivery } from '../host/commits.ts'
import type { HostLoop, Ready } from '../host/core.ts'
import type { AgentDirectory } from '../host/directory.ts'
import type { Journal } from '../host/journal.ts'
import type { Mailboxes } from '../host/mailboxes.ts'
import type { Gate } from '../host/permits.ts'
import type { RunState } from '../host/run.ts'
import type { DeadlinePauses } from '../verbs/deadline-pauses.ts'

/** Functions that let a run go on that has such a turn. */
export interface SetAside {
  /** Returns why the turn cannot come again, if there is a reason. */
  hindrance(): DramatisError | undefined
  /** Delivers the turn again. */
  goOn(onMismatch: OnMismatch): void
}

interface Needs {
  readonly directory: AgentDirectory
  readonly gate: Gate
  readonly journal: Journal
  readonly loop: HostLoop
  readonly mailboxes: Mailboxes
  readonly pauses: DeadlinePauses
  readonly ready: Ready
  readonly redelivery: Redelivery
  readonly team: TeamMemory
  /** Called when a run is interrupted because of that error. */
  interrupted(run: RunState, error: DramatisError, turn: SetAside): void
}

export class ChangedTurns {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Sets the turn of that message aside, and interrupts its run. */
  setAside(cell: Cell, envelope: Envelope<RunState>, error: DramatisError): void {
    const { gate, journal, mailboxes, pauses, ready } = this.#needs
    const { memory, at, bytes, run, turn } = envelope
    let resume = () => {}
    const resumed = new Promise<void>((resolve) => {
      resume = resolve
    })
    void pauses.during({ cell, turn, correlation: 0, run }, () => resumed)
    cell.mailbox.setAside(envelope)
    cell.suspects.delete(envelope)
    mailboxes.freed(cell, bytes)
    if (cell.isDoneWith(run)) gate.release(run, cell)
    ready.touch(cell)
    journal.record(run, { kind: 'step.mismatch', agent: cell.name, messageId: idOf(memory, at), error })
    this.#needs.interrupted(run, error, {
      hindrance: () => this.#hindrance(cell, run),
      goOn: (onMismatch) => {
        resume()
        this.#deliver(cell, envelope, onMismatch)
      },
    })
  }

  #hindrance({ index, name }: Cell, { id }: RunState): DramatisError | undefined {
    if (this.#needs.directory.present(index)) return undefined
    const text = `Run "${id}" cannot go on: it has work for "${name}", which was removed from the team. Add the agent (team.addAgent) and resume the run, or cancel it.`
    return new UnknownAgentError(text, { agent: name, runId: id, missing: [name] })
  }

  #deliver({ index }: Cell, envelope: Envelope<RunState>, onMismatch: OnMismatch): void {
    const { directory, loop, redelivery, team } = this.#needs
    envelope.onMismatch = onMismatch
    envelope.announced = false
    envelope.startedAt = NOT_YET
    team.force(index, envelope.bytes)
    redelivery.takeUp(directory.cells[index]!, envelope)
    loop.wake() // nothing else may be under way
  }
}
