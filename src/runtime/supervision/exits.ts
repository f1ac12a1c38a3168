/**
 * Handles the exit of an agent's thread: reads what the thread had published, and returns its reservation and its
 * messages. Which of the messages may be retried is decided in commits.ts.
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
import type { Agent } from '../host/agent.ts'
import type { Incarnation } from '../host/incarnation.ts'
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
  recall(agent: Agent): Promise<void> {
    const { incarnation } = agent
    agent.beginnings += 1 // a start attempt that has no thread yet creates none
    if (!incarnation) return Promise.resolve()
    return new Promise((resolve) => {
      if (!incarnation.recalled && !incarnation.verdict) incarnation.end()
      incarnation.recalled ??= []
      incarnation.recalled.push(resolve)
    })
  }

  /** Waits for the exit of a thread that the host has ended. A thread that does not exit soon is fenced off. */
  fence(agent: Agent, incarnation: Incarnation): void {
    const giveUp = () => {
      if (agent.incarnation === incarnation) this.exited(agent, incarnation, { code: FENCED, error: undefined })
    }
    this.#host.clock.timer(FENCE_MS, giveUp, true)
  }

  exited(agent: Agent, incarnation: Incarnation, exit: ThreadExit): void {
    if (agent.incarnation !== incarnation) return this.#countStale(agent, incarnation)
    this.#router.drain(agent, incarnation, mostFrames(incarnation.channel.outbox)) // first read what it had published
    this.#host.directory.setIncarnation(agent, undefined)
    if (exit.code !== FENCED) this.#returnReservation(incarnation) // a fenced thread may still use its reservation
    if (incarnation.retired) this.#gone(agent, incarnation, incarnation.retired)
    else if (incarnation.recalled && (!incarnation.ready || (!incarnation.verdict && !exit.error)))
      this.#gone(agent, incarnation, 'recalled')
    else {
      const error = incarnation.verdict ?? this.#host.redactor.fields(crashError(agent.name, exit))
      const blameless = exit.bystander !== undefined && !incarnation.verdict
      if (!incarnation.ready) return this.#host.cannotStart(agent, error, blameless || exit.outside === true)
      if (blameless) this.#diedWithOthers(agent, incarnation, error)
      else this.#died(agent, incarnation, exit, error)
    }
    for (const resolve of incarnation.recalled ?? []) resolve()
    this.#host.loop.kick()
  }

  #died(agent: Agent, incarnation: Incarnation, exit: ThreadExit, error: DramatisError): void {
    const poisoned = this.#host.redelivery.giveBack(agent, incarnation, error, fingerprint(exit, error))
    const ended = exit.code === 0 && !exit.error && !incarnation.verdict
    this.#tell(agent, incarnation, ended ? 'ended' : 'crashed', error, !poisoned)
  }

  /** An agent whose shared thread another one has ended restarts like after a crash, and is charged with nothing. */
  #diedWithOthers(agent: Agent, incarnation: Incarnation, error: DramatisError): void {
    this.#host.redelivery.giveBackUncharged(agent, incarnation, error)
    this.#tell(agent, incarnation, 'crashed', error, false)
  }

  /** Ends an incarnation without open turns, whose stop hook has run. Does nothing if it has ended already. */
  retire(agent: Agent, incarnation: Incarnation, how: 'reloaded' | 'passivated'): void {
    if (agent.incarnation !== incarnation) return
    this.#router.drain(agent, incarnation, mostFrames(incarnation.channel.outbox))
    this.#host.directory.setIncarnation(agent, undefined)
    incarnation.end()
    this.#gone(agent, incarnation, how)
    for (const resolve of incarnation.recalled ?? []) resolve()
  }

  #gone(agent: Agent, incarnation: Incarnation, how: 'recalled' | 'reloaded' | 'passivated'): void {
    const text = `The life of agent "${agent.name}" was ${ENDINGS[how]}.`
    const error = new AgentTerminatedError(text, { agent: agent.name })
    this.#host.redelivery.giveBackUncharged(agent, incarnation, error)
    this.#tell(agent, incarnation, how, error, false)
  }

  #tell(agent: Agent, { epoch }: Incarnation, how: Exit['how'], error: DramatisError, fault: boolean): void {
    if (agent.mailbox.handed.size === 0) this.releaseAll(agent)
    const [head] = agent.mailbox.queued()
    const messageId = head && head.attempt > 1 ? idOf(head.memory, head.at) : null
    this.#host.journal.record(agent.run, { kind: 'agent.exited', ...agent.whose, epoch, how, error, fault, messageId })
  }

  /** Rule 4: drops what a thread wrote after it had been fenced off, or asked for the last time to stop. */
  #countStale(agent: Agent, incarnation: Incarnation): void {
    const { epoch } = incarnation
    const count = incarnation.broken ? 0 : this.#dropStale(incarnation)
    this.#returnReservation(incarnation)
    if (count === 0) return
    agent.staleFrames += count
    const text = 'an earlier life of the agent wrote after its end; what it wrote was dropped'
    this.#host.logger.warn({ agent: agent.name, epoch, frames: count }, text)
  }

  /** Drops late frames and returns their number. Stops at a frame that cannot be read. */
  #dropStale(incarnation: Incarnation): number {
    const { joiner, channel } = incarnation
    const { memory } = channel.outbox
    let count = 0
    try {
      for (let at = channel.outbox.peekInvalid(); at >= 0; at = channel.outbox.peekInvalid(), count++) {
        const whole = kindOf(memory, at) === FRAGMENT ? joiner.join(memory, at) : memory
        if (whole) this.#returnRoom(incarnation, whole, whole === memory ? at : 0)
        channel.outbox.pass(lengthOf(memory, at))
      }
    } catch {
      incarnation.broken = true // the fragments do not fit together; the rest is dropped anyway
    }
    return count
  }

  #returnRoom(incarnation: Incarnation, memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    if (kind !== SEND && kind !== REQUEST) return
    incarnation.lastTurn = turnOf(memory, at)
    incarnation.lastStep = stepOf(memory, at)
    const callee = this.#host.directory.byIndex[recipientOf(memory, at)]
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#host.mailboxes.freed(callee, lengthOf(memory, at))
  }

  releaseAll(agent: Agent): void {
    for (const run of this.#host.runs.values()) this.#host.permits.release(run, agent)
  }

  /**
   * Frees the rest of a reservation. A thread that died after it reserved room and before it used it leaves the
   * reservation behind.
   */
  #returnReservation({ channel, lastTurn, lastStep }: Incarnation): void {
    const [note = 0, bytes = 0, turn, step] = channel.words.subarray(CLAIM, CLAIM + 4)
    if (note === 0 || (turn === lastTurn && step === lastStep)) return
    const callee = this.#host.directory.byIndex[Math.abs(note) - 1]
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
