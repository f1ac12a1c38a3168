/** Reaches one MCP server: begins sessions with it within a time limit, and says in words what fails. */
import { setMaxListeners } from 'node:events'
import type { Logger } from '../actors/definition/logger.ts'
import { systemClock } from '../clock.ts'
import { describe } from '../errors.ts'
import { anyAborted } from '../on-abort.ts'
import { visible } from '../visible.ts'
import { answeredBy } from './http.ts'
import { printedOn } from './printed.ts'
import type { Sdk } from './sdk.ts'
import type { McpServer } from './server-address.ts'
import { beginSession, type Session } from './session.ts'

const LONGEST_OWN_NAME = 64
/** Characters of a header that may be a secret: shorter ones are parts of other words. */
const SHORTEST_SECRET = 6

/** Turns of the event loop in which an answer is read that had come when the time was up, though nobody had looked. */
const TURNS_OF_AN_ANSWER = 20

/** Error whose message says in words why a server cannot be used. */
class Unusable extends Error {}

export class Endpoint {
  readonly #kit: Sdk
  readonly #server: McpServer
  readonly #address: string
  readonly #timeoutMs: number
  readonly #logger: Logger | undefined
  readonly #ended = new AbortController()
  #name: string

  constructor(kit: Sdk, server: McpServer, address: string, timeoutMs: number, logger: Logger | undefined) {
    this.#kit = kit
    this.#server = server
    this.#address = address
    this.#timeoutMs = timeoutMs
    this.#logger = logger
    this.#name = address
  }

  get name(): string {
    return this.#name
  }

  /** Is aborted when the connection is over, with what ended it. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  end(reason: Error): void {
    this.#ended.abort(reason)
  }

  /** Begins a session. It adds to the name how the server calls itself: several may be started by one command. */
  async begin(signal: AbortSignal): Promise<Session> {
    const logger = this.#logger
    const session = await beginSession(
      {
        kit: this.#kit,
        server: this.#server,
        refuse: (what) => {
          // a call whose answer was not looked at to its end hears of nothing else
          this.end(new Unusable(`it ${what}, so the connection to it was ended`))
          return this.ended.reason as Error
        },
        failed: (error) =>
          logger?.warn(
            { server: this.name, error: this.wordsOf(error) },
            'an MCP server or the connection to it failed',
          ),
        printed: logger && printedOn((text) => logger.info({ server: this.name }, text)),
      },
      signal,
    )
    const own = session.client.getServerVersion()?.name
    if (own) this.#name = `${this.#address} ("${visible(own.slice(0, LONGEST_OWN_NAME))}")`
    return session
  }

  /** Does something with the server. Rejects with words when it fails, and when the time is up. */
  async inTime<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController()
    const end = (turns: number) => {
      if (turns === 0) late.abort(new Error('The time is up.'))
      else systemClock.defer(() => end(turns - 1))
    }
    const timer = systemClock.timer(this.#timeoutMs, () => end(TURNS_OF_AN_ANSWER))
    const enough = anyAborted([late.signal, this.ended])
    setMaxListeners(0, enough.signal) // the package listens once more for each page of the list
    try {
      return await work(enough.signal)
    } catch (error) {
      const why = late.signal.aborted
        ? `it did not say which tools it has within ${this.#timeoutMs} ms (connectTimeoutMs)`
        : this.wordsOf(this.ended.aborted ? this.ended.reason : error)
      throw new Unusable(why, { cause: error })
    } finally {
      timer.cancel()
      enough.forget()
    }
  }

  /** Returns an error in words, without what may be a secret. */
  wordsOf(error: unknown): string {
    if (error instanceof Unusable) return error.message
    const { code }: { code?: unknown } = Object(error)
    if ('command' in this.#server) {
      if (code !== 'ENOENT') return describe(error)
      return 'there is no such command; it is looked for in the PATH of its own environment (env.PATH), or by an absolute path'
    }
    const { url, headers = {} } = this.#server
    const text = answeredBy(error, this.#kit) ?? describe(error)
    return Object.values(headers)
      .flatMap((value) => [value, ...value.split(' ')]) // the token alone, too
      .filter((secret) => secret.length >= SHORTEST_SECRET)
      .reduce((said, secret) => said.replaceAll(secret, '[header]'), text.replaceAll(String(url), 'its URL'))
  }
}
