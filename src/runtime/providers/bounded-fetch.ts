/**
 * The `fetch` that a provider's client is given. It bounds what a server can make this process hold and read, and
 * follows a redirect to the same origin alone: any other would take the prompt along.
 */
import { ANSWER_LIMITS, type AnswerLimits, boundedAnswer } from '../../bounded-answer.ts'

/** Limits of a model's answer. A real answer is one long text and a few fields; many values take long to parse. */
const MODEL_LIMITS: AnswerLimits = { ...ANSWER_LIMITS, values: 65_536 }
const MOST_REDIRECTS = 3
/** Reason why an answer is not read to its end. `what` continues the words 'Model "x" of y'. */
export class AnswerRefusedError extends Error {
  readonly what: string
  readonly advice: string
  readonly reason: 'invalid_answer' | 'not_found'
  /** Fault of the answer. */
  readonly code: 'too_large' | 'too_many_values' | undefined

  constructor(what: string, advice: string, reason: AnswerRefusedError['reason'] = 'invalid_answer') {
    super(`${what}. ${advice}`)
    this.reason = reason
    this.code = reason === 'not_found' ? undefined : / values$/.test(what) ? 'too_many_values' : 'too_large'
    this.what = what
    this.advice = advice
  }
}

/** Returns a bounded `fetch`. The fetch and the reading of its body reject with `AnswerRefusedError`. */
export function boundedFetch(limits: AnswerLimits = MODEL_LIMITS): typeof fetch {
  return async (input, init) => {
    const response = await withinOrigin(input, init)
    return boundedAnswer(response.ok ? await withTrueType(response, limits.empty) : response, refuse, { limits })
  }
}

/**
 * Returns the answer with the content type that its first bytes show: servers and gateways send JSON and events under a
 * wrong one, or under none. Other answers keep theirs. `mostBlank`: bytes of blanks that may come before.
 */
async function withTrueType(response: Response, mostBlank: number): Promise<Response> {
  const { body, headers: given, status, statusText, url } = response
  if (!body) return response
  const chunks = body[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  let start = ''
  for (let size = 0; start === '' && size <= mostBlank; ) {
    const { value, done } = await chunks.next()
    if (done) break
    first.push(value)
    size += value.byteLength
    start = new TextDecoder().decode(value.subarray(0, LONGEST_START)).trimStart()
  }
  const type = /^[[{]/.test(start) ? 'application/json' : EVENT.test(start) ? 'text/event-stream' : undefined
  const headers = new Headers(given)
  if (type) headers.set('content-type', type)
  const again = new Response(ReadableStream.from(chained(first, chunks)), { headers, status, statusText })
  return Object.defineProperty(again, 'url', { value: url })
}

/** Bytes of the first chunk that show what an answer is. */
const LONGEST_START = 1_024
const EVENT = /^(data|event|id|retry)?:/

async function* chained(first: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* first
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}

async function withinOrigin(input: string | URL | Request, init: RequestInit | undefined): Promise<Response> {
  const origin = new URL(input instanceof Request ? input.url : input).origin
  let from = input
  for (let redirects = 0; ; redirects += 1) {
    const response = await fetch(from, { ...init, redirect: 'manual' })
    const location = response.headers.get('location')
    if (response.status < 300 || response.status > 399 || location === null) return response
    await response.body?.cancel()
    const target = URL.canParse(location, response.url) ? new URL(location, response.url) : undefined
    if (target?.origin !== origin)
      throw new AnswerRefusedError(
        `sends its callers elsewhere (${response.status} to ${target?.host ?? 'what is no address'})`,
        'Neither key nor prompt was sent there. Set baseURL to the address that is meant.',
        'not_found',
      )
    if (response.status !== 307 && response.status !== 308)
      throw new AnswerRefusedError(
        `sends its callers to another path in a way that loses the request (${response.status})`,
        'Set baseURL to the address that is meant.',
        'not_found',
      )
    if (redirects === MOST_REDIRECTS)
      throw new AnswerRefusedError(`redirects more than ${MOST_REDIRECTS} times`, 'Check its baseURL.', 'not_found')
    from = target
  }
}

const refuse = (what: string) =>
  new AnswerRefusedError(
    what,
    'It was not read on. Look at what stands at its baseURL; ask for less at once if that is right.',
  )
