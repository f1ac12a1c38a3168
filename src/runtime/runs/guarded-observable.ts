/**
 * Observable whose subscribers cannot harm the process. RxJS rethrows an error of a subscriber on an empty stack, which
 * ends a service. Here the error is reported to a logger, and only that subscription is closed.
 */
import type { Observer, Operator, Subscription } from 'rxjs'
import { Observable, Subscriber } from '../log/rx.ts'

type Report = (error: unknown) => void

export class GuardedObservable<T> extends Observable<T> {
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
