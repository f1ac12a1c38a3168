/** Events of a team as an observable. Each subscriber has its own fold, and cannot harm the others. */
import type { Observable } from 'rxjs'
import { describe } from '../../errors.ts'
import type { LogEntry } from '../log/records.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { StatusFold } from './agent-status.ts'
import type { RuntimeEvent } from './events.ts'
import { GuardedObservable } from './guarded-observable.ts'
import { type EventSource, eventsOf } from './log-events.ts'

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
