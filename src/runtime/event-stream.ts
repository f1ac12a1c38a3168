/** What happens in a team, as an observable. Each subscriber has a fold of its own, and cannot hurt the others. */
import type { Observable } from 'rxjs'
import { describe } from '../errors.ts'
import { type EventSource, eventsOf, type RuntimeEvent } from './events.ts'
import { GuardedObservable } from './guarded-observable.ts'
import { StatusFold } from './status-fold.ts'
import type { Supervisor } from './supervisor.ts'

export function eventStream(supervisor: Supervisor, source: EventSource): Observable<RuntimeEvent> {
  const report = (error: unknown) =>
    supervisor.logger.error({ error: describe(error) }, 'a subscriber of team.events threw; its subscription is closed')
  return new GuardedObservable<RuntimeEvent>(report, (subscriber) => {
    const fold = new StatusFold((index) => supervisor.name(index))
    const subscription = supervisor.records$.subscribe({
      next: (batch) => {
        for (const entry of batch)
          for (const event of eventsOf(entry, source, fold))
            subscriber.next(supervisor.redactor.data(event) as RuntimeEvent)
      },
      complete: () => subscriber.complete(),
    })
    return () => subscription.unsubscribe()
  })
}
