/** A web server on loopback, and a watch over where this process connects to. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIP, type LookupFunction, Socket } from 'node:net'
import type { Test } from 'tap'

export interface Loopback {
  readonly port: number
  /** `http://127.0.0.1:port`, without a slash at the end. */
  readonly origin: string
  /** The path and query of each request, in order. */
  readonly asked: string[]
  /** How many connections there were, with a request or without. */
  readonly connections: () => number
  /** Resolves once a connection has closed. */
  readonly hungUp: Promise<void>
}

export async function serve(
  t: Test,
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Loopback> {
  const asked: string[] = []
  const closed = withResolvers()
  let connections = 0
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    handler(request, response)
  })
  server.on('connection', (socket) => {
    connections += 1
    socket.on('error', () => {}) // who reads may hang up in the midst
    socket.on('close', () => closed.resolve())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return { port, origin: `http://127.0.0.1:${port}`, asked, connections: () => connections, hungUp: closed.promise }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

interface Target {
  host?: string
  port?: number | string
  lookup?: LookupFunction
}

/**
 * The addresses that a connection was opened to from here on, in order; none gets out: those to loopback go on, so that a
 * canary there can hear them, all others are ended.
 */
export function watchConnections(t: Test): string[] {
  const opened: string[] = []
  const original = Socket.prototype.connect
  const watched = function (this: Socket, ...args: unknown[]) {
    const target = (Array.isArray(args[0]) ? args[0][0] : args[0]) as Target
    const host = target.host ?? 'localhost'
    const found = (addresses: string[]) => {
      opened.push(...addresses)
      if (addresses.some((address) => !address.startsWith('127.'))) {
        const end = () => this.destroy(Object.assign(new Error('watched'), { code: 'ENETUNREACH' }))
        process.nextTick(end) // when its owner listens
        return this
      }
      return Reflect.apply(original, this, args)
    }
    if (isIP(host)) return found([host])
    if (!target.lookup) return found([`${host}:${target.port}`]) // a name that the system would resolve
    let addresses: string[] = []
    target.lookup(host, { all: true }, (_error, all) => {
      addresses = Array.isArray(all) ? all.map(({ address }) => address) : []
    })
    return found(addresses)
  }
  Object.assign(Socket.prototype, { connect: watched })
  t.teardown(() => Object.assign(Socket.prototype, { connect: original }))
  return opened
}
