/**
 * Tasks that wait for others before their agents get them: the dependencies of document 002, 2.5.2. Such a task is in no
 * mailbox: it takes no room there, and stands in nobody's way. When it may go tasks/dependencies.ts decides.
 */
import { kindOf, REQUEST, typeOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell, HeldTask } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import { offeredIn } from './task-offer.ts'

export class BlockedTasks {
  /** By the ids of their messages. */
  readonly #held = new Map<string, HeldTask>()

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
}

/** Whether that message is a task that names others. */
export const hasDependencies = (memory: Memory, at: number): boolean =>
  kindOf(memory, at) === REQUEST && typeOf(memory, at) === 'delegate' && offeredIn(memory, at).dependencies.length > 0
