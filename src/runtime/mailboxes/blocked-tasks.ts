/**
 * Tasks that wait for others before their agents get them: the dependencies of document 002, 2.5.2. One that is held is in no
 * mailbox: it takes no room there, and stands in nobody's way. How long it is held runtime/tasks/dependencies.ts decides.
 */

import type { DramatisError } from '../../errors.ts'
import { kindOf, REQUEST, typeOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell, HeldTask } from '../state/cell.ts'
import type { Core, Holding } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'
import { offeredIn } from './task-offer.ts'

export class HeldTasks implements Holding {
  readonly #core: Core
  /** By the ids of their messages. */
  readonly #held = new Map<string, HeldTask>()

  constructor(core: Core) {
    this.#core = core
  }

  /** False: one of that id is held already, as only a thread that writes its own frames can have it. */
  hold(callee: Cell, envelope: Envelope<RunState>): boolean {
    const id = idOf(envelope.memory, envelope.at)
    if (this.#held.has(id)) return false
    this.#held.set(id, { callee, envelope, waitsFor: new Set() })
    return true
  }

  get(id: string): HeldTask | undefined {
    return this.#held.get(id)
  }

  /** The one whose message that is. */
  of(envelope: Envelope<RunState>): HeldTask | undefined {
    if (this.#held.size === 0) return undefined
    const held = this.#held.get(idOf(envelope.memory, envelope.at))
    return held?.envelope === envelope ? held : undefined
  }

  get all(): HeldTask[] {
    return [...this.#held.values()]
  }

  /** False: it is not held. */
  remove(envelope: Envelope<RunState>): boolean {
    return this.of(envelope) !== undefined && this.#held.delete(idOf(envelope.memory, envelope.at))
  }

  /** It will not be done: who gave it is told why. */
  fail({ callee, envelope }: HeldTask, error: DramatisError): void {
    const request = this.#core.settlement.requestOf(envelope)
    if (request) this.#core.settlement.answerWithError(request, error)
    this.#core.withdrawals.withdraw(callee, envelope, error)
  }

  /** Their agent is stopped for good. */
  bury(agent: Cell, gone: DramatisError): void {
    for (const { callee, envelope } of this.all) {
      if (callee !== agent.first) continue
      const request = this.#core.settlement.requestOf(envelope)
      this.remove(envelope)
      this.#core.settlement.drop(envelope, 'stopped', [gone])
      if (request) this.#core.settlement.answerWithError(request, gone)
    }
  }
}

/** Whether that message is a task that names others. */
export const hasDependencies = (memory: Memory, at: number): boolean =>
  kindOf(memory, at) === REQUEST && typeOf(memory, at) === 'delegate' && offeredIn(memory, at).dependencies.length > 0
