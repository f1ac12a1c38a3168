/** Events of a team as an observable. Each subscriber has its own fold, and cannot harm the others. */

import type { Observer, Operator, Subscription } from 'rxjs'
import { describe } from '../../shared/errors.ts'
import type { RunState } from '../host/run.ts'
import { type LogEntry, Observable, Subscriber } from '../log/records.ts'
import { lastSeq, type RunLog } from '../log/run-log.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { EventPosition, RuntimeEvent } from './events.ts'
import { type EventSource, eventsOf, passOver, StatusFold } from './log-events.ts'

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

/*
 * Observable whose subscribers cannot harm the process. RxJS rethrows an error of a subscriber on an empty stack, which
 * ends a service. Here the error is reported to a logger, and only that subscription is closed.
 */

type Report = (error: unknown) => void

class GuardedObservable<T> extends Observable<T> {
  readonly #report: Report

  constructor(report: Report, subscribe?: (subscriber: Subscriber<T>) => (() => void) | void) {
    super(subscribe)
    this.#report = report
  }

  /** Guards the observables that `pipe` makes as well. */
  override lift<R>(operator?: Operator<T, R>): Observable<R> {
    const lifted = new GuardedObservable<R>(this.#report)
    lifted.source = this
    if (operator) lifted.operator = operator
    return lifted
  }

  override subscribe(
    observerOrNext?: Partial<Observer<T>> | ((value: T) => void) | null,
    error?: ((error: unknown) => void) | null,
    complete?: (() => void) | null,
  ): Subscription {
    if (observerOrNext instanceof Subscriber) return super.subscribe(observerOrNext)
    const observer: Partial<Observer<T>> =
      typeof observerOrNext === 'function'
        ? { next: observerOrNext, error: error ?? undefined, complete: complete ?? undefined }
        : (observerOrNext ?? {})
    let closed = false
    let subscription: Subscription | undefined // not set while the source emits synchronously
    const failed = (thrown: unknown) => {
      if (closed) return
      closed = true
      this.#report(thrown)
      subscription?.unsubscribe()
    }
    const guard =
      <A extends unknown[]>(call: ((...args: A) => unknown) | undefined) =>
      (...args: A) => {
        if (closed) return
        try {
          const outcome = call?.apply(observer, args)
          if (outcome instanceof Promise) outcome.catch(failed)
        } catch (thrown) {
          failed(thrown)
        }
      }
    subscription = super.subscribe({
      next: guard(observer.next),
      error: observer.error ? guard(observer.error) : failed, // an operator threw, and nobody else reports it
      complete: guard(observer.complete),
    })
    if (closed) subscription.unsubscribe()
    return subscription
  }
}

interface Source extends EventSource {
  /** Resolves when all that was logged until now is written; undefined without a durable log. */
  written(): Promise<void> | undefined
}

export function eventStream(supervisor: Supervisor, source: Source): Observable<RuntimeEvent> {
  const report = (error: unknown) =>
    supervisor.logger.error({ error: describe(error) }, 'a subscriber of team.events threw; its subscription is closed')
  return new GuardedObservable<RuntimeEvent>(report, (subscriber) => {
    const fold = new StatusFold((index) => supervisor.directory.name(index))
    // Events contain data from threads. An event that cannot be built must not end the stream, nor the process.
    const made = (entry: LogEntry): RuntimeEvent[] => {
      const events: RuntimeEvent[] = []
      try {
        for (const event of eventsOf(entry, source, fold)) events.push(supervisor.redactor.data(event) as RuntimeEvent)
      } catch (error) {
        supervisor.logger.error({ error: describe(error) }, 'an event could not be told to a subscriber of team.events')
      }
      return events
    }
    /** Entries behind the end of a run that the durable log does not have yet. */
    let held: LogEntry[] | undefined
    let isOver = false
    const tell = (entries: readonly LogEntry[]): void => {
      for (const [at, entry] of entries.entries()) {
        const writing = entry.kind === 'run.finished' ? source.written() : undefined
        if (writing) {
          held = entries.slice(at)
          const written = () => goOn()
          writing.then(written, written) // a result that could not be written is another one by then
          return
        }
        for (const event of made(entry)) subscriber.next(event)
      }
      if (isOver) subscriber.complete()
    }
    const goOn = () => {
      const [ended, ...others] = held ?? []
      held = undefined
      for (const event of ended ? made(ended) : []) subscriber.next(event)
      tell(others)
    }
    const subscription = supervisor.journal.records$.subscribe({
      next: (batch) => {
        if (held) held.push(...batch)
        else tell(batch)
      },
      complete: () => {
        isOver = true
        if (!held) subscriber.complete()
      },
    })
    return () => subscription.unsubscribe()
  })
}
