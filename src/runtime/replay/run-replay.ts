/** Steps through the entries of a run, and shows the state after each of them. */
import { ConfigurationError, shown } from '../../errors.ts'
import { lengthOf } from '../../mailbox/frame.ts'
import { type LogEntry, SEQ_STEP } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import { MomentWords } from './moment-words.ts'
import type { RunMoment, RunReplay, RunView } from './run-view.ts'
import { type FoldedRun, TeamFold } from './team-fold.ts'

/** Past of a run. */
export interface Past extends FoldedRun {
  /** State of the team when the run was launched, as entries. */
  readonly before: readonly LogEntry[]
  /** Entries of the run, in the order of their numbers. Nobody changes them. */
  readonly entries: readonly LogEntry[]
}

export class LoggedReplay implements RunReplay {
  readonly #past: Past
  readonly #redactor: Redactor
  /** Each entry, and each frame of a block, by itself. */
  readonly #entries: readonly LogEntry[]
  readonly seqs: readonly number[]
  #fold: TeamFold
  /** Number of moments that the fold has seen. */
  #seen = 0
  #moments: readonly RunMoment[] | undefined

  constructor(past: Past, redactor: Redactor) {
    this.#past = past
    this.#redactor = redactor
    this.#entries = past.entries.flatMap((entry) => [...momentsOf(entry)])
    this.seqs = this.#entries.map(({ seq }) => seq)
    this.#fold = this.#begin()
  }

  get length(): number {
    return this.seqs.length
  }

  get moments(): readonly RunMoment[] {
    this.#moments ??= this.#redactor.data(this.#told())
    return this.#moments
  }

  #told(): RunMoment[] {
    const words = new MomentWords(this.#past.directory, this.#redactor)
    return this.#entries.flatMap((entry) => {
      const sentence = words.of(entry)
      return sentence === undefined ? [] : [{ seq: entry.seq, at: entry.at, sentence }]
    })
  }

  at(seq: number): RunView {
    if (typeof seq !== 'number' || Number.isNaN(seq)) {
      const accepted = 'a number: one of `seqs`, or the `seq` of an event'
      throw new ConfigurationError(`seq: ${shown(seq)}; accepted: ${accepted}.`, { path: 'seq', got: seq, accepted })
    }
    const end = this.#countUpTo(seq)
    if (end < this.#seen) {
      this.#fold = this.#begin()
      this.#seen = 0
    }
    for (; this.#seen < end; this.#seen++) this.#fold.see(this.#entries[this.#seen]!)
    return this.#redactor.data(this.#fold.view())
  }

  #begin(): TeamFold {
    const fold = new TeamFold(this.#past)
    for (const entry of this.#past.before) fold.see(entry)
    return fold
  }

  /** Returns the number of moments up to that one. */
  #countUpTo(seq: number): number {
    let low = 0
    let high = this.seqs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.seqs[middle]! <= seq) low = middle + 1
      else high = middle
    }
    return low
  }
}

function* momentsOf(entry: LogEntry): Iterable<LogEntry> {
  if (entry.kind !== 'frames') return yield entry
  let { seq, from } = entry
  for (; from < entry.to; seq += SEQ_STEP) {
    const to = from + lengthOf(entry.memory, from)
    yield { ...entry, seq, from, to, count: 1 }
    from = to
  }
}
