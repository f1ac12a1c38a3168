/**
 * The tasks that callers have begun: whose they are, how many of them are open, and what becomes of those whose client
 * has left. A task belongs to the caller that its metadata name, so it does after a restart, too.
 */

import { createHash } from 'node:crypto'
import { v4, v5 } from 'uuid'
import type { z } from 'zod'
import type { Content } from '../../actors/definition/content.ts'
import type { MultiAgentResult, Run, RunOptions, Team } from '../../index.ts'
import type { ClusterTeam } from '../../runtime/cluster/cluster-team.ts'
import { BODY_HASH, CALLER, callerIn } from '../../runtime/host/run.ts'
import type { RunOwner } from '../../runtime/runs/run.ts'
import { untilAsked } from '../../runtime/runs/run-handle.ts'
import { refusedAs } from '../../shared/checks.ts'
import { type Timer, timerBehind } from '../../shared/clock.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { type Caller, Estimates, type HttpLimits, type HttpSettings, isClusterTeam, type Right } from './options.ts'
import { HttpError, refusalFor } from './problem.ts'
import type { Operation, Route, Routes } from './routes.ts'
import type { answerRequest } from './schemas.ts'
import { firstOf, OpenByCaller, type Streams, type Unread, type Wait } from './streams.ts'
import { endOf, type FoundTask, hasEnded, knownEndOf, onEnd, type ServedTeam } from './task-view.ts'

/** A request as a handler gets it, with all that is checked of it. */
export interface Call<R extends Route = Route> {
  readonly request: Request
  readonly params: Readonly<Record<string, string>>
  readonly query: z.infer<R['query']>
  readonly body: R['body'] extends z.ZodType ? z.infer<R['body']> : undefined
  readonly caller: Caller
  /** The task that the path names, in a route that says so. */
  readonly task: R['others'] extends readonly Right[] ? FoundTask : undefined
  /** The team that the query names, or the first one, in a route that asks for one. */
  readonly served: R['query'] extends { shape: { team: unknown } } ? ServedTeam : undefined
}

/** Everything that handlers work with. */
export interface Service {
  readonly settings: HttpSettings
  readonly teams: ServedTeams
  readonly tasks: Tasks
  readonly keys: IdempotencyKeys
  readonly unread: Unread
  readonly streams: Streams
}

export type Handlers = {
  readonly [Name in Operation]: (call: Call<Routes[Name]>) => Response | Promise<Response>
}

export const json = (value: unknown, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json', ...headers } })

/*
 * Idempotency keys: a request that is sent again with the same key is answered by the task that the first one began.
 * Source: IETF draft-ietf-httpapi-idempotency-key-header-07.
 */

export interface KeyedTask {
  readonly id: string
  /** Hash of the body that begins it. */
  readonly hash: string
}

/** Namespace of the ids of tasks that were begun with an idempotency key. */
const KEYED = '6f1c3c0e-52a4-4f0b-9d4b-6a1c8f0a7d11'

const KEY = /^[\x21-\x7e]{1,255}$/

/**
 * Returns the task of a key. It is the same after a restart: a durable log does not begin it twice. Who knows its id
 * may not see it by that alone.
 */
export const keyedTask = (key: readonly string[], body: unknown): KeyedTask => ({
  id: v5(JSON.stringify(key), KEYED),
  hash: createHash('sha256').update(JSON.stringify(body)).digest('base64'),
})

export class IdempotencyKeys {
  readonly #most: number
  /** Hashes of the bodies that have begun a task, by its id, the newest at the end. */
  readonly #begun = new Map<string, string>()

  readonly #beginning = new Set<string>()

  constructor({ idempotencyKeys }: Pick<HttpLimits, 'idempotencyKeys'>) {
    this.#most = idempotencyKeys
  }

  /**
   * Returns the task that belongs to the key of a request; undefined for a request without a key.
   *
   * @throws HttpError for a key that is none.
   */
  taskOf(request: Request, caller: string, body: unknown): KeyedTask | undefined {
    const given = request.headers.get('idempotency-key')
    if (given === null) return undefined
    const key = given.replace(/^"(.*)"$/, '$1') // a string of Structured Fields, as the draft wants it
    if (!KEY.test(key)) {
      const detail = 'Idempotency-Key: accepted are 1 to 255 visible ASCII characters, such as a UUID.'
      throw new HttpError('BAD_REQUEST', detail)
    }
    return keyedTask([caller, key], body)
  }

  /** Checks whether a request with that key has begun its task, or begins it now. */
  hasBegun({ id }: KeyedTask): boolean {
    return this.#begun.has(id)
  }

  /**
   * Begins the task of a key, or joins it while another request begins it. `isKnown` checks whether some team has it.
   *
   * @throws HttpError for another body, and for a task that was begun and is forgotten: a request that is sent again
   * must not do a thing twice.
   */
  async begin<T>({ id, hash }: KeyedTask, isKnown: () => boolean, start: () => Promise<T>): Promise<T> {
    const begun = this.#begun.get(id)
    if (begun !== undefined && begun !== hash) throw otherBody()
    if (begun !== undefined && !this.#beginning.has(id) && !isKnown()) throw forgotten()
    this.#begun.delete(id) // so that it becomes the newest
    this.#begun.set(id, hash)
    if (this.#begun.size > this.#most) this.#begun.delete(this.#begun.keys().next().value!)
    this.#beginning.add(id)
    try {
      return await start()
    } finally {
      this.#beginning.delete(id)
      if (!isKnown()) this.#begun.delete(id) // it was refused
    }
  }

  clear(): void {
    this.#begun.clear()
  }
}

/**
 * Begins the task of a key, or joins it.
 *
 * @throws HttpError, as `begin` of the keys does, and `begunBy` of the tasks.
 */
export async function beginOnce(
  { tasks, keys }: Pick<Service, 'tasks' | 'keys'>,
  { keyed, caller, ...start }: TaskStart & { keyed: KeyedTask },
): Promise<FoundTask> {
  if (await tasks.begunBy(keyed)) return tasks.find(keyed.id, caller, [])
  return keys.begin(
    keyed,
    () => tasks.isKnown(keyed.id),
    () => tasks.start({ ...start, caller, keyed }),
  )
}

/** Cancels a task. Once it resolves, its end is in the log: no restart goes on with it. */
export async function cancelled({ run, team }: Pick<FoundTask, 'run' | 'team'>, reason: string): Promise<void> {
  void run.cancel(reason)
  await Promise.all([endOf(run), team.flush().catch(() => {})])
}

/** @throws HttpError for another body. */
async function assertSameBody(run: Run<unknown>, hash: string): Promise<void> {
  await knownEndOf(run) // one that is read from the log has its metadata then
  if (Object.hasOwn(run.metadata, BODY_HASH) && run.metadata[BODY_HASH] !== hash) throw otherBody()
}

const forgotten = (): HttpError =>
  new HttpError(
    'CONFLICT',
    'Idempotency-Key: the task of this key was begun, and is not kept any more. It is not begun again; use a new key for that. A durable log keeps tasks longer (stateManagement), and their keys (keep.keysMs).',
  )

export const otherBody = (): HttpError =>
  new HttpError(
    'MESSAGE_REJECTED',
    'Idempotency-Key: this key was sent with another body. Use a new key for another task.',
    { status: 422 },
  )

export class ServedTeams {
  /** Teams in this process alone. */
  readonly own: readonly ServedTeam[]
  readonly clusters: readonly ServedCluster[]
  readonly #names: readonly string[]

  constructor({ teams, prices, approveOwn }: Pick<HttpSettings, 'teams' | 'prices' | 'approveOwn'>) {
    const ofAll = { prices: prices && new Estimates(prices), approveOwn }
    const all = [...teams]
    const priced = all.find(([, team]) => (isClusterTeam(team) ? team.pattern : team).currency !== null)
    if (prices && priced)
      throw refusedAs('prices', `prices beside those of team "${priced[0]}"`, 'none here', 'Prices stand in one place.')
    this.own = all.flatMap(([name, team]) => (isClusterTeam(team) ? [] : [{ name, team, ...ofAll }]))
    this.clusters = all.flatMap(([name, team]) => (isClusterTeam(team) ? [{ name, team, ...ofAll }] : []))
    this.#names = [...teams.keys()]
  }

  /** Teams whose runs this process has: its own, and that of each shard that it holds. */
  get all(): readonly ServedTeam[] {
    return this.clusters.length === 0 ? this.own : [...this.own, ...this.clusters.flatMap(heldBy)]
  }

  /** A team for each name, to look at its agents and its strategy. */
  get plans(): readonly ServedTeam[] {
    return [...this.own, ...this.clusters.map(({ team, ...rest }) => ({ ...rest, team: team.pattern }))]
  }

  /**
   * Returns the team of that name, or the first one where none is named.
   *
   * @throws HttpError if there is none, or if it runs over several processes and what is asked for cannot.
   */
  named(name: string | undefined = this.#names[0]): ServedTeam {
    const served = this.own.find((each) => each.name === name)
    if (served) return served
    if (this.cluster(name))
      throw new HttpError(
        'CONFIGURATION',
        `Team "${name}" runs over several processes, which cannot do that yet. Use /api/tasks, or a team in one process.`,
      )
    const known = this.#names.join(', ')
    throw new HttpError('NOT_FOUND', `team: there is no team "${name?.slice(0, 255)}" here; there are ${known}.`)
  }

  /** Returns the team of that name, or the first one where none is named, if it runs over several processes. */
  cluster(name: string | undefined = this.#names[0]): ServedCluster | undefined {
    return this.clusters.find((each) => each.name === name)
  }
}

/** A team over several processes. */
export interface ServedCluster extends Omit<ServedTeam, 'team'> {
  readonly team: ClusterTeam<Team>
}

const heldBy = ({ team: cluster, ...rest }: ServedCluster): ServedTeam[] =>
  Array.from(cluster.held, ([shard, team]) => ({ ...rest, team, shard, node: cluster.id }))

export interface TaskStart {
  readonly served: ServedTeam
  readonly query: string | Content
  readonly options: RunOptions<unknown>
  /** Agent that gets the task alone. Default: the team. */
  readonly agent?: string | undefined
  readonly caller: Caller
  /** Request that begins it: the run continues its trace. */
  readonly request: Pick<Request, 'headers'>
  /** Id of the task, and hash of its body, where an idempotency key names it. Default: a new id. */
  readonly keyed?: KeyedTask | undefined
  /** True if its thread is a branch of a chat of the caller. */
  readonly isBranch?: boolean
}

type Settings = Pick<HttpSettings, 'limits' | 'sharedThreads'>

export class Tasks {
  readonly #settings: Settings
  readonly #teams: ServedTeams
  /** Ids of tasks that are not over. */
  readonly #open = new OpenByCaller<string>()
  /** Timers that cancel the tasks of clients that have left, by task. */
  readonly #leaving = new Map<string, Timer>()
  readonly #ending = new AbortController()
  /** Aborted when nobody is to wait any more: the service ends, and open tasks go on without it. */
  readonly ending: AbortSignal = this.#ending.signal
  isDraining = false

  constructor(settings: Settings, teams: ServedTeams) {
    this.#settings = settings
    this.#teams = teams
  }

  /**
   * Begins a task, or joins the one of that id. It is run by `execute`: nobody can write on its blackboard from
   * outside, so a wait that cannot end is still found.
   *
   * @throws HttpError, and whatever keeps the run from beginning.
   */
  async start({ served, agent, query, options, caller, request, keyed, isBranch }: TaskStart): Promise<FoundTask> {
    const id = keyed?.id ?? v4()
    this.assertRoom(id, caller) // what is refused claims no thread
    const { threadId } = options
    if (threadId !== undefined && !isBranch)
      this.assertThread(threadId, caller, await this.threadOwner(served.team, threadId, caller))
    this.assertRoom(id, caller)
    const { team } = served
    const given = givenTo(team, { options, caller, request, keyed }, id)
    const refused =
      agent === undefined ? errorOf(team.execute(query, given)) : errorOf(agentRun(team, agent, query, given))
    const run = team.getRun(id)
    if (!run) throw (await refused) ?? new Error(`run ${id} has ended and is not known`)
    void this.#untilOver(run, caller.id)
    return { ...served, run, caller }
  }

  /** @throws HttpError if it was begun with another body, or if a log has forgotten it. */
  async begunBy({ id, hash }: KeyedTask): Promise<ServedTeam | undefined> {
    const found = await this.#read(id, {})
    if (found) await assertSameBody(found.run, hash)
    else if (this.#teams.all.some(({ team }) => team.isForgotten(id))) throw forgotten()
    return found
  }

  /** Checks whether a team has the task in memory, or in the log that it has read. */
  isKnown(id: string): boolean {
    return this.#known(id, {}) !== undefined
  }

  /** @throws HttpError where a caller may not begin one more task now. */
  assertRoom(id: string, caller: Caller): void {
    if (this.isDraining) throw draining()
    const open = this.#open.of(caller.id)
    const { tasksPerCaller } = this.#settings.limits
    if (open.size < tasksPerCaller || open.has(id)) return
    const detail = `"${caller.id}" has ${open.size} open tasks (limits.tasksPerCaller). Wait for one of them.`
    throw new HttpError('RATE_LIMITED', detail, { headers: { 'retry-after': '1' } })
  }

  /** Returns how many tasks of a caller are open. */
  openOf({ id }: Caller): number {
    return this.#open.of(id).size
  }

  /** Returns whose a thread is, which begins for a caller if nobody has begun it. No request names a branch. */
  async threadOwner(team: Team, threadId: string, caller: Caller): Promise<string | null> {
    if (this.#settings.sharedThreads) return caller.id
    return threadId.startsWith(OF_BRANCHES) ? null : team.beginThread(threadId, caller.id)
  }

  /** @throws HttpError for the thread of somebody else. It must not differ from none. */
  assertThread(threadId: string, caller: Caller, owner: unknown): void {
    const mayAll = caller.may.includes('operate') && caller.tenant === undefined
    if (owner !== caller.id && !mayAll) throw noThread(threadId)
  }

  #untilOver(run: Run<unknown>, caller: string): Promise<void> {
    return this.open(run.id, caller, endOf(run))
  }

  /** Counts a task of a caller as open until it is over. */
  async open(id: string, caller: string, over: Promise<unknown>): Promise<void> {
    this.#open.add(caller, id)
    await over
    this.returned(id)
    this.#open.delete(caller, id)
  }

  /** @throws HttpError if there is none, or if it is a stranger's: the two must not differ. */
  async find(
    id: string,
    caller: Caller,
    others: readonly Right[],
    missing: () => HttpError = () => noTask(id),
  ): Promise<FoundTask> {
    const own = { caller: caller.id }
    const isOwnOnly = !others.some((right) => caller.may.includes(right))
    const found = isOwnOnly
      ? await this.#found(id, own)
      : ((await this.#found(id, tenantOf(caller))) ?? (caller.tenant === undefined ? undefined : this.#known(id, own)))
    if (!found) throw missing()
    await knownEndOf(found.run) // one that is read from the log has its metadata then
    this.returned(id)
    return { ...found, caller }
  }

  async #found(id: string, whose: RunOwner): Promise<Omit<FoundTask, 'caller'> | undefined> {
    return this.#known(id, whose) ?? this.#read(id, whose)
  }

  #known(id: string, whose: RunOwner): Omit<FoundTask, 'caller'> | undefined {
    for (const served of this.#teams.all) {
      const run = served.team.getRun(id, whose)
      if (run) return { ...served, run }
    }
    return undefined
  }

  /** Finds a task once all teams know the runs of their durable logs. */
  async #read(id: string, whose: RunOwner): Promise<Omit<FoundTask, 'caller'> | undefined> {
    await Promise.all(this.#teams.all.map(untilRead))
    return this.#known(id, whose)
  }

  /** Cancels a task after a while, unless somebody asks for it. */
  leave(run: Pick<Run<unknown>, 'id' | 'status' | 'cancel'>): void {
    const { id } = run
    if (this.#leaving.has(id) || hasEnded(run)) return
    const { disconnectGraceMs } = this.#settings.limits
    const timer = timerBehind(disconnectGraceMs, () => {
      this.#leaving.delete(id)
      void run.cancel('its client has left')
    })
    this.#leaving.set(id, timer)
  }

  /** Checks whether a task is cancelled after a while, since its client has left. */
  isLeft(id: string): boolean {
    return this.#leaving.has(id)
  }

  /** Somebody has asked for a task: it goes on. */
  returned(id: string): void {
    this.#leaving.get(id)?.cancel()
    this.#leaving.delete(id)
  }

  /** Resolves when no task is open, or after that many ms. */
  quiet(ms: number): Promise<void> {
    return this.#open.quiet(ms)
  }

  /** Ends the timers, and all that waits for the end of a task. Tasks go on. */
  close(): void {
    this.#ending.abort()
    for (const timer of this.#leaving.values()) timer.cancel()
    this.#leaving.clear()
  }
}

/** Returns what selects the runs of others that a caller may have a look at. */
export const tenantOf = ({ tenant }: Caller): { tenant?: string } => (tenant === undefined ? {} : { tenant })

/** Returns the options of a run for a caller, whose limits are no higher than those of the team. */
export function givenTo(
  team: Team,
  { options, caller, request, keyed }: Pick<TaskStart, 'options' | 'caller' | 'request' | 'keyed'>,
  runId: string,
): RunOptions<unknown> & { runId: string } {
  const metadata = {
    ...traceOf(request),
    ...options.metadata,
    [CALLER]: caller.id,
    ...(keyed && { [BODY_HASH]: keyed.hash }),
  }
  return { ...loweredBy(options, team.runLimits), metadata, ...tenantOf(caller), runId }
}

/** Returns the options of a run without limits that are higher than those of the team. */
function loweredBy({ timeoutMs, budget = {}, ...options }: RunOptions<unknown>, limits: Team['runLimits']) {
  const { tokens, perAgentTokens } = budget
  const own = {
    ...(isLower(tokens, limits.budget.tokens) && { tokens }),
    ...(isLower(perAgentTokens, limits.budget.perAgentTokens) && { perAgentTokens }),
  }
  const time = isLower(timeoutMs, limits.timeoutMs) && { timeoutMs }
  return { ...options, ...time, ...(Object.keys(own).length > 0 && { budget: own }) }
}

const isLower = (asked: number | undefined, limit = Number.POSITIVE_INFINITY): asked is number =>
  asked !== undefined && asked < limit

/** Resolves when the team knows the runs of its durable log. */
async function untilRead({ team }: ServedTeam): Promise<void> {
  if (team.logName === undefined) await team.listRuns({ limit: 1 })
}

/** Returns the place in a trace that a request names, in the format of W3C Trace Context. */
export function traceOf({ headers }: Pick<Request, 'headers'>): Record<string, string> {
  const names = headers.has('traceparent') ? ['traceparent', 'tracestate', 'baggage'] : []
  return Object.fromEntries(names.flatMap((name) => (headers.get(name) ? [[name, headers.get(name)!]] : [])))
}

const agentRun = (team: Team, agent: string, query: string | Content, options: RunOptions<unknown>): Promise<string> =>
  team.getAgent(agent)!.run(query, options as RunOptions)

/** Resolves to the error of a run, if it has one: a run that was refused is known nowhere else. */
async function errorOf(result: Promise<string | MultiAgentResult<unknown>>): Promise<unknown> {
  try {
    const ended = await result
    return typeof ended === 'string' ? undefined : ended.error
  } catch (error) {
    return error
  }
}

/**
 * Answers a question of a task for a caller. Every way to answer over HTTP goes through here.
 *
 * @throws HttpError for an answer that this caller may not give, or that the question does not take.
 */
export async function answerAs(
  caller: Caller,
  { run, approveOwn }: FoundTask,
  { questionId, answer, digest }: z.infer<typeof answerRequest>,
  signal?: AbortSignal,
): Promise<void> {
  await untilAsked(run, questionId, signal)
  const open = run.questions.find((question) => question.questionId === questionId)
  const seesApprovalsAlone = !isOf(run, caller) && !caller.may.includes('operate')
  if (open && seesApprovalsAlone && open.kind !== 'approval') throw noTask(run.id)
  const refusal = open && refusalFor(caller, open, run.metadata, approveOwn)
  const { how, text } = refusal ?? {}
  const isRepeated = how === 'agreed' // an input of one's own, or a no, may follow one's yes
  if (text !== undefined && !isRepeated) throw new HttpError('ANSWER_REFUSED', text, { details: { how } })
  if (open?.kind === 'approval' && digest === undefined) throw digestNeeded()
  try {
    const by = { id: caller.id, groups: caller.groups ?? [] }
    await run.answer(questionId, answer, { by, approveOwn, ...(digest !== undefined && { digest }) })
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    if (seesApprovalsAlone && error.details.path === 'questionId' && error.details.kind !== 'approval')
      throw noTask(run.id)
    throw notTaken(error)
  }
}

const digestNeeded = (): HttpError => {
  const detail = 'digest: an approval is about what was shown: send the `digest` of the question with the answer.'
  return new HttpError('CONFIGURATION', detail, { details: { path: 'digest' } })
}

/** Error for a question that is not open (any more), or that takes another answer. */
function notTaken({ message, details }: ConfigurationError): HttpError {
  if (details.path !== 'questionId') return new HttpError('CONFIGURATION', message, { details: { ...details } })
  return new HttpError(details.how === undefined ? 'NOT_FOUND' : 'CONFLICT', message)
}

/** Begins the names of threads that are branches of chats. The rest follows from their caller. */
export const OF_BRANCHES = 'chat~'

export const isOf = ({ metadata }: Run<unknown>, { id }: Caller): boolean => callerIn(metadata) === id

/**
 * Resolves when what a task was told stands in the durable log of its team: what its client has been told then holds
 * after a crash, too. A log that is lost fails the task itself.
 */
export const written = ({ team, run }: Pick<FoundTask, 'team' | 'run'>): Promise<void> =>
  flushed(team, (over) => onEnd(run, over))

/**
 * Resolves when the durable log has all until now, or is lost, or when it does not matter any more. `until` calls back
 * then, and returns a function that ends this.
 */
export const flushed = (team: Team, until: Wait): Promise<void> =>
  firstOf(Number.POSITIVE_INFINITY, until, (over) => {
    void team.flush().then(over, over)
    return () => {}
  })

/** Resolves to true when the run has ended; to false after that many ms, or when one of the signals is aborted. */
export async function waitFor(run: Run<unknown>, ms: number, ...signals: AbortSignal[]): Promise<boolean> {
  if (await knownEndOf(run)) return true
  if (ms === 0 || signals.some(({ aborted }) => aborted)) return false
  let isEnded = false
  const ended: Wait = (over) =>
    onEnd(run, () => {
      isEnded = true
      over()
    })
  await firstOf(
    ms,
    ...signals.map(
      (signal): Wait =>
        (over) =>
          onAbort(signal, over),
    ),
    ended,
  )
  return isEnded
}

export const noTask = (id: string): HttpError =>
  new HttpError('NOT_FOUND', `There is no task "${id.slice(0, 255)}", or it is not yours.`)

export const noThread = (id: string): HttpError =>
  new HttpError('NOT_FOUND', `threadId: there is no thread "${id.slice(0, 255)}", or it is not yours.`)

export const draining = (): HttpError =>
  new HttpError('DRAINING', 'The service is being closed and takes no more tasks. Send it to another one.', {
    headers: { 'retry-after': '5', connection: 'close' },
  })
