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
  readonly #journal: Journal
  readonly #logger: Logger
  /** `kinds` of records and of frames, as bits. */
  readonly #all: { readonly reader: Reader; readonly kinds: number; readonly frames: number }[] = []

  constructor({ journal, logger }: Needs) {
    this.#journal = journal
    this.#logger = logger
    journal.readWith(this.#next.bind(this))
  }

  /** Adds a reader: from now on it gets the batches that concern it. */
  add(reader: Reader): void {
    const { kinds, frames = ALL } = reader
    const records = kinds?.reduce((bits, kind) => (kind === 'frames' ? bits : bits | bitOf(kind)), 0)
    this.#all.push({ reader, kinds: records ?? ALL, frames: !kinds || kinds.includes('frames') ? frames : 0 })
  }

  /** `seen`: kinds of the frames in the batch. */
  #next(batch: Batch, seen: number): void {
    let present = 0
    for (const { kind } of batch) if (kind !== 'frames') present |= bitOf(kind)
    for (const each of this.#all) {
      if (((each.kinds & present) | (each.frames & seen)) === 0 || each.reader.isIdle) continue
      try {
        each.reader.next(batch)
      } catch (error) {
        this.#logger.error({ error: describe(error) }, 'a part of the supervisor threw; the others go on')
      }
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
    this.#journal.readWith(undefined)
    for (const { reader } of this.#all) reader.close?.()
  }
}

const ALL = ~0
const BITS = new Map<LogEntry['kind'], number>()
const MOST_BITS = 31

/**
 * Returns a bit for each kind of record, so that the kinds of a batch are one number. The last kinds share one: who
 * gets a batch by it still has to look.
 */
function bitOf(kind: LogEntry['kind']): number {
  let bit = BITS.get(kind)
  if (bit === undefined) {
    bit = 1 << Math.min(BITS.size, MOST_BITS)
    BITS.set(kind, bit)
  }
  return bit
}
