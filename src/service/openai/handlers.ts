/** The endpoint in OpenAI's formats: teams as models, for programs that speak to nothing else. */
import type { ModelMessage, Run, RunOptions } from '../../index.ts'
import { systemClock, type Timer } from '../../shared/clock.ts'
import { type Asked, askedIn, askedInResponses, outputOf, refused, schemaIn } from '../http/openai-request.ts'
import type { Caller } from '../http/options.ts'
import { HttpError, httpErrorOf, INTERNAL } from '../http/problem.ts'
import { type FoundTask, isOver, type ServedTeam } from '../http/task-view.ts'
import {
  type Call,
  cancelled,
  draining,
  type Handlers,
  json,
  type ServedCluster,
  type ServedTeams,
  type Service,
  type Tasks,
  waitFor,
  written,
} from '../http/tasks.ts'
import {
  type Answer,
  type Asking,
  answerPieces,
  askedWith,
  askingWords,
  type Begun,
  chatFrames,
  completionOf,
  completionSaying,
  ignoredChat,
  ignoredResponses,
  openAiError,
  RESPONSE,
  type ResponseAsked,
  responseFrames,
  responseNow,
  responseOf,
  responseWaiting,
  taskIdOf,
} from './responses.ts'

/** Header of a request that names the thread whose conversation the query goes on with. */
const THREAD = 'x-dramatis-thread'
const MOST_THREAD_ID = 256
/** Header of a response with the fields of the request that a team has no use for. */
const IGNORED = 'x-dramatis-ignored'

/** Task in the format of OpenAI, as it is begun. */
export interface Beginning extends Pick<Call, 'request' | 'caller'> {
  readonly query: Asked['query']
  readonly options: RunOptions<unknown>
  readonly agent: string | undefined
}

/** Tasks of teams over several processes, whoever has them. */
export interface Elsewhere {
  begin(served: ServedCluster, beginning: Beginning): Promise<Begun>
  /** Resolves to the conversation that ended with a response; to nothing if no process knows the response. */
  conversation(
    responseId: string,
    asked: Pick<Call, 'request' | 'caller'>,
  ): Promise<readonly ModelMessage[] | undefined>
}

export function openAiHandlers(
  { settings, teams, tasks, streams }: Service,
  elsewhere: () => Promise<Elsewhere> | undefined,
) {
  const failed = (error: unknown) => openAiError(httpErrorOf(error) ?? INTERNAL)
  const api = `${settings.basePath}/api`
  const pieces = (begun: Begun, signal: AbortSignal, schema: object | undefined) =>
    answerPieces(begun, signal, { api, isData: schema !== undefined })
  const left = (run: Run<unknown>) => {
    if (settings.onDisconnect !== 'continue') tasks.leave(run)
  }

  const begin = async (
    { request, caller }: Pick<Call, 'request' | 'caller'>,
    model: string,
    { query, messages }: Asked,
    options: RunOptions<unknown>,
  ): Promise<Begun> => {
    const { served, agent } = modelOf(teams, model)
    const threadId = threadIn(request)
    const before = threadId === undefined ? { messages } : { threadId } // a thread has its conversation already
    const speaks = agent !== undefined && served.team.orchestration.strategy === 'handoff'
    const given = { ...options, ...before, ...(speaks && { speaker: agent }) }
    const beginning: Beginning = { agent: speaks ? undefined : agent, query, caller, request, options: given }
    const cluster = teams.cluster(served.name)
    if (cluster) return (await elsewhere()!).begin(cluster, beginning)
    const found = await tasks.start({ served, ...beginning })
    const { run } = found
    return {
      run,
      events: (types, signal) => run.events({ types, signal }),
      result: () => run.result,
      untilEnd: () => untilEnd(request, run),
      written: () => written(found),
      left: () => left(run),
      now: (named) => responseNow({ ...named, run }, failed),
    }
  }

  /** Returns the field of a conversation that no agent hears: none is played by a model, or a thread has its own. */
  const unheard = ({ request }: Pick<Call, 'request'>, model: string, { messages }: Asked, field: string): string[] => {
    if (messages.length === 0) return []
    const { served, agent } = modelOf(teams, model)
    const agents = served.team.listAgents().filter(({ name }) => agent === undefined || name === agent)
    const isHeard = threadIn(request) === undefined && agents.some(({ role }) => role.module === undefined)
    return isHeard ? [] : [field]
  }

  /** Resolves when a task has ended. Rejects if the client leaves before, or the service is being closed. */
  const untilEnd = async (request: Request, run: Run<unknown>): Promise<void> => {
    const hasEnded = await waitFor(run, Number.POSITIVE_INFINITY, request.signal, tasks.ending)
    if (request.signal.aborted) throw new HttpError('BAD_REQUEST', 'The client has left.')
    if (!hasEnded) throw draining()
  }

  /**
   * Resolves to the result of a task, or to what it waits for a person for, so that its client does. Rejects with its
   * error, or if the client leaves before.
   */
  const resultOf = async (
    { request, caller }: Pick<Call, 'request' | 'caller'>,
    begun: Begun,
    mayWait: boolean,
  ): Promise<Answer | Asking> => {
    let isTold = false
    const left = () => {
      if (request.signal.aborted && !isTold && !streams.isRead(begun.run.id, caller)) begun.left()
    }
    const ended = async () => {
      await begun.untilEnd().finally(left)
      const result = await begun.result()
      if (result.error) throw result.error
      return result
    }
    const stop = new AbortController()
    const first = mayWait ? [ended(), asking(begun, settings.limits.personWaitMs, stop.signal)] : [ended()]
    try {
      const answer = await Promise.race(first)
      isTold = 'questionId' in answer
      return answer
    } finally {
      stop.abort()
      first[0]!.catch(() => {}) // the client knows that the task goes on
    }
  }

  const streamed = (
    { request, caller }: Pick<Call, 'request' | 'caller'>,
    begun: Begun,
    headers: Record<string, string>,
    frames: (signal: AbortSignal) => AsyncIterable<string>,
    goesOn = false,
  ): Response =>
    streams.respond({
      ...{ request, caller, form: 'sse', headers, frames, runId: begun.run.id },
      left: () => void (goesOn || begun.left()),
    })

  /** Resolves to the conversation that ended with a response, once that one is complete. */
  const previously = async (
    { request, caller }: Pick<Call, 'request' | 'caller'>,
    responseId: string | null | undefined,
  ): Promise<Asked['messages']> => {
    if (responseId == null) return []
    const said = await (await elsewhere())?.conversation(responseId, { request, caller })
    if (said) return [...said]
    const { run } = await storedTask(tasks, responseId, caller, 'operate', taskIdOf(responseId) ?? responseId)
    await untilEnd(request, run)
    return [...(await run.result).messages]
  }

  return {
    listModels: () => json({ object: 'list', data: modelsOf(teams).map(modelObject) }),

    getModel({ params }) {
      modelOf(teams, params.model!)
      return json(modelObject(params.model!))
    },

    async chatCompletions(call) {
      const { body } = call
      const { model, stream, stream_options, response_format: format } = body
      const schema = schemaIn(format?.type, format?.json_schema?.schema, 'response_format')
      const output = await outputOf('response_format.json_schema.schema', schema)
      const asked = askedIn(body)
      const begun = await begin(call, model, asked, { ...output, stream: stream === true && !schema })
      const named = { run: begun.run, model }
      const headers = ignoredHeader([...ignoredChat(body), ...unheard(call, model, asked, 'messages')])
      if (!stream) {
        const result = await resultOf(call, begun, !schema)
        if (!('questionId' in result)) return json(completionOf(named, result), 200, headers)
        return json(completionSaying(named, askingWords(result, api)), 200, { ...headers, ...waitsFor(result) })
      }
      await begun.written()
      const usage = stream_options?.include_usage === true
      return streamed(call, begun, headers, (signal) => chatFrames(named, pieces(begun, signal, schema), usage, failed))
    },

    async createResponse(call) {
      const { body } = call
      const { model, stream, previous_response_id } = body
      const store = body.store !== false
      const background = body.background === true
      if (background && !store) throw refused('background', 'A response that is not stored cannot be asked for later.')
      const { format } = body.text ?? {}
      const schema = schemaIn(format?.type, format?.schema, 'text.format')
      const { query, messages } = askedInResponses(body)
      const previous = previous_response_id ?? null
      const asked = { query, messages: [...(await previously(call, previous)), ...messages] }
      const said: ResponseAsked = { model, previous, store, background }
      const begun = await begin(call, model, asked, {
        ...(await outputOf('text.format.schema', schema)),
        stream: stream === true && !schema,
        metadata: { [RESPONSE]: JSON.stringify(said) },
      })
      const named = { run: begun.run, ...said }
      const headers = ignoredHeader([...ignoredResponses(body), ...unheard(call, model, asked, 'input')])
      if (!stream && !background) {
        const result = await resultOf(call, begun, true)
        if (!('questionId' in result)) return json(responseOf(named, result), 200, headers)
        const words = schema ? undefined : askingWords(result, api)
        return json(responseWaiting(named, words), 200, { ...headers, ...waitsFor(result) })
      }
      await begun.written() // a client that is cut off behind the first frame finds it by its id
      if (!stream) return json(await begun.now(named), 200, headers)
      const frames = (signal: AbortSignal) => responseFrames(named, pieces(begun, signal, schema), failed)
      return streamed(call, begun, headers, frames, background)
    },

    async getResponse({ params, caller }) {
      const { run, asked } = await storedTask(tasks, params.id!, caller, 'watch')
      return json(await responseNow({ run, ...asked }, failed))
    },

    async cancelResponse({ params, caller }) {
      const { run, team, asked } = await storedTask(tasks, params.id!, caller, 'operate')
      if (!isOver(run)) await cancelled({ run, team }, `cancelled by "${caller.id}"`)
      return json(await responseNow({ run, ...asked }, failed))
    },
  } satisfies Partial<Handlers>
}

/** Resolves to a question that a person has left open for that time; to nothing before the task has ended. */
function asking(begun: Begun, ms: number, signal: AbortSignal): Promise<Asking> {
  return new Promise((resolve) => {
    const open = new Map<string, Timer>()
    const read = async () => {
      await systemClock.sleep(ms, signal)
      for await (const event of begun.events(['question', 'question.closed'], signal)) {
        if (event.type === 'question')
          open.set(
            event.questionId,
            systemClock.timer(ms, () => resolve(event)),
          )
        else if (event.type === 'question.closed') open.get(event.questionId)?.cancel()
      }
    }
    const cancelAll = () => {
      for (const timer of open.values()) timer.cancel()
    }
    read().then(cancelAll, cancelAll) // the end of the task tells what went wrong
  })
}

/** Header of an answer whose task waits for a person: the id of the question. */
const waitsFor = ({ questionId }: Asking): Record<string, string> => ({ 'x-dramatis-waits': questionId })

/** @throws HttpError if there is none, if it is a stranger's, or if it was not to be stored: they must not differ. */
export async function storedTask(
  tasks: Tasks,
  responseId: string,
  caller: Caller,
  others: 'watch' | 'operate',
  taskId = taskIdOf(responseId),
): Promise<FoundTask & { asked: ResponseAsked }> {
  const missing = () => {
    const detail = `There is no response "${responseId.slice(0, 255)}" that is stored, or it is not yours.`
    return new HttpError('NOT_FOUND', detail)
  }
  if (taskId === undefined) throw missing()
  const found = await tasks.find(taskId, caller, [others], missing)
  const asked = askedWith(found, found.run)
  if (!asked.store) throw missing()
  return { ...found, asked }
}

/** @throws HttpError for the id of a thread that no task can have. */
function threadIn({ headers }: Request): string | undefined {
  const threadId = headers.get(THREAD) ?? undefined
  if (threadId === undefined || (threadId !== '' && threadId.length <= MOST_THREAD_ID)) return threadId
  throw refused(THREAD, `The id of a thread has 1 to ${MOST_THREAD_ID} characters.`)
}

const ignoredHeader = (names: readonly string[]): Record<string, string> =>
  names.length === 0 ? {} : { [IGNORED]: names.join(', ').replaceAll(/[^\x20-\x7e]/g, '?') }

/** The names of all models: teams, and each agent of a team by itself. */
const modelsOf = (teams: ServedTeams): string[] =>
  teams.plans.flatMap(({ name, team }) => [name, ...team.listAgents().map((agent) => `${name}/${agent.name}`)])

const modelObject = (id: string) => ({ id, object: 'model', created: 0, owned_by: 'dramatis' })

/** @throws HttpError if there is no such model. */
function modelOf(teams: ServedTeams, model: string): { served: ServedTeam; agent: string | undefined } {
  const [name, agent] = model.split('/', 2) as [string, string | undefined]
  const served = teams.plans.find((each) => each.name === name)
  if (served && (agent === undefined || served.team.getAgent(agent))) return { served, agent }
  const known = modelsOf(teams).slice(0, 20).join(', ')
  const detail = `model: there is no model "${model.slice(0, 255)}"; there are ${known}.`
  throw new HttpError('NOT_FOUND', detail, { details: { path: 'model' } })
}
