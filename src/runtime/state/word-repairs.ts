/**
 * Repairs of words in the memory that all threads of a team share: words that differed from what the host knows and
 * were set right.
 */
import type { Logger } from '../../actors/definition/logger.ts'
import type { Room } from '../../mailbox/room.ts'

export class WordRepairs {
  readonly #logger: Logger
  /** Number of words that were set right. */
  count = 0

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Counts a repair and logs it. In a flood it logs ever more rarely (1st, 2nd, 4th ...). */
  report(fields: { word: string; agent?: string; expected?: Room; found?: Room }): void {
    this.count += 1
    if ((this.count & (this.count - 1)) !== 0) return
    this.#logger.error(
      { ...fields, repairs: this.count },
      'a word of the memory that all threads of the team share was not what the host knows; it was set right. Only the runtime writes there: look for code in a thread that gets hold of shared memory',
    )
  }
}
