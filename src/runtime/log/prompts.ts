/**
 * Prompts of the turns that are open in a log. Up to format 3, a log has a later prompt of a turn as the difference to
 * the one before it.
 */

import type { Verb } from '../../actors/definition/trust.ts'
import { CALL, END, kindOf, senderOf, turnOf } from '../../mailbox/frame.ts'
import { dataAfter, dataPlace, type TextPlace } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { LogEntry } from './records.ts'

/** Verb whose calls have prompts. */
const VERB: Verb = 'model'

/** Bytes of a frame with a prompt that stand before the prompt. */
export const BEFORE_PROMPT = dataAfter(VERB)

/** The last prompt of an open turn. */
interface Prompt {
  readonly run: number
  /** Number of its frame. */
  readonly seq: number
  readonly memory: Memory
  readonly place: TextPlace
}

/** Bytes that a prompt has in common with the one before it: at its begin, and at its end. */
export interface Shared {
  /** Number of the frame with the earlier prompt. */
  readonly base: number
  readonly prefix: number
  readonly suffix: number
}

export class Prompts {
  readonly #byTurn = new Map<number, Prompt>()

  /** Reads a frame. */
  see(memory: Memory, at: number, run: number, seq: number): void {
    const kind = kindOf(memory, at)
    if (kind === END && this.#byTurn.size > 0) this.#byTurn.delete(keyOf(memory, at))
    const place = kind === CALL ? dataPlace(memory, at, VERB) : undefined
    if (place) this.#byTurn.set(keyOf(memory, at), { run, seq, memory, place })
  }

  /** Reads a record: a run that is over has no turns any more, however they ended. */
  over({ kind, run }: LogEntry): void {
    if (kind === 'run.finished')
      for (const [key, prompt] of this.#byTurn) if (prompt.run === run) this.#byTurn.delete(key)
  }

  /** Returns the text of the last prompt of the turn that a frame belongs to, if that prompt has the number `seq`. */
  of(memory: Memory, at: number, seq: number): Uint8Array | undefined {
    const prompt = this.#byTurn.get(keyOf(memory, at))
    return prompt?.seq === seq ? textOf(prompt) : undefined
  }
}

/** Indices of agents have 16 bits, numbers of turns 31. */
const keyOf = (memory: Memory, at: number): number => senderOf(memory, at) * 2 ** 32 + turnOf(memory, at)

const textOf = ({ memory, place }: Prompt): Uint8Array => memory.u8.subarray(place.from, place.to)
