/** Tracks calls under way that may bring something new: of a model, a tool, or a person. */
import { CALL, CANCEL, correlationOf, kindOf, RESULT, recipientOf, senderOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { BoundedMap } from '../log/bounded-map.ts'

const WORKS: ReadonlySet<string> = new Set(['model', 'tool', 'ask', 'approve'])

export class Works {
  /** Agents with a call that has no answer yet, by agent and correlation. */
  readonly #open: BoundedMap<string, number>

  constructor(mostOpen: number) {
    this.#open = new BoundedMap(mostOpen)
  }

  frame(memory: Memory, at: number): void {
    switch (kindOf(memory, at)) {
      case CALL:
        if (WORKS.has(readBody(memory, at).content))
          this.#open.set(`${senderOf(memory, at)} ${correlationOf(memory, at)}`, senderOf(memory, at))
        return
      case RESULT:
        this.#open.delete(`${recipientOf(memory, at)} ${correlationOf(memory, at)}`)
        return
      case CANCEL:
        this.#open.delete(`${senderOf(memory, at)} ${correlationOf(memory, at)}`)
    }
  }

  /** Checks whether an agent other than these two has such a call. */
  beside(one: number, other: number): boolean {
    for (const agent of this.#open.values()) if (agent !== one && agent !== other) return true
    return false
  }
}
