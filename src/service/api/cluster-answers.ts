/** Pieces of answers about teams over several processes: refusals, waits that end, what is passed on as it is. */
import { NO, YES } from '../../actors/definition/approval.ts'
import { DramatisError, type Team } from '../../index.ts'
import { MOVED } from '../../runtime/cluster/address.ts'
import { isCurrent } from '../../runtime/cluster/run-events.ts'
import { readTypes } from '../../runtime/runs/events.ts'
import type { ToldEvent, Wanted } from '../../runtime/runs/told-events.ts'
import { systemClock } from '../../shared/clock.ts'
import { describe } from '../../shared/errors.ts'
import { anyAborted } from '../../shared/on-abort.ts'
import { digestOf } from '../../shared/random.ts'
import type { Caller } from '../http/options.ts'
import { HttpError } from '../http/problem.ts'
import type { Operation, Route } from '../http/routes.ts'
import { isoTime, type Task } from '../http/schemas.ts'
import { remoteAddress } from '../http/streams.ts'
import type { ServedCluster } from '../http/tasks.ts'
import { taskIdOf } from '../openai/responses.ts'

/** Time for which a request waits for an owner, in ms: a frozen one is found after `cluster.times.ttlMs`. */
export const OWNER_MS = 20_000
const RETRY_AFTER_S = '2'
const PASSED = ['content-type', 'content-disposition', 'retry-after', 'location', 'x-content-type-options']

/** Asks the engine, which may be away: not for ever. @throws HttpError */
export async function bounded<T>(left: AbortSignal, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController()
  const timer = systemClock.timer(OWNER_MS, () => late.abort(new Error('its database does not answer')))
  const { signal, forget } = anyAborted([left, late.signal])
  try {
    return await ask(signal)
  } catch (error) {
    if (error instanceof DramatisError || error instanceof HttpError) throw error
    throw away(`The cluster takes nothing now: ${describe(error)}.`)
  } finally {
    timer.cancel()
    forget()
  }
}

/** @throws HttpError where a log cannot be written now, which holds up what is read from it. */
export async function inTime(answer: Promise<Response>): Promise<Response> {
  const given = await soon(answer, OWNER_MS)
  if (given) return given
  throw away('The log of a shard cannot be written now.')
}

/** Resolves to nothing after that many ms. */
async function soon<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const enough = new AbortController()
  const late = systemClock.sleep(ms, enough.signal).then(
    () => undefined,
    () => undefined,
  )
  return Promise.race([work, late]).finally(() => enough.abort())
}

export async function* toNobody(): AsyncGenerator<string> {}

export const moved = (): Response => new Response(null, { status: 503, headers: { [MOVED]: '1' } })

export const away = (detail: string): HttpError =>
  new HttpError('SHARD_AWAY', detail, { headers: { 'retry-after': RETRY_AFTER_S } })

export function needsShard({ name }: ServedCluster): HttpError {
  const detail = `Team "${name}" runs over several processes: name one of its shards (shard=0).`
  return new HttpError('CONFIGURATION', detail, { details: { path: 'shard' } })
}

/** A view of all shards is one for all who watch: it cannot leave out what others ask. */
export function ofAllTenants({ name }: ServedCluster): HttpError {
  const detail = `Team "${name}" has one live view for callers of all tenants: name one of its shards (shard=0).`
  return new HttpError('FORBIDDEN', detail, { details: { path: 'shard' } })
}

export function noShard({ name, team }: ServedCluster, shard: number): HttpError {
  const detail = `shard: got ${shard}; team "${name}" has the shards 0 to ${team.shards - 1}.`
  return new HttpError('CONFIGURATION', detail, { details: { path: 'shard' } })
}

export function passed(response: Response): Response {
  const headers = new Headers()
  for (const name of PASSED) {
    const value = response.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  return new Response(response.body, { status: response.status, headers })
}

/** A task that is accepted, and that no owner of its shard has begun yet. */
export function queuedTask(id: string, team: string, query: string): Task {
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const ended = {
    endedAt: null,
    answer: null,
    data: null,
    money: null,
    cost: null,
    error: null,
    rehearsed: false,
    speaker: null,
  }
  const lists = { failures: [], subTasks: [], questions: [], steers: [], usage, usageByAgent: {} }
  return { id, team, query, status: 'queued', createdAt: isoTime(systemClock.now()), ...ended, ...lists }
}

/** Words about a caller for others: `authorize` may have put more into it, which is its own. */
export const nameOf = ({ id, may, tenant, groups }: Caller): Caller => ({
  id,
  may,
  ...(tenant !== undefined && { tenant }),
  ...(groups && { groups }),
})

/** Checks whether a request has come from this machine, as far as that is known. */
export function isOfThisMachine(request: Request): boolean {
  const address = remoteAddress(request)
  return address === undefined || /^(::1|(::ffff:)?127\.[\d.]+)$/.test(address)
}

/** Checks whether anything is told. */
export async function hasAny(told: (signal: AbortSignal) => AsyncGenerator<ToldEvent>): Promise<boolean> {
  const enough = new AbortController()
  try {
    for await (const _ of told(enough.signal)) return true
    return false
  } finally {
    enough.abort()
  }
}

export const isEnded = ({ status }: Task): boolean =>
  status === 'finished' || status === 'failed' || status === 'aborted'

/** Returns a request as it is sent on. */
export function requestOf({ request, path, text }: { request: Request; path: string; text: string }) {
  const headers = new Headers({ accept: request.headers.get('accept') ?? '*/*' })
  for (const name of ['content-type', 'last-event-id']) {
    const value = request.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  const method = request.method === 'HEAD' ? 'GET' : request.method // what is asked for is made of the other's answer
  return { method, path, body: Buffer.from(text), headers }
}

export const whole = (response: Response): Response => response

/**
 * Resolves to the answer of an owner, or its error; to nothing if it is the owner no more, or if its log cannot be
 * written now.
 */
export async function currentAnswer(
  team: Team,
  { query }: { query: Readonly<Record<string, unknown>> },
  answer: Promise<Response>,
): Promise<Response | { error: unknown } | undefined> {
  const given = answer.catch((error: unknown) => ({ error }))
  const current = given.then(async (each) => ((await isCurrent(team)) ? each : undefined))
  return soon(current, OWNER_MS + 1_000 * Number(query.wait ?? 0))
}

/** Id of the task that a request is about. */
export function taskIn({
  name,
  route,
  params,
}: {
  name: Operation
  route: Route
  params: Readonly<Record<string, string>>
}): string | undefined {
  if (route.others) return params.id
  return name === 'getResponse' || name === 'cancelResponse' ? taskIdOf(params.id ?? '') : undefined
}

/** An unknown type is refused before the stream begins. */
export function wantedIn({ types, deltas }: Readonly<Record<string, unknown>>): Pick<Wanted, 'types' | 'deltas'> {
  const names = typeof types === 'string' ? types.split(',').map((each) => each.trim()) : undefined
  return { types: names && [...readTypes(names)!], deltas: deltas === '1' }
}

/** A request to answer a question that was kept for the owner of its run. */
interface KeptAnswer {
  readonly name: Operation
  readonly params: Readonly<Record<string, string>>
  readonly caller: Caller
  readonly body?: unknown
}

type Answered = { questionId: string; digest?: string; answer: string | { approved: boolean; input?: unknown } }

/** Checks whether a question was answered by that caller with that answer already: its owner had no time to say so. */
export async function isAnswered(team: Team, { name, params, caller, body }: KeptAnswer): Promise<boolean> {
  if (name !== 'answerQuestion') return false
  const { questionId, answer, digest } = body as Answered
  const { approved = answer === YES, input } = typeof answer === 'string' ? {} : answer
  const given = typeof answer === 'string' ? answer : approved ? YES : NO
  const run = team.getRun(params.id!)
  let isTaken = false
  for await (const event of run?.events({ types: ['question.voted', 'question.closed'], follow: false }) ?? []) {
    if (!('questionId' in event) || event.questionId !== questionId) continue
    if (event.type === 'question.closed')
      return isTaken || (event.answer === given && event.by?.at(-1)?.id === caller.id)
    if (event.type !== 'question.voted' || event.by !== caller.id || !approved) continue
    isTaken ||= event.digest === digest || (input !== undefined && digestOf(event.input) === digestOf(input))
  }
  return isTaken
}
