/** Sessions with an MCP server, from `initialize` until they are closed. */
import type { Client, RequestOptions } from '@modelcontextprotocol/client'
import { onAbort, unlessAborted } from '../shared/on-abort.ts'
import { type Fields, passedResult, passResults } from './loose.ts'
import type { Era } from './server-address.ts'
import { httpTransport, isOverIn, type Line, type SessionParts, StdioTransport } from './transports.ts'

export interface Session {
  readonly client: Client
  /** The years that it speaks. */
  readonly era: Exclude<Era, 'auto'>
  /** Asks the server, and returns the result as it has sent it. */
  ask(method: string, params: Fields, options: RequestOptions): Promise<Fields>
  /** Checks whether a call failed because the server knows no such session: then it has not run. */
  isLost(error: unknown): boolean
  /** Tells the server that the session is over, and ends a server that was started here. Twice is fine. */
  close(): Promise<void>
}

/** The caller of a tool has its own time limit, which ends the wait by its signal. */
export const NO_LIMIT = 2 ** 31 - 1
const LEAVE_MS = 1_000

/** Time in ms that a server has to say that it speaks the protocol of 2026. One of 2025 may say nothing. */
const PROBE_MS = 2_000
const NEWEST = '2026-07-28'

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
    { capabilities: {}, versionNegotiation: { mode, probe: { timeoutMs: PROBE_MS } } },
  )
  client.onerror = parts.failed
  const line = lineTo(parts)
  line.transport.onerror = (error) => {
    // the client listens when it has asked which years there are; over HTTP a refusal of that is no news
    if (!client.transport && 'command' in parts.server) parts.failed(error)
  }
  passResults(line)
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
    ask: (method, params, options) => client.request({ method, params }, passedResult, options),
    isLost: (error) => line.isLost?.(error) ?? false,
    close,
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
  if ('url' in server) return httpTransport(kit, server, refuse)
  const transport = new StdioTransport(server, parts)
  return { transport, end: (what) => transport.end(what), ended: () => transport.close() }
}

export class Sessions {
  #current: Session
  #next: Promise<void> | undefined
  readonly #begin: () => Promise<Session>
  readonly #ended: AbortSignal
  /** Number of those that do something in a session. */
  readonly #users = new Map<Session, number>()

  /** `begin` rejects when `ended` is aborted, as it is before `close` is called. */
  constructor(first: Session, begin: () => Promise<Session>, ended: AbortSignal) {
    this.#current = first
    this.#begin = begin
    this.#ended = ended
  }

  get current(): Session {
    return this.#current
  }

  /** Does something in the current session, and once more in another one if the server does not know it. */
  async use<T>(signal: AbortSignal, work: (session: Session) => Promise<T>, isAgain = false): Promise<T> {
    const session = this.#current
    this.#count(session, 1)
    try {
      return await work(session)
    } catch (error) {
      if (isAgain || !session.isLost(error)) throw error
      await unlessAborted(signal, this.#replace(session))
      return await this.use(signal, work, true)
    } finally {
      this.#count(session, -1)
    }
  }

  close(): Promise<void> {
    return this.#current.close()
  }

  /** Begins one session for all that have lost the same one. */
  async #replace(lost: Session): Promise<void> {
    if (this.#current !== lost) return
    this.#next ??= this.#begin()
      .then(async (session) => {
        if (!this.#ended.aborted) this.#current = session
        else await session.close()
      })
      .finally(() => {
        this.#next = undefined
      })
    await this.#next
  }

  #count(session: Session, more: 1 | -1): void {
    const users = (this.#users.get(session) ?? 0) + more
    this.#users.set(session, users)
    if (users > 0) return
    this.#users.delete(session)
    if (session !== this.#current) session.close().catch(() => {}) // its server has ended it already
  }
}
