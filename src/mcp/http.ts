/** A server that is reached by streamable HTTP, with bounds on what it sends. */
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ANSWER_LIMITS, boundedAnswer, isEventStream, MOST_TOOL_VALUES, type Refuse } from '../bounded-answer.ts'
import type { Sdk } from './sdk.ts'
import type { HttpServer } from './server-address.ts'
import { isAnswer, MOST_UNREAD, notRead } from './unread.ts'

const { POSITIVE_INFINITY } = Number
const LIMITS = { ...ANSWER_LIMITS, values: MOST_TOOL_VALUES }
/** Open as long as the connection is: what has been read of it is held no longer, so only one event is bounded. */
const LIFELONG = { ...LIMITS, stream: POSITIVE_INFINITY, empty: POSITIVE_INFINITY, events: POSITIVE_INFINITY }

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
        limits: isLifelong ? LIFELONG : LIMITS,
        isStream: isLifelong || isEventStream(response),
      })
    },
  })
  const end = (what: string) => {
    const error = refuse(what)
    void transport.close()
    return error
  }
  const send = transport.send.bind(transport)
  let unread = 0
  transport.send = async (message, options) => {
    if (Array.isArray(message) || !isAnswer(message)) return send(message, options)
    if (unread === MOST_UNREAD) throw end(notRead)
    unread += 1
    await send(message, options).finally(() => {
      unread -= 1
    })
  }
  return { transport, end }
}
