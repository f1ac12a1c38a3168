/**
 * Teams as a server of the Model Context Protocol: one for each request, or for a connection over pipes. Nothing of a
 * task is kept here: whoever has its id, and is its caller, goes on with it in any process that has its log.
 */
import type {
  CallToolResult,
  InputRequests,
  InputRequiredResult,
  McpRequestContext,
  McpServer,
  ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { tracings } from '../../runtime/observers/tracing.ts'
import { untilAsked } from '../../runtime/runs/run-handle.ts'
import type { TraceHeaders } from '../../runtime/settings/options.ts'
import { isObject } from '../../shared/checks.ts'
import { describe } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { digestOf } from '../../shared/random.ts'
import { own } from '../../shared/values.ts'
import { answerOnce } from '../chat/handlers.ts'
import { outputOf } from '../http/openai-request.ts'
import type { Caller, McpSettings, Right } from '../http/options.ts'
import { HttpError, httpErrorOf, INTERNAL } from '../http/problem.ts'
import { queryText, type TaskQuestion } from '../http/schemas.ts'
import { firstOf } from '../http/streams.ts'
import {
  type FoundTask,
  HELD,
  isOver,
  knownEndOf,
  mayAnswer,
  openIn,
  type ServedTeam,
  untilAnswerable,
} from '../http/task-view.ts'
import { answerAs, beginOnce, cancelled, keyedTask, type Service, traceOf, written } from '../http/tasks.ts'
import { answersIn, answerTo, requestsOf } from './questions.ts'
import type { Sdk } from './sdk.ts'

/** Extension by which a client takes a task in the place of an answer, and asks for it later (SEP-2663). */
const TASKS = 'io.modelcontextprotocol/tasks'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
/** Field of `_meta` of a call: one that is sent again with the same key joins its task. */
const KEY = 'dramatis/idempotencyKey'
const LONGEST_KEY = 255
/** Shortest time after which a client asks again how a task stands, and between two signs of life, in ms. */
const POLL_MS = 1_000

/** Forms one after the other within a call: then it is answered, since clients give up after 10. */
const MOST_ROUNDS = 8

/** A caller, and the teams that it may ask. */
export interface Asking {
  readonly caller: Caller
  readonly teams: readonly ServedTeam[]
  readonly request: Pick<Request, 'headers' | 'signal'>
  /** The client is at the other end of a pipe: it is told that its task works, and waits for it. */
  readonly isPiped?: boolean
}

type Result = CallToolResult | InputRequiredResult

/** A tool that gives a task to a team, or to one of its agents. */
export interface AskTool {
  readonly name: string
  readonly served: ServedTeam
  readonly agent?: string
  readonly description: string
}

/** Returns the tools that give tasks. A name has letters that each program takes, and no more than it takes. */
export function askTools(teams: readonly ServedTeam[], { tools }: Pick<McpSettings, 'tools'>): AskTool[] {
  return teams.flatMap((served) => {
    const agents = served.team.listAgents().map(({ name, role: { description = '' } }) => ({ name, description }))
    const words = agents.map(({ name, description }) => `${name}${description && `: ${description}`}`).join('; ')
    const whole = { served, description: `Gives a task to the team "${served.name}" of AI agents (${words}).` }
    const single = agents.map(({ name, description }) => ({
      name: nameOf(`ask_${served.name}_${name}`),
      served,
      agent: name,
      description: `Gives a task to the agent "${name}" of the team "${served.name}" alone. ${description}`.trim(),
    }))
    return [
      ...(tools.includes('ask') ? [{ name: nameOf(`ask_${served.name}`), ...whole }] : []),
      ...(tools.includes('agents') ? single : []),
    ]
  })
}

const LONGEST_NAME = 64

function nameOf(text: string): string {
  const name = text.replaceAll(/[^\w-]/g, '_')
  if (name.length <= LONGEST_NAME) return name
  const hash = `_${digestOf(text).slice(0, 8)}`
  return name.slice(0, LONGEST_NAME - hash.length) + hash
}

const taskId = z.string().min(1).max(255).describe('of the task, as its call has told it')
const inputOf = {
  ask: z.object({
    query: queryText.describe('the task, with all that the team has to know'),
    threadId: z.string().min(1).max(255).optional().describe('goes on with the conversation of that name'),
    output: z.record(z.string(), z.unknown()).optional().describe('JSON Schema of the answer; default: a text'),
  }),
  task: z.object({ taskId }),
  answer: z.object({
    taskId,
    questionId: z.string().min(1).max(255),
    answer: queryText.describe("for an approval 'yes' or 'no'; for a form the JSON text of its object"),
    digest: z.string().max(100).optional().describe('of an approval, as the question has it'),
  }),
}

/** Returns what makes a server for a caller. */
export function serverFor(
  { McpServer, ProtocolError, MissingRequiredClientCapabilityError, isSpecType }: Sdk,
  service: Pick<Service, 'settings' | 'tasks' | 'keys'>,
  settings: McpSettings,
  asking: Asking,
): (context: McpRequestContext) => McpServer {
  const { tasks } = service
  const { caller, request, teams, isPiped = false } = asking
  const tracing = teams.map(({ team }) => tracings.get(team)).find((each) => each !== undefined)

  /** Returns the task of the caller, or of others that a right lets it see. */
  const find = (id: string, ...others: Right[]): Promise<FoundTask> => tasks.find(id, caller, others)

  const begin = async (
    { name, served, agent }: AskTool,
    asked: z.infer<typeof inputOf.ask>,
    context: ServerContext,
    place: TraceHeaders,
  ) => {
    const { query, threadId, output } = asked
    const meta: Record<string, unknown> = context.mcpReq._meta ?? {}
    const speaks = agent !== undefined && served.team.orchestration.strategy === 'handoff'
    const options = {
      ...(threadId !== undefined && { threadId }),
      ...(speaks && { speaker: agent }),
      ...(await outputOf('output', output)),
    }
    const start = {
      served,
      query,
      options,
      caller,
      request: { headers: new Headers({ ...place }) },
      agent: speaks ? undefined : agent,
    }
    const key = keyIn(meta)
    if (key === undefined) return { found: await tasks.start(start), isKeyed: false }
    const keyed = keyedTask(['mcp', caller.id, key], [name, asked])
    return { found: await beginOnce(service, { ...start, keyed }), isKeyed: true }
  }

  /** Resolves when a task is over, when it asks what its caller may answer, or when it is late. */
  const wait = async (found: FoundTask, context: ServerContext): Promise<void> => {
    if ((await knownEndOf(found.run)) || mayAnswer(found)) return
    const token = isPiped ? context.mcpReq._meta?.progressToken : undefined
    const stop = new AbortController()
    const over = untilAnswerable(found, stop.signal)
    const gone = [context.mcpReq.signal, request.signal, tasks.ending]
    for (let progress = 1; ; progress++) {
      let isDone = token === undefined || gone.some(({ aborted }) => aborted)
      const end = (done: () => void) => () => {
        isDone = true
        done()
      }
      await firstOf(
        token === undefined ? settings.waitMs : POLL_MS,
        ...gone.map((signal) => (done: () => void) => onAbort(signal, end(done))),
        (done) => {
          void over.then(end(done))
          return () => {}
        },
      )
      if (isDone) break
      const message = worksIn(found)
      const params = { progressToken: token!, progress, ...(message !== undefined && { message }) }
      await context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
    }
    stop.abort()
  }

  /** Gives the answers that a request brings. Rejects for one that nobody may give, or to what was never asked. */
  const answer = async (found: FoundTask, context: ServerContext): Promise<Answered> => {
    const silent: string[] = []
    const refused = new Map<string, HttpError>()
    for (const given of answersIn(context.mcpReq.inputResponses)) {
      const { questionId } = given
      await untilAsked(found.run, questionId, request.signal)
      const question = found.run.questions.find((each) => each.questionId === questionId)
      const answer = answerTo(question, given, isSpecType)
      if (!answer) silent.push(questionId)
      else
        await answerOnce(found, answer, request.signal).catch((error: unknown) => {
          if (!isToAskAgain(error)) throw error
          refused.set(questionId, error)
        })
    }
    return { silent, refused }
  }

  /** Returns a task as the answer to a call: its end, what it asks, or how it stands. */
  const shown = async (found: FoundTask, asks?: (questions: TaskQuestion[]) => Result | undefined): Promise<Result> => {
    const { run } = found
    await written(found) // whoever reads its id finds it after a crash
    const { offered, isHeld } = await openIn(found)
    if (isOver(run)) return endOf(found) // looked at last: it may have ended meanwhile
    const asked = offered.length > 0 ? asks?.(offered) : undefined
    if (asked) return asked
    const now = {
      taskId: run.id,
      status: run.status,
      questions: offered.map(({ questionId, kind, text, choices, form, digest }) => ({
        ...{ questionId, kind, text },
        ...(choices && { choices }),
        ...(form && { form }),
        ...(digest !== undefined && { digest }),
      })),
      ...(isHeld && { waitsFor: HELD }),
    }
    const next = offered.length > 0 ? 'Call answer_question, then task_status.' : 'Call task_status with its taskId.'
    const content = [{ type: 'text' as const, text: `${JSON.stringify(now)}\nThe task goes on. ${next}` }]
    return { content, structuredContent: now, _meta: metaOf(found) }
  }

  const isTaskClient = (context: ServerContext, server: McpServer): boolean =>
    capabilitiesOf(context, server).extensions?.[TASKS] !== undefined

  const ask = async (
    tool: AskTool,
    asked: z.infer<typeof inputOf.ask>,
    context: ServerContext,
    server: McpServer,
    place: TraceHeaders,
  ): Promise<Result> => {
    const state: unknown = context.mcpReq.requestState()
    const [, round = '0', id = ''] = /^(?:(\d) )?(.*)$/.exec(String(state)) ?? []
    const { found, isKeyed } =
      typeof state === 'string' ? { found: await find(id), isKeyed: true } : await begin(tool, asked, context, place)
    try {
      return await follow(found, Number(round), context, server)
    } catch (error) {
      return failure(error, found)
    } finally {
      const { onDisconnect } = service.settings
      const isGone = context.mcpReq.signal.aborted || request.signal.aborted
      if (isGone && (onDisconnect === 'cancel' || (onDisconnect === 'auto' && !isKeyed))) tasks.leave(found.run)
    }
  }

  const follow = async (
    found: FoundTask,
    round: number,
    context: ServerContext,
    server: McpServer,
  ): Promise<Result> => {
    if (isTaskClient(context, server) && context.mcpReq.envelope) {
      await written(found)
      // The client asks for its end and its questions, also where it has sent the call again.
      const { result: _result, inputRequests: _requests, ...task } = await taskNow(found)
      return { ...task, resultType: 'task', content: [] } as unknown as Result
    }
    const { silent, refused } = await answer(found, context)
    const canElicit = capabilitiesOf(context, server).elicitation !== undefined && round < MOST_ROUNDS
    if (!canElicit) for (const error of refused.values()) throw error
    await wait(found, context)
    return shown(found, (questions) => {
      const open = questions.filter(({ questionId }) => !silent.includes(questionId))
      if (!canElicit || open.length === 0) return undefined
      const inputRequests = requestsOf(open, isSpecType, refused)
      const requestState = `${round + 1} ${found.run.id}`
      return { resultType: 'input_required', inputRequests, requestState, _meta: metaOf(found) }
    })
  }

  /** Returns a task in the words of the extension, with a pace of polls that leaves half of what a caller may send. */
  const taskNow = (found: FoundTask): Promise<Record<string, unknown>> => {
    const { postsPerSecond } = service.settings.limits
    const pollIntervalMs = Math.max(POLL_MS, Math.ceil((2_000 * tasks.openOf(caller)) / postsPerSecond))
    return taskOf(found, pollIntervalMs, (questions) => requestsOf(questions, isSpecType))
  }

  /** Methods of the extension. A task that there is not, and one of somebody else, look alike. */
  const addTasks = (server: McpServer): void => {
    const params = z.looseObject({ taskId })
    const on = (method: string, act: (found: FoundTask, context: ServerContext) => Promise<object>) =>
      server.server.setRequestHandler(method, { params }, async ({ taskId: id }, context) => {
        if (!isTaskClient(context, server))
          throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS]: {} } } })
        let found: FoundTask | undefined
        try {
          found = await find(id)
          return { resultType: 'complete', ...(await act(found, context)) }
        } catch (error) {
          const { code, message } = known(error)
          throw new ProtocolError(INVALID, code === 'NOT_FOUND' && !found ? 'Task not found' : `${code}: ${message}`)
        }
      })
    on('tasks/get', taskNow)
    on('tasks/update', async (found, context) => {
      const { refused } = await answer(found, context)
      for (const error of refused.values()) throw error
      return {}
    })
    on('tasks/cancel', async (found) => {
      if (!isOver(found.run)) await cancelled(found, cancelledBy(caller))
      return {}
    })
  }

  const known = (error: unknown): HttpError => {
    const shown = httpErrorOf(error)
    if (!shown) service.settings.logger.error({ error: describe(error) }, 'a request of MCP has failed')
    return shown ?? INTERNAL
  }

  /** `found`: the task of the call, which goes on without it. */
  const failure = (error: unknown, found?: FoundTask): CallToolResult => {
    const { code, message } = known(error)
    const text = `${code}: ${message}${found ? `\nIts taskId is ${found.run.id}: call task_status.` : ''}`
    return { content: [{ type: 'text', text }], isError: true, ...(found && { _meta: metaOf(found) }) }
  }

  return ({ era }) => {
    const server = new McpServer(
      { name: 'dramatis', title: teams.map(({ name }) => name).join(', '), version: '1' },
      {
        capabilities: { tools: { listChanged: false }, extensions: { [TASKS]: {} } },
        instructions:
          'Teams of AI agents. A task may take long: its call then tells a taskId, and task_status waits for it.',
      },
    )
    const add = <Input extends z.ZodObject>(
      name: string,
      inputSchema: Input,
      more: { description: string; annotations?: object },
      act: (input: z.infer<Input>, context: ServerContext, place: TraceHeaders) => Promise<Result>,
    ) => {
      const call = async (input: unknown, context: ServerContext): Promise<Result> => {
        const work = (place: TraceHeaders) => act(input as z.infer<Input>, context, place).catch(failure)
        const [carrier, named] = [traceOf(request), traceIn(context.mcpReq._meta ?? {})]
        if (!tracing) return work(named.traceparent === undefined ? carrier : named)
        const attributes = {
          'mcp.method.name': 'tools/call',
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': name,
          'mcp.protocol.version': server.server.getNegotiatedProtocolVersion(),
          'jsonrpc.request.id': String(context.mcpReq.id),
          'network.transport': isPiped ? 'pipe' : 'tcp',
        }
        return tracing.served({ name: `tools/call ${name}`, attributes, own: named, carrier }, work, toolErrorIn)
      }
      server.registerTool(name, { inputSchema: inputSchema as z.ZodObject, ...more }, call as never)
    }
    if (caller.may.includes('run'))
      for (const tool of askTools(teams, settings))
        add(tool.name, inputOf.ask, { description: tool.description }, (asked, context, place) =>
          ask(tool, asked, context, server, place),
        )
    add(
      'task_status',
      inputOf.task,
      { description: 'Waits a while for the end of a task. Says how it stands, and what it asks.', annotations: READS },
      async ({ taskId: id }, context) => {
        const found = await find(id, 'watch')
        await wait(found, context)
        return shown(found)
      },
    )
    add(
      'answer_question',
      inputOf.answer,
      { description: 'Answers a question of a task for a person. Ask the person first.' },
      async ({ taskId: id, ...given }) => {
        const found = await find(id, 'operate', 'approve')
        await answerAs(caller, found, given)
        await written(found)
        return { content: [{ type: 'text', text: 'The answer is taken. Call task_status.' }] }
      },
    )
    add(
      'cancel_task',
      inputOf.task,
      { description: 'Cancels a task.', annotations: { destructiveHint: true, idempotentHint: true } },
      async ({ taskId: id }) => {
        const found = await find(id, 'operate')
        if (!isOver(found.run)) await cancelled(found, cancelledBy(caller))
        return shown(found)
      },
    )
    if (era === 'modern') addTasks(server)
    return server
  }
}

/** Answers of a request that have settled nothing. */
interface Answered {
  /** Questions whose person says nothing. */
  readonly silent: readonly string[]
  /** Answers that their questions do not take, by question: it stays open. */
  readonly refused: ReadonlyMap<string, HttpError>
}

/** Checks for an answer that is wrong, or is about what has changed since it was shown. */
const isToAskAgain = (error: unknown): error is HttpError =>
  error instanceof HttpError && (error.code === 'CONFIGURATION' || error.details.how === 'changed')

const READS = { readOnlyHint: true }

/** Error code of JSON-RPC: invalid params. */
const INVALID = -32_602

const cancelledBy = ({ id }: Caller): string => `cancelled by "${id}"`

/** Capabilities of a client: a request of 2026 has them, and a connection of 2025 has begun with them. */
const capabilitiesOf = (context: ServerContext, server: McpServer): Capabilities =>
  (own(Object(context.mcpReq.envelope), CAPABILITIES) ?? server.server.getClientCapabilities() ?? {}) as Capabilities

interface Capabilities {
  readonly elicitation?: object
  readonly extensions?: Readonly<Record<string, unknown>>
}

const metaOf = ({ run }: FoundTask) => ({ 'dramatis/taskId': run.id, 'dramatis/status': run.status })

/** Returns the end of a task that is over as the answer to a call. */
async function endOf(found: FoundTask): Promise<CallToolResult> {
  const end = (await knownEndOf(found.run))!
  const _meta = metaOf(found)
  const text = (words: string) => [{ type: 'text' as const, text: words }]
  if (end.error) return { content: text(`${end.error.code}: ${end.error.message}`), isError: true, _meta }
  const { finalOutput, data } = end as Exclude<typeof end, { error: Error }>
  return { content: text(finalOutput), ...(isObject(data) && { structuredContent: { ...data } }), _meta }
}

async function taskOf(
  found: FoundTask,
  pollIntervalMs: number,
  requestsFor: (questions: readonly TaskQuestion[]) => InputRequests,
): Promise<Record<string, unknown>> {
  const { run } = found
  const createdAt = new Date(run.startedAt).toISOString()
  const of = {
    taskId: run.id,
    createdAt,
    lastUpdatedAt: new Date().toISOString(),
    ttlMs: null,
    pollIntervalMs,
  }
  const { offered, isHeld } = await openIn(found)
  if (run.status === 'aborted') return { ...of, status: 'cancelled' }
  if (isOver(run)) return { ...of, status: 'completed', result: await endOf(found) }
  if (offered.length > 0) return { ...of, status: 'input_required', inputRequests: requestsFor(offered) }
  const statusMessage = isHeld ? HELD : worksIn(found)
  return { ...of, status: 'working', ...(statusMessage !== undefined && { statusMessage }) }
}

/** Says who works in a task now. */
function worksIn({ team, run }: FoundTask): string | undefined {
  const agents = new Set(team.turns().flatMap(({ runId, agent }) => (runId === run.id ? [agent] : [])))
  const names = [...agents].filter((agent) => !agent.startsWith('$'))
  return names.length === 0 ? undefined : `${names.join(', ')} ${names.length === 1 ? 'works' : 'work'}`
}

/** @throws HttpError for a key that is none. */
function keyIn(meta: Readonly<Record<string, unknown>>): string | undefined {
  const key = meta[KEY]
  if (key === undefined || (typeof key === 'string' && key !== '' && key.length <= LONGEST_KEY)) return key
  throw new HttpError('BAD_REQUEST', `_meta["${KEY}"]: accepted are 1 to ${LONGEST_KEY} characters, such as a UUID.`)
}

/** Returns the place in a trace that a call names (SEP-414), with what its caller passes along. */
function traceIn({ traceparent, tracestate, baggage }: Readonly<Record<string, unknown>>): TraceHeaders {
  if (typeof traceparent !== 'string' || !/^[\da-f-]{55}$/.test(traceparent)) return {}
  const isHeader = (value: unknown, longest: number): value is string =>
    typeof value === 'string' && value.length <= longest && /^[\x20-\x7e]+$/.test(value)
  return {
    traceparent,
    ...(isHeader(tracestate, 512) && { tracestate }),
    ...(isHeader(baggage, LONGEST_BAGGAGE) && { baggage }),
  }
}

/** As the specification has it (W3C Baggage). */
const LONGEST_BAGGAGE = 8_192

/** Returns the error of a result, by the conventions of OpenTelemetry. */
function toolErrorIn(result: Result): { code: string; message: string } | undefined {
  if (!('isError' in result) || result.isError !== true) return undefined
  const { content } = result as CallToolResult
  return { code: 'tool_error', message: content.map((part) => ('text' in part ? part.text : '')).join('\n') }
}
