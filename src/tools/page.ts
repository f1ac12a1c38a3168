/**
 * A page of the public web. The URL is a model's, or a stranger's by a redirect, so each hop is checked in full:
 * scheme, port and credentials by the URL, then every address that its name has, and the connection goes to those
 * alone. Source: OWASP, Server-Side Request Forgery Prevention Cheat Sheet.
 */

import { lookup } from 'node:dns/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import type { Piscina } from 'piscina'
import { ownFile, ownRequire, threadFlags } from '../shared/environment.ts'
import { ToolFailedError } from '../shared/errors.ts'
import { type Answer, send } from './http-request.ts'
import type { RawPage, ReadableText } from './readable-text.ts'
import { mimeOf, textOf } from './text-bytes.ts'

const THREADS = 2
const HEAP_MB = 256 // a page of a few megabytes, ten times over
const IDLE_MS = 10_000

let pool: Piscina<RawPage, ReadableText> | undefined

/** Checks whether `pageText` can convert that type. A page that names no type is tried. */
function isReadable(contentType: string | undefined): boolean {
  const mime = mimeOf(contentType)
  return (
    mime === '' ||
    mime.startsWith('text/') ||
    isHtml(mime) ||
    /^application\/(?:.+\+)?(?:json|xml|yaml|x-yaml|javascript|x-ndjson|toml)$/.test(mime)
  )
}

/** Rejects with the signal's reason once it is aborted: the thread that parses is killed. */
export async function pageText(page: Page, signal: AbortSignal): Promise<ReadableText> {
  const { url, body, contentType } = page
  const mime = mimeOf(contentType)
  const startsAsHtml = /^\s*<(?:!doctype html|html)\b/i.test(body.subarray(0, 200).toString('latin1'))
  if (!isHtml(mime) && !(mime === '' && startsAsHtml)) return { title: '', text: textOf(body, contentType) }
  pool ??= makePool()
  try {
    return await pool.run({ body, contentType }, { signal })
  } catch (error) {
    if (signal.aborted) throw signal.reason
    const shown = `${url.origin}${url.pathname}`.slice(0, 200)
    throw new ToolFailedError(`${shown} is HTML that could not be read. Read another page.`, { url: shown }, error)
  }
}

/** Makes the pool. Its threads have nothing of this process's environment, where the keys are. */
function makePool(): Piscina<RawPage, ReadableText> {
  const { Piscina }: typeof import('piscina') = ownRequire()('piscina')
  return new Piscina({
    filename: ownFile('tools/readable-text.js').href,
    minThreads: 0,
    maxThreads: THREADS,
    idleTimeout: IDLE_MS,
    recordTiming: false,
    env: {},
    execArgv: [...threadFlags()],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: 16 },
  })
}

function isHtml(mime: string): boolean {
  return mime === 'text/html' || mime === 'application/xhtml+xml'
}

/*
 * Which addresses belong to the public internet. What is not known to be public is refused: loopback, private and
 * shared networks, link-local (where clouds keep an instance's keys), multicast, documentation, and every form of IPv6
 * that carries an IPv4 address within. Sources: the special-purpose registries of IANA (RFC 6890), by ipaddr.js; RFC
 * 4291 for the block of global unicast.
 */

/** The only block of IPv6 that is given out. Outside of it are `::127.0.0.1` and much that is not used yet. */
const GLOBAL_UNICAST: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/** Public by number, and yet the machine's own platform: what it tells is meant for the machine alone. */
const PLATFORM = new Map([['168.63.129.16', "Azure's platform address"]])

/** The addresses of this machine's network interfaces at this moment, as `refusal` compares them. */
export function ownAddresses(): ReadonlySet<string> {
  const found = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
  return new Set(found.filter((address) => ipaddr.isValid(address)).map((address) => ipaddr.parse(address).toString()))
}

/** Why an address of a resolver may not be reached; undefined if it may. `own`: those of this machine. */
export function refusal(address: string, own: ReadonlySet<string> = new Set()): string | undefined {
  if (!ipaddr.isValid(address)) return 'not an IP address'
  const parsed = ipaddr.parse(address)
  if (own.has(parsed.toString())) return "the machine's own address"
  const range = parsed.range()
  if (range !== 'unicast') return REFUSED_RANGES.get(range) ?? 'a reserved address'
  if (parsed instanceof ipaddr.IPv6) {
    if (!parsed.match(GLOBAL_UNICAST)) return 'not a public address'
    return carriesIsatap(parsed) ? 'an IPv4 address within an IPv6 address' : undefined
  }
  return PLATFORM.get(parsed.toString())
}

/** RFC 5214: an interface identifier that names an IPv4 address which a tunnel leads to. */
function carriesIsatap({ parts }: ipaddr.IPv6): boolean {
  return (parts[4] === 0 || parts[4] === 0x200) && parts[5] === 0x5efe
}

const REFUSED_RANGES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'an address of a private network': ['private', 'uniqueLocal', 'carrierGradeNat'],
    "the machine's own address": ['loopback', 'unspecified'],
    'a link-local address': ['linkLocal'],
    'an IPv4 address within an IPv6 address': ['ipv4Mapped', 'rfc6145', 'rfc6052', '6to4', 'teredo'],
    'an address of many machines': ['multicast', 'broadcast'],
  }).flatMap(([words, ranges]) => ranges.map((range) => [range, words] as const)),
)

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
    const target = REDIRECTS.includes(answer.status) ? answer.headers.location : undefined
    if (target === undefined) return pageOf(url, answer)
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
    wants: (status: number, headers: IncomingHttpHeaders) => isGood(status) && isReadable(headers['content-type']),
  }
  return send(url, options, signal)
}

/** The addresses that the page may be read from. */
async function addressesOf(url: URL, rules: PageRules): Promise<readonly string[]> {
  const port = url.port || (url.protocol === 'https:' ? '443' : '80')
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
  if (!url) throw new ToolFailedError(`${shown} is no URL.${from} Give one like "https://example.com/page".`)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ToolFailedError(`${shown} is not read: its scheme is not http or https.${from}`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new ToolFailedError(`A URL with a user name or a password is not read.${from} Give it without.`)
  }
  return url
}

const REDIRECTS = [301, 302, 303, 307, 308]

function pageOf(url: URL, { status, headers, body }: Answer): Page {
  const contentType = headers['content-type']
  if (!isGood(status)) {
    throw failure(url, `answered with status ${status}`, adviceFor(status, headers), undefined, { status })
  }
  if (!isReadable(contentType)) {
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
