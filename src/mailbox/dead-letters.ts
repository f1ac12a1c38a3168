/**
 * Keeps messages that no agent will handle, with the reason, so that nothing is dropped silently. The list is bounded,
 * and counts the entries that it gives up.
 */
import type { DramatisError } from '../errors.ts'
import type { AgentMessage } from './message.ts'

/** The reason why a message is not handled. */
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
 * A message that one recipient will not handle. `message.recipient` is that recipient, even if the message was for
 * several.
 *
 * If a message was refused as invalid or too large, `message` holds its valid and small parts, and `metadata.omitted`
 * names the other fields. `at` is epoch ms. `errors` are those of its attempts, the last one last.
 */
export interface DeadLetter {
  /** Id of the message, or an id of its own if the message has several dead letters. */
  id: string
  message: AgentMessage
  reason: DeadLetterReason
  errors: DramatisError[]
  at: number
}

const LETTERS = 10_000
const BYTES = 64 * 2 ** 20

/** Keeps the newest dead letters, limited by count and by the bytes of their messages. Removed ones stay counted. */
export class DeadLetterList {
  /** Dead letters by id, oldest first. */
  readonly #letters = new Map<string, { letter: DeadLetter; bytes: number }>()
  readonly #limit: number
  readonly #byteLimit: number
  #bytes = 0
  /** Number of all dead letters so far. */
  total = 0
  /** Number of dead letters given up because the list was full. */
  forgotten = 0
  /** Ids of messages that repeat a dead letter and are not accepted yet. Their dead letters are still in the list. */
  readonly replayed = new Set<string>()

  constructor(limit = LETTERS, byteLimit = BYTES) {
    this.#limit = limit
    this.#byteLimit = byteLimit
  }

  /**
   * Adds a dead letter, whose id must be unique. The newest one is kept, however large it is.
   *
   * @param bytes encoded size of the message
   */
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

  /** Removes a dead letter that was sent again or is no longer wanted. Returns false if it is not in the list. */
  delete(id: string): boolean {
    this.#bytes -= this.#letters.get(id)?.bytes ?? 0
    return this.#letters.delete(id)
  }

  /** Dead letters with their bytes, oldest first. */
  get entries(): Iterable<{ readonly letter: DeadLetter; readonly bytes: number }> {
    return this.#letters.values()
  }

  list(): DeadLetter[] {
    return [...this.#letters.values()].map(({ letter }) => letter)
  }
}
