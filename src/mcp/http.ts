/** A server that is reached by streamable HTTP, with bounds on what it sends. */
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ANSWER_LIMITS, boundedAnswer, isEventStream, type Refuse } from '../bounded-answer.ts'
import type { Sdk } from './sdk.ts'

const { POSITIVE_INFINITY } = Number
/** Open as long as the connection is: what has been read of it is held no longer, so only one event is bounded. */
const LIFELONG = { ...ANSWER_LIMITS, stream: POSITIVE_INFINITY, empty: POSITIVE_INFINITY, events: POSITIVE_INFINITY }

export interface HttpServer {
  url: URL | string
  headers?: Record<string, string>
}

export function httpTransport(
  { StreamableHTTPClientTransport }: Pick<Sdk, 'StreamableHTTPClientTransport'>,
  { url, headers = {} }: HttpServer,
  refuse: Refuse,
): { transport: StreamableHTTPClientTransport; end: Refuse } {
  const transport: StreamableHTTPClientTransport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers },
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      // the package reads what answers a GET as events, whatever it says that it is
      const isLifelong = init?.method === 'GET' && response.ok
      return boundedAnswer(response, end, {
        limits: isLifelong ? LIFELONG : ANSWER_LIMITS,
        isStream: isLifelong || isEventStream(response),
      })
    },
  })
  const end = (what: string) => {
    const error = refuse(what)
    void transport.close()
    return error
  }
  return { transport, end }
}
