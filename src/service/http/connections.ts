/** Connections of requests that came by Node's `http`: only there can one be cut from this side. */
import { ServerResponse } from 'node:http'
import { Http2ServerResponse } from 'node:http2'

type Outgoing = ServerResponse | Http2ServerResponse

const outgoings = new WeakMap<Request, Outgoing>()

/** Notes the connection of a request. `host`: what a server has given with the request, as hono does it on Node. */
export function noteConnection(request: Request, host: unknown): void {
  const { outgoing } = Object(host)
  if (outgoing instanceof ServerResponse || outgoing instanceof Http2ServerResponse) outgoings.set(request, outgoing)
}

/** Cuts the connection of a request. Returns false where there is none to cut. */
export function cutConnection(request: Request): boolean {
  const outgoing = outgoings.get(request)
  outgoing?.destroy()
  return outgoing !== undefined
}

/**
 * Calls back when the connection has taken the whole answer, or was closed. Returns false where that is not to be seen,
 * or has been.
 */
export function onClosed(request: Request, closed: () => void): boolean {
  const outgoing = outgoings.get(request)
  if (!outgoing || outgoing.destroyed) return false
  outgoing.once('close', closed)
  return true
}

/** Closes the connection of a request behind its answer, if `isLast` says so then. */
export function closeBehind(request: Request, isLast: () => boolean): void {
  const outgoing = outgoings.get(request)
  if (!(outgoing instanceof ServerResponse)) return // connections of HTTP/2 are closed as sessions
  const { socket } = outgoing.req
  outgoing.once('close', () => isLast() && socket.destroy())
}
