/** The events of a task, as a stream that can be gone on with. */
import type { Run, RuntimeEvent } from '../../index.ts'
import { readPosition } from '../../runtime/runs/event-position.ts'
import { readTypes } from '../../runtime/runs/event-types.ts'
import { toldEvent } from '../told-parts.ts'
import type { Handlers } from './call.ts'
import type { HttpSettings } from './options.ts'
import { isOver } from './run-ends.ts'
import { type StreamForm, type Streams, streamFormOf } from './streams.ts'
import { type FoundTask, taskOf } from './task-view.ts'
import { isOf, type Tasks } from './tasks.ts'

interface Needs {
  readonly settings: HttpSettings
  readonly tasks: Tasks
  readonly streams: Streams
}

type Type = RuntimeEvent['type']

/** Events that only who asks for them gets: pieces of answers. */
const DELTAS: readonly Type[] = ['output.delta', 'model.delta', 'model.superseded']
const ALWAYS: readonly Type[] = ['reset', 'gap']

export function eventHandlers({ settings, tasks, streams }: Needs): Pick<Handlers, 'taskEvents'> {
  return {
    async taskEvents({ request, caller, task, query: { types, after, deltas } }) {
      const { team, run } = task
      const place = placeOf(request, after)
      const wanted = types === undefined ? undefined : typesIn(types)
      const events = (signal: AbortSignal) =>
        eventsOf(run, { signal, after: place, types: wanted, deltas: deltas === '1' })
      if (isOver(run) && (await isRead(run, place))) return new Response(null, { status: 204 })
      return streams.respond({
        request,
        caller,
        form: streamFormOf(request) ?? 'sse',
        frames: (signal) => framesOf(events(signal), { form: streamFormOf(request) ?? 'sse', log: team.logName }),
        left() {
          if (settings.onDisconnect === 'cancel' && isOf(run, caller)) tasks.leave(run)
        },
      })
    },
  }
}

/**
 * Reads a list of types of events.
 *
 * @throws ConfigurationError for one that there is not, before the stream begins.
 */
const typesIn = (list: string): Type[] => [...readTypes(list.split(',').map((each) => each.trim()))!]

/**
 * Returns the id of the event that a client has seen last.
 *
 * @throws ConfigurationError for what is no id of an event: a stream that has begun could not say so.
 */
export function placeOf(request: Request, after?: string): string | undefined {
  const place = request.headers.get('last-event-id') ?? after
  if (place !== undefined) readPosition(place)
  return place
}

interface Framed {
  readonly form: StreamForm
  /** Name of the log that numbers the events. */
  readonly log: string | undefined
  /** Task that is sent before the first event. */
  readonly task?: FoundTask
}

const RETRY_MS = 1_000

/** Yields events as they are sent. */
export async function* framesOf(
  events: AsyncIterable<RuntimeEvent<unknown>>,
  { form, log, task }: Framed,
): AsyncGenerator<string> {
  if (form === 'sse') yield `retry: ${RETRY_MS}\n\n`
  if (task) yield sseFrame('task', await taskOf(task))
  for await (const event of events) {
    const id = log === undefined ? undefined : `${log}.${event.seq}`
    const told = toldEvent(event)
    if (form === 'sse') yield sseFrame(event.type, told, id)
    else yield `${JSON.stringify({ ...(id !== undefined && { id }), ...told })}\n`
  }
}

/** Returns a frame of `text/event-stream`. JSON has no line breaks, so the data is one line. */
const sseFrame = (type: string, data: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`

interface Wanted {
  readonly signal: AbortSignal
  readonly after: string | undefined
  readonly types?: Type[] | undefined
  readonly deltas: boolean
}

export async function* eventsOf(
  run: Run<unknown>,
  { signal, after, types, deltas }: Wanted,
): AsyncGenerator<RuntimeEvent<unknown>> {
  const wanted = types && [...types, ...ALWAYS]
  for await (const event of run.events({ signal, after, ...(wanted && { types: wanted }) }))
    if (deltas || !DELTAS.includes(event.type)) yield event
}

/**
 * Checks whether there is nothing behind that place in a run that has ended. Throws `ConfigurationError` for what is no
 * place.
 */
export async function isRead(run: Run<unknown>, after: string | undefined): Promise<boolean> {
  if (after === undefined) return false
  for await (const _event of run.events({ after, follow: false })) return false
  return true
}
