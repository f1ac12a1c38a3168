/**
 * A process's connections to one PostgreSQL that may fail over. Each connection says first which database it has
 * reached; an answer counts only if its connection is of the timeline that the process knows, before and after.
 */
import { randomInt } from 'node:crypto'
import { hostname } from 'node:os'
import type pg from 'pg'
import { withoutSecrets } from '../runtime/cluster/address.ts'
import type { ClusterTimes, NewMember } from '../runtime/cluster/cluster-store.ts'
import { systemClock } from '../shared/clock.ts'
import {
  ClusterShardsDifferError,
  ClusterUnreachableError,
  ConfigurationError,
  DramatisError,
  describe,
} from '../shared/errors.ts'
import { LOCK_CLASS, migrate } from './schema.ts'

export interface DatabaseOptions {
  /** `postgres://user:password@host:5432,host:5432/database`: the hosts are tried in turn. */
  readonly url: string
  /** Processes of one name share the shards. */
  readonly cluster: string
  /** Refuses a database that answers before a standby has what was written. */
  readonly replicated: boolean
  readonly times: ClusterTimes
  warn(text: string): void
}

/** A connection, as far as it is known. */
interface Connection {
  readonly client: pg.Client
  readonly host: number
  /** 0 until it has said it. */
  timeline: number
  /** Why it is not to be used. */
  refusal?: unknown
  /** The server has said that it answers without the standby. */
  unsure: boolean
}

interface News {
  readonly system: string | undefined
  readonly timeline: number
}

interface Hello {
  readonly standby: boolean
  readonly system: string
  readonly names: string
  readonly commit: string
  readonly replicas: number
  readonly timeline: number
}

/**
 * The timeline of `pg_control_checkpoint()` lags behind a promotion; that of the file under way does not. All that a
 * connection asks for are some rows by their keys, and plans are made once, when there may be no rows yet.
 */
const HELLO = `select pg_is_in_recovery() as standby,
  (select system_identifier::text from pg_control_system()) as system,
  current_setting('synchronous_standby_names') as names, current_setting('synchronous_commit') as commit,
  (select count(*)::int from pg_stat_replication) as replicas,
  case when pg_is_in_recovery() then 0 else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end
    as timeline,
  (select count(set_config(name, value, false)) from (values ('lock_timeout', '4s'), ('jit', 'off'),
    ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'),
    ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'), ('enable_material', 'off')) settings (name, value))`

/** A write: when it is answered, what this connection reads has come to the standbys too, if they are synchronous. */
const EPOCH = `insert into dramatis.epoch as e (cluster, timeline, sync) values ($1, $2, $3)
  on conflict (cluster, timeline) do update set sync = e.sync and excluded.sync
  returning id, (extract(epoch from clock_timestamp() - at) * 1000)::float8 as age,
    exists (select from dramatis.epoch o where o.cluster = $1 and o.timeline < $2) as "isLater"`

const BEAT = `insert into dramatis.member (id, cluster, serial, host, pid, address, version)
  values ($1, $2, $3, $4, $5, $6, $7) on conflict (id) do update set seen = clock_timestamp()`

/** Time that a host may take to answer, in ms: `pg` itself waits for ever where one falls silent. */
const CONNECT_MS = 3_000
const QUERY_MS = 5_000
/** Time in ms for which a host that fell silent is not asked, if there are others. */
const SILENT_MS = 10_000
const LONGEST_PAUSE_MS = 1_000
/** A pooler in transaction mode shows itself only while somebody else holds its connection, and not each time. */
const POOLER_TRIES = 3
export class Database {
  readonly options: DatabaseOptions
  readonly #hosts: readonly string[]
  /** Number of the host that is asked now. */
  #host = 0
  /** Until when each host that fell silent is passed over. */
  readonly #silent = new Map<number, number>()
  #system: string | undefined
  #epoch: string | undefined
  #timeline = 0
  /** The latest timeline that another process has named: this one may not have found its primary yet. */
  #named = 0
  #isLater = false
  #graceUntil = 0
  readonly #connections = new Map<pg.ClientBase, Connection>()
  /** Logs and questions have a pool each: who waits for results keeps no log waiting. */
  #logs: pg.Pool | undefined
  #asks: pg.Pool | undefined
  #pg: Pg | undefined
  readonly #serial = randomInt(2 ** 31 - 1)
  #self: NewMember | undefined
  #channel: string | undefined
  #session: pg.Client | undefined
  #sessionSince = Number.POSITIVE_INFINITY
  #isProbed = false
  #beats: NodeJS.Timeout | undefined
  readonly #closed = new AbortController()
  #hasWarned = false
  /** Called when the process has come to another primary than before. */
  onFailover: (() => void) | undefined
  onNotice: ((payload: string) => void) | undefined

  constructor(options: DatabaseOptions) {
    this.options = options
    this.#hosts = hostsOf(options.url)
  }

  get cluster(): string {
    return this.options.cluster
  }

  /** On which processes of the cluster tell each other. */
  get channel(): string {
    return this.#joined(this.#channel)
  }

  /** Id of the member: a log has it as its owner. */
  get id(): string {
    return this.#joined(this.#self).id
  }

  get timeline(): number {
    return this.#timeline
  }

  /** True if the database has failed over since the cluster began. */
  get isLater(): boolean {
    return this.#isLater
  }

  /** True in the time after a failover, or after this process has found the database again, in which it only waits. */
  get isInGrace(): boolean {
    const now = systemClock.monotonic()
    return now < this.#graceUntil || now < this.#sessionSince + Math.min(this.options.times.suspectMs, 1_000)
  }

  /**
   * Makes the tables where they are missing, and says that this process is there.
   *
   * @throws ConfigurationError, ClusterUnreachableError, ClusterVersionError
   */
  async join(self: NewMember, shards: number, signal?: AbortSignal): Promise<void> {
    this.#self = self
    this.#pg ??= await loadPg()
    this.#logs ??= this.#newPool(this.#pg)
    this.#asks ??= this.#newPool(this.#pg)
    for (let tries = 1; ; tries++) {
      signal?.throwIfAborted()
      try {
        await this.#prepare(shards)
        break
      } catch (error) {
        if (!isPassing(error)) throw error
        if (tries > 2 * this.#hosts.length) throw unreachable(this.options.url, error)
        await systemClock.sleep(100, signal)
      }
    }
    await this.patiently(() => this.#beat(), signal)
    await this.#openSession()
    this.#beats = setInterval(() => this.#signOfLife(), this.options.times.beatMs).unref()
  }

  /** News for other processes: the database that this one has reached, and its timeline. */
  get news(): string {
    return JSON.stringify({ system: this.#system, timeline: this.#timeline } satisfies News)
  }

  /** Leaves a primary behind which another process has found a later one. */
  hear(news: string): void {
    const { system, timeline } = JSON.parse(news) as News
    if (system !== this.#system || timeline <= Math.max(this.#timeline, this.#named)) return
    this.#named = timeline
    this.#pass(this.#host)
    this.#hangUpIf((connection) => connection.timeline !== 0)
  }

  /** Asks for a log. @throws LogLostError never: an error of the database as it is */
  query<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[]): Promise<pg.QueryResult<Row>> {
    return this.#query(this.#joined(this.#logs), text, values)
  }

  /** Asks for anything else. */
  ask<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[]): Promise<pg.QueryResult<Row>> {
    return this.#query(this.#joined(this.#asks), text, values)
  }

  /** Tries again what fails for a moment, until it succeeds, fails for good, or the process has left. */
  async patiently<T>(act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let pause = 50; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      signal?.throwIfAborted()
      try {
        return await act()
      } catch (error) {
        if (!isPassing(error) || this.#closed.signal.aborted) throw error
        await systemClock.sleep(pause, signal ?? this.#closed.signal)
      }
    }
  }

  async leave(): Promise<void> {
    if (this.#closed.signal.aborted) return
    clearInterval(this.#beats)
    if (this.#self) await this.ask('delete from dramatis.member where id = $1', [this.#self.id]).catch(() => {})
    this.#closed.abort(new Error('the process has left its cluster'))
    const session = this.#session
    this.#session = undefined
    await Promise.all([session?.end().catch(() => {}), this.#logs?.end(), this.#asks?.end()])
  }

  #newPool(driver: Pg): pg.Pool {
    const pool = new driver.Pool({
      Client: this.#clients(driver),
      max: 6,
      ...LIMITS,
      // one that throws here is ended in order, which a host that has fallen silent never answers
      onConnect: (client) => this.#greet(client).catch((error) => this.#refuse(client, error)),
    })
    return pool.on('error', () => {}) // of a connection that nobody uses: the pool makes another
  }

  /** `pg` knows no list of hosts: a client takes the one that is asked now, and tells if it cannot be reached. */
  #clients({ Client }: Pg): new (config?: pg.ClientConfig) => pg.Client {
    const database = this
    return class extends Client {
      constructor(config?: pg.ClientConfig) {
        const [host, began] = [database.#host, systemClock.monotonic()]
        super({ ...config, connectionString: database.#hosts[host]! })
        database.#connections.set(this, { client: this, host, timeline: 0, unsure: false })
        let isReached = false
        this.once('connect', () => {
          isReached = true
        })
        this.once('end', () => {
          database.#connections.delete(this)
          if (isReached) return
          if (systemClock.monotonic() - began < 0.9 * CONNECT_MS) database.#pass(host)
          else database.#findSilent(host)
        })
        this.on('error', () => {}) // whoever waits for an answer is told
      }
    }
  }

  /** Something that the process has since it joined. */
  #joined<T>(part: T | undefined): T {
    if (part) return part
    throw new ConfigurationError('the process has not joined its cluster yet: call `join` first.', {})
  }

  #newClient(): pg.Client {
    const Client = this.#clients(this.#joined(this.#pg))
    return new Client({ ...LIMITS, query_timeout: CONNECT_MS })
  }

  /** Goes on to the next host, unless somebody has already. */
  #pass(host: number): void {
    if (host !== this.#host) return
    const next = this.#hosts.map((_, i) => (host + 1 + i) % this.#hosts.length)
    const now = systemClock.monotonic()
    this.#host = next.find((each) => (this.#silent.get(each) ?? now) <= now) ?? next[0]!
  }

  /** Nothing comes from a host: whoever waits for it is told now, and the next one is asked. */
  #findSilent(host: number): void {
    this.#silent.set(host, systemClock.monotonic() + SILENT_MS)
    this.#pass(host)
    this.#hangUpIf((connection) => connection.host === host)
  }

  #hangUpIf(isSo: (connection: Connection) => boolean): void {
    for (const connection of this.#connections.values()) if (isSo(connection)) hangUp(connection.client)
  }

  async #prepare(shards: number): Promise<void> {
    const [client, other] = [this.#newClient(), this.#newClient()]
    const host = this.#host
    try {
      await Promise.all([client.connect(), other.connect()])
      await refuseTransactionPooling(client, other)
      const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
      if (rows[0]?.standby) {
        this.#pass(host)
        throw passing('this is a standby')
      }
      await migrate(client)
      await this.#agreeOn(client, shards)
    } finally {
      await Promise.all([client.end().catch(() => {}), other.end().catch(() => {})])
    }
  }

  async #agreeOn(client: pg.Client, shards: number): Promise<void> {
    await client.query('insert into dramatis.cluster (cluster, shards) values ($1, $2) on conflict do nothing', [
      this.cluster,
      shards,
    ])
    const text = 'select shards, channel from dramatis.cluster where cluster = $1'
    const { rows } = await client.query<{ shards: number; channel: string }>(text, [this.cluster])
    const there = rows[0]?.shards ?? shards
    this.#channel = rows[0]?.channel
    if (there !== shards) {
      const said = `the cluster '${this.cluster}' has ${there} shards and this process says ${shards}: their number stays as it was at the first start. Set cluster.shards to ${there}.`
      throw new ClusterShardsDifferError(said, { path: 'cluster.shards', got: shards, accepted: there })
    }
    const rows_ =
      'insert into dramatis.shard (cluster, shard) select $1, generate_series(0, $2 - 1) on conflict do nothing'
    await client.query(rows_, [this.cluster, shards])
  }

  async #query<Row extends pg.QueryResultRow>(
    pool: pg.Pool,
    text: string,
    values: readonly unknown[],
  ): Promise<pg.QueryResult<Row>> {
    const client = await pool.connect()
    let failure: unknown
    try {
      const connection = this.#connections.get(client)
      if (connection?.refusal) throw connection.refusal
      if (!connection || !this.#counts(connection)) throw passing('a connection of an older timeline')
      connection.unsure = false
      const result = await client.query<Row>({ name: nameOf(text), text, values: [...values] })
      if (!this.#counts(connection) || connection.unsure)
        throw passing('answered by an older timeline, or without the standby')
      return result
    } catch (error) {
      failure = error
      throw error
    } finally {
      client.release(failure !== undefined)
    }
  }

  #counts({ timeline }: Connection): boolean {
    return timeline === this.#timeline && timeline >= this.#named
  }

  #refuse(client: pg.ClientBase, error: unknown): void {
    const connection = this.#connections.get(client)
    if (connection) connection.refusal = error
  }

  /** Finds out which database a new connection has reached, and whether it is one that counts. */
  async #greet(client: pg.ClientBase): Promise<void> {
    const connection = this.#connections.get(client)
    if (!connection) throw passing('it has ended')
    try {
      await this.#identify(client, connection)
    } catch (error) {
      this.#pass(connection.host)
      throw error
    }
  }

  async #identify(client: pg.ClientBase, connection: Connection): Promise<void> {
    client.on('notice', ({ message }) => {
      if (/canceling wait for synchronous/.test(message ?? '')) connection.unsure = true
    })
    const { rows } = await client.query<Hello>(HELLO)
    const hello = rows[0]!
    if (hello.standby) throw passing('this is a standby')
    if (this.#system !== undefined && hello.system !== this.#system)
      throw new ConfigurationError(
        `cluster.url has led to another database than before (system ${hello.system} after ${this.#system}): all its hosts must be one database and its replicas.`,
        { path: 'cluster.url' },
      )
    const { timeline } = hello
    const isSynchronous = hello.names !== '' && ['on', 'remote_apply'].includes(hello.commit)
    this.#checkReplication(hello, isSynchronous)
    const known = Math.max(this.#timeline, this.#named)
    if (timeline < known) throw passing(`an old primary, of timeline ${timeline} before ${known}`)
    const answer = await client.query<EpochRow>(EPOCH, [this.cluster, timeline, isSynchronous])
    if (timeline < Math.max(this.#timeline, this.#named)) throw passing('an old primary')
    const epoch = answer.rows[0]!
    if (timeline === this.#timeline && this.#epoch !== undefined && epoch.id !== this.#epoch)
      throw passing(`two databases say that they are timeline ${timeline}`)
    connection.timeline = timeline
    this.#system = hello.system
    if (timeline > this.#timeline || this.#epoch === undefined) this.#turnTo(timeline, epoch)
  }

  #checkReplication({ names, commit, replicas }: Hello, isSynchronous: boolean): void {
    const { replicated, warn } = this.options
    if (isSynchronous) return
    if (replicated)
      throw new ConfigurationError(
        `cluster.durability 'replicated' needs a synchronous standby: the database has synchronous_standby_names '${names}' and synchronous_commit '${commit}', accepted are names of standbys, and on or remote_apply.`,
        { path: 'cluster.durability' },
      )
    if (replicas === 0 || this.#hasWarned) return
    this.#hasWarned = true
    warn(
      'the database of the cluster answers before a replica has what was written: a failover may lose its last moments, which is told. Set synchronous_standby_names, or cluster.durability to refuse that',
    )
  }

  #turnTo(timeline: number, { id, age, isLater }: EpochRow): void {
    const isFailover = this.#timeline > 0
    this.#timeline = timeline
    this.#epoch = id
    this.#isLater = isLater
    if (isLater) this.#graceUntil = systemClock.monotonic() + Math.max(0, this.options.times.graceMs - age)
    if (!isFailover) return
    this.#hangUpIf((connection) => connection.timeline !== 0 && connection.timeline !== timeline)
    this.onFailover?.()
  }

  /** The connection whose advisory lock says that this process lives, and which is told of notices. */
  async #openSession(): Promise<void> {
    const client = this.#newClient()
    client.once('end', () => this.#reopenSession(client))
    client.on('notification', ({ payload }) => this.onNotice?.(payload ?? ''))
    this.#session = client
    try {
      await client.connect()
      await this.#greet(client)
      await client.query('select pg_advisory_lock($1, $2)', [LOCK_CLASS, this.#serial])
      await client.query(`listen "${this.channel}"`)
      this.#sessionSince = systemClock.monotonic()
    } catch (error) {
      hangUp(client)
      if (!isPassing(error)) throw error
    }
  }

  #reopenSession(client: pg.Client): void {
    if (this.#session !== client || this.#closed.signal.aborted) return
    this.#sessionSince = Number.POSITIVE_INFINITY
    systemClock.timer(200, () => {
      if (!this.#closed.signal.aborted) this.#openSession().catch(({ message }: Error) => this.options.warn(message))
    })
  }

  #signOfLife(): void {
    this.#beat().catch(() => {})
    const session = this.#session
    if (!session || this.#isProbed || this.#sessionSince === Number.POSITIVE_INFINITY) return
    this.#isProbed = true
    session
      .query('select 1')
      .catch((error) => {
        const connection = this.#connections.get(session)
        if (connection && /timeout/.test(describe(error))) this.#findSilent(connection.host)
        hangUp(session)
      })
      .finally(() => {
        this.#isProbed = false
      })
  }

  /** An upsert: in a failover the row may have gone. */
  async #beat(): Promise<void> {
    const { id, address, version } = this.#self!
    const values = [id, this.cluster, this.#serial, hostname(), process.pid, address ?? null, version ?? null]
    await this.ask(BEAT, values)
  }
}

type Pg = typeof pg

/** The driver is an optional peer: late, so that only who has a cluster installs it. */
export async function loadPg(): Promise<Pg> {
  try {
    return (await import('pg')).default
  } catch (error) {
    const text = `A cluster on PostgreSQL needs the package pg: npm install pg (${describe(error)}).`
    throw new ConfigurationError(text, { path: 'cluster.url' }, error)
  }
}

const names = new Map<string, string>()

/** Name of a statement: the server parses and plans what has one once for each connection. */
function nameOf(text: string): string {
  const known = names.get(text)
  if (known !== undefined) return known
  const name = `dramatis_${names.size}`
  names.set(text, name)
  return name
}

interface EpochRow extends pg.QueryResultRow {
  readonly id: string
  /** Age of the epoch, in ms. */
  readonly age: number
  readonly isLater: boolean
}

const LIMITS = { connectionTimeoutMillis: CONNECT_MS, query_timeout: QUERY_MS, keepAlive: true }

/**
 * True for a failure after which the same may succeed: a connection that is gone, a server that starts, stops, is full
 * or has been demoted, a lock that an earlier try still holds.
 */
export function isPassing(error: unknown): boolean {
  const { code = '', message = '' } = Object(error) as { code?: unknown; message?: unknown }
  if (error instanceof DramatisError) return false
  if (/^(08|57P0|53|40|25006|55P03|57014)/.test(String(code))) return true
  return /ECONN|ENET|EHOST|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|terminated|timeout|not queryable/i.test(
    `${code} ${message}`,
  )
}

function passing(message: string): Error {
  return Object.assign(new Error(message), { code: '08000' })
}

/** Ends a connection at once: `end` waits for a server that may have fallen silent. */
function hangUp(client: pg.Client): void {
  client.connection.stream.destroy()
}

/**
 * In transaction mode a pooler gives each statement to any session: locks and notices would belong to nobody. It shows
 * itself while another client holds the session that this one had.
 */
async function refuseTransactionPooling(client: pg.Client, other: pg.Client): Promise<void> {
  for (let tries = 0; tries < POOLER_TRIES; tries++) {
    const [before] = (await client.query<Mark>(MARKED, [String(tries)])).rows
    await other.query('begin')
    const [after] = (await client.query<Mark>(MARK)).rows
    await other.query('rollback')
    if (before?.pid !== after?.pid || before?.mark !== after?.mark)
      throw new ConfigurationError(
        'cluster.url leads to a pooler in transaction mode, where locks and notices get lost: take its session mode, or the database itself.',
        { path: 'cluster.url' },
      )
  }
}

interface Mark extends pg.QueryResultRow {
  readonly pid: number
  readonly mark: string
}

const MARKED = "select pg_backend_pid() as pid, set_config('dramatis.session', $1, false) as mark"
const MARK = "select pg_backend_pid() as pid, current_setting('dramatis.session', true) as mark"

export function hostsOf(url: string): string[] {
  const [, head, hosts, rest] = /^(postgres(?:ql)?:\/\/(?:[^@/]*@)?)([^/?]*)(.*)$/.exec(url) ?? []
  if (!head || !hosts)
    throw new ConfigurationError(
      'cluster.url is no address of PostgreSQL: accepted is postgres://user:password@host:port/database.',
      {
        path: 'cluster.url',
      },
    )
  return hosts.split(',').map((host) => head + host + rest)
}

export function unreachable(url: string, error: unknown): ClusterUnreachableError {
  const text = `the database of the cluster, ${withoutSecrets(url)}, cannot be reached: ${describe(error)}.`
  return new ClusterUnreachableError(text, { path: 'cluster.url' }, error)
}
