/** A server that is reached by streamable HTTP, with bounds on what it sends. */
import { STATUS_CODES } from 'node:http'
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ANSWER_LIMITS, boundedAnswer, isEventStream, MOST_TOOL_VALUES, type Refuse } from '../bounded-answer.ts'
import { visible } from '../visible.ts'
import type { Sdk } from './sdk.ts'
import type { HttpServer } from './server-address.ts'
import { isAnswer, MOST_UNREAD, notRead } from './unread.ts'

const { POSITIVE_INFINITY } = Number
const LIMITS = { ...ANSWER_LIMITS, values: MOST_TOOL_VALUES }
/** Open as long as the connection is: what has been read of it is held no longer, so only one event is bounded. */
const LIFELONG = { ...LIMITS, stream: POSITIVE_INFINITY, empty: POSITIVE_INFINITY, events: POSITIVE_INFINITY }
const LONGEST_WORDS = 300

interface HttpLine {
  transport: StreamableHTTPClientTransport
  end: Refuse
  isLost(error: unknown): boolean
  leave(): Promise<void>
}

type HttpKit = Pick<Sdk, 'StreamableHTTPClientTransport' | 'StreamableHTTPError'>

export function httpTransport(kit: HttpKit, { url, headers = {} }: HttpServer, refuse: Refuse): HttpLine {
  const transport: StreamableHTTPClientTransport = new kit.StreamableHTTPClientTransport(new URL(url), {
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
  // the protocol has 404 for a session that is over; the servers of its own packages also say 400, and why
  const isLost = (error: unknown) =>
    error instanceof kit.StreamableHTTPError &&
    ((error.code === 404 && transport.sessionId !== undefined) ||
      (error.code === 400 && /session|not initiali[sz]ed/i.test(error.message)))
  return { transport, end, isLost, leave: () => transport.terminateSession() }
}

/** Returns the status that a server answered in place of a result, and its words; undefined for any other error. */
export function answeredBy(error: unknown, { StreamableHTTPError }: HttpKit): string | undefined {
  if (!(error instanceof StreamableHTTPError) || error.code === undefined || error.code < 100) return undefined
  const { code, message } = error
  const said = wordsIn(message.replace(/^Streamable HTTP error: (?:Error POSTing to endpoint: ?)?/, ''))
  const words = visible(said.slice(0, LONGEST_WORDS))
  const advice = code === 401 || code === 403 ? '; send what it asks for in headers, such as authorization' : ''
  return `it answered ${[code, STATUS_CODES[code]].join(' ').trim()}${words && `: ${words}`}${advice}`
}

/** Returns the words of a body: those of an error in JSON, or the first line of a text that is no page. */
function wordsIn(body: string): string {
  try {
    const {
      error,
      message,
      detail,
      error_description: description,
    }: { [field: string]: unknown } = Object(JSON.parse(body))
    const words = [Object(error).message, description, message, detail, error].find((each) => typeof each === 'string')
    if (typeof words === 'string') return words
  } catch {}
  const [line = ''] = body.trim().split('\n', 1)
  return line.startsWith('<') ? '' : line
}
