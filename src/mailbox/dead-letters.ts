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

/** A message that nobody will handle. `at` is epoch ms; `errors` are those of its attempts, the last one last. */
export interface DeadLetter {
  id: string
  message: AgentMessage
  reason: DeadLetterReason
  errors: DramatisError[]
  at: number
}

export class DeadLetterList {
  readonly #letters: DeadLetter[] = []
  readonly #limit: number
  total = 0

  constructor(limit = 10_000) {
    this.#limit = limit
  }

  add(letter: DeadLetter): void {
    this.total += 1
    this.#letters.push(letter)
    if (this.#letters.length > this.#limit) this.#letters.shift()
  }

  list(): DeadLetter[] {
    return [...this.#letters]
  }
}
