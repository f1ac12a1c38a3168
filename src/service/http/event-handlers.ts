/** The events of a task, as a stream that can be gone on with. */
import type { Run, RuntimeEvent } from '../../index.ts'
import type { Handlers } from './call.ts'
import type { HttpSettings } from './options.ts'
import { type Streams, sseFrame, streamFormOf } from './streams.ts'
import { hasEnded, taskOf } from './task-view.ts'
import { type FoundTask, isOf, type Tasks } from './tasks.ts'

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
      const place = request.headers.get('last-event-id') ?? after
      const events = (signal: AbortSignal) =>
        eventsOf(run, { signal, after: place, types: types?.split(',') as Type[], deltas: deltas === '1' })
      if (hasEnded(run) && (await isRead(run, place))) return new Response(null, { status: 204 })
      return streams.respond({
        request,
        caller,
        form: streamFormOf(request) ?? 'sse',
        log: team.logName,
        events,
        left() {
          if (settings.onDisconnect === 'cancel' && isOf(run, caller)) tasks.leave(run)
        },
      })
    },
  }
}

/** Returns the frame of a task, which a stream of a new task begins with. */
export const taskFrame = async (found: FoundTask): Promise<string> => sseFrame('task', await taskOf(found, found.run))

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
