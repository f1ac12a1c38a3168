/**
 * Handles the exit of an agent's thread: reads what the thread had published, and returns its claim and its messages.
 * Which of the messages may be retried is decided in commits.ts.
 */

import { CLAIM, mostFrames } from '../../mailbox/channel.ts'
import {
  ASKS,
  FRAGMENT,
  flagsOf,
  idOf,
  kindOf,
  lengthOf,
  type Memory,
  REQUEST,
  recipientOf,
  SEND,
  stepOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { AgentCrashedError, AgentTerminatedError, type DramatisError, describe } from '../../shared/errors.ts'
import type { Cell } from '../host/agent.ts'
import type { Life } from '../host/life.ts'
import type { HostRecord } from '../log/records.ts'
import { FENCE_MS, FENCED, type ThreadExit } from '../threads/thread.ts'
import type { Owners } from './owners.ts'
import type { Router } from './router.ts'

type Exit = Extract<HostRecord, { kind: 'agent.exited' }>

/** How the host ends lives that did nothing wrong, for errors. */
const ENDINGS = {
  recalled: 'ended with that of others (supervision.strategy)',
  reloaded: 'replaced by one with new code',
  passivated: 'ended because it had nothing to do (threads.idleMs, threads.max)',
}

export class Exits {
  readonly #host: Owners
  readonly #router: Router

  constructor(host: Owners, router: Router) {
    this.#host = host
    this.#router = router
  }

  /**
   * Rule 1: ends a thread that must restart because another agent died. Its open work is redelivered, and no message is
   * charged with the exit. Resolves when the thread is gone, or fenced off.
   */
  recall(cell: Cell): Promise<void> {
    const { life } = cell
    cell.beginnings += 1 // a start attempt that has no thread yet creates none
    if (!life) return Promise.resolve()
    return new Promise((resolve) => {
      if (!life.recalled && !life.verdict) life.end()
      life.recalled ??= []
      life.recalled.push(resolve)
    })
  }

  /** Waits for the exit of a thread that the host has ended. A thread that does not exit soon is fenced off. */
  fence(cell: Cell, life: Life): void {
    const giveUp = () => {
      if (cell.life === life) this.exited(cell, life, { code: FENCED, error: undefined })
    }
    this.#host.clock.timer(FENCE_MS, giveUp, true)
  }

  exited(cell: Cell, life: Life, exit: ThreadExit): void {
    if (cell.life !== life) return this.#countStale(cell, life)
    this.#router.drain(cell, life, mostFrames(life.window.outbox)) // first read what it had published
    this.#host.directory.setLife(cell, undefined)
    if (exit.code !== FENCED) this.#returnClaim(life) // a fenced thread may still use its claim
    if (life.retired) this.#gone(cell, life, life.retired)
    else if (life.recalled && (!life.ready || (!life.verdict && !exit.error))) this.#gone(cell, life, 'recalled')
    else {
      const error = life.verdict ?? this.#host.redactor.fields(crashError(cell.name, exit))
      const blameless = exit.bystander !== undefined && !life.verdict
      if (!life.ready) return this.#host.cannotStart(cell, error, blameless || exit.outside === true)
      if (blameless) this.#diedWithOthers(cell, life, error)
      else this.#died(cell, life, exit, error)
    }
    for (const resolve of life.recalled ?? []) resolve()
    this.#host.loop.kick()
  }

  #died(cell: Cell, life: Life, exit: ThreadExit, error: DramatisError): void {
    const poisoned = this.#host.redelivery.giveBack(cell, life, error, fingerprint(exit, error))
    const ended = exit.code === 0 && !exit.error && !life.verdict
    this.#tell(cell, life, ended ? 'ended' : 'crashed', error, !poisoned)
  }

  /** An agent whose shared thread another one has ended restarts like after a crash, and is charged with nothing. */
  #diedWithOthers(cell: Cell, life: Life, error: DramatisError): void {
    this.#host.redelivery.giveBackUncharged(cell, life, error)
    this.#tell(cell, life, 'crashed', error, false)
  }

  /** Ends a life without open turns, whose stop hook has run. Does nothing if it has ended already. */
  retire(cell: Cell, life: Life, how: 'reloaded' | 'passivated'): void {
    if (cell.life !== life) return
    this.#router.drain(cell, life, mostFrames(life.window.outbox))
    this.#host.directory.setLife(cell, undefined)
    life.end()
    this.#gone(cell, life, how)
    for (const resolve of life.recalled ?? []) resolve()
  }

  #gone(cell: Cell, life: Life, how: 'recalled' | 'reloaded' | 'passivated'): void {
    const text = `The life of agent "${cell.name}" was ${ENDINGS[how]}.`
    const error = new AgentTerminatedError(text, { agent: cell.name })
    this.#host.redelivery.giveBackUncharged(cell, life, error)
    this.#tell(cell, life, how, error, false)
  }

  #tell(cell: Cell, { epoch }: Life, how: Exit['how'], error: DramatisError, fault: boolean): void {
    if (cell.mailbox.handed.size === 0) this.releaseAll(cell)
    const [head] = cell.mailbox.queued()
    const messageId = head && head.attempt > 1 ? idOf(head.memory, head.at) : null
    this.#host.journal.record(cell.run, { kind: 'agent.exited', ...cell.whose, epoch, how, error, fault, messageId })
  }

  /** Rule 4: drops what a thread wrote after it had been fenced off, or asked for the last time to stop. */
  #countStale(cell: Cell, life: Life): void {
    const { epoch } = life
    const count = life.broken ? 0 : this.#dropStale(life)
    this.#returnClaim(life)
    if (count === 0) return
    cell.staleFrames += count
    const text = 'an earlier life of the agent wrote after its end; what it wrote was dropped'
    this.#host.logger.warn({ agent: cell.name, epoch, frames: count }, text)
  }

  /** Drops late frames and returns their number. Stops at a frame that cannot be read. */
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
      life.broken = true // the fragments do not fit together; the rest is dropped anyway
    }
    return count
  }

  #returnRoom(life: Life, memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    if (kind !== SEND && kind !== REQUEST) return
    life.lastTurn = turnOf(memory, at)
    life.lastStep = stepOf(memory, at)
    const callee = this.#host.directory.cells[recipientOf(memory, at)]
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#host.mailboxes.freed(callee, lengthOf(memory, at))
  }

  releaseAll(cell: Cell): void {
    for (const run of this.#host.runs.values()) this.#host.permits.release(run, cell)
  }

  /**
   * Frees the rest of a claim. A thread that died after it claimed room and before it used it leaves the claim behind.
   */
  #returnClaim({ window, lastTurn, lastStep }: Life): void {
    const [note = 0, bytes = 0, turn, step] = window.words.subarray(CLAIM, CLAIM + 4)
    if (note === 0 || (turn === lastTurn && step === lastStep)) return
    const callee = this.#host.directory.cells[Math.abs(note) - 1]
    if (callee) this.#host.mailboxes.freed(callee, note > 0 && bytes > 0 ? bytes : 0)
  }
}

function crashError(agent: string, { code, error, stuck, bystander }: ThreadExit): AgentCrashedError {
  if (bystander) {
    const { culprit, why } = bystander
    const at = culprit === undefined ? '' : `, at the work of agent "${culprit}"`
    return new AgentCrashedError(`The thread that agent "${agent}" shares with others ended${at}: ${why}.`, {
      agent,
      ...(culprit !== undefined && { culprit }),
      exitCode: code,
    })
  }
  if (stuck)
    return new AgentCrashedError(
      `The thread that agent "${agent}" shares with others was stuck at its work, so it was ended.`,
      { agent, exitCode: code },
    )
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
  const why = memory ? 'ran out of memory (limits.maxHeapMb)' : `threw outside of a turn: ${describe(error)}`
  return new AgentCrashedError(`The thread of agent "${agent}" ${why}`, { agent, exitCode: code }, error)
}

/** Limits that a thread is ended for because of a measured figure. */
const MEASURED = ['watchdogMs', 'maxExternalMb']

/** Returns a text that is the same when a thread ends again in the same way; null if it was ended from outside. */
function fingerprint({ code, error, outside }: ThreadExit, verdict: DramatisError): string | null {
  if (outside) return null
  if (error) return `${error.name}: ${error.message}\n${error.stack?.split('\n')[1] ?? ''}`
  if (verdict.code !== 'AGENT_CRASHED') return verdict.message
  // the measured time or memory differs each time
  const isMeasured = MEASURED.some((limit) => Object.hasOwn(verdict.details, limit))
  const text = isMeasured ? verdict.message.replaceAll(/\d+/g, '#') : verdict.message
  return code === FENCED ? text : `${code}: ${text}`
}
