/** A process's connection to the brokers of a cluster, and what all of its parts ask of them. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type {
  JetStreamClient,
  JetStreamManager,
  MsgRequest,
  StoredMsg,
  StreamConfig,
  StreamInfo,
} from '@nats-io/jetstream'
import type { Authenticator, Msg, NatsConnection, TlsOptions } from '@nats-io/transport-node'
import { systemClock } from '../shared/clock.ts'
import { ClusterUnreachableError, ConfigurationError, DramatisError, describe } from '../shared/errors.ts'
import { unlessAborted } from '../shared/on-abort.ts'

export interface BrokersOptions {
  /** `nats://user:password@host:4222,host:4222?creds=file`: any of the hosts. */
  readonly url: string
  /** Processes of one name share the shards. */
  readonly cluster: string
  /** Brokers that have each message. */
  readonly replicas: number
  warn(text: string): void
}

/** Number that the last message has to have: that of the stream, or that of its subjects of a pattern. */
export type Condition = { readonly last: number } | { readonly last: number; readonly of: string }

/** Below it no condition is on a pattern of subjects, conditions on subjects did not hold, and nothing has a TTL. */
const LEAST_VERSION = [2, 11] as const
/** Bytes of a message, about: 1 MB is the most that a broker takes by default. */
export const MESSAGE_BYTES = 768 * 1024
const LEAST_PAYLOAD = 2 ** 20
/** Time in ms in which brokers that start have chosen their leaders. */
const START_MS = 20_000
const ASK_MS = 3_000
const LONGEST_PAUSE_MS = 1_000
/** Codes of the brokers: the condition does not hold, or another message with one is under way. */
const WRONG_LAST = [10071, 10164]
const NO_STREAM = 10059
const NO_CLUSTER = 10074

export class Brokers {
  readonly options: BrokersOptions
  /** The name of the cluster as a part of a subject. */
  readonly #name: string
  #joined: Joined | undefined
  readonly #closed = new AbortController()
  /** Aborted when the connection is another one: what the one before was asked has no answer any more. */
  #current = new AbortController()
  /** Streams that the brokers say not to have: since when, and when they said so last. */
  readonly #gone = new Map<string, { readonly since: number; readonly at: number }>()
  /** How often the connection was another one: the brokers may have lost their end meanwhile. */
  reconnects = 0
  /** Called when the connection is there again: meanwhile nothing was heard. */
  onReconnect: (() => void) | undefined

  constructor(options: BrokersOptions) {
    this.options = options
    const { cluster } = options
    this.#name = /^[\w-]{1,60}$/.test(cluster) ? cluster : tokenOf(cluster)
    serversOf(options.url) // what is wrong with it is said at once
  }

  /** @throws ConfigurationError, ClusterUnreachableError */
  async connect(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const driver = await loadNats()
    // a frozen broker keeps its sockets: with the driver's own two minutes a process would hang on it
    const patience = { timeout: ASK_MS, pingInterval: 1_000, maxPingOut: 2, reconnectTimeWait: 100 }
    const { creds, nkey, ...known } = serversOf(this.options.url)
    const authenticator =
      creds !== undefined
        ? fromFile('creds', creds, (text) => driver.credsAuthenticator(Buffer.from(`${text}\n`))) // it wants an end of line
        : nkey !== undefined && fromFile('nkey', nkey, (text) => driver.nkeyAuthenticator(Buffer.from(text)))
    // a user that has expired, or is replaced, may be another one with the next look at its file
    const forEver = { maxReconnectAttempts: -1, ignoreAuthErrorAbort: true }
    const options = { ...known, ...(authenticator && { authenticator }), ...patience, ...forEver }
    const connection = await driver.connect(options).catch((error) => {
      throw unreachable(this.options.url, error)
    })
    try {
      refuse(connection)
      const client = driver.jetstream(connection, { timeout: ASK_MS })
      const manager = await driver.jetstreamManager(connection, { timeout: ASK_MS, checkAPI: false })
      this.#joined = { driver, connection, client, streams: manager.streams }
    } catch (error) {
      await connection.close()
      throw error
    }
    void this.#watch(connection)
  }

  /** Name of a stream, which is one of a cluster's kind. */
  streamOf(kind: string): string {
    return `dramatis_${this.#name}_${kind}`
  }

  subjectOf(...parts: readonly (string | number)[]): string {
    return ['dramatis', this.#name, ...parts].join('.')
  }

  get connection(): NatsConnection {
    return this.#parts.connection
  }

  /** Hears what is told about a subject from now on. @throws ConfigurationError if this user may not */
  async hear(subject: string, heard: (message: Msg) => void): Promise<void> {
    const { connection } = this.#parts
    let refusal: Error | undefined
    const callback = (error: Error | null, message: Msg) => {
      if (error) refusal = error
      else heard(message)
    }
    connection.subscribe(subject, { callback })
    await connection.flush()
    if (refusal) throw forbidden(refusal)
  }

  /** Returns a stream, which is made where it is missing. @throws ConfigurationError, ClusterUnreachableError */
  async stream(name: string, config: Partial<StreamConfig>, signal?: AbortSignal): Promise<StreamInfo> {
    const { streams, driver } = this.#parts
    const { replicas: num_replicas } = this.options
    const until = systemClock.monotonic() + START_MS
    for (;;) {
      try {
        const info = await streams.info(name).catch((error) => {
          if (codeOf(error) !== NO_STREAM) throw error
          // the brokers keep ids of the last minutes in memory: conditions do their work
          const all = { name, num_replicas, storage: driver.StorageType.File, duplicate_window: 100_000_000 }
          return streams.add({ ...all, retention: driver.RetentionPolicy.Limits, ...config })
        })
        refuseStream(info, num_replicas)
        return info
      } catch (error) {
        if (error instanceof DramatisError) throw error
        if (isForbidden(error)) throw forbidden(error)
        if (codeOf(error) === NO_CLUSTER)
          throw new ConfigurationError(
            `cluster: ${num_replicas} replicas need a cluster of as many brokers, and this one is alone: take three, or a JetStreamStore with replicas: 1 as cluster.store.`,
            { path: 'cluster.url' },
            error,
          )
        if (systemClock.monotonic() > until) throw unreachable(this.options.url, error)
        await systemClock.sleep(100, signal ?? this.#closed.signal)
      }
    }
  }

  /** State of a stream as its leader has it; nothing where there is no such stream. */
  async stateOf(name: string): Promise<StreamInfo | undefined> {
    try {
      return await this.#answer(this.#parts.streams.info(name))
    } catch (error) {
      if (codeOf(error) === NO_STREAM) return undefined
      throw error
    }
  }

  /** Tells whether they have said for so long that they have no such stream. One that begins to lead may say it too. */
  async hasLost(name: string, ms: number): Promise<boolean> {
    const now = systemClock.monotonic()
    const before = this.#gone.get(name)
    const since = before && now - before.at < START_MS ? before.since : now
    const isThere = (await this.stateOf(name)) !== undefined
    const isLost = !isThere && now - since > ms
    if (isThere || isLost) this.#gone.delete(name)
    else this.#gone.set(name, { since, at: now })
    return isLost
  }

  /** Numbers of the messages of a stream by their subjects, of those that fit a pattern. */
  async counted(stream: string, pattern: string): Promise<Record<string, number>> {
    return (await this.#parts.streams.info(stream, { subjects_filter: pattern })).state.subjects ?? {}
  }

  /** Names of the clusters that have streams here; the digest of one that fits no subject. */
  async names(): Promise<string[]> {
    const names: string[] = []
    for await (const name of this.#parts.streams.names()) names.push(/^dramatis_(.+)_tasks$/.exec(name)?.[1] ?? '')
    return names.filter((name) => name !== '').sort()
  }

  /** A message as the leader of its stream has it: other brokers may be behind. */
  async message(
    stream: string,
    query: MsgRequest | { readonly seq: number; readonly next_by_subj: string },
  ): Promise<StoredMsg | undefined> {
    return (await this.#answer(this.#parts.streams.getMessage(stream, query as MsgRequest))) ?? undefined
  }

  /** Removes all messages of a stream below that number, or those of a subject. */
  async purge(stream: string, which: { readonly seq: number } | { readonly filter: string }): Promise<void> {
    await this.#parts.streams.purge(stream, which)
  }

  async remove(stream: string, seq: number): Promise<void> {
    await this.#parts.streams.deleteMessage(stream, seq, false).catch(async (error) => {
      if (await this.message(stream, { seq })) throw error
    })
  }

  /**
   * Puts a message into its stream. Resolves with its number; with nothing if the condition does not hold. Rejects
   * where nobody knows: then the same may be put again.
   */
  async put(
    subject: string,
    data: Uint8Array,
    given: Readonly<Record<string, string>>,
    condition?: Condition,
    ttl?: string,
  ): Promise<number | undefined> {
    const headers = this.#parts.driver.headers()
    for (const [name, value] of Object.entries(given)) headers.set(name, value)
    const expect = condition && {
      ...('of' in condition
        ? { lastSubjectSequence: condition.last, lastSubjectSequenceSubject: condition.of }
        : { lastSequence: condition.last }),
    }
    try {
      const options = { headers, ...(expect && { expect }), ...(ttl !== undefined && { ttl }) }
      return (await this.#answer(this.#parts.client.publish(subject, data, options))).seq
    } catch (error) {
      if (WRONG_LAST.includes(codeOf(error))) return undefined
      throw error
    }
  }

  /** Tries again what fails for a moment, until it succeeds, is refused, or the process has left. */
  async patiently<T>(act: () => Promise<T>): Promise<T> {
    for (let pause = 50; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return await act()
      } catch (error) {
        if (error instanceof DramatisError || this.#closed.signal.aborted) throw error
        await systemClock.sleep(pause, this.#closed.signal)
      }
    }
  }

  async leave(): Promise<void> {
    if (this.#closed.signal.aborted) return
    this.#closed.abort(new Error('the process has left its cluster'))
    await this.#joined?.connection.close()
  }

  async #watch(connection: NatsConnection): Promise<void> {
    const told = new Set<string>()
    for await (const status of connection.status()) {
      if (status.type === 'error') {
        const text = `cluster: a broker refuses this process: ${describe(status.error)}`
        if (!told.has(text)) this.options.warn(text)
        told.add(text)
      }
      if (status.type !== 'reconnect') continue
      told.clear()
      this.#current.abort(new Error('the connection to the broker was cut'))
      this.#current = new AbortController()
      this.reconnects += 1
      this.onReconnect?.()
      try {
        refuse(connection)
      } catch (error) {
        this.options.warn(describe(error))
        await connection.reconnect()
      }
    }
  }

  #answer<T>(asked: Promise<T>): Promise<T> {
    return unlessAborted(this.#current.signal, asked)
  }

  get #parts(): Joined {
    if (this.#joined) return this.#joined
    throw new ConfigurationError('the process has not joined its cluster yet: call `join` first.', {})
  }
}

/** Parts of a connection, once the process has joined. */
interface Joined {
  readonly driver: Driver
  readonly connection: NatsConnection
  readonly client: JetStreamClient
  readonly streams: JetStreamManager['streams']
}

/** Any text as a part of a subject. */
export const tokenOf = (text: string): string => createHash('sha256').update(text).digest('base64url')

/** Refuses a broker on which the promises do not hold. */
function refuse({ info }: NatsConnection): void {
  const { version = '0', jetstream, max_payload: most = 0 } = info ?? {}
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [least, leastMinor] = LEAST_VERSION
  const why =
    major < least || (major === least && minor < leastMinor)
      ? `is nats-server ${version}: accepted is ${LEAST_VERSION.join('.')} and up, since before it two writers could both be told that they were first`
      : !jetstream
        ? 'has no JetStream: start it with -js, or with `jetstream` in its configuration'
        : most < LEAST_PAYLOAD
          ? `takes messages of up to ${most} bytes (max_payload): accepted are ${LEAST_PAYLOAD} and more`
          : undefined
  if (why) throw new ConfigurationError(`cluster.url: the broker ${why}.`, { path: 'cluster.url' })
}

/** Refuses a stream that somebody has made, or changed, so that it may lose what was accepted. */
function refuseStream({ config }: StreamInfo, replicas: number): void {
  const why =
    config.num_replicas < replicas
      ? `has ${config.num_replicas} replicas of ${replicas}`
      : config.max_age > 0 || config.max_msgs > 0 || config.max_bytes > 0 || config.max_msgs_per_subject > 0
        ? 'gives up messages by their age, number or size (max_age, max_msgs, max_msgs_per_subject, max_bytes)'
        : config.storage !== 'file'
          ? 'is in memory'
          : config.persist_mode === 'async'
            ? 'is written some time after it is acknowledged (persist_mode)'
            : config.mirror || config.sources
              ? 'takes messages of other streams'
              : undefined
  if (!why) return
  const text = `cluster.url: the stream ${config.name} ${why}, so what was accepted could get lost: nats stream edit.`
  throw new ConfigurationError(text, { path: 'cluster.url' })
}

function codeOf(error: unknown): number {
  const { code } = Object(error) as { code?: unknown }
  return typeof code === 'number' ? code : 0
}

type Driver = typeof import('@nats-io/transport-node') & typeof import('@nats-io/jetstream')

/** The driver is an optional peer: late, so that only who has a cluster on NATS installs it. */
async function loadNats(): Promise<Driver> {
  try {
    // each awaited in its place: bundlers let a package be missing that is imported so
    return { ...(await import('@nats-io/transport-node')), ...(await import('@nats-io/jetstream')) }
  } catch (error) {
    const text = `A cluster on NATS needs its client: npm install @nats-io/transport-node @nats-io/jetstream (${describe(error)}).`
    throw new ConfigurationError(text, { path: 'cluster.url' }, error)
  }
}

interface Address {
  readonly servers: string[]
  readonly user?: string
  readonly pass?: string
  readonly token?: string
  readonly tls?: TlsOptions
  /** File with the JWT and the seed of a user, or with a seed alone. */
  readonly creds?: string
  readonly nkey?: string
}

/** Files that an address may name, as the `nats` command names them, each with that of the driver. */
const FILES: ReadonlyMap<string, string> = new Map(
  Object.entries({ creds: 'creds', nkey: 'nkey', tlsca: 'caFile', tlscert: 'certFile', tlskey: 'keyFile' }),
)

function serversOf(url: string): Address {
  const [, scheme, login, hosts, query] = /^(nats|tls):\/\/(?:([^@/?]*)@)?([^@/?]+)\/?(?:\?(.*))?$/.exec(url) ?? []
  const given = [...new URLSearchParams(query)]
  if (!hosts || given.some(([name, file]) => !FILES.has(name) || file === ''))
    throw new ConfigurationError(
      `cluster.url is no address of NATS: accepted is nats://user:password@host:port,host:port, or tls://, with files as in ?creds=/run/user.creds: ${[...FILES.keys()].join(', ')}.`,
      { path: 'cluster.url' },
    )
  const [user = '', pass] = (login ?? '').split(/:(.*)/s).map(decodeURIComponent)
  const known = pass !== undefined ? { user, pass } : user !== '' ? { token: user } : {}
  const { creds, nkey, ...tls } = Object.fromEntries(given.map(([name, file]) => [FILES.get(name)!, file]))
  return {
    servers: hosts.split(','),
    ...known,
    ...((scheme === 'tls' || Object.keys(tls).length > 0) && { tls }),
    ...(creds !== undefined && { creds }),
    ...(nkey !== undefined && { nkey }),
  }
}

/**
 * Tells brokers the user of this process, by a file that is read at each connection. If it cannot be read, its last
 * content counts.
 *
 * @throws ConfigurationError if it never could be
 */
function fromFile(name: string, file: string, made: (text: string) => Authenticator): Authenticator {
  let good: Authenticator | undefined
  const look: Authenticator = (nonce) => {
    try {
      const now = made(readFileSync(file, 'utf8').trim())
      const auth = now(nonce)
      good = now
      return auth
    } catch (error) {
      if (good) return good(nonce)
      const text = `cluster.url: ${name}=${file} cannot be used: ${describe(error)}.`
      throw new ConfigurationError(text, { path: 'cluster.url' })
    }
  }
  look()
  return look
}

const isForbidden = (error: unknown): error is Error =>
  error instanceof Error && error.message.startsWith('Permissions Violation')

function forbidden(error: Error): ConfigurationError {
  const text = `cluster.url: this user of the brokers lacks a right: ${error.message}. It needs dramatis.>, $JS.API.> and _INBOX.>, to publish and to subscribe.`
  return new ConfigurationError(text, { path: 'cluster.url' }, error)
}

function unreachable(url: string, error: unknown): ClusterUnreachableError {
  const text = `the brokers of the cluster, ${url.replace(/\/\/[^@/]*@/, '//...@')}, cannot be reached: ${describe(error)}.`
  return new ClusterUnreachableError(text, { path: 'cluster.url' }, error)
}
