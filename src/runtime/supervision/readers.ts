/**
 * Readers of a team's journal. Each gets only batches with a kind of record that it handles. A reader that throws is
 * reported, and the others continue.
 */
import type { Logger } from '../../actors/definition/logger.ts'
import { describe } from '../../errors.ts'
import type { Batch, LogEntry } from '../log/records.ts'
import type { Journal } from '../state/journal.ts'
import type { Reader } from '../state/reader.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly journal: Journal
  readonly logger: Logger
}

export class Readers {
  readonly #logger: Logger
  readonly #all: { readonly reader: Reader; readonly kinds: number }[] = []
  readonly #subscription: { unsubscribe(): void }

  constructor({ journal, logger }: Needs) {
    this.#logger = logger
    this.#subscription = journal.records$.subscribe((batch) => this.#next(batch))
  }

  /** Adds a reader: from now on it gets the batches that concern it. */
  add(reader: Reader): void {
    const kinds = reader.kinds ? reader.kinds.reduce((bits, kind) => bits | bitOf(kind), 0) : EVERY_KIND
    this.#all.push({ reader, kinds })
  }

  #next(batch: Batch): void {
    let present = 0
    for (const { kind } of batch) present |= kind === 'frames' ? FRAMES : bitOf(kind)
    for (const { reader, kinds } of this.#all) if ((kinds & present) !== 0) this.#tell(reader, batch)
  }

  #tell(reader: Reader, batch: Batch): void {
    try {
      reader.next(batch)
    } catch (error) {
      this.#logger.error({ error: describe(error) }, 'a part of the supervisor threw; the others go on')
    }
  }

  /** Notifies the readers that a wait in that run, or the run itself, has ended only because its time was up. */
  overdue(run: RunState): void {
    for (const { reader } of this.#all) reader.overdue?.(run)
  }

  /** Notifies the readers that these runs of an earlier process were put in place. */
  restored(runs: ReadonlySet<RunState>): void {
    for (const { reader } of this.#all) reader.restored?.(runs)
  }

  close(): void {
    this.#subscription.unsubscribe()
    for (const { reader } of this.#all) reader.close?.()
  }
}

const FRAMES = 1
const EVERY_KIND = ~0
const BITS = new Map<LogEntry['kind'], number>([['frames', FRAMES]])

/** Returns a bit for each kind of record, so that the kinds of a batch are one number. */
function bitOf(kind: LogEntry['kind']): number {
  let bit = BITS.get(kind)
  if (bit === undefined) {
    bit = 1 << BITS.size
    BITS.set(kind, bit)
  }
  return bit
}
