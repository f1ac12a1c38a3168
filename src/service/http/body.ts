/** Bodies of requests: JSON, within bounds of size and time. */
import { systemClock } from '../../clock.ts'
import { nextTurn } from '../../timers.ts'
import { HttpError } from './problem.ts'

interface Bounds {
  readonly bodyBytes: number
  readonly bodyMs: number
}

/**
 * Reads the JSON of a request.
 *
 * @throws HttpError for another media type, for what is no JSON, is too large or does not arrive in time.
 */
export async function readJson(request: Request, bounds: Bounds): Promise<unknown> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(?:;|$)/i.test(type)) {
    const got = type === '' ? 'nothing' : JSON.stringify(type.slice(0, 100))
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', `content-type: got ${got}; accepted: application/json.`)
  }
  const text = await readText(request, bounds)
  try {
    return JSON.parse(text)
  } catch {
    throw new HttpError('BAD_REQUEST', 'The body is no JSON.')
  }
}

async function readText(request: Request, { bodyBytes, bodyMs }: Bounds): Promise<string> {
  const tooLarge = () => {
    const detail = `The body has more than ${bodyBytes} bytes (limits.bodyBytes).`
    return new HttpError('TOO_LARGE', detail, { headers: { connection: 'close' } })
  }
  if (Number(request.headers.get('content-length')) > bodyBytes) throw tooLarge()
  if (!request.body) return ''
  const reader = request.body.getReader()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const enough = new AbortController()
  let text = ''
  let bytes = 0
  const lateAfter = async (): Promise<never> => {
    const { signal } = enough
    await systemClock.sleep(bodyMs, signal)
    let seen = -1
    for (let looks = bodyBytes / READ_BYTES + 1; looks > 0 && bytes !== seen; looks--) {
      seen = bytes // more may have arrived while the process was busy: it is read piece by piece
      await nextTurn()
      signal.throwIfAborted()
    }
    const detail = `The body did not arrive within ${bodyMs} ms (limits.bodyMs).`
    throw new HttpError('REQUEST_TIMEOUT', detail, { headers: { connection: 'close' } })
  }
  const late = lateAfter()
  late.catch(() => {})
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late])
      if (done) return text + decoder.decode()
      bytes += value.byteLength
      if (bytes > bodyBytes) throw tooLarge()
      text += decoder.decode(value, { stream: true })
    }
  } catch (error) {
    void reader.cancel().catch(() => {})
    if (error instanceof HttpError) throw error
    throw new HttpError('BAD_REQUEST', 'The body broke off, or is no UTF-8.')
  } finally {
    enough.abort()
  }
}

/** Bytes of a connection that are read at once. */
const READ_BYTES = 2 ** 16
