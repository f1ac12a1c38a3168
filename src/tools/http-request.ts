/**
 * Makes a request, whose answer is of bounded size, to an address that a stranger has chosen. Its signal ends it, its
 * socket too. It uses Node's own `request`, which takes a `lookup`: `fetch` resolves a name by itself, after any check
 * of ours.
 */

import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { systemClock } from '../shared/clock.ts'
import { type DramatisError, ToolFailedError } from '../shared/errors.ts'
import { onAbort, unlessAborted } from '../shared/on-abort.ts'

/** Time in ms that the runtime waits beyond a tool's own limit, whose error says more. */
export const MARGIN_MS = 1_000

/**
 * Runs `task` under a signal that is aborted with the caller's, and after `ms` with the error that `late` makes. It
 * rejects with the reason of whichever came, whatever the task makes of it.
 */
export async function within<T>(
  ms: number,
  signal: AbortSignal,
  late: () => DramatisError,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const limit = new AbortController()
  const unlisten = onAbort(signal, () => limit.abort(signal.reason))
  const timer = systemClock.timer(ms, () => limit.abort(late()))
  const awake = systemClock.hold() // a resolver alone does not keep the process up
  try {
    return await unlessAborted(limit.signal, task(limit.signal)) // no resolver can be cancelled
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error
  } finally {
    unlisten()
    timer.cancel()
    awake.cancel()
  }
}

export interface SendOptions {
  /** Name of the server, for errors: 'Open-Meteo', 'example.com'. */
  readonly who: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent by POST. Default: none, by GET. */
  readonly body?: string
  /** The addresses that may be connected to; without it the system resolves the name. */
  readonly addresses?: readonly string[]
  /** Limit for the body, both as received and decompressed. */
  readonly maxBytes: number
  /** Decides by status and headers whether to read the body. */
  wants(status: number, headers: IncomingHttpHeaders): boolean
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Empty if it was not wanted. */
  readonly body: Buffer
}

/** Each call has a connection of its own, without cookies. Throws `ToolFailedError`, or the signal's reason. */
export async function send(url: URL, options: SendOptions, signal: AbortSignal): Promise<Answer> {
  try {
    const response = await responseTo(url, options, signal)
    try {
      const { statusCode: status = 0, headers } = response
      const body = options.wants(status, headers) ? await bodyOf(response, options) : Buffer.alloc(0)
      return { status, headers, body }
    } finally {
      response.destroy()
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw error instanceof ToolFailedError ? error : connectionFailure(options.who, error)
  }
}

function responseTo(url: URL, options: SendOptions, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      agent: false, // a pooled connection may lead where nobody has looked, and a global agent to a proxy
      signal,
      method: options.body === undefined ? 'GET' : 'POST',
      headers: { 'user-agent': 'dramatis', 'accept-encoding': 'gzip, deflate, br', ...options.headers },
      ...(options.addresses && { lookup: lookupIn(options.addresses) }),
    })
    request.once('response', resolve)
    request.on('error', reject)
    // an upgrade that nobody asked for ends without a word
    request.once('close', () => reject(Object.assign(new Error('closed'), { code: 'ECONNRESET' })))
    request.end(options.body)
  })
}

/** Answers with what was checked, so that a name which means something else by now leads nowhere else. */
function lookupIn(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIP(address) }))
  return (_hostname, { all }, callback) => {
    if (all) callback(null, found)
    else callback(null, found[0]!.address, found[0]!.family)
  }
}

async function bodyOf(response: IncomingMessage, { who, maxBytes }: SendOptions): Promise<Buffer> {
  const decoder = decoderOf(response.headers['content-encoding'], who)
  const chunks: Buffer[] = []
  await pipeline(response, upTo(maxBytes, who), decoder, upTo(maxBytes, who), async (source) => {
    for await (const chunk of source) chunks.push(chunk)
  })
  return Buffer.concat(chunks)
}

/** Passes the bytes on until there are too many. */
function upTo(maxBytes: number, who: string) {
  const tooMany = `The answer of ${who} is larger than ${maxBytes} bytes, and was given up. Ask for something smaller.`
  return async function* (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let bytes = 0
    for await (const chunk of source) {
      bytes += chunk.length
      if (bytes > maxBytes) throw new ToolFailedError(tooMany, { service: who, maxBytes })
      yield chunk
    }
  }
}

function decoderOf(encoding: string | undefined, who: string) {
  switch (encoding?.trim().toLowerCase() ?? '') {
    case '':
    case 'identity':
      return new PassThrough()
    case 'gzip':
    case 'x-gzip':
      return createGunzip()
    case 'deflate':
      return createInflate()
    case 'br':
      return createBrotliDecompress()
    default:
      throw new ToolFailedError(
        `The answer of ${who} is encoded in a way that was not asked for: ${JSON.stringify(encoding?.slice(0, 40))}.`,
        { service: who },
      )
  }
}

function connectionFailure(who: string, error: unknown): ToolFailedError {
  const { code } = Object(error) as { code?: unknown }
  const known = typeof code === 'string' ? code : 'unknown error'
  return new ToolFailedError(`${who}: ${wordsOf(known)} (${known}).`, { service: who, code: known }, error)
}

function wordsOf(code: string): string {
  if (code === 'ENOTFOUND') return 'no host has that name; check the spelling'
  if (code === 'EAI_AGAIN') return 'the name could not be resolved; is there a network? Try again later'
  if (code === 'ECONNREFUSED') return 'nothing listens there'
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'the server hung up before its answer was complete; try again'
  if (code === 'ETIMEDOUT' || code === 'EHOSTUNREACH' || code === 'ENETUNREACH') return 'the server cannot be reached'
  if (/^(?:CERT_|ERR_TLS_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_)/.test(code)) return 'its certificate cannot be trusted'
  if (code.startsWith('Z_') || code.startsWith('ERR_BROTLI') || code.startsWith('ERR__ERROR')) {
    return 'the answer cannot be decompressed'
  }
  if (code.startsWith('HPE_')) return 'the answer is no HTTP, or its headers are too long'
  return 'the answer could not be read'
}
