/** Tasks: begin, list, look, wait, cancel. */
import type { Content } from '../../actors/definition/content.ts'
import type { RunOptions, RunSummary } from '../../index.ts'
import { foreignSchema } from '../../json-schema/foreign-schema.ts'
import { BODY_HASH, CALLER } from '../../runtime/state/caller.ts'
import { RESPONSE } from '../openai/responses.ts'
import { type Call, type Handlers, json } from './call.ts'
import { eventsOf, framesOf, isRead, placeOf } from './event-handlers.ts'
import type { IdempotencyKeys } from './idempotency.ts'
import { isoTime, isoTimeOr } from './iso-time.ts'
import type { Caller, HttpSettings } from './options.ts'
import { waitOf } from './prefer.ts'
import { HttpError, httpErrorOf, problemResponse } from './problem.ts'
import type { Routes } from './routes.ts'
import { endOf, isOver } from './run-ends.ts'
import type { Task, TaskSummary } from './schemas.ts'
import type { ServedTeams } from './served-teams.ts'
import { type Streams, streamFormOf } from './streams.ts'
import { type FoundTask, pathOf, type ServedTeam, taskOf } from './task-view.ts'
import { type Tasks, waitFor, written } from './tasks.ts'

interface Needs {
  readonly settings: HttpSettings
  readonly teams: ServedTeams
  readonly tasks: Tasks
  readonly keys: IdempotencyKeys
  readonly streams: Streams
}

type Own = 'createTask' | 'listTasks' | 'getTask' | 'cancelTask'

export function taskHandlers({ settings, teams, tasks, keys, streams }: Needs): Pick<Handlers, Own> {
  const { basePath, onDisconnect } = settings

  /** Answers with a task that is not over, and says where it is. */
  const accepted = async (found: FoundTask, headers: Record<string, string>): Promise<Response> => {
    const location = `${basePath}${pathOf(found.run.id)}`
    return json(await taskOf(found), 202, { ...headers, location })
  }

  /** Answers with the task, and then with what happens in it. */
  const streamed = async (
    found: FoundTask,
    request: Request,
    caller: Caller,
    deltas: boolean,
    isKeyed: boolean,
  ): Promise<Response> => {
    const { team, run } = found
    const after = placeOf(request)
    if (isKeyed && isOver(run) && (await isRead(run, after))) return new Response(null, { status: 204 })
    return streams.respond({
      request,
      caller,
      form: 'sse',
      frames: (signal) =>
        framesOf(eventsOf(run, { signal, after, deltas }), { form: 'sse', log: team.logName, task: found }),
      left() {
        if (onDisconnect === 'cancel') tasks.leave(run)
      },
    })
  }

  return {
    async createTask({ request, query: { deltas }, body, caller }) {
      const { team, query, options } = await startOf(body)
      const form = streamFormOf(request)
      if (form && deltas) options.stream ??= true
      const key = keys.taskOf(request, caller.id, body)
      const begun = key && (await tasks.begunBy(key)) // its body says what the caller might set
      if (!begun) assertMay(caller, body)
      const served = begun ?? teams.named(team)
      const { waitMs, applied } = waitOf(request)
      const isRepeated = begun !== undefined || (key !== undefined && keys.hasBegun(key))
      const start = () => tasks.start({ served, query, options, caller, request, keyed: key })
      const found = key ? await keys.begin(key, () => tasks.isKnown(key.id), start) : await start()
      const headers: Record<string, string> = {
        ...(isRepeated && { 'idempotency-replayed': 'true' }),
        ...(applied && { 'preference-applied': applied }),
      }
      if (form === 'sse') {
        await written(found) // a client that is cut off behind the first frame finds it
        return streamed(found, request, caller, deltas === '1', key !== undefined)
      }
      if (await waitFor(found.run, waitMs, request.signal, tasks.ending)) return ended(found, headers)
      if (request.signal.aborted) {
        if (onDisconnect === 'cancel' || (onDisconnect === 'auto' && !key)) tasks.leave(found.run)
        return accepted(found, headers) // nobody reads it
      }
      await written(found) // so does one that reads 202
      return accepted(found, headers)
    },

    async listTasks({ query: { team, before, limit, ...filter }, caller }) {
      const served = teams.named(team)
      const whose = caller.may.includes('watch') ? {} : { caller: caller.id }
      const page = { ...filter, ...whose, ...(before && { before }), limit: limit + 1 }
      const runs = await served.team.listRuns(page)
      const listed = runs.slice(0, limit).map((summary) => summaryOf(served, summary))
      return json({ tasks: listed, next: runs.length > limit ? listed.at(-1)!.id : null })
    },

    async getTask({ request, task, query: { wait } }) {
      await waitFor(task.run, wait * 1_000, request.signal, tasks.ending)
      return json(await taskOf(task))
    },

    async cancelTask({ task, query: { reason }, caller }) {
      if (isOver(task.run)) return json(await taskOf(task))
      const { run, team } = task
      void run.cancel(reason ?? `cancelled by "${caller.id}"`)
      // Once its end is in the log, no restart goes on with it. Another end may have come just before.
      await Promise.all([endOf(run), team.flush().catch(() => {})])
      const wasOver = run.status === 'finished' || run.status === 'failed'
      return json(await taskOf(task), wasOver ? 200 : 202)
    },
  }
}

const summaryOf = ({ name: team }: ServedTeam, { startedAt, endedAt, ...rest }: RunSummary): TaskSummary => ({
  ...rest,
  team,
  createdAt: isoTime(startedAt),
  endedAt: isoTimeOr(endedAt),
})

/** Answers a client that has waited for the end. */
async function ended(found: FoundTask, headers: Record<string, string>): Promise<Response> {
  const task: Task = await taskOf(found)
  const { error } = await endOf(found.run)
  if (!error) return json(task, 200, headers)
  const httpError = httpErrorOf(error)!
  const failed = new HttpError(httpError.code, httpError.message, {
    status: found.run.status === 'interrupted' ? 503 : httpError.status,
    details: httpError.details,
    headers: { ...httpError.headers, ...headers },
  })
  return problemResponse(failed, pathOf(task.id), { task })
}

/** Fields of the metadata that are the API's own. */
const OWN_FIELDS = {
  [CALLER]: 'the id of the caller',
  [BODY_HASH]: 'the hash of a body with an Idempotency-Key',
  [RESPONSE]: 'what a request of /v1/responses asks for',
}

type TaskBody = Call<Routes['createTask']>['body']

/** Fields that put a task before others, or cost more than the team would: they take the right 'operate'. */
const TO_OPERATE: readonly [field: keyof TaskBody, isSet: (body: TaskBody) => boolean][] = [
  ['priority', ({ priority = 0 }) => priority > 0],
  ['models', ({ models = {} }) => Object.keys(models).length > 0],
]

/** @throws HttpError for a field that the caller may not set. */
function assertMay({ id, may }: Caller, body: TaskBody): void {
  for (const [field, isSet] of TO_OPERATE)
    if (isSet(body) && !may.includes('operate'))
      throw new HttpError('FORBIDDEN', `${field}: "${id}" may not set it: it takes the right operate. Leave it out.`)
}

/** Reads what a task is to be begun with. */
async function startOf(
  body: TaskBody,
): Promise<{ team: string | undefined; query: string | Content; options: RunOptions<unknown> }> {
  const { team, query, task, message, output, metadata, ...options } = body
  for (const [name, what] of Object.entries(OWN_FIELDS))
    if (metadata && Object.hasOwn(metadata, name))
      throw new HttpError('CONFIGURATION', `metadata.${name}: the API sets it to ${what}; use another name.`)
  return {
    team,
    query: (query ?? task ?? message)!,
    options: { ...options, ...(metadata && { metadata }), ...(output && { output: await schemaOf(output) }) },
  }
}

async function schemaOf(output: Record<string, unknown>): Promise<NonNullable<RunOptions<unknown>['output']>> {
  try {
    return await foreignSchema(output)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new HttpError('CONFIGURATION', `output: it is no JSON Schema that can be used: ${why.slice(0, 500)}`)
  }
}
