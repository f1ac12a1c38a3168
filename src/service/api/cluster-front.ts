/**
 * Requests about teams over several processes. A process that is asked has the owner of the shard answer, whoever that
 * is by then. Answers, cancellations and words are kept for it, as runs are.
 */
import { v4 } from 'uuid'
import { ConfigurationError, DramatisError, type ModelMessage, type RuntimeEvent, type Team } from '../../index.ts'
import { PEER_HEADER, PEER_PATH } from '../../runtime/cluster/address.ts'
import type { ClusterMember } from '../../runtime/cluster/cluster-store.ts'
import type { ClusterDoor } from '../../runtime/cluster/door.ts'
import { digestOf } from '../../runtime/cluster/peers.ts'
import { beginOf, isCurrent, outcomeOr, toldAnywhere, toldHere } from '../../runtime/cluster/run-events.ts'
import type { ToldEvent, Wanted } from '../../runtime/runs/told-events.ts'
import { systemClock } from '../../shared/clock.ts'
import { describe } from '../../shared/errors.ts'
import { anyAborted, onAbort } from '../../shared/on-abort.ts'
import type { Caller } from '../http/options.ts'
import { HttpError, httpErrorOf, jsonIn, problemResponse, readText } from '../http/problem.ts'
import { type Operation, type Route, routes } from '../http/routes.ts'
import type { Task, TaskQuestion, TaskRequest } from '../http/schemas.ts'
import { firstOf, streamFormOf } from '../http/streams.ts'
import { pathOf, type ServedTeam } from '../http/task-view.ts'
import {
  draining,
  givenTo,
  json,
  type KeyedTask,
  noTask,
  otherBody,
  type ServedCluster,
  type Service,
} from '../http/tasks.ts'
import { type Beginning, type Elsewhere, storedTask } from '../openai/handlers.ts'
import { type Begun, queuedResponse, taskIdOf } from '../openai/responses.ts'
import {
  away,
  bounded,
  currentAnswer,
  hasAny,
  inTime,
  isAnswered,
  isEnded,
  isOfThisMachine,
  moved,
  nameOf,
  needsShard,
  noShard,
  OWNER_MS,
  ofAllTenants,
  passed,
  queuedTask,
  requestOf,
  taskIn,
  toNobody,
  wantedIn,
  whole,
} from './cluster-answers.ts'
import { isList, mergedList, ofShard, type Part, pageOfShard, partIn, shardsIn } from './cluster-lists.ts'
import { ClusterWatch, linesHere } from './cluster-watch.ts'
import { assertMay, digestFrames, framesOf, placeOf, startOf, waitOf } from './task-handlers.ts'

/** A request as the router has read it. */
export interface FrontCall extends ReadCall {
  readonly text: string
  readonly body: unknown
}

/** A request of which the body may not have been read yet. */
interface ReadCall {
  readonly name: Operation
  readonly route: Route
  readonly request: Request
  /** Path below that of the API, with its query. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  readonly caller: Caller
  readonly body?: unknown
}

/** Words of a process for the one that it asks. */
interface Said {
  readonly caller: Caller
  /** Shard that it takes the other for the owner of; none: the other answers for all that it has. */
  readonly shard?: number
}

/** A process of the cluster that asks. */
export interface Peer extends Said {
  readonly cluster: ServedCluster
  /** Body of its request. */
  readonly text: string
}

/** A request that waits for the owner of a shard, as JSON. */
type Kept =
  | Pick<FrontCall, 'name' | 'params' | 'query' | 'body' | 'caller'>
  | { threadId: string; caller: Caller }
  | { previous: string; caller: Caller }

interface KeptAnswer {
  readonly status: number
  readonly type: string | null
  readonly text: string
}

/** Shard of a task. */
interface Place {
  readonly cluster: ServedCluster
  readonly shard: number
  readonly id: string
}

interface Start extends Omit<Beginning, 'agent'> {
  readonly agent?: string | undefined
  readonly keyed?: KeyedTask | undefined
}

/** Answers a request with what this process has alone. `served`: the team that it is about. */
export type Plain = (call: ReadCall, served?: ServedTeam) => Promise<Response>

/** Time for which a request waits for the view of a task that is accepted, in ms. */
const VIEW_MS = 1_000
/** The same for a member that is asked for what it has of a list, in ms. */
const MEMBER_MS = 2_000
const PAUSE_MS = 100

/** Routes that refuse a team over several processes. */
const OF_ONE_PROCESS: readonly Operation[] = ['chat', 'getChat', 'resumeChat', 'stopChat']
const KEPT: readonly Operation[] = ['answerQuestion', 'cancelTask', 'steerTask']

export class ClusterFront implements Elsewhere {
  readonly #service: Service
  readonly #plain: Plain
  readonly #doors: ReadonlyMap<ServedCluster, ClusterDoor<Team>>
  readonly #watches = new Map<ServedCluster, ClusterWatch>()

  private constructor(service: Service, plain: Plain, doors: ReadonlyMap<ServedCluster, ClusterDoor<Team>>) {
    this.#service = service
    this.#plain = plain
    this.#doors = doors
    for (const [cluster, door] of doors) door.serves = (shard, kept) => this.#serve(cluster, shard, kept as Kept)
  }

  static async open(service: Service, plain: Plain): Promise<ClusterFront> {
    const doors = service.teams.clusters.map(async (cluster) => [cluster, await cluster.team.door()] as const)
    return new ClusterFront(service, plain, new Map(await Promise.all(doors)))
  }

  /** @throws HttpError for one that says it was sent by another process of the cluster, and was not. */
  async peerOf(request: Request, path: string): Promise<Peer | undefined> {
    const { method } = request
    const given = request.headers.get(PEER_HEADER)
    if (given === null) return undefined
    let why = 'no team of this service runs over several processes'
    for (const [cluster, door] of this.#doors) {
      const read = door.read(given, { method, path })
      if ('refusal' in read) why = read.refusal
      else if (!door.hasSecret && !isOfThisMachine(request))
        why = 'it comes from another machine, and cluster.secretEnv is not set'
      else {
        const text = method === 'GET' ? '' : await readText(request, this.#service.settings.limits)
        if (digestOf(Buffer.from(text)) === read.digest) return { ...(read.said as Said), cluster, text }
        why = 'its body is not what was signed'
      }
    }
    const detail = `A request in the name of a process of the cluster was refused: ${why}.`
    throw new HttpError('UNAUTHORIZED', detail, { headers: { [PEER_HEADER]: 'refused' } })
  }

  /** Answers a small request of another process, or of who operates the cluster. */
  async answer(request: Request, path: string): Promise<Response> {
    const peer = await this.peerOf(request, path)
    const act = peer && this.#door(peer.cluster).answers.get(path.slice(PEER_PATH.length))
    if (!act) throw new HttpError('NOT_FOUND', 'There is no such path.')
    return json((await act(jsonIn(peer.text))) ?? null)
  }

  /** Resolves to the answer; to nothing for a request that is about no team over several processes. */
  async respond(call: FrontCall, peer: Peer | undefined): Promise<Response | undefined> {
    const response = await (peer ? this.#forPeer(call, peer) : this.#forClient(call))
    if (call.request.method === 'HEAD') await response?.body?.cancel() // nobody reads it, and a stream would go on
    return response
  }

  async #forClient(call: FrontCall): Promise<Response | undefined> {
    const { name, route, query } = call
    const task = taskIn(call)
    if (task !== undefined) return this.#ofTask(call, task)
    if (OF_ONE_PROCESS.includes(name)) return undefined
    if (name === 'listQuestions') return inTime(this.#list(call, [...this.#doors.keys()]))
    const named = name === 'createTask' ? (call.body as TaskRequest).team : (query.team as string | undefined)
    const cluster = this.#service.teams.cluster(named)
    if (!cluster || !(name === 'createTask' || 'team' in route.query.shape)) return undefined
    if (name === 'createTask') return this.#createTask(call, cluster)
    if (name === 'getThread') return this.#kept(call, { cluster, shard: cluster.team.shardOf(call.params.id!), id: '' })
    if (isList(name)) return inTime(this.#list(call, [cluster]))
    return this.#ofTeam(call, cluster)
  }

  #door(cluster: ServedCluster): ClusterDoor<Team> {
    return this.#doors.get(cluster)!
  }

  async #forPeer(call: FrontCall, { cluster, shard }: Peer): Promise<Response> {
    const { name } = call
    const door = this.#door(cluster)
    const task = taskIn(call)
    if (shard === undefined) {
      if (isList(name)) return json(await this.#partFor(call, cluster))
      if (name === 'watchTeam') return this.#peerWatch(call, door)
      return task !== undefined ? this.#plain(call) : this.#firstHere(call, cluster)
    }
    const team = door.held.get(shard)
    if (!team) return moved()
    if (task !== undefined && !team.getRun(task)) return this.#unknownHere(door, team, task, call.request.signal)
    const answer =
      name === 'taskEvents' ? this.#peerEvents(call, team) : this.#plain(call, this.#served(cluster, shard))
    const given = await currentAnswer(team, call, answer)
    if (given && 'error' in given) throw given.error
    return given ?? moved()
  }

  /**
   * A run may not have been begun by its owner yet, which has room for so many: this waits for a while. One with an
   * outcome was given up by the log.
   */
  async #unknownHere(door: ClusterDoor<Team>, team: Team, id: string, left: AbortSignal): Promise<Response> {
    if (await outcomeOr(beginOf(team, id), (signal) => bounded(signal, (each) => door.outcome(id, each)), left))
      throw noTask(id)
    return moved()
  }

  #served(cluster: ServedCluster, shard: number): ServedTeam | undefined {
    return this.#service.teams.all.find((each) => each.name === cluster.name && each.shard === shard)
  }

  async #locate(id: string, left: AbortSignal): Promise<Place | undefined> {
    for (const [cluster, door] of this.#doors) {
      for (const [shard, team] of door.held) if (team.getRun(id)) return { cluster, shard, id }
      const state = await bounded(left, (signal) => door.state(id, signal))
      if (state) return { cluster, shard: state.shard, id }
    }
    return undefined
  }

  async #ofTask(call: FrontCall, id: string): Promise<Response | undefined> {
    const { teams, tasks } = this.#service
    if (teams.own.some(({ team }) => team.getRun(id))) return undefined
    const place = await this.#locate(id, call.request.signal)
    if (!place) return this.#anywhere(call)
    if (tasks.isLeft(id) && (await this.#isSeen(call, place))) tasks.returned(id)
    if (KEPT.includes(call.name)) return this.#kept(call, place)
    if (call.name === 'taskEvents') return this.#events(call, place)
    return call.name === 'getTask' && call.query.wait !== 0 ? this.#waited(call, place) : this.#owned(call, place)
  }

  /** Checks whether a caller may see a task. */
  #isSeen(call: FrontCall, place: Place): Promise<boolean> {
    return this.#view(call, place, VIEW_MS).then(
      ({ ok }) => ok,
      () => false, // the request itself says why
    )
  }

  /** A task at its end, or after the time for which the caller waits; as it is where this process ends before. */
  async #waited(call: FrontCall, place: Place): Promise<Response> {
    const { request } = call
    const { ending } = this.#service.tasks
    const { signal, forget } = anyAborted([request.signal, ending])
    try {
      const asked = new Request(request.url, { headers: request.headers, signal })
      return await this.#owned({ ...call, request: asked }, place)
    } catch (error) {
      if (!ending.aborted || request.signal.aborted) throw error
      return await this.#view(call, place, VIEW_MS)
    } finally {
      forget()
    }
  }

  /** A run that is no task of the cluster, or whose outcome is kept no more: its log may still have it. */
  async #anywhere(call: FrontCall): Promise<Response | undefined> {
    for (const cluster of this.#doors.keys())
      for await (const response of this.#asked(call, cluster, whole)) {
        if (response.ok) return passed(response)
        await response.body?.cancel()
      }
    return undefined
  }

  /** Answers by the owner of a task. */
  async #owned(call: FrontCall, { cluster, shard, id }: Place, waitMs = OWNER_MS): Promise<Response> {
    const door = this.#door(cluster)
    const { request } = call
    const late = systemClock.monotonic() + waitMs
    let why = 'no process has its shard'
    for (;;) {
      const team = door.held.get(shard)
      if (team?.getRun(id)) {
        const given = await currentAnswer(team, call, this.#plain(call))
        if (given && 'error' in given) throw given.error
        if (given) return given
        why = 'its log cannot be written now'
      } else if (team) {
        await this.#unknownHere(door, team, id, request.signal)
      } else {
        try {
          const response = await this.#sent(call, cluster, shard, request.signal)
          if (response) return passed(response)
        } catch (error) {
          if (error instanceof HttpError || request.signal.aborted) throw error
          why = describe(error)
        }
      }
      if (systemClock.monotonic() > late) throw away(`Task "${id}" cannot be looked at now: ${why}.`)
      await systemClock.sleep(PAUSE_MS, request.signal)
    }
  }

  /**
   * Sends a request to the owner of a shard; undefined if nobody is known to be that now. @throws HttpError if refused
   */
  async #sent(call: FrontCall, cluster: ServedCluster, shard: number, signal: AbortSignal) {
    const sent = await this.#door(cluster).toOwner(shard, requestOf(call), nameOf(call.caller), signal)
    return sent && this.#believed(sent)
  }

  /** @throws HttpError where the other process does not believe this one: an operator has to look at it. */
  async #believed(response: Response): Promise<Response> {
    if (response.headers.get(PEER_HEADER) !== 'refused') return response
    const { detail } = (await response.json()) as { detail: string }
    this.#service.settings.logger.error({ detail }, 'a process of the cluster does not believe this one')
    throw away('The processes of the cluster do not believe each other; their logs say why.')
  }

  /** Yields what is read of the answer of each other member; one that says nothing is passed over, with a warning. */
  async *#asked<T>(call: FrontCall, cluster: ServedCluster, read: (response: Response) => T | Promise<T>) {
    const door = this.#door(cluster)
    const others = (await door.members()).filter(({ id, shards }) => id !== door.id && shards.length > 0)
    for (const answer of others.map((member) => this.#saidBy(member, call, door, read))) {
      const said = await answer
      if (said !== undefined) yield said
    }
  }

  async #saidBy<T>(
    member: ClusterMember,
    call: FrontCall,
    door: ClusterDoor<Team>,
    read: (response: Response) => T | Promise<T>,
  ): Promise<T | undefined> {
    const { caller, request, query } = call
    const ms = MEMBER_MS + 1_000 * Number(query.wait ?? 0)
    const late = new AbortController()
    const timer = systemClock.timer(ms, () => late.abort(new Error(`it has not answered for ${ms} ms`)))
    const { signal } = anyAborted([request.signal, late.signal]) // both go with the request
    const stays = (members: readonly ClusterMember[]) => members.some(({ id }) => id === member.id)
    const said: Said = { caller: nameOf(caller) }
    try {
      return await read(await this.#believed(await door.send(member, requestOf(call), said, { stays, signal })))
    } catch (error) {
      const { host, pid } = member
      const { logger } = this.#service.settings
      logger.warn({ host, pid, error: describe(error) }, 'a process of the cluster says nothing')
      return undefined
    } finally {
      timer.cancel()
    }
  }

  // Answers and cancellations.

  async #kept(call: FrontCall, { cluster, shard, id }: Place): Promise<Response> {
    const { name, params, query, caller, request } = call
    // Two owners may be given the same words: they are the same by their id.
    const body = name === 'steerTask' ? { id: v4(), ...Object(call.body) } : call.body
    const kept: Kept = { name, params, query, body, caller: nameOf(caller) }
    const answer = await this.#ask(cluster, shard, kept, request.signal, id)
    if (answer === undefined) return new Response(null, { status: 202 })
    const { status, type, text } = answer as KeptAnswer
    if (status < 300) this.#service.tasks.returned(id)
    return new Response(text === '' ? null : text, { status, headers: type === null ? {} : { 'content-type': type } })
  }

  /** Resolves to what the owner says; to undefined if it is kept for one that has not said anything yet. */
  async #ask(cluster: ServedCluster, shard: number, kept: Kept, left: AbortSignal, runId = ''): Promise<unknown> {
    let isKept = false
    return bounded(left, async (signal) => {
      try {
        return await this.#door(cluster).ask(shard, { ask: 'request', runId, kept }, signal, () => {
          isKept = true
        })
      } catch (error) {
        if (isKept && !(error instanceof DramatisError)) return undefined
        throw error
      }
    })
  }

  /** Answers what was kept for this process as the owner of a shard; undefined: the next owner is to. */
  async #serve(cluster: ServedCluster, shard: number, kept: Kept): Promise<unknown> {
    const served = this.#served(cluster, shard)
    if (!served) return undefined
    const { team } = served
    if ('threadId' in kept) return this.#service.tasks.threadOwner(team, kept.threadId, kept.caller)
    if ('previous' in kept) return this.#conversationHere(team, kept)
    const path = pathOf(kept.params.id!)
    const call = {
      ...kept,
      route: routes[kept.name] as Route,
      request: new Request(`http://localhost${path}`),
      path,
      text: '',
    }
    const response = await this.#plain(call, served).catch((error: unknown) => {
      const known = httpErrorOf(error)
      if (!known) throw error
      return problemResponse(known, path)
    })
    const isDone = response.status === 409 && (await isAnswered(team, kept))
    const text = isDone ? '' : await response.text()
    if (!(await isCurrent(team))) return undefined
    return { status: isDone ? 204 : response.status, type: isDone ? null : response.headers.get('content-type'), text }
  }

  // Events.

  async #events(call: FrontCall, place: Place): Promise<Response> {
    const { request, caller, query } = call
    const { streams, tasks, settings } = this.#service
    const after = placeOf(request, query.after as string | undefined)
    const wanted = wantedIn(query)
    const view = await this.#view(call, place)
    if (!view.ok) return view
    const task = (await view.json()) as Task
    const told = (signal: AbortSignal) => this.#told(call, place, { ...wanted, after, signal })
    if (after !== undefined && isEnded(task) && !(await hasAny(told)) && !tasks.ending.aborted)
      return new Response(null, { status: 204 })
    const form = streamFormOf(request) ?? 'sse'
    return streams.respond({
      ...{ request, caller, form, runId: place.id },
      frames: (signal) => framesOf(told(signal), { form }),
      left: () => {
        if (settings.onDisconnect === 'cancel') tasks.leave(this.#leavable(place, task.status))
      },
    })
  }

  /** The task as its owner shows it to the caller of another request. */
  async #view(call: FrontCall, place: Place, waitMs = OWNER_MS): Promise<Response> {
    const { params, request } = call
    const path = pathOf(place.id)
    const view = {
      ...call,
      name: 'getTask',
      route: routes.getTask,
      params: { ...params, id: place.id },
      query: { wait: 0 },
      path,
    } as const
    const late = new AbortController()
    const silent = () => late.abort(away(`Task "${place.id}" cannot be looked at now: its owner does not answer.`))
    const timer = systemClock.timer(waitMs, silent)
    const { signal, forget } = anyAborted([request.signal, late.signal])
    const asked = new Request(new URL(path, request.url), { signal })
    try {
      return await this.#owned({ ...view, request: asked, text: '', body: undefined }, place, waitMs)
    } finally {
      timer.cancel()
      forget()
    }
  }

  #leavable({ cluster, id }: Place, status: Task['status']) {
    const cancel = async (reason?: string) => {
      await (await cluster.team.getRun(id))?.cancel(reason)
    }
    return { id, status, cancel: (reason?: string) => cancel(reason).catch((error) => this.#cannotCancel(id, error)) }
  }

  #cannotCancel(id: string, error: unknown): void {
    this.#service.settings.logger.warn({ error: describe(error) }, `task ${id} cannot be cancelled`)
  }

  /** Yields events of a task, whoever has it, as long as this process is served. */
  async *#told(call: FrontCall, { cluster, ...place }: Place, wanted: Wanted): AsyncGenerator<ToldEvent> {
    const { signal, forget } = anyAborted([wanted.signal, this.#service.tasks.ending])
    onAbort(wanted.signal, forget) // who reads aborts it at the end
    yield* toldAnywhere(this.#door(cluster), place, nameOf(call.caller), { ...wanted, signal })
  }

  async #peerEvents({ route, request, caller, params, query }: FrontCall, team: Team): Promise<Response> {
    await this.#service.tasks.find(params.id!, caller, route.others ?? [])
    const after = placeOf(request, query.after as string | undefined)
    const told = (signal: AbortSignal) => toldHere(team, params.id!, { ...wantedIn(query), after, signal })
    const form = 'ndjson'
    return this.#service.streams.respond({
      request,
      caller,
      form,
      isOfPeer: true,
      frames: (signal) => framesOf(told(signal), { form }),
    })
  }

  // Tasks.

  async #createTask(call: FrontCall, cluster: ServedCluster): Promise<Response> {
    const { tasks, keys, settings } = this.#service
    const { request, caller } = call
    const body = call.body as Parameters<typeof startOf>[0]
    const { query, options } = await startOf(body)
    const form = streamFormOf(request)
    if (form && call.query.deltas) options.stream ??= true
    const keyed = keys.taskOf(request, caller.id, body)
    assertMay(caller, body)
    const { waitMs, applied } = waitOf(request)
    const { run, result, place } = await this.#begin(cluster, { query, options, caller, request, keyed })
    const { id } = place
    const headers: Record<string, string> = {
      ...(run.isKnown && { 'idempotency-replayed': 'true' }),
      ...(applied && { 'preference-applied': applied }),
    }
    const queued = () => queuedTask(id, cluster.name, String(body.query ?? body.task ?? body.message))
    const view = async (): Promise<Task> => {
      const response = await this.#view(call, place, VIEW_MS).catch(() => undefined)
      return response?.ok ? ((await response.json()) as Task) : queued()
    }
    if (form === 'sse') {
      const after = placeOf(request)
      const wanted = { after, deltas: call.query.deltas === '1' }
      return this.#service.streams.respond({
        ...{ request, caller, form, runId: id },
        frames: (signal) => framesOf(this.#told(call, place, { ...wanted, signal }), { form, task: view }),
        left: () => {
          if (settings.onDisconnect === 'cancel') tasks.leave(this.#leavable(place, 'running'))
        },
      })
    }
    let ended: Awaited<typeof result> | undefined
    await firstOf(
      waitMs,
      (done) => onAbort(request.signal, done),
      (done) => onAbort(tasks.ending, done),
      (done) => {
        void result.then((value) => {
          if (!value.error || value.error instanceof DramatisError) ended = value // else: this process waits no more
          done()
        })
        return () => {}
      },
    )
    if (!ended && request.signal.aborted && settings.onDisconnect !== 'continue' && !keyed)
      tasks.leave(this.#leavable(place, 'running'))
    const task = await view()
    if (!ended) return json(task, 202, { ...headers, location: `${settings.basePath}${pathOf(id)}` })
    if (!ended.error) return json(task, 200, headers)
    const error = httpErrorOf(ended.error) ?? httpErrorOf(away(describe(ended.error)))!
    const { code, message, status, details } = error
    return problemResponse(
      new HttpError(code, message, { status, details, headers: { ...error.headers, ...headers } }),
      pathOf(id),
      { task },
    )
  }

  async #begin(cluster: ServedCluster, { query, options, agent, caller, request, keyed }: Start) {
    const { tasks } = this.#service
    const id = keyed?.id ?? v4()
    const { threadId } = options
    if (threadId !== undefined) {
      const shard = cluster.team.shardOf(threadId)
      const owner = await this.#ask(cluster, shard, { threadId, caller: nameOf(caller) }, request.signal)
      if (owner === undefined) throw away('No process has the shard of the thread now.')
      tasks.assertThread(threadId, caller, owner)
    }
    tasks.assertRoom(id, caller)
    const given = givenTo(cluster.team.pattern, { options, caller, request, keyed }, id)
    const asked = { ...given, ...(agent !== undefined && { agent }) }
    const run = await bounded(request.signal, (signal) => this.#launch(cluster, query, { ...asked, signal }))
    const place: Place = { cluster, shard: run.shard, id }
    const result = run.result().catch((error: unknown) => ({ error }))
    void tasks.open(id, caller.id, result)
    return { run, result, place }
  }

  // Tasks in the formats of OpenAI.

  async begin(cluster: ServedCluster, beginning: Beginning): Promise<Begun> {
    const { caller, request } = beginning
    const { tasks, settings } = this.#service
    const { result, place } = await this.#begin(cluster, beginning)
    const { id } = place
    const door = this.#door(cluster)
    async function* events(types: RuntimeEvent['type'][], signal: AbortSignal) {
      const told = toldAnywhere(door, place, nameOf(caller), { after: undefined, types, deltas: true, signal })
      for await (const { event } of told) yield event as RuntimeEvent<unknown>
    }
    return {
      run: { id, startedAt: systemClock.now() },
      events,
      async result() {
        const ended = await result
        if ('success' in ended) return ended
        throw ended.error
      },
      async untilEnd() {
        let hasEnded = false
        await firstOf(
          Number.POSITIVE_INFINITY,
          (over) => onAbort(request.signal, over),
          (over) => onAbort(tasks.ending, over),
          (over) => {
            void result.then(() => {
              hasEnded = true
              over()
            })
            return () => {}
          },
        )
        if (request.signal.aborted) throw new HttpError('BAD_REQUEST', 'The client has left.')
        if (!hasEnded) throw draining()
      },
      written: async () => {},
      left: () => {
        if (settings.onDisconnect !== 'continue') tasks.leave(this.#leavable(place, 'running'))
      },
      now: queuedResponse,
    }
  }

  async conversation(
    previous: string,
    { request, caller }: Pick<FrontCall, 'request' | 'caller'>,
  ): Promise<readonly ModelMessage[] | undefined> {
    const id = taskIdOf(previous) ?? previous
    if (this.#service.teams.own.some(({ team }) => team.getRun(id))) return undefined
    const place = await this.#locate(id, request.signal)
    if (!place) return undefined
    const kept: Kept = { previous, caller: nameOf(caller) }
    const answer = (await this.#ask(place.cluster, place.shard, kept, request.signal, id)) as KeptAnswer | undefined
    if (!answer) throw away(`The response "${previous}" cannot be looked at now.`)
    if (answer.status === 200) return JSON.parse(answer.text) as ModelMessage[]
    throw new HttpError('NOT_FOUND', answer.text)
  }

  async #conversationHere(team: Team, { previous, caller }: { previous: string; caller: Caller }): Promise<unknown> {
    const id = taskIdOf(previous) ?? previous
    try {
      const { run } = await storedTask(this.#service.tasks, previous, caller, 'operate', id)
      const { messages } = await run.result
      if (run.status === 'interrupted' || !(await isCurrent(team))) return undefined
      return { status: 200, type: null, text: JSON.stringify(messages) } satisfies KeptAnswer
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      return { status: error.status, type: null, text: error.message } satisfies KeptAnswer
    }
  }

  async #launch(...[cluster, query, options]: [ServedCluster, ...Parameters<ServedCluster['team']['launch']>]) {
    try {
      return await cluster.team.launch(query, options)
    } catch (error) {
      if (error instanceof ConfigurationError && error.details.path === 'runId') throw otherBody()
      throw error
    }
  }

  // Teams.

  /** Lists of all processes, as one. */
  async #list(call: FrontCall, clusters: readonly ServedCluster[]): Promise<Response> {
    const parts: Part[] = [await this.#partHere(call, clusters)]
    for (const cluster of clusters)
      for await (const part of this.#asked(call, cluster, (response) => partOf(call, response))) parts.push(part)
    const [cluster, ...more] = clusters
    const told = new Set(parts.flatMap(shardsIn))
    const all = cluster && more.length === 0 ? Array.from({ length: cluster.team.shards }, (_, shard) => shard) : []
    const missing = call.name === 'listQuestions' ? [] : all.filter((shard) => !told.has(shard))
    return json({ ...mergedList(call, parts), ...(missing.length > 0 && { missing }) })
  }

  /** Returns the part for another process, which asks once for each team: of questions only those of that one. */
  async #partFor(call: FrontCall, cluster: ServedCluster): Promise<Part> {
    const part = await this.#partHere(call, [cluster])
    if (call.name !== 'listQuestions') return part
    return { questions: (part.questions as TaskQuestion[]).filter(({ team }) => team === cluster.name) }
  }

  async #partHere(call: FrontCall, clusters: readonly ServedCluster[]): Promise<Part> {
    if (call.name === 'listQuestions') return (await (await this.#plain(call)).json()) as Part
    const parts: Part[] = []
    for (const cluster of clusters)
      for (const shard of this.#door(cluster).held.keys()) {
        const served = this.#served(cluster, shard)
        const response = served && (await this.#plain(pageOfShard(call, shard), served))
        if (response) parts.push(ofShard(call, (await response.json()) as Part, shard))
      }
    return { ...mergedList(call, parts), shards: parts.flatMap(shardsIn) }
  }

  /** A request about something that one shard has, such as a dead letter: the first one that knows it answers. */
  async #ofTeam(call: FrontCall, cluster: ServedCluster): Promise<Response> {
    const shard = (call.query.shard as number | undefined) ?? (cluster.team.shards === 1 ? 0 : undefined)
    if (shard !== undefined && shard >= cluster.team.shards) throw noShard(cluster, shard)
    if (shard !== undefined) return this.#ofShard(call, cluster, shard)
    if (call.name === 'watchTeam') return this.#watch(call, cluster)
    if (call.name === 'sendMessage') throw needsShard(cluster)
    let answer = await this.#firstHere(call, cluster).catch((error: unknown) => error)
    if (answer instanceof Response && answer.ok) return answer
    for await (const response of this.#asked(call, cluster, whole)) {
      if (response.ok) return passed(response)
      answer = passed(response)
    }
    if (answer instanceof Response) return answer
    throw answer
  }

  async #ofShard(call: FrontCall, cluster: ServedCluster, shard: number): Promise<Response> {
    const { request } = call
    for (const late = systemClock.monotonic() + OWNER_MS; ; await systemClock.sleep(PAUSE_MS, request.signal)) {
      const served = this.#served(cluster, shard)
      if (served) return this.#plain(call, served)
      const response = await this.#sent(call, cluster, shard, request.signal)
      if (response?.ok && call.name === 'watchTeam' && request.method !== 'HEAD') return this.#streamed(call, response)
      if (response) return passed(response)
      if (systemClock.monotonic() > late) throw away(`No process has shard ${shard} now.`)
    }
  }

  /** Shows all shards as one team. */
  #watch({ request, caller }: FrontCall, cluster: ServedCluster): Response {
    if (caller.tenant !== undefined) throw ofAllTenants(cluster)
    const door = this.#door(cluster)
    const watch =
      this.#watches.get(cluster) ?? new ClusterWatch(door, cluster.team.shards, (response) => this.#believed(response))
    this.#watches.set(cluster, watch)
    const form = streamFormOf(request) ?? 'sse'
    return this.#service.streams.respond({
      request,
      caller,
      form,
      frames: (signal) => digestFrames(watch.lines(signal), form),
    })
  }

  #peerWatch({ request, caller }: FrontCall, door: ClusterDoor<Team>): Response {
    async function* frames(signal: AbortSignal) {
      for await (const told of linesHere(door, signal)) yield `${JSON.stringify(told)}\n`
    }
    return this.#service.streams.respond({ request, caller, form: 'ndjson', isOfPeer: true, frames })
  }

  /** Passes a stream on as it comes. */
  #streamed({ request, caller }: FrontCall, { body }: Response): Response {
    const frames = () => body?.pipeThrough(new TextDecoderStream()) ?? toNobody()
    return this.#service.streams.respond({ request, caller, form: streamFormOf(request) ?? 'sse', frames })
  }

  async #firstHere(call: FrontCall, cluster: ServedCluster): Promise<Response> {
    let failure: unknown = away('This process has no shard now.')
    for (const shard of this.#door(cluster).held.keys()) {
      const served = this.#served(cluster, shard)
      try {
        if (served) return await this.#plain(call, served)
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }
}

async function partOf({ name }: FrontCall, response: Response): Promise<Part> {
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`it answers with ${response.status}`)
  }
  return partIn(name, await response.json())
}
