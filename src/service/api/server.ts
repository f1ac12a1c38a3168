/** A server of its own for the HTTP API, for `dramatis serve`: bounds of connections, and an end in good order. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { clearTimeout, setTimeout } from '../../shared/timers.ts'
import { own } from '../../shared/values.ts'
import type { HttpApi } from './api.ts'

/** Bounds of what is below HTTP. Durations in ms. */
export interface ServerBounds {
  readonly headerBytes: number
  readonly headersMs: number
  readonly requestMs: number
  /** Idle time after which a connection is closed. */
  readonly keepAliveMs: number
  readonly connections: number
}

/**
 * Proxies keep idle connections for 60 s, and a request must not meet one that this side closes: the proxy would answer
 * 502, since it does not send a POST again. Node's own 5 s are shorter.
 */
export const KEEP_ALIVE_MS = 75_000
const BOUNDS: ServerBounds = {
  headerBytes: 16_384,
  headersMs: 10_000,
  requestMs: 40_000,
  keepAliveMs: KEEP_ALIVE_MS,
  connections: 1_024,
}
/** Time for which clients may read their last response, in ms. */
export const LAST_READ_MS = 5_000

export interface RunningServer {
  readonly url: string
  /** Closes the API with its teams, after `drainMs` at the latest, and then all connections. */
  close(drainMs: number): Promise<void>
}

/** @throws ConfigurationError for an address that cannot be had. */
export async function listen(
  api: HttpApi,
  { port, host }: { port: number; host: string },
  bounds: Partial<ServerBounds> = {},
): Promise<RunningServer> {
  const { headerBytes, headersMs, requestMs, keepAliveMs, connections } = { ...BOUNDS, ...bounds }
  const limits = {
    maxHeaderSize: headerBytes,
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: keepAliveMs,
  }
  const server = createServer({ ...limits, connectionsCheckingInterval: 1_000 }, (request, response) => {
    void api.node(request, response)
  })
  server.maxConnections = connections
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    const text = `The address ${host}:${port} cannot be had: ${reasonOf(error)}. Give another --port or --host.`
    throw new ConfigurationError(text, { path: 'port', host, port }, error)
  }
  return {
    url: urlOf(server),
    async close(drainMs) {
      await api.close({ drainMs, teams: true })
      await closed(server)
    },
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there',
  EADDRNOTAVAIL: 'this machine does not have it',
  EACCES: 'this process may not listen there',
}

function reasonOf(error: unknown): string {
  const code = String(Object(error).code)
  const reason = own(REASONS, code)
  return reason === undefined ? describe(error).replace(/^Error: /, '') : `${reason} (${code})`
}

/** Resolves when all connections are closed: those whose client does not read its last response are cut. */
async function closed(server: Server): Promise<void> {
  const timer = setTimeout(() => server.closeAllConnections(), LAST_READ_MS)
  await new Promise((resolve) => server.close(resolve))
  clearTimeout(timer)
}

function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
