/** `ClusterStore` on PostgreSQL 13 and up. */

import {
  type ClusterKeep,
  type ClusterMember,
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
import { type DramatisError, describe } from '../shared/errors.ts'
import { channelOf, Database, isPassing } from './database.ts'
import { LIVES, PostgresLog } from './shard-log.ts'

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:5432,host:5432/database`: the hosts are tried in turn. */
  readonly url: string
  /** Name of the cluster: its processes share the shards. Default: 'default'. */
  readonly name?: string
  /** Number of shards, fixed at the first start. Default: 16. */
  readonly shards?: number
  /** 'replicated' refuses a database that answers before a standby has what was written. */
  readonly durability?: 'replicated'
  readonly times?: Partial<ClusterTimes>
  readonly keep?: ClusterKeep
  /** Told of what an operator should know. Default: `process.emitWarning`. */
  readonly warn?: (text: string) => void
}

const VIEW = `select s.shard, s.position::float8, s.owner,
    (s.owner is null or s.owner = $5 or not exists (select from dramatis.member m where m.id = s.owner and ${LIVES})) as free
  from dramatis.shard s where s.cluster = $1 and s.shard < $2 order by s.shard`
export const MEMBERS = `select m.id, m.host, m.pid, m.address, m.version from dramatis.member m
  where m.cluster = $1 and $2::int is not null and ${LIVES} order by m.id`

const SUBMIT = `with fresh as (
    insert into dramatis.task (cluster, id, shard, hash, body, at)
    values ($1, $2, $3, $4, $5, clock_timestamp() - $6 * interval '1 ms') on conflict do nothing
    returning id)
  select (select count(*)::int from fresh) as fresh, (select hash from dramatis.task where cluster = $1 and id = $2) as hash`

/**
 * Marks first what was given before: if this answer is lost, the same is given again. Who asks has seen to what a
 * failover has left of the log; tasks from before that may have been begun, and nobody knows.
 */
const TAKE = `with seen as (
    update dramatis.shard set timeline = $5, high = 0 where cluster = $1 and shard = $2 and claim = $3 and timeline < $5),
  given as (
    update dramatis.task set given = $3 where cluster = $1 and shard = $2 and id = any($4)
      and exists (select from dramatis.shard s where s.cluster = $1 and s.shard = $2 and s.claim = $3))
  select t.id, t.shard, t.hash, t.body,
    coalesce(t.at < (select e.at from dramatis.epoch e join dramatis.shard s on s.cluster = e.cluster and s.cut = e.timeline
      where s.cluster = $1 and s.shard = $2), false) as doubtful
  from dramatis.task t
  where t.cluster = $1 and t.shard = $2 and t.settled is null and t.given is distinct from $3 and t.id <> all($4)
  order by t.n limit 100`

const SETTLE = `update dramatis.task set status = $3, result = $4, settled = clock_timestamp(), body = null
  where cluster = $1 and id = $2 and settled is null`

/** Puts again an outcome that somebody was told, with its task if that is gone too. */
const PUT = `with done as (
    insert into dramatis.task as t (cluster, id, shard, hash, status, result, settled)
    values ($1, $2, $3, $4, $5, $6, clock_timestamp()) on conflict (cluster, id)
    do update set status = excluded.status, result = excluded.result, settled = excluded.settled, body = null
    where t.settled is null returning id)
  select pg_notify($7, 'settled ' || id) from done`

const NOTIFY = 'select pg_notify($1, payload) from unnest($2::text[]) as payload'

const OUTCOME = 'select shard, hash, status, result from dramatis.task where cluster = $1 and id = $2'

/** So many at a time: nobody waits long for one of them. What another process removes just now is left to it. */
const FORGET = `delete from dramatis.task where (cluster, id) in (
    select cluster, id from dramatis.task
    where cluster = $1 and settled < clock_timestamp() - $2 * interval '1 day' order by settled limit $3
    for update skip locked)`
const FORGET_ROWS = 500
const FORGET_MS = 60_000
const DEFAULT_DAYS = 30

/** Time in ms for which a process can say again what it said, after a failover that lost it. */
const SAID_MS = 120_000
const MOST_SAID = 10_000

/** Something that this process has told somebody: that a task is accepted, or what became of it. */
interface Said {
  readonly task?: Omit<ClusterTask, 'body'> & Partial<ClusterTask>
  readonly outcome?: TaskOutcome
  readonly at: number
  /** Timeline of the database that had it. */
  readonly timeline: number
}

export class PostgresStore implements ClusterStore {
  readonly #shards: number
  readonly #database: Database
  readonly #channel: string
  readonly #notices = new Set<string>()
  readonly #warn: (text: string) => void
  readonly #logs = new Set<PostgresLog>()
  readonly #said = new Map<string, Said>()
  /** The highest position of each shard that this process has seen. */
  readonly #positions = new Map<number, number>()
  #seenTimeline = 0
  readonly #days: number
  #forgetting: NodeJS.Timeout | undefined

  constructor({ url, name = 'default', shards = 16, durability, times, keep, warn }: PostgresStoreOptions) {
    this.#shards = shards
    this.#days = keep?.days ?? DEFAULT_DAYS
    this.#channel = channelOf(name)
    this.#warn = warn ?? ((text) => process.emitWarning(text, 'DramatisWarning'))
    this.#database = new Database({
      url,
      cluster: name,
      replicated: durability === 'replicated',
      times: { ...TIMES, ...times },
      warn: this.#warn,
    })
  }

  async join(self: NewMember, told: (notice: ClusterNotice) => void, signal?: AbortSignal): Promise<void> {
    this.#database.onNotice = (payload) => {
      const [what, key = ''] = payload.split(/ (.*)/s)
      if (what === 'shard') told({ shard: Number(key) })
      else if (what === 'settled') told({ settled: key })
      else if (what === 'leaves') told({ leaves: key })
      else if (what === 'passes') told({ passes: key })
      else if (what === 'waits') told({ waits: key })
    }
    this.#database.onFailover = () => {
      this.#goOn().catch((error) =>
        this.#warn(`what was said before the failover is not said again: ${describe(error)}`),
      )
    }
    await this.#database.join(self, this.#shards, signal)
    this.#forgetting = setInterval(() => void this.#forget(), FORGET_MS).unref()
    void this.#forget()
  }

  async view(): Promise<ClusterView> {
    const { timeline, options } = this.#database
    const { suspectMs, ttlMs } = options.times
    const [shards, members] = await Promise.all([
      this.#database.ask<ShardRow>(VIEW, [this.#cluster, this.#shards, suspectMs, ttlMs, this.#database.id]),
      this.#database.ask<MemberRow>(MEMBERS, [this.#cluster, this.#shards, suspectMs, ttlMs]),
    ])
    await this.#tellOfCuts(shards.rows, timeline)
    const free = this.#database.isInGrace ? [] : shards.rows.filter((row) => row.free).map(({ shard }) => shard)
    const shardsOf = (id: string) => shards.rows.filter(({ owner }) => owner === id).map(({ shard }) => shard)
    return { members: members.rows.map((row) => memberOf(row, shardsOf(row.id))), free }
  }

  log(shard: number, onLost: (error: DramatisError) => void): ShardLog {
    for (const log of this.#logs) if (log.state === 'closed' || log.state === 'lost') this.#logs.delete(log)
    const log = new PostgresLog(this.#database, shard, onLost)
    this.#logs.add(log)
    return log
  }

  /** `ageMs`: time since it was accepted, if it is submitted again because the database has lost it. */
  async submit(task: ClusterTask, ageMs = 0): Promise<'fresh' | 'known' | 'conflict'> {
    const { id, shard, hash, body } = task
    const values = [this.#cluster, id, shard, hash, body, ageMs]
    const { rows } = await this.#database.ask<{ fresh: number; hash: string | null }>(SUBMIT, values)
    const [row] = rows
    if (row?.fresh === 0) {
      if (row.hash === null) return this.submit(task, ageMs) // it came in the same moment
      if (row.hash !== hash) return 'conflict'
      // it was read, so a standby may not have it yet: a write behind it says so
      await this.#database.ask('update dramatis.task set hash = hash where cluster = $1 and id = $2', [
        this.#cluster,
        id,
      ])
    }
    this.#say(id, { task })
    if (row?.fresh !== 0) this.tell({ shard })
    return row?.fresh === 0 ? 'known' : 'fresh'
  }

  async take(log: ShardLog): Promise<readonly TakenTask[]> {
    if (!(log instanceof PostgresLog)) throw new TypeError('take: the log is not one of this store')
    const values = [this.#cluster, log.shard, log.claim, log.given, this.#database.timeline]
    const { rows } = await this.#database.ask<TaskRow>(TAKE, values)
    log.given = rows.map(({ id }) => id)
    return rows
  }

  async settle(id: string, outcome: TaskOutcome): Promise<void> {
    await this.#database.ask(SETTLE, [this.#cluster, id, outcome.status, outcome.body])
    this.#say(id, { outcome })
    this.tell({ settled: id })
  }

  async outcome(id: string): Promise<TaskState | undefined> {
    const { rows } = await this.#database.ask<OutcomeRow>(OUTCOME, [this.#cluster, id])
    const [row] = rows
    if (!row) return this.#sayAgain(id)
    const { shard, hash, status, result } = row
    if (!status) return { shard, outcome: undefined }
    const outcome = { status, body: result }
    this.#say(id, { task: { id, shard, hash }, outcome })
    return { shard, outcome }
  }

  /** Apart from what is written: transactions that notify commit one after the other, and these wait for no disk. */
  tell(notice: ClusterNotice): void {
    const [[what, key] = []] = Object.entries(notice)
    this.#notices.add(`${what} ${key}`)
    if (this.#notices.size > 1) return // it goes with the first
    setImmediate(() => {
      const all = [...this.#notices]
      this.#notices.clear()
      this.#database.ask(NOTIFY, [this.#channel, all]).catch(() => {}) // it may always get lost
    })
  }

  get news(): string {
    return this.#database.news
  }

  hear(news: string): void {
    this.#database.hear(news)
  }

  leave(): Promise<void> {
    clearInterval(this.#forgetting)
    return this.#database.leave()
  }

  get #cluster(): string {
    return this.#database.cluster
  }

  /** Removes outcomes that are kept no more. What fails is done a minute later, or by another process. */
  async #forget(): Promise<void> {
    try {
      const values = [this.#cluster, this.#days, FORGET_ROWS]
      while ((await this.#database.ask(FORGET, values)).rowCount === FORGET_ROWS);
    } catch (error) {
      if (!isPassing(error)) this.#warn(`outcomes that are kept no more are not removed: ${describe(error)}`)
    }
  }

  #say(id: string, said: Pick<Said, 'task' | 'outcome'>): void {
    const before = this.#said.get(id)
    this.#said.delete(id) // the latest stand at the end
    this.#said.set(id, { ...before, ...said, at: systemClock.monotonic(), timeline: this.#database.timeline })
    const oldest = systemClock.monotonic() - SAID_MS
    for (const [each, { at }] of this.#said) {
      if (at >= oldest && this.#said.size <= MOST_SAID) break
      this.#said.delete(each)
    }
  }

  /** Another primary: owners mend their logs, then what was said to others is put again where it is gone. */
  async #goOn(): Promise<void> {
    await Promise.all([...this.#logs].map((log) => log.compare()))
    for (const id of [...this.#said.keys()]) await this.#database.patiently(() => this.#sayAgain(id))
  }

  /** Puts again what this process said of a task before the last failover. */
  async #sayAgain(id: string): Promise<TaskState | undefined> {
    const { task, outcome, timeline } = this.#said.get(id) ?? {}
    if (timeline === this.#database.timeline) return undefined
    if (!task) return undefined
    const { shard, hash, body } = task
    if (outcome) {
      await this.#database.ask(PUT, [this.#cluster, id, shard, hash, outcome.status, outcome.body, this.#channel])
      this.#say(id, { outcome })
    } else if (body) await this.submit({ ...task, body }, SAID_MS) // it may have been begun before the failover
    return { shard, outcome }
  }

  /** After a failover: by how much logs are shorter than this process has seen them, which their next owner tells. */
  async #tellOfCuts(rows: readonly ShardRow[], timeline: number): Promise<void> {
    const isOther = this.#seenTimeline !== 0 && this.#seenTimeline !== timeline
    this.#seenTimeline = timeline
    for (const { shard, position } of rows) {
      const before = this.#positions.get(shard) ?? 0
      this.#positions.set(shard, Math.max(before, position))
      if (!isOther || before <= position) continue
      const text = 'update dramatis.shard set high = greatest(high, $3) where cluster = $1 and shard = $2'
      await this.#database.ask(text, [this.#cluster, shard, before])
    }
  }
}

export function memberOf({ id, host, pid, address, version }: MemberRow, shards: readonly number[]): ClusterMember {
  return { id, host, pid, ...(address !== null && { address }), ...(version !== null && { version }), shards }
}

interface ShardRow {
  readonly [column: string]: unknown
  readonly shard: number
  readonly position: number
  readonly owner: string | null
  readonly free: boolean
}

export interface MemberRow {
  readonly [column: string]: unknown
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly address: string | null
  readonly version: string | null
}

interface TaskRow extends TakenTask {
  readonly [column: string]: unknown
}

interface OutcomeRow {
  readonly [column: string]: unknown
  readonly shard: number
  readonly hash: string
  readonly status: 'finished' | 'failed' | null
  readonly result: Buffer
}
