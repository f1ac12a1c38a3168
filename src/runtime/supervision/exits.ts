/**
 * How lives end: what a dead thread had published is read, its claim and its messages are given back. Which of them may be
 * tried again is in turns/redelivery.ts.
 */

import type { Logger } from '../../actors/definition/logger.ts'
import type { Scheduler } from '../../clock.ts'
import { AgentCrashedError, AgentTerminatedError, type DramatisError } from '../../errors.ts'
import {
  ASKS,
  FRAGMENT,
  flagsOf,
  kindOf,
  lengthOf,
  REQUEST,
  recipientOf,
  SEND,
  stepOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { CLAIM, mostFrames } from '../../mailbox/window.ts'
import type { Gate } from '../dispatch/permits.ts'
import type { Mailboxes } from '../mailboxes/mailboxes.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { RunTable } from '../state/run-table.ts'
import type { ThreadExit } from '../threads/thread.ts'
import { FENCE_MS } from '../threads/thread.ts'
import type { Redelivery } from '../turns/redelivery.ts'
import type { Router } from './router.ts'

/** In place of an exit code. */
const FENCED = -1

interface Needs {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly gate: Gate
  readonly journal: Journal
  readonly logger: Logger
  readonly loop: HostLoop
  readonly mailboxes: Mailboxes
  readonly redelivery: Redelivery
  readonly router: Router
  readonly runs: RunTable
  /** The life ended before it was ready. */
  cannotStart(cell: Cell, error: DramatisError): void
}

export class Exits {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /**
   * Rule 1: ends a life that is to begin anew because another agent died. What it had under way comes again, and nobody is
   * charged with it. Resolves when its thread is gone, or fenced off.
   */
  recall(cell: Cell): Promise<void> {
    const { life } = cell
    cell.beginnings += 1 // one that has no thread yet makes none
    if (!life) return Promise.resolve()
    return new Promise((resolve) => {
      if (!life.recalled && !life.verdict) life.end()
      life.recalled ??= []
      life.recalled.push(resolve)
    })
  }

  /** The host has ended that life: its thread is gone soon, or it is fenced off. */
  fence(cell: Cell, life: Life): void {
    const giveUp = () => {
      if (cell.life === life) this.exited(cell, life, { code: FENCED, error: undefined })
    }
    this.#needs.clock.timer(FENCE_MS, giveUp, true)
  }

  exited(cell: Cell, life: Life, exit: ThreadExit): void {
    if (cell.life !== life) return this.#countStale(cell, life)
    this.#needs.router.drain(cell, life, mostFrames(life.window.outbox)) // first what it had published
    cell.life = undefined
    if (exit.code !== FENCED) this.#returnClaim(life) // else its thread may use it yet
    if (life.recalled && (!life.ready || (!life.verdict && !exit.error))) this.#gone(cell, life)
    else {
      const error = life.verdict ?? crashError(cell.name, exit)
      if (!life.ready) return this.#needs.cannotStart(cell, error)
      this.#died(cell, life, exit, error)
    }
    for (const resolve of life.recalled ?? []) resolve()
    this.#needs.loop.kick()
  }

  #died(cell: Cell, life: Life, exit: ThreadExit, error: DramatisError): void {
    const poisoned = this.#needs.redelivery.giveBack(cell, life, error, fingerprint(exit, error))
    const ended = exit.code === 0 && !exit.error && !life.verdict
    this.#tell(cell, life, ended ? 'ended' : 'crashed', error, !poisoned)
  }

  #gone(cell: Cell, life: Life): void {
    const text = `The life of agent "${cell.name}" was ended with that of others (supervision.strategy).`
    const error = new AgentTerminatedError(text, { agent: cell.name })
    this.#needs.redelivery.giveBackUncharged(cell, life, error)
    this.#tell(cell, life, 'recalled', error, false)
  }

  #tell(
    cell: Cell,
    { epoch }: Life,
    how: 'crashed' | 'ended' | 'recalled',
    error: DramatisError,
    fault: boolean,
  ): void {
    if (cell.mailbox.handed.size === 0) this.releaseAll(cell)
    const [head] = cell.mailbox.queued()
    const messageId = head && head.attempt > 1 ? idOf(head.memory, head.at) : null
    this.#needs.journal.record(cell.run, { kind: 'agent.exited', ...cell.whose, epoch, how, error, fault, messageId })
  }

  /** Rule 4: what a thread wrote after it had been fenced off, or told for the last time to stop, does nothing. */
  #countStale(cell: Cell, life: Life): void {
    const { epoch } = life
    const count = life.broken ? 0 : this.#dropStale(life)
    this.#returnClaim(life)
    if (count === 0) return
    cell.staleFrames += count
    const text = 'an earlier life of the agent wrote after its end; what it wrote was dropped'
    this.#needs.logger.warn({ agent: cell.name, epoch, frames: count }, text)
  }

  /** How many frames there were. What cannot be read ends it. */
  #dropStale(life: Life): number {
    const { joiner, window } = life
    const { memory } = window.outbox
    let count = 0
    try {
      for (let at = window.outbox.peekForeign(); at >= 0; at = window.outbox.peekForeign(), count++) {
        const whole = kindOf(memory, at) === FRAGMENT ? joiner.join(memory, at) : memory
        if (whole) this.#returnRoom(life, whole, whole === memory ? at : 0)
        window.outbox.pass(lengthOf(memory, at))
      }
    } catch {
      life.broken = true // parts that are none: what it left is dropped anyway
    }
    return count
  }

  /** Room that a message had claimed which was dropped. */
  #returnRoom(life: Life, memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    if (kind !== SEND && kind !== REQUEST) return
    life.lastTurn = turnOf(memory, at)
    life.lastStep = stepOf(memory, at)
    const callee = this.#needs.directory.cells[recipientOf(memory, at)]
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#needs.mailboxes.freed(callee, lengthOf(memory, at))
  }

  /** Its permits go to others. */
  releaseAll(cell: Cell): void {
    for (const run of this.#needs.runs.values()) this.#needs.gate.release(run, cell)
  }

  /** A thread that died between claiming room and using it left the claim behind, as far as it had come. */
  #returnClaim({ window, lastTurn, lastStep }: Life): void {
    const [note = 0, bytes = 0, turn, step] = window.words.subarray(CLAIM, CLAIM + 4)
    if (note === 0 || (turn === lastTurn && step === lastStep)) return
    const callee = this.#needs.directory.cells[Math.abs(note) - 1]
    if (callee) this.#needs.mailboxes.freed(callee, note > 0 && bytes > 0 ? bytes : 0)
  }
}

function crashError(agent: string, { code, error }: ThreadExit): AgentCrashedError {
  if (code === FENCED)
    return new AgentCrashedError(`The thread of agent "${agent}" did not end when it was told to; it was fenced off.`, {
      agent,
    })
  if (!error)
    return new AgentCrashedError(
      `The thread of agent "${agent}" ended with exit code ${code} (process.exit, or ended from outside).`,
      { agent, exitCode: code },
    )
  const memory = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
  const why = memory
    ? 'ran out of memory (limits.maxHeapMb)'
    : `threw outside of a turn: ${error.name}: ${error.message}`
  return new AgentCrashedError(`The thread of agent "${agent}" ${why}`, { agent, exitCode: code }, error)
}

/** Limits that a thread is ended for, by what it was measured to have taken. */
const MEASURED = ['watchdogMs', 'maxExternalMb']

/** What tells the same death again from another one. */
function fingerprint({ code, error, outside }: ThreadExit, verdict: DramatisError): string | null {
  if (outside) return null
  if (error) return `${error.name}: ${error.message}\n${error.stack?.split('\n')[1] ?? ''}`
  if (verdict.code !== 'AGENT_CRASHED') return verdict.message
  // How much it used, or held, is another figure each time.
  const isMeasured = MEASURED.some((limit) => limit in verdict.details)
  const text = isMeasured ? verdict.message.replaceAll(/\d+/g, '#') : verdict.message
  return code === FENCED ? text : `${code}: ${text}`
}
