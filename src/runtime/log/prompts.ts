/**
 * Prompts of the turns that are open in a log. Each call of a model has the whole conversation, so a turn of n calls
 * would log the first one n times. A durable log has a later prompt of a turn as the difference to the one before it.
 * Who writes and who reads look at the same entries in the same order, so they know the same prompts.
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

/** Bytes below which a difference does not pay. */
const LEAST_SHARED = 256

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

  /** Reads a frame. Returns the text of a prompt, and what it shares with the one before it, if that pays. */
  see(
    memory: Memory,
    at: number,
    run: number,
    seq: number,
  ): { text: Uint8Array; shared: Shared | undefined } | undefined {
    const kind = kindOf(memory, at)
    if (kind === END && this.#byTurn.size > 0) this.#byTurn.delete(keyOf(memory, at))
    if (kind !== CALL) return undefined
    const place = dataPlace(memory, at, VERB)
    if (!place) return undefined
    const key = keyOf(memory, at)
    const before = this.#byTurn.get(key)
    this.#byTurn.set(key, { run, seq, memory, place })
    const text = memory.u8.subarray(place.from, place.to)
    return { text, shared: before && sharedWith(before, text) }
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

/** Returns no bytes if the log in memory has given the prompt up: its memory is used again. */
const textOf = ({ memory, place }: Prompt): Uint8Array => memory.u8.subarray(place.from, place.to)

function sharedWith(before: Prompt, text: Uint8Array): Shared | undefined {
  const earlier = textOf(before)
  const most = Math.min(earlier.length, text.length)
  const prefix = commonPrefix(earlier, text, most)
  const suffix = commonSuffix(earlier, text, most - prefix)
  return prefix + suffix < LEAST_SHARED ? undefined : { base: before.seq, prefix, suffix }
}

/** Bytes that are compared at once. */
const STRIDE = 1_024

function commonPrefix(one: Uint8Array, other: Uint8Array, most: number): number {
  let same = 0
  for (let step = Math.min(STRIDE, most); step > 0; step = Math.min(STRIDE, most - same)) {
    if (Buffer.compare(one.subarray(same, same + step), other.subarray(same, same + step)) !== 0) break
    same += step
  }
  while (same < most && one[same] === other[same]) same += 1
  return same
}

function commonSuffix(one: Uint8Array, other: Uint8Array, most: number): number {
  const [ofOne, ofOther] = [one.length, other.length]
  let same = 0
  for (let step = Math.min(STRIDE, most); step > 0; step = Math.min(STRIDE, most - same)) {
    const [a, b] = [ofOne - same, ofOther - same]
    if (Buffer.compare(one.subarray(a - step, a), other.subarray(b - step, b)) !== 0) break
    same += step
  }
  while (same < most && one[ofOne - 1 - same] === other[ofOther - 1 - same]) same += 1
  return same
}
