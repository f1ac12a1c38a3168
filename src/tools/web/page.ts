/**
 * A page of the public web. The URL is a model's, or a stranger's by a redirect, so each hop is checked in full:
 * scheme, port and credentials by the URL, then every address that its name has, and the connection goes to those
 * alone. Source: OWASP, Server-Side Request Forgery Prevention Cheat Sheet.
 */
import { lookup } from 'node:dns/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { ToolFailedError } from '../../errors.ts'
import { type Answer, get } from './http-get.ts'
import { refusal } from './public-address.ts'

/** All addresses of a name. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

export interface PageRules {
  readonly ports: readonly number[]
  /** Hosts that are reached wherever they are, at that port if they name one. */
  readonly allow: readonly URL[]
  readonly maxBytes: number
  readonly maxRedirects: number
  readonly resolve: Resolve
  /** The addresses of this machine, public ones too: what listens there may trust whoever comes from it. */
  own(): ReadonlySet<string>
  /** Decides by its type whether to read the body. */
  reads(contentType: string | undefined): boolean
}

export interface Page {
  /** Address after all redirects. */
  readonly url: URL
  readonly contentType: string | undefined
  readonly body: Buffer
}

/** The system's own resolver, /etc/hosts included: it is what a connection would ask. */
export const systemResolve: Resolve = async (hostname) => {
  const found = await lookup(hostname, { all: true })
  return found.map(({ address }) => address)
}

/** Throws `ToolFailedError`, or the signal's reason. */
export async function fetchPage(address: string, rules: PageRules, signal: AbortSignal): Promise<Page> {
  let url = urlFrom(address)
  for (let redirects = 0; redirects <= rules.maxRedirects; redirects += 1) {
    const answer = await getChecked(url, rules, signal)
    const target = redirectOf(answer)
    if (target === undefined) return pageOf(url, answer, rules)
    url = urlFrom(target, url)
  }
  throw failure(url, `is where more than ${rules.maxRedirects} redirects led`, 'Read another page.')
}

async function getChecked(url: URL, rules: PageRules, signal: AbortSignal): Promise<Answer> {
  const addresses = await addressesOf(url, rules)
  const options = {
    who: url.host,
    addresses,
    maxBytes: rules.maxBytes,
    headers: { accept: 'text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.1' },
    wants: (status: number, headers: IncomingHttpHeaders) => isGood(status) && rules.reads(headers['content-type']),
  }
  return get(url, options, signal)
}

/** The addresses that the page may be read from. */
async function addressesOf(url: URL, rules: PageRules): Promise<readonly string[]> {
  const port = portOf(url)
  const open = rules.ports.includes(Number(port))
  const allowed = rules.allow.some(
    (host) => host.hostname === url.hostname && (host.port === '' ? open : host.port === port),
  )
  if (!allowed && !open) throw failure(url, `is at port ${port}`, `Only the ports ${rules.ports.join(', ')} are read.`)
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = isIP(literal) ? [literal] : await resolved(url, rules)
  if (allowed) return addresses
  const own = rules.own()
  for (const address of addresses) {
    const reason = refusal(address, own)
    // not the address itself: who asks could map a private network by it
    if (reason) throw failure(url, `leads to ${reason}`, 'Read a page of the public web.')
  }
  return addresses
}

async function resolved(url: URL, { resolve }: PageRules): Promise<readonly string[]> {
  const addresses = await resolve(url.hostname).catch((error: unknown) => {
    throw failure(url, 'has a name that cannot be resolved', 'Check its spelling.', error)
  })
  if (addresses.length === 0) throw failure(url, 'has a name without an address', 'Check its spelling.')
  return addresses
}

function urlFrom(address: string, base?: URL): URL {
  const url = URL.canParse(address, base?.href) ? new URL(address, base) : undefined
  const from = base ? ` ${base.origin} redirects there.` : ''
  const shown = JSON.stringify(address.slice(0, LONGEST_SHOWN))
  if (!url) throw refused(`${shown} is no URL.${from} Give one like "https://example.com/page".`)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refused(`${shown} is not read: its scheme is not http or https.${from}`)
  }
  if (url.username !== '' || url.password !== '') {
    throw refused(`A URL with a user name or a password is not read.${from} Give it without.`)
  }
  return url
}

function portOf(url: URL): string {
  return url.port || (url.protocol === 'https:' ? '443' : '80')
}

const REDIRECTS = [301, 302, 303, 307, 308]

function redirectOf({ status, headers }: Answer): string | undefined {
  return REDIRECTS.includes(status) ? headers.location : undefined
}

function pageOf(url: URL, { status, headers, body }: Answer, rules: PageRules): Page {
  const contentType = headers['content-type']
  if (!isGood(status)) {
    throw failure(url, `answered with status ${status}`, adviceFor(status, headers), undefined, { status })
  }
  if (!rules.reads(contentType)) {
    const type = JSON.stringify(contentType?.slice(0, LONGEST_SHOWN))
    throw failure(url, `is of the type ${type}`, 'Only text is read: HTML, plain text, JSON, XML and the like.')
  }
  return { url, contentType, body }
}

function isGood(status: number): boolean {
  return status >= 200 && status < 300
}

function adviceFor(status: number, { 'retry-after': retryAfter }: IncomingHttpHeaders): string {
  if (status === 429) return retryAfter ? `It says: retry after ${retryAfter.slice(0, 40)}.` : 'Ask it less often.'
  if (status === 401 || status === 403) return 'It is not open to the public.'
  if (status === 404 || status === 410) return 'There is no such page; check the URL.'
  return status >= 500 ? 'The server has a fault; try again later.' : 'Read another page.'
}

const LONGEST_SHOWN = 200

function failure(url: URL, what: string, advice: string, cause?: unknown, more: object = {}): ToolFailedError {
  const shown = `${url.origin}${url.pathname}`.slice(0, LONGEST_SHOWN)
  return new ToolFailedError(`${shown} ${what}. ${advice}`, { url: shown, ...more }, cause)
}

function refused(message: string): ToolFailedError {
  return new ToolFailedError(message, {})
}
