/** Messages that nobody will handle, with the reason. Nothing is dropped in silence; the list is bounded, and counts what it forgets. */
import type { DramatisError } from '../errors.ts'
import type { AgentMessage } from './message.ts'

/** Why nobody will handle it. */
export type DeadLetterReason =
  | 'failed'
  | 'late'
  | 'expired'
  | 'unknown_agent'
  | 'stopped'
  | 'rejected'
  | 'overflow'
  | 'poison'
  | 'cancelled'

/**
 * A message that one recipient will not handle: that one is its `recipient`, whoever else it was for. Of what was refused
 * as no message, or as too large, `message` has what is valid and small; `metadata.omitted` names the rest. `at` is epoch
 * ms; `errors` are those of its attempts, the last one last.
 */
export interface DeadLetter {
  id: string
  message: AgentMessage
  reason: DeadLetterReason
  errors: DramatisError[]
  at: number
}

const LETTERS = 10_000
const BYTES = 64 * 2 ** 20

/** Keeps the newest letters, by count and by the bytes of their messages; what it gives up stays counted. */
export class DeadLetterList {
  readonly #letters: { letter: DeadLetter; bytes: number }[] = []
  readonly #limit: number
  readonly #byteLimit: number
  #bytes = 0
  /** All that there have been. */
  total = 0

  constructor(limit = LETTERS, byteLimit = BYTES) {
    this.#limit = limit
    this.#byteLimit = byteLimit
  }

  /** `bytes`: those of the message, encoded. The newest is kept, however large it is. */
  add(letter: DeadLetter, bytes: number): void {
    this.total += 1
    this.#letters.push({ letter, bytes })
    this.#bytes += bytes
    while (this.#letters.length > this.#limit || (this.#bytes > this.#byteLimit && this.#letters.length > 1))
      this.#bytes -= this.#letters.shift()!.bytes
  }

  get length(): number {
    return this.#letters.length
  }

  /** How many were given up because the list was full. */
  get forgotten(): number {
    return this.total - this.#letters.length
  }

  list(): DeadLetter[] {
    return this.#letters.map(({ letter }) => letter)
  }
}
