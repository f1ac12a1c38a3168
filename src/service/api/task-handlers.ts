/** Tasks: begin, list, look, wait, cancel. */

import type { Content } from '../../actors/definition/content.ts'
import { NO_TOKENS } from '../../actors/definition/model.ts'
import {
  type Digest,
  GuardrailError,
  type Run,
  type RunOptions,
  type RunSummary,
  type RuntimeEvent,
  type Team,
  UnknownAgentError,
} from '../../index.ts'
import { foreignSchema } from '../../json-schema/foreign-schema.ts'
import { BODY_HASH, CALLER } from '../../runtime/host/run.ts'
import { readPosition, readTypes } from '../../runtime/runs/events.ts'
import { type ToldEvent, toldBy, wantedEvents } from '../../runtime/runs/told-events.ts'
import { type Columns, NONE } from '../../runtime/views/digest-line.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { CHAT_MESSAGE } from '../chat/handlers.ts'
import { listsOf } from '../digest/columns.ts'
import type { Caller } from '../http/options.ts'
import { HttpError, httpErrorOf, problemResponse } from '../http/problem.ts'
import type { Routes } from '../http/routes.ts'
import { isoTime, isoTimeOr, type Task, type TaskQuestion, type TaskSummary } from '../http/schemas.ts'
import { type StreamForm, type Streams, streamFormOf } from '../http/streams.ts'
import {
  endOf,
  type FoundTask,
  isOver,
  pathOf,
  questionsOf,
  type ServedTeam,
  steerOf,
  taskOf,
} from '../http/task-view.ts'
import {
  answerAs,
  type Call,
  cancelled,
  flushed,
  type Handlers,
  isOf,
  json,
  noThread,
  type ServedTeams,
  type Service,
  tenantOf,
  waitFor,
  written,
} from '../http/tasks.ts'
import { RESPONSE } from '../openai/responses.ts'
import type { Behind } from './cluster-lists.ts'

export const eventHandlers = ({ settings, tasks, streams }: Service) =>
  ({
    async taskEvents({ request, caller, task: { team, run }, query: { types, deltas, ...query } }) {
      const after = placeOf(request, query.after)
      // an unknown type is refused before the stream begins
      const wanted = types === undefined ? undefined : [...readTypes(types.split(',').map((each) => each.trim()))!]
      const events = (signal: AbortSignal) =>
        wantedEvents(run, { signal, after, types: wanted, deltas: deltas === '1' })
      if (isOver(run) && (await isRead(run, after))) return new Response(null, { status: 204 })
      const form = streamFormOf(request) ?? 'sse'
      return streams.respond({
        request,
        caller,
        form,
        frames: (signal) => framesOf(toldOf(team, events(signal)), { form }),
        runId: run.id,
        left() {
          if (settings.onDisconnect === 'cancel' && isOf(run, caller)) tasks.leave(run)
        },
      })
    },
  }) satisfies Partial<Handlers>

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

async function* toldOf({ logName }: Team, events: AsyncIterable<RuntimeEvent<unknown>>): AsyncGenerator<ToldEvent> {
  for await (const event of events) yield toldBy(logName, event)
}

interface Framed {
  readonly form: StreamForm
  /** The task, which is sent before the first event. */
  task?(): Promise<Task>
}

const RETRY_MS = 1_000

export async function* framesOf(events: AsyncIterable<ToldEvent>, { form, task }: Framed): AsyncGenerator<string> {
  if (form === 'sse') yield `retry: ${RETRY_MS}\n\n`
  if (task) yield sseFrame('task', await task())
  for await (const { id, type, event } of events) {
    if (form === 'sse') yield sseFrame(type, event, id)
    else yield `${JSON.stringify({ ...(id !== undefined && { id }), ...event })}\n`
  }
}

/** Returns a frame of `text/event-stream`. JSON has no line breaks, so the data is one line. */
const sseFrame = (type: string, data: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`

/**
 * Checks whether there is nothing behind that place in a run that has ended. Throws `ConfigurationError` for what is no
 * place.
 */
async function isRead(run: Run<unknown>, after: string | undefined): Promise<boolean> {
  if (after === undefined) return false
  for await (const _event of run.events({ after, follow: false })) return false
  return true
}

/** The header `Prefer` (RFC 7240): how long a client wants to wait for the end of a task. */

const MOST_S = 600

/** Returns the ms to wait: without end, if the client does not say otherwise. `applied`: the preference that is met. */
export function waitOf(request: Request): { waitMs: number; applied: string | undefined } {
  const given = request.headers.get('prefer') ?? ''
  const wait = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})"?/i.exec(given)?.[1]
  if (wait !== undefined) {
    const seconds = Math.min(Number(wait), MOST_S)
    return { waitMs: seconds * 1_000, applied: `wait=${seconds}` }
  }
  if (/(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(given)) return { waitMs: 0, applied: 'respond-async' }
  return { waitMs: Number.POSITIVE_INFINITY, applied: undefined }
}

export const questionHandlers = (teams: ServedTeams) =>
  ({
    async listQuestions({ caller }) {
      const lists = await Promise.all(teams.all.map((served) => questionsOf(served, caller)))
      const mayAll = caller.may.includes('watch')
      const isTheirs = ({ kind, refusal, agreed = [] }: TaskQuestion) =>
        kind === 'approval' && (refusal === null || agreed.some(({ id }) => id === caller.id))
      const questions = lists.flat().filter((question) => mayAll || isTheirs(question))
      return json({ questions: questions.sort((one, other) => Date.parse(one.askedAt) - Date.parse(other.askedAt)) })
    },

    async answerQuestion({ task, caller, body }) {
      await answerAs(caller, task, body)
      return new Response(null, { status: 204 })
    },

    async steerTask({ task: { run }, caller, body: { words, ...options } }) {
      const { id } = await run.steer(words, { ...options, by: { id: caller.id } }).catch(notSaid)
      return json(steerOf(run.steers.find((each) => each.id === id)!), 202)
    },
  }) satisfies Partial<Handlers>

/** Throws the refusal of words as one of the request: the task itself goes on. */
function notSaid(error: unknown): never {
  if (!(error instanceof GuardrailError || error instanceof UnknownAgentError)) throw error
  throw new HttpError(error.code, error.message, { status: 422, details: error.details })
}

export function taskHandlers({ settings, teams, tasks, keys, streams }: Service) {
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
        framesOf(toldOf(team, wantedEvents(run, { signal, after, deltas })), {
          form: 'sse',
          task: () => taskOf(found),
        }),
      runId: run.id,
      left() {
        if (onDisconnect === 'cancel') tasks.leave(run)
      },
    })
  }

  return {
    async createTask({ request, query: { deltas }, body, caller }) {
      const { team, query, options } = await startOf(body)
      const form = streamFormOf(request)
      if (deltas) options.stream ??= true // whoever reads its events, now or later
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

    async listTasks({ served, query, caller }) {
      const { team: _, before, limit, behind, ...filter } = query as typeof query & Behind
      const whose = caller.may.includes('watch') ? tenantOf(caller) : { caller: caller.id }
      const from = { ...(before && { before }), ...(behind !== undefined && { startedBefore: behind }) }
      const page = { ...filter, ...whose, ...from, limit: limit + 1 }
      const runs = await served.team.listRuns(page)
      const listed = runs.slice(0, limit).map((summary) => summaryOf(served, summary))
      return json({ tasks: listed, next: runs.length > limit ? listed.at(-1)!.id : null })
    },

    async getThread({ served, params, caller }) {
      const thread = await served.team.thread(params.id!)
      const whose = caller.may.includes('watch') ? tenantOf(caller) : { caller: caller.id }
      const runs = thread ? await served.team.listRuns({ threadId: thread.threadId, ...whose }) : []
      if (!thread || (runs.length === 0 && Object.keys(whose).length > 0)) throw noThread(params.id!)
      return json({ id: thread.threadId, team: served.name, speaker: thread.speaker, tasks: runs.map(({ id }) => id) })
    },

    async getTask({ request, task, query: { wait } }) {
      await waitFor(task.run, wait * 1_000, request.signal, tasks.ending)
      return json(await taskOf(task))
    },

    async cancelTask({ task, query: { reason }, caller }) {
      if (isOver(task.run)) return json(await taskOf(task))
      await cancelled(task, reason ?? `cancelled by "${caller.id}"`)
      const wasOver = task.run.status === 'finished' || task.run.status === 'failed' // just before
      return json(await taskOf(task), wasOver ? 200 : 202)
    },
  } satisfies Partial<Handlers>
}

const summaryOf = ({ name: team }: ServedTeam, { startedAt, endedAt, ...rest }: RunSummary): TaskSummary => ({
  ...rest,
  team,
  createdAt: isoTime(startedAt),
  endedAt: isoTimeOr(endedAt),
})

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
  [CHAT_MESSAGE]: 'the id of a message of /api/chat',
}

type TaskBody = Call<Routes['createTask']>['body']

/** Fields that put a task before others, or cost more than the team would: they take the right 'operate'. */
const TO_OPERATE: readonly [field: keyof TaskBody, isSet: (body: TaskBody) => boolean][] = [
  ['priority', ({ priority = 0 }) => priority > 0],
  ['models', ({ models = {} }) => Object.keys(models).length > 0],
]

/** @throws HttpError for a field that the caller may not set. */
export function assertMay({ id, may }: Caller, body: TaskBody): void {
  for (const [field, isSet] of TO_OPERATE)
    if (isSet(body) && !may.includes('operate'))
      throw new HttpError('FORBIDDEN', `${field}: "${id}" may not set it: it takes the right operate. Leave it out.`)
}

export async function startOf(
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

export const watchHandlers = (streams: Streams) =>
  ({
    listWaits({ served: { team } }) {
      const waits = team.waits().map(({ since, turnSince, until, ...wait }) => ({
        ...wait,
        since: isoTime(since),
        ...(turnSince !== undefined && { turnSince: isoTime(turnSince) }),
        ...(until !== undefined && { until: isoTime(until) }),
      }))
      return json({ waits, cycles: team.waitCycles() })
    },

    listTurns({ served: { team } }) {
      const turns = team.turns().map(({ since, doing, ...turn }) => ({
        ...turn,
        since: isoTime(since),
        doing: doing.map((each) => ({ ...each, since: isoTime(each.since) })),
      }))
      return json({ turns, judgement: team.judgement() })
    },

    listBudgets({ served: { team }, caller, query: { tenant = caller.tenant } }) {
      const seesAll = caller.tenant === undefined && caller.may.includes('watch')
      if (!seesAll && (tenant === undefined || tenant !== caller.tenant)) throw notTheirs(caller)
      const budgets = team
        .budgets()
        .filter((use) => tenant === undefined || use.tenant === tenant)
        .map(({ runId: taskId, freeAt, ...use }) => ({ taskId, ...use, freeAt: isoTimeOr(freeAt) }))
      return json({ budgets })
    },

    watchTeam({ request, caller, served: { team } }) {
      const form = streamFormOf(request) ?? 'sse'
      const frames = (signal: AbortSignal) => digestFrames(linesFor(caller, team, loggedLines(team, signal)), form)
      return streams.respond({ request, caller, form, frames })
    },
  }) satisfies Partial<Handlers>

const notTheirs = ({ id }: Caller): HttpError =>
  new HttpError('FORBIDDEN', `"${id}" sees the budgets of its own tenant alone; those of others take the right watch.`)

/**
 * Yields lines for a caller: one with a tenant gets what is of runs of that one, and no sums of all. Its lines have
 * places of their own for names: those that only others use never come.
 */
async function* linesFor({ tenant }: Caller, team: Team, lines: AsyncIterable<Digest>): AsyncIterable<Digest> {
  if (tenant === undefined) return yield* lines
  const isRunOfTheirs = (id: string) => team.getRun(id, { tenant }) !== undefined
  const isTheirs = ({ runId }: { runId: string }) => isRunOfTheirs(runId)
  let all: string[] = []
  let places = new Map<number, number>()
  let told: string[] = []
  const isRunAt = (at: number) => isRunOfTheirs(all[at] ?? '')
  const placeOf = (at: number): number => {
    if (at === NONE) return NONE
    if (!places.has(at)) {
      places.set(at, places.size)
      told.push(all[at]!)
    }
    return places.get(at)!
  }
  for await (const {
    names = [],
    message,
    turn,
    call,
    agent,
    waits,
    deadLetters: _,
    facts,
    snapshot,
    ...line
  } of lines) {
    if (snapshot) [all, places] = [[], new Map()]
    all.push(...names)
    told = []
    const shown = {
      ...(message && { message: rowsOf(message, isRunAt, placeOf) }),
      ...(turn && { turn: rowsOf(turn, isRunAt, placeOf) }),
      ...(call && { call: rowsOf(call, isRunAt, placeOf) }),
      ...(agent && {
        agent: { ...agent, agent: agent.agent.map(placeOf), queued: noneOf(agent), inFlight: noneOf(agent) },
      }),
    }
    yield {
      ...line,
      ...(told.length > 0 && { names: told }),
      ...shown,
      ...(waits && { waits: waits.filter(isTheirs) }),
      ...(facts && { facts: facts.filter(isTheirs) }),
      ...(snapshot && {
        snapshot: {
          ...snapshot,
          agents: snapshot.agents.map((agent) => ({ ...agent, ...NO_SUMS })),
          runs: snapshot.runs.filter(({ id }) => isRunOfTheirs(id)),
          questions: snapshot.questions.filter(isTheirs),
          waits: snapshot.waits.filter(isTheirs),
          deadLetters: 0,
        },
      }),
    }
  }
}

const NO_SUMS = { usage: NO_TOKENS, queued: 0, inFlight: 0, turns: 0, failedTurns: 0, toolCalls: 0 }

const noneOf = ({ agent }: { agent: number[] }): number[] => agent.map(() => 0)

/** Columns of places in the table of names. */
const OF_NAMES: ReadonlySet<string> = new Set(['run', 'from', 'to', 'agent', 'name'])

/** Returns the rows of a table that are of some runs, with other places for their names. */
function rowsOf<Name extends string>(
  table: Columns<Name | 'run'>,
  isOfRun: (run: number) => boolean,
  placeOf: (name: number) => number,
): Columns<Name | 'run'> {
  const lists = listsOf(table)
  const runs = new Set([...new Set(lists.run)].filter(isOfRun))
  const rows = [...lists.run.keys()].filter((row) => runs.has(lists.run[row]!))
  const columns = Object.entries<readonly number[]>(lists).map(([name, list]) => {
    const kept = rows.map((row) => list[row]!)
    return [name, OF_NAMES.has(name) ? kept.map(placeOf) : kept]
  })
  return { rows: rows.length, ...Object.fromEntries(columns) }
}

/**
 * Yields the lines of a team. One that has a question waits until the durable log has it, and so do those behind it:
 * what somebody has seen is still asked after a crash.
 */
export async function* loggedLines(team: Team, signal: AbortSignal): AsyncGenerator<Digest> {
  for await (const line of team.watch({ signal })) {
    if (hasQuestion(line) && !signal.aborted) await flushed(team, (over) => onAbort(signal, over))
    if (signal.aborted) return
    yield line
  }
}

const hasQuestion = ({ facts = [], snapshot }: Digest): boolean =>
  facts.some(({ type }) => type === 'question') || (snapshot !== undefined && snapshot.questions.length > 0)

/** Yields lines of a digest as they are sent. They have no ids: who comes back gets the state of the team first. */
export async function* digestFrames(lines: AsyncIterable<Digest>, form: StreamForm): AsyncGenerator<string> {
  for await (const line of lines)
    yield form === 'sse' ? `event: digest\ndata: ${textOf(line)}\n\n` : `${textOf(line)}\n`
}

/** Lines as JSON, which is made once for all who watch. */
const texts = new WeakMap<Digest, string>()

function textOf(line: Digest): string {
  const known = texts.get(line)
  if (known !== undefined) return known
  const text = JSON.stringify(line)
  texts.set(line, text)
  return text
}
