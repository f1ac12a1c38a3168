/** Reads the events of one run from its log, from a place on, and says what of them is lost. */

import { lastSeq, type RunLog } from '../log/run-log.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { RunState } from '../state/run-state.ts'
import { StatusFold } from './agent-status.ts'
import type { EventPosition } from './event-position.ts'
import type { RuntimeEvent } from './events.ts'
import { type EventSource, eventsOf, passOver } from './log-events.ts'

interface Needs {
  /** Returns the state of the run: a run of an earlier process gets it when the log is read. */
  state(): RunState
  source(): EventSource
  isSettled(): boolean
  readonly host: {
    /** Name of the team's log; undefined as long as it is not open. */
    readonly logName: string | undefined
    /** Number of the next record of the team. */
    readonly seq: number
    readonly redactor: Redactor
  }
}

export class EventReader {
  readonly #needs: Needs
  readonly #from: EventPosition
  /** Log that is read; undefined before the first event. */
  #log: RunLog | undefined
  #fold: StatusFold
  /** Number of the last event that was read. */
  #after = -1
  /** Number of the last entry that was read, and number of entries up to there. */
  #entry = -1
  #count = 0
  /** True once the end of the run was read. Turns that end later stand behind it in the log: no reader gets these. */
  #isAtEnd = false

  constructor(from: EventPosition, needs: Needs) {
    this.#needs = needs
    this.#from = from
    this.#fold = this.#newFold()
  }

  /**
   * Yields the events that the log has by now, up to the entry with the number `until`. Those behind `kept` are not in
   * the durable log: their number is the last one before it, so who goes on behind them in a later process misses
   * nothing.
   */
  *next(until: number, kept = Number.POSITIVE_INFINITY): IterableIterator<RuntimeEvent<unknown>> {
    const { redactor } = this.#needs.host
    for (const event of this.#next(until)) {
      this.#after = event.seq
      const told = redactor.data(event)
      yield event.seq < kept ? told : { ...told, seq: kept - 1 }
    }
  }

  *#next(until: number): IterableIterator<RuntimeEvent<unknown>> {
    const { host, isSettled, state } = this.#needs
    const { log, startedAt, id } = state()
    if (log !== this.#log) {
      if (this.#from.log !== undefined && host.logName === undefined && !isSettled()) return // the log is not open yet
      const isReset = this.#begin(log)
      if (isReset) yield { type: 'reset', seq: -1, at: startedAt, runId: id }
    }
    if (this.#isAtEnd) return
    for (const entry of log.entries(Math.max(this.#after, this.#entry))) {
      if (entry.seq >= until) return
      if (entry.kind === 'run.finished' && !isSettled()) return // the durable log does not have it yet
      const lost = this.#lost(log)
      if (lost > 0) yield { type: 'gap', seq: log.forgottenTo, at: entry.at, runId: id, entries: lost }
      for (const event of eventsOf(entry, this.#needs.source(), this.#fold)) if (event.seq > this.#after) yield event
      this.#entry = lastSeq(entry)
      this.#count += 1
      this.#isAtEnd = entry.kind === 'run.finished'
      if (this.#isAtEnd) return
    }
  }

  /** Begins with a log. Returns true if the reader's place is not of it: then it begins with the first event. */
  #begin(log: RunLog): boolean {
    const { host } = this.#needs
    const { log: name, seq: after } = this.#from
    const isFirst = this.#log === undefined
    const isReset = isFirst && name !== undefined && (name !== host.logName || after >= host.seq)
    if (isFirst && !isReset) this.#after = after
    this.#log = log
    this.#fold = this.#newFold()
    this.#entry = -1
    this.#count = log.countUpTo(this.#after)
    this.#isAtEnd = false
    for (const entry of log.entries()) {
      if (entry.seq > this.#after) break
      if (entry.kind === 'run.finished') this.#isAtEnd = true
      if (lastSeq(entry) <= this.#after) passOver(entry, this.#fold)
    }
    return isReset
  }

  /** Number of entries that were discarded before they were read: at most, if the reader has begun behind others. */
  #lost(log: RunLog): number {
    if (log.forgottenTo <= Math.max(this.#after, this.#entry)) return 0
    const lost = log.forgotten - this.#count
    this.#count = log.forgotten
    return lost
  }

  #newFold(): StatusFold {
    return new StatusFold((index) => this.#needs.source().name(index))
  }
}
