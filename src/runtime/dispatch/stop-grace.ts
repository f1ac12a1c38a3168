/**
 * Gives a cancelled turn `supervision.stopGraceMs` to stop, counted from when it executes. After that its thread is
 * ended.
 */
import type { Scheduler } from '../../clock.ts'
import { AgentCrashedError } from '../../errors.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { AT_WORK } from '../../mailbox/window.ts'
import type { Cell } from '../state/cell.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly clock: Scheduler
  /** Gives up a turn whose thread cannot be ended: a script in the host's own thread. */
  abandon(cell: Cell, envelope: Envelope<RunState>): void
}

export class StopGrace {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Starts the grace time of the turn. */
  begin(cell: Cell, envelope: Envelope<RunState>): void {
    const { clock, abandon } = this.#needs
    const { life } = cell
    const { stopGraceMs } = cell.settings.supervision
    const { attempt } = envelope
    if (!life) return
    let wasAtWork = isAtWork(cell, life, envelope)
    const afterGrace = () => {
      if (envelope.attempt !== attempt) return // an exit has ended it, or its own end
      if (!cell.mailbox.holds(envelope) || !life.begun(envelope)) return
      const atWork = isAtWork(cell, life, envelope)
      if (!atWork || !wasAtWork) {
        wasAtWork = atWork
        clock.timer(stopGraceMs, afterGrace, true)
        return
      }
      if (!life.thread.isolated && !cell.settings.isAgent) return abandon(cell, envelope)
      cell.life?.kill(
        new AgentCrashedError(
          `Agent "${cell.name}" went on for ${stopGraceMs} ms after its turn was cancelled, so its thread was ended. Watch context.signal in long handlers.`,
          { agent: cell.name, stopGraceMs },
        ),
      )
    }
    clock.timer(stopGraceMs, afterGrace, true)
  }
}

/**
 * Checks whether the turn executes. It does not if another turn of its run went on last in the same thread: it is
 * notified when that turn waits or has ended.
 */
function isAtWork({ mailbox: { handed } }: Cell, { window }: Life, envelope: Envelope<RunState>): boolean {
  const other = handed.nested > 0 ? handed.get(Atomics.load(window.words, AT_WORK)) : undefined
  return !other || other === envelope || other.run !== envelope.run
}
