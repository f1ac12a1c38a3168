/**
 * Tasks that their agents get only when other tasks are done: the dependencies of document 002, 2.5.2. Such a task is
 * in no mailbox, so it takes no room and blocks nothing. tasks/dependencies.ts decides when it is released.
 */
import { kindOf, REQUEST, typeOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell, HeldTask } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import { offeredIn } from './task-offer.ts'

export class BlockedTasks {
  /** Held tasks by the ids of their messages. */
  readonly #held = new Map<string, HeldTask>()

  /**
   * Holds a task. Returns false if a task of that id is held already: only a thread that forges frames can cause that.
   */
  hold(callee: Cell, envelope: Envelope<RunState>): boolean {
    const id = idOf(envelope.memory, envelope.at)
    if (this.#held.has(id)) return false
    this.#held.set(id, { callee, envelope, waitsFor: new Set() })
    return true
  }

  get(id: string): HeldTask | undefined {
    return this.#held.get(id)
  }

  /** Returns the held task with that message. */
  of(envelope: Envelope<RunState>): HeldTask | undefined {
    if (this.#held.size === 0) return undefined
    const held = this.#held.get(idOf(envelope.memory, envelope.at))
    return held?.envelope === envelope ? held : undefined
  }

  get all(): HeldTask[] {
    return [...this.#held.values()]
  }

  /** Removes a task. Returns false if it is not held. */
  remove(envelope: Envelope<RunState>): boolean {
    return this.of(envelope) !== undefined && this.#held.delete(idOf(envelope.memory, envelope.at))
  }
}

/** Checks whether a message is a task that depends on others. */
export const hasDependencies = (memory: Memory, at: number): boolean =>
  kindOf(memory, at) === REQUEST && typeOf(memory, at) === 'delegate' && offeredIn(memory, at).dependencies.length > 0
