/** Events of a team as an observable. Each subscriber has its own fold, and cannot harm the others. */
import type { Observable } from 'rxjs'
import { describe } from '../../errors.ts'
import type { LogEntry } from '../log/records.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { StatusFold } from './agent-status.ts'
import { type EventSource, eventsOf, type RuntimeEvent } from './events.ts'
import { GuardedObservable } from './guarded-observable.ts'

export function eventStream(supervisor: Supervisor, source: EventSource): Observable<RuntimeEvent> {
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
    const subscription = supervisor.journal.records$.subscribe({
      next: (batch) => {
        for (const entry of batch) {
          for (const event of made(entry)) subscriber.next(event)
        }
      },
      complete: () => subscriber.complete(),
    })
    return () => subscription.unsubscribe()
  })
}
