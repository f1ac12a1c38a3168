/**
 * Sessions of the dashboard. A page cannot send a token with each request of a browser, and must not keep it: it
 * sends it once, and gets a cookie that no script can read. The token that it stands for is in memory, and is forgotten
 * with the process.
 */
import { randomBytes } from 'node:crypto'

interface Session {
  /** Value of the header `Authorization`. */
  readonly authorization: string
  readonly until: number
}

const COOKIE = 'dramatis_session'
const LASTS_MS = 12 * 3_600_000
const MOST = 1_000

export class Sessions {
  readonly #open = new Map<string, Session>()

  /** Begins a session for the token of a request. Returns its cookie; undefined for a request without a token. */
  begin(request: Request): string | undefined {
    const authorization = request.headers.get('authorization')
    if (authorization === null) return undefined
    const id = randomBytes(32).toString('base64url')
    for (const oldest of [...this.#open.keys()].slice(0, Math.max(0, this.#open.size - MOST + 1)))
      this.#open.delete(oldest)
    this.#open.set(id, { authorization, until: Date.now() + LASTS_MS })
    return cookie(id, LASTS_MS / 1_000, request)
  }

  /** Ends the session of a request. Returns the cookie that takes its place. */
  end(request: Request): string {
    this.#open.delete(idOf(request) ?? '')
    return cookie('', 0, request)
  }

  /** Returns the request with the token of its session, if it has one and no token of its own. */
  withToken(request: Request): Request {
    const id = request.headers.has('authorization') ? undefined : idOf(request)
    const session = id === undefined ? undefined : this.#open.get(id)
    if (!session) return request
    if (session.until < Date.now()) {
      this.#open.delete(id!)
      return request
    }
    const headers = new Headers(request.headers)
    headers.set('authorization', session.authorization)
    return new Request(request.url, { method: request.method, headers })
  }

  clear(): void {
    this.#open.clear()
  }
}

const idOf = ({ headers }: Request): string | undefined =>
  new RegExp(`(?:^|; *)${COOKIE}=([\\w-]+)`).exec(headers.get('cookie') ?? '')?.[1]

/** The cookie has no path: a browser then sends it to where the page is, whatever a proxy has put before it. */
const cookie = (id: string, seconds: number, { url }: Request): string =>
  `${COOKIE}=${id}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${new URL(url).protocol === 'https:' ? '; Secure' : ''}`
