/**
 * How lives end: what a dead thread had published is read, its claim and its messages are given back. Which of them may be
 * tried again is in turns/redelivery.ts.
 */

import { AgentCrashedError, AgentTerminatedError, type DramatisError, RunAbortedError } from '../../errors.ts'
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
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { AT_WORK, CLAIM, mostFrames } from '../../mailbox/window.ts'
import type { Cell } from '../state/cell.ts'
import type { Core, Dying } from '../state/core.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'
import type { ThreadExit } from '../threads/thread.ts'
import { FENCE_MS } from '../threads/thread.ts'

/** In place of an exit code. */
const FENCED = -1

export class Deaths implements Dying {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** Ends a life because of what the agent did (or did not do). */
  kill(cell: Cell, verdict: DramatisError): void {
    const { life } = cell
    if (!life || life.verdict) return
    life.verdict = verdict
    this.#terminate(cell, life)
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
      if (!life.recalled && !life.verdict) this.#terminate(cell, life)
      life.recalled ??= []
      life.recalled.push(resolve)
    })
  }

  #terminate(cell: Cell, life: Life): void {
    life.thread.terminate()
    const fence = () => {
      if (cell.life === life) this.exited(cell, life, { code: FENCED, error: undefined })
    }
    this.#core.clock.timer(FENCE_MS, fence, true)
  }

  exited(cell: Cell, life: Life, exit: ThreadExit): void {
    if (cell.life !== life) return this.#countStale(cell, life)
    this.#core.router.drain(cell, life, mostFrames(life.window.outbox)) // first what it had published
    cell.life = undefined
    if (exit.code !== FENCED) this.#returnClaim(life) // else its thread may use it yet
    if (life.recalled && (!life.ready || (!life.verdict && !exit.error))) this.#gone(cell, life)
    else {
      const error = life.verdict ?? crashError(cell.name, exit)
      if (!life.ready) return this.#core.lives.cannotStart(cell, error)
      this.#died(cell, life, exit, error)
    }
    for (const resolve of life.recalled ?? []) resolve()
    this.#core.kick()
  }

  #died(cell: Cell, life: Life, exit: ThreadExit, error: DramatisError): void {
    const poisoned = this.#core.redelivery.giveBack(cell, life, error, fingerprint(exit, error))
    const ended = exit.code === 0 && !exit.error && !life.verdict
    this.#tell(cell, life, ended ? 'ended' : 'crashed', error, !poisoned)
  }

  #gone(cell: Cell, life: Life): void {
    const text = `The life of agent "${cell.name}" was ended with that of others (supervision.strategy).`
    const error = new AgentTerminatedError(text, { agent: cell.name })
    this.#core.redelivery.giveBackUncharged(cell, life, error)
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
    this.#core.journal.record(cell.run, { kind: 'agent.exited', ...cell.whose, epoch, how, error, fault, messageId })
  }

  /** Rule 4: what a thread wrote after it had been fenced off, or told for the last time to stop, does nothing. */
  #countStale(cell: Cell, life: Life): void {
    const { epoch } = life
    const count = life.broken ? 0 : this.#dropStale(life)
    this.#returnClaim(life)
    if (count === 0) return
    cell.staleFrames += count
    const text = 'an earlier life of the agent wrote after its end; what it wrote was dropped'
    this.#core.logger.warn({ agent: cell.name, epoch, frames: count }, text)
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
    const callee = this.#core.cells[recipientOf(memory, at)]
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#core.mailboxRoom.freed(callee, lengthOf(memory, at))
  }

  /** Its permits go to others. */
  releaseAll(cell: Cell): void {
    for (const run of this.#core.runs.values()) this.#core.gate.release(run, cell)
  }

  /** A thread that died between claiming room and using it left the claim behind, as far as it had come. */
  #returnClaim({ window, lastTurn, lastStep }: Life): void {
    const [note = 0, bytes = 0, turn, step] = window.words.subarray(CLAIM, CLAIM + 4)
    if (note === 0 || (turn === lastTurn && step === lastStep)) return
    const callee = this.#core.cells[Math.abs(note) - 1]
    if (callee) this.#core.mailboxRoom.freed(callee, note > 0 && bytes > 0 ? bytes : 0)
  }

  /** A turn that was told to stop has `stopGraceMs`, from when it is at work; then it costs its thread. */
  killAfterGrace(cell: Cell, envelope: Envelope<RunState>): void {
    const { life } = cell
    const { stopGraceMs } = cell.settings.supervision
    const { attempt } = envelope
    if (!life) return
    let wasAtWork = isAtWork(cell, life, envelope)
    const afterGrace = () => {
      if (envelope.attempt !== attempt) return // a death has ended it, or its own end
      if (!cell.mailbox.holds(envelope) || !life.begun(envelope)) return
      const atWork = isAtWork(cell, life, envelope)
      if (!atWork || !wasAtWork) {
        wasAtWork = atWork
        this.#core.clock.timer(stopGraceMs, afterGrace, true)
        return
      }
      if (!life.thread.isolated && !cell.settings.counted) return this.#abandon(cell, envelope)
      this.kill(
        cell,
        new AgentCrashedError(
          `Agent "${cell.name}" went on for ${stopGraceMs} ms after its turn was cancelled, so its thread was ended. Watch context.signal in long handlers.`,
          { agent: cell.name, stopGraceMs },
        ),
      )
    }
    this.#core.clock.timer(stopGraceMs, afterGrace, true)
  }

  /** A script in the host's own thread shares its loop with those of all other runs: it goes on, and nobody listens. */
  #abandon(cell: Cell, envelope: Envelope<RunState>): void {
    const { stopGraceMs } = cell.settings.supervision
    const { run } = envelope
    const text = `The protocol script of run "${run.id}" went on for ${stopGraceMs} ms after its run had ended; it is left alone, and what it still does is ignored. Watch orchestrator.signal in long scripts.`
    this.#core.logger.warn({ runId: run.id, stopGraceMs }, text)
    const gone = new RunAbortedError(text, { runId: run.id, stopGraceMs }, run.ending)
    this.#core.redelivery.bury(cell, envelope, 'cancelled', gone)
    this.#core.kick()
  }
}

/** Not where another turn of its run went on last in the same thread: it is told to stop when that one waits, or has ended. */
function isAtWork({ mailbox: { handed } }: Cell, { window }: Life, envelope: Envelope<RunState>): boolean {
  const other = handed.nested > 0 ? handed.get(Atomics.load(window.words, AT_WORK)) : undefined
  return !other || other === envelope || other.run !== envelope.run
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
