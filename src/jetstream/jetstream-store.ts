/** `ClusterStore` on NATS JetStream, nats-server 2.11 and up. */
import { randomUUID } from 'node:crypto'
import type { StoredMsg } from '@nats-io/jetstream'
import {
  type ClusterKeep,
  type ClusterNotice,
  type ClusterStore,
  type ClusterTask,
  type ClusterTimes,
  type ClusterView,
  type NewMember,
  type ShardLog,
  type TakenTask,
  type TaskOutcome,
  type TaskState,
  TIMES,
} from '../runtime/cluster/cluster-store.ts'
import { systemClock } from '../shared/clock.ts'
import {
  ClusterShardsDifferError,
  ClusterVersionError,
  ConfigurationError,
  type DramatisError,
} from '../shared/errors.ts'
import { Brokers, MESSAGE_BYTES, tokenOf } from './brokers.ts'
import { Members } from './members.ts'
import { JetStreamLog, STUCK } from './shard-log.ts'

export interface JetStreamStoreOptions {
  /**
   * `nats://user:password@host:4222,host:4222`, or `tls://`: any of the brokers. Files of credentials and certificates
   * go behind it: `?creds=/run/user.creds`, `nkey`, `tlsca`, `tlscert`, `tlskey`.
   */
  readonly url: string
  /** Name of the cluster: its processes share the shards. Default: 'default'. */
  readonly name?: string
  /** Number of shards, fixed at the first start. Default: 16. */
  readonly shards?: number
  /** Brokers that have each message; most of them have it before it is acknowledged. Default: 3. */
  readonly replicas?: 1 | 3 | 5
  /** 'replicated' refuses fewer than 3 replicas. */
  readonly durability?: 'replicated'
  readonly times?: Partial<ClusterTimes>
  readonly keep?: ClusterKeep
  /** Told of what an operator should know. Default: `process.emitWarning`. */
  readonly warn?: (text: string) => void
}

const DEFAULT_DAYS = 30
const DAY_SECONDS = 86_400
/** Layout of streams and messages: what stands there is never changed. */
const VERSION = 1
const TASKS_A_TAKE = 100
const PAUSE_MS = 50
/** Times that a condition may fail without a reason that can be read: another message may be under way. */
const MOST_TRIES = 40

/** A task as a message: one of 'open' that has its body, or one of 'done' that has its outcome. */
interface Row {
  /** Number of the message. */
  readonly number: number
  readonly id: string
  readonly shard: number
  readonly hash: string
  readonly status: 'open' | TaskOutcome['status']
  /** Number of the message that has, or had, the body. */
  readonly opened: number
  readonly message: StoredMsg
}

export class JetStreamStore implements ClusterStore {
  readonly shards: number
  readonly #brokers: Brokers
  readonly #members: Members
  readonly #days: number
  readonly #tasks: string
  readonly #logs = new Set<JetStreamLog>()
  /** Number of the last task that may have been begun before, for each log that has lost its end. */
  readonly #doubtful = new WeakMap<ShardLog, number>()

  constructor(options: JetStreamStoreOptions) {
    const { url, name = 'default', shards = 16, replicas = 3, durability, times, keep, warn } = options
    if (durability === 'replicated' && replicas < 3)
      throw new ConfigurationError("cluster.durability 'replicated' needs 3 replicas or more.", {
        path: 'cluster.durability',
      })
    this.shards = shards
    this.#days = keep?.days ?? DEFAULT_DAYS
    this.#brokers = new Brokers({
      url,
      cluster: name,
      replicas,
      warn: warn ?? ((text) => process.emitWarning(text, 'DramatisWarning')),
    })
    this.#tasks = this.#brokers.streamOf('tasks')
    this.#members = new Members(this.#brokers, { ...TIMES, ...times }, () => this.#open.map(({ held }) => held))
  }

  async join(self: NewMember, told: (notice: ClusterNotice) => void, signal?: AbortSignal): Promise<void> {
    await this.#brokers.connect(signal)
    try {
      await this.#agree(signal)
      // not the stream's own subjects: there one hears what the stream refuses, too
      await this.#brokers.hear(this.#brokers.subjectOf('tell'), (message) => told(message.json<ClusterNotice>()))
      await this.#members.join(self)
    } catch (error) {
      await this.#brokers.leave()
      throw error
    }
  }

  async view(): Promise<ClusterView> {
    const members = await this.#members.living()
    const others = members.filter(({ id }) => id !== this.#members.self.id)
    const taken = new Set(others.flatMap(({ shards }) => shards))
    for (const log of this.#open) if (taken.has(log.shard)) void log.compare()
    const all = Array.from({ length: this.shards }, (_, shard) => shard)
    return { members, free: this.#members.hasListened ? all.filter((shard) => !taken.has(shard)) : [] }
  }

  log(shard: number, onLost: (error: DramatisError) => void): ShardLog {
    for (const log of this.#logs) if (log.state === 'closed' || log.state === 'lost') this.#logs.delete(log)
    const log = new JetStreamLog(this.#brokers, this.#members, shard, onLost)
    this.#logs.add(log)
    return log
  }

  async submit({ id, shard, hash, body }: ClusterTask): Promise<'fresh' | 'known' | 'conflict'> {
    const parts = await this.#keep(body)
    const headers = { ...headersOf(id, hash, 'open'), ...parts.headers }
    for (let tries = 1; ; tries++) {
      const subject = this.#brokers.subjectOf('task', 'open', shard, tokenOf(id))
      if (await this.#brokers.put(subject, parts.body, headers, { last: 0, of: this.#patternOf(id) })) {
        this.tell({ shard })
        return 'fresh'
      }
      const row = await this.#rowOf(id)
      if (row) {
        await this.#forget(parts.headers[PARTS])
        return row.hash === hash ? 'known' : 'conflict'
      }
      if (tries === MOST_TRIES) throw new Error(`the brokers refuse task ${id}, and do not have it`)
      await systemClock.sleep(PAUSE_MS)
    }
  }

  /** A stream has its messages in the order in which they were committed, so none comes later before that number. */
  async take(log: ShardLog): Promise<readonly TakenTask[]> {
    if (!(log instanceof JetStreamLog)) throw new TypeError('take: the log is not one of this store')
    if (log.lost !== undefined && !this.#doubtful.has(log)) {
      const { state } = (await this.#brokers.stateOf(this.#tasks)) ?? {}
      this.#doubtful.set(log, state?.last_seq ?? 0)
    }
    const pattern = this.#brokers.subjectOf('task', 'open', log.shard, '*')
    const tasks: TakenTask[] = []
    // if they have lost their end, what comes has numbers that were there before, and what is settled is open again
    const { reconnects } = this.#brokers
    if (log.taken !== reconnects) log.nextTask = 1
    log.taken = reconnects
    let next = log.nextTask
    while (tasks.length < TASKS_A_TAKE) {
      const message = await this.#brokers
        .message(this.#tasks, { seq: next, next_by_subj: pattern })
        .catch((error) => this.#insteadOf(error))
      if (!message) break
      const { number, id, shard, hash } = rowIn(message)
      const body = await this.#bodyOf(message)
      tasks.push({ id, shard, hash, body, doubtful: number <= (this.#doubtful.get(log) ?? 0) })
      next = number + 1
    }
    log.nextTask = next
    return tasks
  }

  /** Makes the stream of tasks again that the brokers have lost. Rejects with the error if it is another one. */
  async #insteadOf(error: unknown): Promise<undefined> {
    if (!(await this.#brokers.hasLost(this.#tasks, STUCK * this.#members.times.ttlMs))) throw error
    await this.#agree(undefined)
    for (const log of this.#logs) log.taken = -1
    this.#brokers.options.warn(
      `the brokers have lost stream ${this.#tasks}, with all tasks and outcomes: it is made again, and who waits for one of them is told that nobody knows it`,
    )
  }

  async settle(id: string, outcome: TaskOutcome): Promise<void> {
    const parts = await this.#keep(outcome.body, this.#ttl(1))
    for (;;) {
      const row = await this.#rowOf(id)
      if (!row) return
      if (row.status !== 'open') {
        await this.#brokers.remove(this.#tasks, row.opened) // who settled it may have died before
        break
      }
      const { shard, hash, number, message } = row
      const subject = this.#brokers.subjectOf('task', 'done', shard, tokenOf(id))
      const headers = { ...headersOf(id, hash, outcome.status), [OPENED]: String(number), ...parts.headers }
      const condition = { last: number, of: this.#patternOf(id) }
      if (await this.#brokers.put(subject, parts.body, headers, condition, this.#ttl())) {
        await this.#brokers.remove(this.#tasks, number)
        await this.#forget(message.header.get(PARTS))
        break
      }
      await systemClock.sleep(PAUSE_MS)
    }
    this.tell({ settled: id })
  }

  async outcome(id: string): Promise<TaskState | undefined> {
    const row = await this.#rowOf(id)
    if (!row) return undefined
    const { shard, status, message } = row
    return { shard, outcome: status === 'open' ? undefined : { status, body: await this.#bodyOf(message) } }
  }

  tell(notice: ClusterNotice): void {
    if ('settled' in notice && notice.outcome) return // it is told when it is kept
    try {
      this.#brokers.connection.publish(this.#brokers.subjectOf('tell'), JSON.stringify(notice))
    } catch {
      // it may always get lost
    }
  }

  async leave(): Promise<void> {
    await this.#members.leave()
    await this.#brokers.leave()
  }

  get #open(): JetStreamLog[] {
    return [...this.#logs].filter(({ state }) => state === 'open')
  }

  /** All messages of a task: the first one, and the one that settles it. */
  #patternOf(id: string): string {
    return this.#brokers.subjectOf('task', '*', '*', tokenOf(id))
  }

  async #agree(signal: AbortSignal | undefined): Promise<void> {
    const subjects = [this.#brokers.subjectOf('task', '*', '*', '*'), this.#brokers.subjectOf('part', '*', '*')]
    const metadata = { shards: String(this.shards), version: String(VERSION) }
    const { config } = await this.#brokers.stream(this.#tasks, { subjects, metadata, allow_msg_ttl: true }, signal)
    const [version, shards] = [Number(config.metadata?.version), Number(config.metadata?.shards)]
    if (version > VERSION) {
      const text = `the streams of the cluster have version ${version}, and this process knows up to ${VERSION}: install the version of dramatis that the other processes run, or a later one.`
      throw new ClusterVersionError(text, { got: version, accepted: VERSION })
    }
    if (shards === this.shards) return
    const text = `the cluster has ${shards} shards and this process says ${this.shards}: their number stays as it was at the first start. Set cluster.shards to ${shards}.`
    throw new ClusterShardsDifferError(text, { path: 'cluster.shards', got: this.shards, accepted: shards })
  }

  /**
   * The last message of a task, as the leader has it. One that led before, and has been cut off since, may not know it:
   * that there is none counts only behind a write, which no such leader can do.
   */
  async #rowOf(id: string): Promise<Row | undefined> {
    const last = () => this.#brokers.message(this.#tasks, { last_by_subj: this.#patternOf(id) })
    const message = await last()
    if (message) return rowIn(message)
    await this.#brokers.put(this.#brokers.subjectOf('part', 'none', 0), new Uint8Array(), {}, undefined, '1s')
    const confirmed = await last()
    return confirmed && rowIn(confirmed)
  }

  #ttl(moreDays = 0): string {
    return `${Math.ceil((this.#days + moreDays) * DAY_SECONDS)}s`
  }

  /** Puts a body that is larger than a message into parts of its own, before a message names them. */
  async #keep(body: Uint8Array, ttl?: string): Promise<{ body: Uint8Array; headers: { [PARTS]?: string } }> {
    if (body.byteLength <= MESSAGE_BYTES) return { body, headers: {} }
    const made = randomUUID()
    const count = Math.ceil(body.byteLength / MESSAGE_BYTES)
    for (let n = 0; n < count; n++) {
      const part = body.subarray(n * MESSAGE_BYTES, (n + 1) * MESSAGE_BYTES)
      await this.#brokers.put(this.#brokers.subjectOf('part', made, n), part, {}, undefined, ttl)
    }
    return { body: new Uint8Array(), headers: { [PARTS]: `${made} ${count}` } }
  }

  async #bodyOf({ data, header }: StoredMsg): Promise<Uint8Array> {
    const [made = '', count = 0] = header.get(PARTS).split(' ')
    if (made === '') return data
    const parts: Uint8Array[] = []
    for (let n = 0; n < Number(count); n++) {
      const part = await this.#brokers.message(this.#tasks, { last_by_subj: this.#brokers.subjectOf('part', made, n) })
      if (!part) throw new Error(`part ${n} of ${count} of a message in ${this.#tasks} is not there`)
      parts.push(part.data)
    }
    return Buffer.concat(parts)
  }

  async #forget(parts = ''): Promise<void> {
    const [made] = parts.split(' ')
    if (made) await this.#brokers.purge(this.#tasks, { filter: this.#brokers.subjectOf('part', made, '*') })
  }
}

const [ID, HASH, STATUS, OPENED, PARTS] = ['Id', 'Hash', 'Status', 'Opened', 'Parts'] as const

function headersOf(id: string, hash: string, status: Row['status']): Record<string, string> {
  return { [ID]: encodeURIComponent(id), [HASH]: encodeURIComponent(hash), [STATUS]: status }
}

function rowIn(message: StoredMsg): Row {
  const { seq: number, subject, header } = message
  const status = header.get(STATUS) as Row['status']
  return {
    number,
    id: decodeURIComponent(header.get(ID)),
    shard: Number(subject.split('.').at(-2)),
    hash: decodeURIComponent(header.get(HASH)),
    status,
    opened: status === 'open' ? number : Number(header.get(OPENED)),
    message,
  }
}
