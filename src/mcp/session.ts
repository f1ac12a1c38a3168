/** Sessions with an MCP server, from `initialize` until they are closed. */
import { createContext, Script } from 'node:vm'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { unlessAborted } from '../shared/on-abort.ts'
import { httpTransport, isOverIn, type Line, type SessionParts, StdioTransport } from './transports.ts'

const script = new Script('work()', { filename: 'in-time.js' })

/**
 * Runs a function and returns its result, or throws its error. Throws the error of `late` after `ms`: neither a loop
 * nor a regular expression holds this thread any longer. Changes that the function has made by then stay. The guard
 * costs about a third of a millisecond.
 */
function inTime<T>(ms: number, late: () => Error, work: () => T): T {
  try {
    return script.runInContext(createContext({ work }), { timeout: ms }) as T
  } catch (error) {
    const { code } = Object(error) as { code?: unknown } // an error of the other context is no Error here
    throw code === 'ERR_SCRIPT_EXECUTION_TIMEOUT' ? late() : error
  }
}

export interface Session {
  readonly client: Client
  /** Checks whether a call failed because the server knows no such session: then it has not run. */
  isLost(error: unknown): boolean
  /** Tells the server that the session is over, and ends a server that was started here. Twice is fine. */
  close(): Promise<void>
}

/** The caller of a tool has its own time limit, which ends the wait by its signal. */
export const NO_LIMIT = 2 ** 31 - 1
const LEAVE_MS = 1_000
const LONGEST_LOOK_MS = 2_000

/** Rejects when the server cannot be reached, says no, or the signal is aborted; nothing stays open then. */
export async function beginSession(parts: SessionParts, signal: AbortSignal): Promise<Session> {
  const client: Client = new parts.kit.Client({ name: 'dramatis', version: '1' }, { capabilities: {} })
  client.onerror = parts.failed
  const line = lineTo(parts)
  boundLooks(line)
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= hangUp(client, line)
    return closing
  }
  try {
    await client.connect(line.transport, { signal, timeout: NO_LIMIT })
  } catch (error) {
    await close().catch(() => {})
    throw error
  }
  return { client, isLost: (error) => line.isLost?.(error) ?? false, close }
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

/** The package's schemas say of each wrong part of an answer what is wrong, and there can be millions. */
function boundLooks({ transport, end }: Line): void {
  const late = () => end(`sends an answer that takes longer than ${LONGEST_LOOK_MS} ms to check`)
  let listener: Transport['onmessage']
  const bounded: Transport['onmessage'] = (message, extra) => {
    if ('method' in message) return listener?.(message, extra) // what a server asks has few parts
    inTime(LONGEST_LOOK_MS, late, () => listener?.(message, extra))
  }
  Object.defineProperty(transport, 'onmessage', {
    get: () => listener && bounded,
    set: (given: Transport['onmessage']) => {
      listener = given
    },
  })
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
