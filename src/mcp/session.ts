/** Sessions with an MCP server, from `initialize` until they are closed. */
import type { Client, ElicitResult as Elicited, RequestOptions } from '@modelcontextprotocol/client'
import { isOverIn } from '../shared/clock.ts'
import { onAbort, unlessAborted } from '../shared/on-abort.ts'
import { type Fields, isCutOff, passedParams, passedResult, passResults } from './loose.ts'
import { type Context, elicited, MOST_QUESTIONS } from './rounds.ts'
import { type Era, nameOf, placeOf } from './server-address.ts'
import {
  type Fate,
  httpTransport,
  isClosed,
  type Line,
  NotSentError,
  type SessionParts,
  StdioTransport,
} from './transports.ts'

export interface Session {
  readonly client: Client
  /** The years that it speaks. */
  readonly era: Exclude<Era, 'auto'>
  /** Attributes of spans of its calls, by the conventions of OpenTelemetry. */
  readonly attributes: Readonly<Record<string, string | number | undefined>>
  /** Asks the server, and returns the result as it has sent it. */
  ask(method: string, params: Fields, options: RequestOptions): Promise<Fields>
  /** Calls `changed` at news of the list of tools. Resolves when no more of them come. */
  listen(changed: () => void, signal: AbortSignal): Promise<void>
  /** Does something for a call: whom the server asks meanwhile is the person of that call. */
  underWay<T>(context: Context, work: () => Promise<T>): Promise<T>
  /** True once nothing can be sent any more. */
  readonly isOver: boolean
  /** Says what a failed request has done at the server. */
  fateOf(error: unknown): Fate
  retryAfterMs(): number
  /** Tells the server that the session is over, and ends a server that was started here. Twice is fine. */
  close(): Promise<void>
}

/** The caller of a tool has its own time limit, which ends the wait by its signal. */
export const NO_LIMIT = 2 ** 31 - 1
const LEAVE_MS = 1_000

/** Time in ms that a server has to say that it speaks the protocol of 2026. One of 2025 may say nothing. */
const PROBE_MS = 2_000
const NEWEST = '2026-07-28'
const CHANGED = 'notifications/tools/list_changed'

/**
 * Rejects when the server cannot be reached, says no, or the signal is aborted; nothing stays open then. A server of
 * 2025 that leaves at a question which it does not know is begun anew, and not asked.
 */
export async function beginSession(parts: SessionParts, signal: AbortSignal, era: Era = 'auto'): Promise<Session> {
  try {
    return await begun(parts, signal, era)
  } catch (error) {
    if (era !== 'auto' || signal.aborted || !isUndecided(parts.kit, error)) throw error
    return await begun(parts, signal, '2025')
  }
}

/** Checks whether a server has not said which years it speaks, rather than refused. */
const isUndecided = ({ SdkError }: SessionParts['kit'], error: unknown): boolean =>
  error instanceof SdkError && /^(ERA_NEGOTIATION_FAILED|REQUEST_TIMEOUT)$/.test(error.code)

async function begun(parts: SessionParts, signal: AbortSignal, era: Era): Promise<Session> {
  const mode = era === 'auto' ? 'auto' : era === '2025' ? 'legacy' : { pin: NEWEST }
  const client: Client = new parts.kit.Client(
    { name: 'dramatis', version: '1' },
    { capabilities: OFFERED, versionNegotiation: { mode, probe: { timeoutMs: PROBE_MS } } },
  )
  client.onerror = parts.failed
  /** Calls under way, with how many questions are open for each. */
  const callers = new Map<Context, number>()
  const line = lineTo(parts)
  const passing = passResults(line)
  client.setRequestHandler('elicitation/create', { params: passedParams }, (params) =>
    elicitedBy(parts, callers, passing.runs, params),
  )
  line.transport.onerror = (error) => {
    // the client listens when it has asked which years there are; over HTTP a refusal of that is no news
    if (!client.transport && 'command' in parts.server) parts.failed(error)
  }
  let ended = () => {}
  const over = new Promise<void>((resolve) => {
    ended = resolve
  })
  client.onclose = () => ended()
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= hangUp(client, line)
    return closing
  }
  const stop = onAbort(signal, () => void line.transport.close()) // the package's first question takes no signal
  try {
    await client.connect(line.transport, { signal, timeout: NO_LIMIT })
  } catch (error) {
    await close().catch(() => {})
    signal.throwIfAborted()
    throw error
  } finally {
    stop()
  }
  return {
    client,
    era: client.getProtocolEra() === 'modern' ? '2026' : '2025',
    attributes: {
      'mcp.protocol.version': client.getNegotiatedProtocolVersion(),
      'mcp.session.id': line.transport.sessionId,
      ...placeOf(parts.server),
    },
    ask: (method, params, options) => client.request({ method, params }, passedResult, options),
    get isOver() {
      return client.transport === undefined
    },
    async listen(changed, signal) {
      client.setNotificationHandler(CHANGED, changed)
      const tellsOf = client.getServerCapabilities()?.tools?.listChanged === true
      if (tellsOf && client.getProtocolEra() === 'modern')
        await client.listen({ toolsListChanged: true }, { signal }).then(({ closed }) => closed)
      else await unlessAborted(signal, over)
    },
    async underWay(context, work) {
      callers.set(context, callers.get(context) ?? 0)
      passing.runId = context.runId // of what is sent before it waits
      try {
        const done = work()
        passing.runId = undefined
        return await done
      } finally {
        passing.runId = undefined
        callers.delete(context)
      }
    },
    retryAfterMs: () => line.retryAfterMs?.() ?? 0,
    fateOf: (error) => (isCutOff(error) ? 'unclear' : line.fateOf(error)),
    close,
  }
}

/** Sampling and roots are never offered. */
const OFFERED = {
  elicitation: { form: {}, url: {} },
  extensions: { 'io.modelcontextprotocol/tasks': {} },
}

/**
 * A server of 2025 asks in its connection, and does not say for which call. Where it may still work for calls of
 * several runs, nobody is asked, since it might be a person of another run: also where a call was given up here.
 */
async function elicitedBy(
  { server, failed }: SessionParts,
  callers: Map<Context, number>,
  unanswered: ReadonlyMap<unknown, string>,
  params: Fields,
): Promise<Elicited> {
  const runs = new Set([...unanswered.values(), ...[...callers.keys()].map(({ runId }) => runId)])
  const [context, open = 0] = [...callers].at(-1) ?? []
  const isUnclear = !context || runs.size !== 1
  if (isUnclear || open === MOST_QUESTIONS) {
    const why = isUnclear
      ? `it asks a person while calls of ${runs.size} runs are under way, or given up and not answered`
      : `it asks more than ${MOST_QUESTIONS} questions at once`
    failed(new Error(`${why}: the question was cancelled`))
    return { action: 'cancel' }
  }
  const count = (more: number) => callers.has(context) && callers.set(context, callers.get(context)! + more)
  count(1)
  try {
    return (await elicited(nameOf(server), params, context)) as unknown as Elicited
  } finally {
    count(-1)
  }
}

/** A server that keeps sessions is told that this one is over; one that does not answer is not waited for. */
async function hangUp(client: Client, line: Line): Promise<void> {
  if (line.leave)
    await isOverIn(
      LEAVE_MS,
      line.leave().catch(() => {}), // it is gone, or knows no sessions
    )
  await client.close()
  await line.ended?.()
}

function lineTo(parts: SessionParts): Line {
  const { kit, server, refuse } = parts
  if ('url' in server) return httpTransport(kit, server, refuse, parts.auth)
  const transport = new StdioTransport(server, parts)
  return {
    transport,
    end: (what) => transport.end(what),
    fateOf: (error) => (error instanceof NotSentError ? 'lost' : isClosed(kit, error) ? 'unclear' : 'answered'),
    ended: () => transport.close(),
  }
}
