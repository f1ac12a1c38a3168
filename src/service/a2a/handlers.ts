/**
 * Teams by A2A 1.0, in both of its bindings to HTTP: JSON-RPC, and paths. A message begins a task of its caller, whose
 * id follows from the message: who sends it again joins the task, also after a restart.
 */

import { PATH } from '../../remote/role.ts'
import { readPosition } from '../../runtime/runs/events.ts'
import { describe } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { answerOnce } from '../chat/handlers.ts'
import type { Caller } from '../http/options.ts'
import { HttpError, jsonIn, readText } from '../http/problem.ts'
import { firstOf, type Wait } from '../http/streams.ts'
import { type FoundTask, isOver, knownEndOf, mayAnswer, type ServedTeam, untilAnswerable } from '../http/task-view.ts'
import {
  beginOnce,
  type Call,
  cancelled,
  type Handlers,
  json,
  keyedTask,
  type Service,
  written,
} from '../http/tasks.ts'
import { cardOf, VERSION } from './card.ts'
import { answersIn, queryIn } from './message.ts'
import { Pushes } from './push.ts'
import { CONTEXT, contextOf, eventsOf, STATES, taskOf } from './task.ts'
import { checked, Fault, faultOf, noTask, params, rpcRequest } from './wire.ts'

/** Result of a method: a value, or the task that is streamed. */
type Outcome = { readonly value: object } | { readonly streams: FoundTask }

interface Asked {
  readonly request: Request
  readonly caller: Caller
  readonly served: ServedTeam
  readonly given: unknown
}

/** How one binding writes what comes of a method. */
interface Binding {
  value(value: object): Response
  fault(fault: Fault): Response
  /** Data of an event of a stream. */
  event(event: object): string
  /** Event of a stream that ends with an error. */
  failed(fault: Fault): string
}

export function a2aHandlers(service: Service) {
  const { settings, teams, tasks, streams } = service
  const { a2a: given, logger } = settings
  const pushes = given && given.push !== false ? new Pushes(service, given) : undefined

  const teamOf = (name: string | undefined): ServedTeam => {
    const names = given?.teams ?? []
    const served = teams.own.find((each) => each.name === (name ?? names[0]) && names.includes(each.name))
    if (!served) throw new HttpError('NOT_FOUND', `There is no team "${name?.slice(0, 255)}" by A2A here.`)
    return served
  }

  const card = (served: ServedTeam, { request, caller }: Pick<Asked, 'request' | 'caller'>): object => {
    const base = given!.url ?? `${new URL(request.url).origin}${settings.basePath}`
    return cardOf(served, { url: `${base}/a2a/${served.name}`, settings: given!, caller })
  }

  /** A task that there is not, one of somebody else, and one of another team look alike. */
  const find = async (id: string, { caller, served }: Asked): Promise<FoundTask> => {
    const found = await tasks
      .find(id, caller, [], () => new HttpError('NOT_FOUND', ''))
      .catch((error: unknown) => {
        if (error instanceof HttpError && error.code === 'NOT_FOUND') return undefined
        throw error
      })
    if (found?.name !== served.name) throw noTask(id)
    return found
  }

  const pushesOf = (): Pushes => {
    if (pushes) return pushes
    throw new Fault('PUSH_NOTIFICATION_NOT_SUPPORTED', 'Push notifications are not served here (a2a.push). Subscribe to the task.') // biome-ignore format: one line
  }

  /** Begins the task of a message or joins it, or gives the answers that it brings. */
  const say = async (asked: Asked, isStreamed: boolean): Promise<FoundTask> => {
    const { message, configuration } = checked(params.SendMessage, asked.given, 'params')
    const { request, caller, served } = asked
    const { messageId, taskId, contextId } = message
    const push = configuration?.taskPushNotificationConfig
    if (push) await pushesOf().assertReachable(push, request.signal) // before a task begins
    if (taskId !== undefined) {
      const found = await find(taskId, asked)
      if (contextId !== undefined && contextId !== contextOf(found)) throw noTask(taskId)
      for (const each of await answersIn(message, found, request.signal))
        await answerOnce(found, each, request.signal).catch((error: unknown) => {
          if (!isOver(found.run)) throw error // an answer that is sent again after the end has nothing to do
        })
      if (push) await pushesOf().put(found, push)
      await written(found)
      return found
    }
    const query = queryIn(message)
    const keyed = keyedTask(['a2a', caller.id, served.name, messageId], [query, contextId])
    const path = checked(params.path, Object(message.metadata)[PATH] ?? [], `metadata["${PATH}"]`)
    const circle = tasks.isKnown(keyed.id) ? undefined : teams.own.map(({ team }) => team.circleIn(path)).find(Boolean)
    if (circle !== undefined) throw new HttpError('DEADLOCK', `a circle of agents: ${circle}.`, { status: 409 })
    const options = {
      threadId: contextId ?? keyed.id,
      metadata: {
        ...(contextId !== undefined && { [CONTEXT]: contextId }),
        ...(path.length > 0 && { [PATH]: JSON.stringify(path) }),
      },
      ...(isStreamed && { stream: true }),
    }
    const found = await beginOnce(service, { served, query, options, caller, request, keyed })
    if (push) await pushesOf().put(found, push)
    await written(found) // whoever reads its id finds it after a crash
    return found
  }

  /** Resolves when a task is over, when it asks its caller, or when it is late. */
  const settled = async (found: FoundTask, request: Request): Promise<void> => {
    if ((await knownEndOf(found.run)) || mayAnswer(found)) return
    const stop = new AbortController()
    const over = untilAnswerable(found, stop.signal)
    const gone = [request.signal, tasks.ending].map(
      (signal): Wait =>
        (done) =>
          onAbort(signal, done),
    )
    await firstOf(given!.waitMs, ...gone, (done) => {
      void over.then(done)
      return () => {}
    })
    stop.abort()
    if (request.signal.aborted && settings.onDisconnect === 'cancel') tasks.leave(found.run)
  }

  const methods = {
    async SendMessage(asked) {
      const { configuration } = checked(params.SendMessage, asked.given, 'params')
      const found = await say(asked, false)
      if (!configuration?.returnImmediately) await settled(found, asked.request)
      return { value: { task: await taskOf(found) } }
    },
    SendStreamingMessage: async (asked) => ({ streams: await say(asked, true) }),
    async SubscribeToTask(asked) {
      const found = await find(checked(params.GetTask, asked.given, 'params').id, asked)
      if (isOver(found.run)) throw new Fault('UNSUPPORTED_OPERATION', 'It is over: get the task.')
      return { streams: found }
    },
    async GetTask(asked) {
      const found = await find(checked(params.GetTask, asked.given, 'params').id, asked)
      await written(found)
      return { value: await taskOf(found) }
    },
    async CancelTask(asked) {
      const found = await find(checked(params.CancelTask, asked.given, 'params').id, asked)
      const isLate = isOver(found.run)
      if (!isLate) await cancelled(found, `cancelled by "${asked.caller.id}"`)
      if (isLate && found.run.status !== 'aborted') throw new Fault('TASK_NOT_CANCELABLE', `It is ${found.run.status}.`)
      return { value: await taskOf(found) }
    },
    async ListTasks(asked) {
      const { contextId, status, pageSize, pageToken, includeArtifacts } = checked(
        params.ListTasks,
        asked.given,
        'params',
      )
      const { caller, served } = asked
      const runs = await served.team.listRuns({ caller: caller.id, ...(contextId && { threadId: contextId }) })
      const listed =
        status && status !== 'TASK_STATE_UNSPECIFIED' ? runs.filter((run) => STATES[run.status] === status) : runs
      const at = pageToken === undefined ? 0 : listed.findIndex(({ id }) => id === pageToken) + 1
      if (pageToken !== undefined && at === 0)
        throw new HttpError('CONFIGURATION', 'params.pageToken: it is not known.')
      const page = listed.slice(at, at + (pageSize || PAGE))
      const shown: object[] = []
      for (const { id } of page)
        shown.push(await taskOf(await find(id, asked), { withArtifacts: includeArtifacts ?? false }))
      const isLast = at + page.length >= listed.length
      const nextPageToken = isLast ? '' : page.at(-1)!.id
      return { value: { tasks: shown, nextPageToken, pageSize: page.length, totalSize: listed.length } }
    },
    async CreateTaskPushNotificationConfig(asked) {
      const push = pushesOf()
      const { taskId, ...config } = checked(params.CreateTaskPushNotificationConfig, asked.given, 'params')
      const found = await find(taskId, asked)
      await push.assertReachable(config, asked.request.signal)
      return { value: await push.put(found, config) }
    },
    async GetTaskPushNotificationConfig(asked) {
      const push = pushesOf()
      const { taskId, id } = checked(params.GetTaskPushNotificationConfig, asked.given, 'params')
      const config = push.of(await find(taskId, asked), id)[0]
      if (!config) throw noTask(`${taskId}/${id}`)
      return { value: config }
    },
    async ListTaskPushNotificationConfigs(asked) {
      const push = pushesOf()
      const { taskId } = checked(params.ListTaskPushNotificationConfigs, asked.given, 'params')
      return { value: { configs: push.of(await find(taskId, asked)), nextPageToken: '' } }
    },
    async DeleteTaskPushNotificationConfig(asked) {
      const push = pushesOf()
      const { taskId, id } = checked(params.DeleteTaskPushNotificationConfig, asked.given, 'params')
      await push.remove(await find(taskId, asked), id)
      return { value: {} }
    },
    GetExtendedAgentCard: async (asked) => ({ value: card(asked.served, asked) }),
  } satisfies Record<string, (asked: Asked) => Promise<Outcome>>

  const log = (error: unknown) => logger.error({ error: describe(error) }, 'a request of A2A has failed')

  const respond = async (
    name: string,
    asked: Asked,
    { value, fault, event: dataOf, failed }: Binding,
  ): Promise<Response> => {
    try {
      assertVersion(asked.request)
      if (!Object.hasOwn(methods, name)) throw unknownMethod(name)
      const outcome = await methods[name as keyof typeof methods](asked)
      if (!('streams' in outcome)) return value(outcome.value)
      const found: FoundTask = outcome.streams
      const { request, caller } = asked
      const after = afterIn(request, found)
      async function* frames(signal: AbortSignal): AsyncGenerator<string> {
        try {
          for await (const { event, seq } of eventsOf(found, { after, signal })) {
            const id = seq === undefined ? '' : `id: ${found.team.logName}.${seq}\n`
            yield `${id}data: ${dataOf(event)}\n\n`
          }
        } catch (error) {
          yield failed(faultOf(error, log))
        }
      }
      tasks.returned(found.run.id)
      const left = () => {
        if (settings.onDisconnect === 'cancel') tasks.leave(found.run)
      }
      return streams.respond({ request, caller, form: 'sse', runId: found.run.id, frames, left })
    } catch (error) {
      return fault(faultOf(error, log))
    }
  }

  const byPath = async (call: PathCall): Promise<Response> => {
    const { request, caller, params: { team, path = '' } } = call // biome-ignore format: one line
    const served = teamOf(team)
    const [name, ofPath] = methodAt(request.method, path)
    const asked = async (): Promise<Asked> => {
      const body = request.method === 'POST' ? await bodyOf(request) : {}
      return { request, caller, served, given: { ...Object(body), ...Object.fromEntries(new URL(request.url).searchParams), ...ofPath } } // biome-ignore format: one line
    }
    return asked().then(
      (given) => respond(name, given, OF_PATHS),
      (error: unknown) => OF_PATHS.fault(faultOf(error, log)),
    )
  }

  const bodyOf = async (request: Request): Promise<unknown> => {
    const type = request.headers.get('content-type') ?? 'application/json'
    if (!/^application\/(?:a2a\+)?json\s*(?:;|$)/i.test(type))
      throw new Fault('CONTENT_TYPE_NOT_SUPPORTED', 'content-type: accepted is application/json.')
    const text = await readText(request, settings.limits)
    return text === '' ? {} : jsonIn(text)
  }

  return {
    a2aCard: ({ request, caller, params: { team } }) => json(card(teamOf(team), { request, caller })),

    async a2a({ request, caller, params: { team } }) {
      const served = teamOf(team)
      let id: unknown = null
      try {
        const body = await bodyOf(request)
        const { success, data } = rpcRequest.safeParse(body)
        const known = rpcRequest.shape.id.safeParse(Object(body).id)
        id = known.data ?? null
        if (!success) throw new Fault('INVALID_REQUEST', NO_RPC)
        return await respond(data.method, { request, caller, served, given: data.params ?? {} }, rpcOf(id))
      } catch (error) {
        const isNoJson = error instanceof HttpError && error.code === 'BAD_REQUEST'
        return rpcOf(id).fault(isNoJson ? new Fault('PARSE_ERROR', error.message) : faultOf(error, log))
      }
    },

    a2aPost: byPath,
    a2aGet: byPath,
    a2aDelete: byPath,
  } satisfies Partial<Handlers>
}

type PathCall = Pick<Call, 'request' | 'caller' | 'params'>

const PAGE = 50
const NO_RPC = 'It is no request of JSON-RPC 2.0: one object with jsonrpc, id, method and params is accepted.'

const rpcOf = (id: unknown): Binding => ({
  value: (result) => json({ jsonrpc: '2.0', id, result }),
  // Only a client that may try again has to see it by the status.
  fault: ({ status, headers, ofRpc }) =>
    json({ jsonrpc: '2.0', id, error: ofRpc }, status === 429 || status >= 500 ? status : 200, { ...headers }),
  event: (result) => JSON.stringify({ jsonrpc: '2.0', id, result }),
  failed: ({ ofRpc }) => `data: ${JSON.stringify({ jsonrpc: '2.0', id, error: ofRpc })}\n\n`,
})

const OF_PATHS: Binding = {
  value: (value) => json(value),
  fault: ({ status, headers, ofHttp }) => json(ofHttp, status, { ...headers }),
  event: (event) => JSON.stringify(event),
  failed: ({ ofHttp }) => `event: error\ndata: ${JSON.stringify(ofHttp)}\n\n`,
}

const CONFIG_PATH = /^tasks\/([^/:]+)\/pushNotificationConfigs(?:\/([^/]+))?$/
const OF_CONFIGS = new Map([
  ['POST', 'CreateTaskPushNotificationConfig'],
  ['GET', 'ListTaskPushNotificationConfigs'],
])
const OF_CONFIG = new Map([
  ['GET', 'GetTaskPushNotificationConfig'],
  ['DELETE', 'DeleteTaskPushNotificationConfig'],
])

const TASK_PATH = /^tasks\/([^/:]+)(?::(cancel|subscribe))?$/

/** Returns the method of a path, and its parameters that the path has. */
function methodAt(verb: string, path: string): [name: string, params: object] {
  if (verb === 'POST' && path === 'message:send') return ['SendMessage', {}]
  if (verb === 'POST' && path === 'message:stream') return ['SendStreamingMessage', {}]
  if (verb === 'GET' && path === 'tasks') return ['ListTasks', {}]
  if (verb === 'GET' && path === 'extendedAgentCard') return ['GetExtendedAgentCard', {}]
  const [, taskId, ofTask] = CONFIG_PATH.exec(path) ?? []
  const ofPush = taskId && (ofTask ? OF_CONFIG : OF_CONFIGS).get(verb)
  if (ofPush) return [ofPush, { taskId, ...(ofTask && { id: ofTask }) }]
  const [, id = '', act] = TASK_PATH.exec(path) ?? []
  if (id !== '' && act === 'subscribe' && verb !== 'DELETE') return ['SubscribeToTask', { id }]
  if (id !== '' && act === 'cancel' && verb === 'POST') return ['CancelTask', { id }]
  if (id !== '' && act === undefined && verb === 'GET') return ['GetTask', { id }]
  return [`${verb} ${path}`, {}]
}

const unknownMethod = (name: string): Fault => {
  const old = /^(?:message|tasks)\/\w+(?:\/\w+)?$/.test(name)
  if (old)
    return new Fault('VERSION_NOT_SUPPORTED', `"${name.slice(0, 100)}" is a method of A2A 0.3. Served is ${VERSION}.`)
  return new Fault('METHOD_NOT_FOUND', `There is no method "${name.slice(0, 100)}".`)
}

/** A request that names no version is one of this: the methods of others have other names. */
function assertVersion(request: Request): void {
  const named = request.headers.get('a2a-version') || new URL(request.url).searchParams.get('A2A-Version') || VERSION
  if (named.trim() !== VERSION)
    throw new Fault(
      'VERSION_NOT_SUPPORTED',
      `A2A-Version: "${named.slice(0, 20)}" is not served. Served is ${VERSION}.`,
    )
}

/** Returns how far a client has a stream, by the id of the last event that it has seen. */
function afterIn(request: Request, { team }: FoundTask): number | undefined {
  const last = request.headers.get('last-event-id')
  if (last === null) return undefined
  const { log, seq } = readPosition(last)
  return log === team.logName ? seq : undefined
}
