/** A model server that sends what a test writes, as fast as it is read. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type t from 'tap'

type Test = Pick<typeof t, 'teardown'>

export interface HostileServer {
  readonly baseURL: string
  /** How many requests have come. */
  readonly requests: number
}

/** Ends with the test. `send` writes the answer to a request. */
export async function hostileServer(
  t: Test,
  send: (response: ServerResponse, path: string) => unknown,
): Promise<HostileServer> {
  let requests = 0
  const http = createServer((request, response) => {
    requests += 1
    response.on('error', () => {}) // its client may leave
    request.resume().on('end', () => void send(response, request.url ?? ''))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    http.closeAllConnections()
    return new Promise<void>((resolve) => http.close(() => resolve()))
  })
  return {
    baseURL: `http://127.0.0.1:${(http.address() as AddressInfo).port}/v1`,
    get requests() {
      return requests
    },
  }
}

/** Writes the text again and again until the client leaves. */
export function forever(response: ServerResponse, head: string, again: string, headers: Record<string, string>): void {
  response.writeHead(200, headers)
  response.write(head)
  const more = () => {
    while (!response.destroyed) if (!response.write(again)) return void response.once('drain', more)
  }
  more()
}
