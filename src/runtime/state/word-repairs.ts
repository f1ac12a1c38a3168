/** Words of the memory that all threads of a team share, which were not what the host knows and were set right. */
import type { Logger } from '../../actors/definition/logger.ts'
import type { Room } from '../../mailbox/room.ts'

export class WordRepairs {
  readonly #logger: Logger
  /** How often a word was set right. */
  count = 0

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** A flood of them is told of ever more seldom. */
  report(fields: { word: string; agent?: string; expected?: Room; found?: Room }): void {
    this.count += 1
    if ((this.count & (this.count - 1)) !== 0) return
    this.#logger.error(
      { ...fields, repairs: this.count },
      'a word of the memory that all threads of the team share was not what the host knows; it was set right. Only the runtime writes there: look for code in a thread that gets hold of shared memory',
    )
  }
}
