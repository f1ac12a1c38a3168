/** Readers of a team's journal. A reader that throws is reported, and the others continue. */
import type { Logger } from '../../actors/definition/logger.ts'
import { describe } from '../../errors.ts'
import type { Journal } from '../state/journal.ts'
import type { Reader } from '../state/reader.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly journal: Journal
  readonly logger: Logger
}

export class Readers {
  readonly #needs: Needs
  readonly #all: { readonly reader: Reader; stop(): void }[] = []

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Adds a reader: from now on it gets every record. */
  add(reader: Reader): void {
    const { journal, logger } = this.#needs
    const subscription = journal.records$.subscribe((batch) => {
      try {
        reader.next(batch)
      } catch (error) {
        logger.error({ error: describe(error) }, 'a part of the supervisor threw; the others go on')
      }
    })
    this.#all.push({ reader, stop: () => subscription.unsubscribe() })
  }

  /** Notifies the readers that a wait in that run, or the run itself, has ended only because its time was up. */
  overdue(run: RunState): void {
    for (const { reader } of this.#all) reader.overdue?.(run)
  }

  close(): void {
    for (const { reader, stop } of this.#all) {
      stop()
      reader.close?.()
    }
  }
}
