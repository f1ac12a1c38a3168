/** Sessions with an MCP server, from `initialize` until they are closed. */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { Refuse } from '../bounded-answer.ts'
import { systemClock } from '../clock.ts'
import { httpTransport } from './http.ts'
import { inTime } from './in-time.ts'
import type { Sdk } from './sdk.ts'
import type { McpServer } from './server-address.ts'
import { StdioTransport } from './stdio.ts'

export interface Session {
  readonly client: Client
  /** Checks whether a call failed because the server knows no such session: then it has not run. */
  isLost(error: unknown): boolean
  /** Tells the server that the session is over, and ends a server that was started here. Twice is fine. */
  close(): Promise<void>
}

export interface SessionParts {
  kit: Sdk
  server: McpServer
  /** Makes the error for what is over a bound. */
  refuse: Refuse
  /** Takes errors that belong to no call. */
  failed(error: Error): void
  /** Takes what the server prints on stderr; undefined: nobody does. */
  printed: ((text: Buffer) => void) | undefined
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
  const enough = new AbortController()
  const left = line.leave?.().catch(() => {}) // it is gone, or knows no sessions
  await Promise.race([left, systemClock.sleep(LEAVE_MS, enough.signal).catch(() => {})])
  enough.abort()
  await client.close()
  await line.ended?.()
}

/**
 * Transport of a session: it carries messages, and says what to do before it is closed and what to wait for then.
 */
interface Line {
  transport: Transport
  /** Ends it at once. */
  end: Refuse
  isLost?: (error: unknown) => boolean
  leave?: () => Promise<void>
  ended?: () => Promise<void>
}

function lineTo({ kit, server, refuse, printed }: SessionParts): Line {
  if ('url' in server) return httpTransport(kit, server, refuse)
  const transport = new StdioTransport(server, { kit, refuse, printed })
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
