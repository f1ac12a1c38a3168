/** Events of a team as an observable. Each subscriber has its own fold, and cannot harm the others. */

import type { Observer, Operator, Subscription } from 'rxjs'
import { describe } from '../../shared/errors.ts'
import { type LogEntry, Observable, Subscriber } from '../log/records.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { RuntimeEvent } from './events.ts'
import { eventsOf, StatusFold } from './log-events.ts'
import type { RunViews } from './run-handle.ts'

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

export function eventStream(supervisor: Supervisor, source: RunViews): Observable<RuntimeEvent> {
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
