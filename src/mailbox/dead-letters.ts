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
  /** Of the message; its own where the message has more letters than one. */
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
  /** By their ids, oldest first. */
  readonly #letters = new Map<string, { letter: DeadLetter; bytes: number }>()
  readonly #limit: number
  readonly #byteLimit: number
  #bytes = 0
  /** All that there have been. */
  total = 0
  /** How many were given up because the list was full. */
  forgotten = 0
  /** The ids of messages that are letters sent again and not accepted yet: their letters are in the list still. */
  readonly replayed = new Set<string>()

  constructor(limit = LETTERS, byteLimit = BYTES) {
    this.#limit = limit
    this.#byteLimit = byteLimit
  }

  /** `bytes`: those of the message, encoded. The newest is kept, however large it is. Its id is its own. */
  add(letter: DeadLetter, bytes: number): void {
    this.total += 1
    this.#letters.set(letter.id, { letter, bytes })
    this.#bytes += bytes
    while (this.length > this.#limit || (this.#bytes > this.#byteLimit && this.length > 1)) {
      this.delete(this.#letters.keys().next().value!)
      this.forgotten += 1
    }
  }

  get length(): number {
    return this.#letters.size
  }

  get(id: string): DeadLetter | undefined {
    return this.#letters.get(id)?.letter
  }

  /** Takes it out: it was sent again, or nobody wants it. False: it is not there. */
  delete(id: string): boolean {
    this.#bytes -= this.#letters.get(id)?.bytes ?? 0
    return this.#letters.delete(id)
  }

  list(): DeadLetter[] {
    return [...this.#letters.values()].map(({ letter }) => letter)
  }
}
