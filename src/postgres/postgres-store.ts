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
import { Database, isPassing } from './database.ts'
import { LIVES, PostgresLog } from './shard-log.ts'
import { Together, Writes } from './writes.ts'

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

const VIEW = `select s.shard, s.position::float8, s.owner, s.claim,
    (s.owner is null or s.owner = $5 or not exists (select from dramatis.member m where m.id = s.owner and ${LIVES})) as free
  from dramatis.shard s where s.cluster = $1 and s.shard < $2 order by s.shard`
export const MEMBERS = `select m.id, m.host, m.pid, m.address, m.version from dramatis.member m
  where m.cluster = $1 and $2::int is not null and ${LIVES} order by m.id`

/** A write, since a standby may not have yet what was read. The task is given again: an answer may be lost. */
const KNOWN = `update dramatis.task set given = case when settled is not null then given end
  where cluster = $1 and id = $2 returning hash`

/**
 * Marks first what was given before: if this answer is lost, the same is given again. Who asks has seen to what a
 * failover has left of the log; tasks from before that may have been begun, and nobody knows.
 */
const TAKE = `with log as materialized (
    select $1::text as cluster, * from unnest($2::int[], $3::uuid[]) log (shard, claim)),
  seen as (
    update dramatis.shard s set timeline = $5, high = 0 from log
    where s.cluster = log.cluster and s.shard = log.shard and s.claim = log.claim and s.timeline < $5),
  given as (
    update dramatis.task t set given = (select claim from log where log.shard = t.shard)
    where t.cluster = $1 and t.id = any(array(
        select id from dramatis.task where cluster = $1 and id = any($4) and status is null for update skip locked))
      and exists (select from dramatis.shard s, log where s.cluster = $1 and s.shard = t.shard and s.claim = log.claim))
  select t.* from log cross join lateral (
    select t.id, t.shard, t.hash, t.body, coalesce(t.at < (
        select e.at from dramatis.epoch e join dramatis.shard s on s.cluster = e.cluster and s.cut = e.timeline
        where s.cluster = log.cluster and s.shard = log.shard), false) as doubtful
    from dramatis.task t
    where t.cluster = log.cluster and t.shard = log.shard and t.settled is null and t.given is distinct from claim
      and t.id <> all($4)
    order by t.n limit 100) t`

/** Puts again an outcome that somebody was told, with its task if that is gone too. */
const PUT = `with done as (
    insert into dramatis.task as t (cluster, id, shard, hash, status, result, settled)
    values ($1, $2, $3, $4, $5, $6, clock_timestamp()) on conflict (cluster, id)
    do update set status = excluded.status, result = excluded.result, settled = excluded.settled, body = null
    where t.settled is null returning id)
  select pg_notify($7, json_build_object('settled', id)::text) from done`

const NOTIFY = 'select pg_notify($1, payload) from unnest($2::text[]) as payload'

const OUTCOME = 'select id, shard, hash, status, result from dramatis.task where cluster = $1 and id = any($2)'
/** Bytes of an outcome that goes with its notice, to all processes. */
const MOST_TOLD = 1_000

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
  readonly shards: number
  readonly #database: Database
  readonly #writes: Writes
  readonly #takes = new Together((logs: readonly PostgresLog[]) => this.#take(logs))
  readonly #outcomes = new Together((ids: readonly string[]) => this.#outcomesOf(ids))
  readonly #notices = new Together((texts: readonly string[]) => this.#notify(texts))
  readonly #warn: (text: string) => void
  readonly #logs = new Set<PostgresLog>()
  readonly #said = new Map<string, Said>()
  /** The highest position of each shard that this process has seen. */
  readonly #positions = new Map<number, number>()
  #seenTimeline = 0
  readonly #days: number
  #forgetting: NodeJS.Timeout | undefined

  constructor({ url, name = 'default', shards = 16, durability, times, keep, warn }: PostgresStoreOptions) {
    this.shards = shards
    this.#days = keep?.days ?? DEFAULT_DAYS
    this.#warn = warn ?? ((text) => process.emitWarning(text, 'DramatisWarning'))
    this.#database = new Database({
      url,
      cluster: name,
      replicated: durability === 'replicated',
      times: { ...TIMES, ...times },
      warn: this.#warn,
    })
    this.#writes = new Writes(this.#database)
  }

  async join(self: NewMember, told: (notice: ClusterNotice) => void, signal?: AbortSignal): Promise<void> {
    this.#database.onNotice = (payload) => {
      const notice = noticeIn(payload)
      if (!notice) return
      if ('settled' in notice && notice.outcome && this.#said.has(notice.settled)) this.#say(notice.settled, notice)
      told(notice)
    }
    this.#database.onFailover = () => {
      this.#goOn().catch((error) =>
        this.#warn(`what was said before the failover is not said again: ${describe(error)}`),
      )
    }
    await this.#database.join(self, this.shards, signal)
    this.#forgetting = setInterval(() => void this.#forget(), FORGET_MS).unref()
    void this.#forget()
  }

  async view(): Promise<ClusterView> {
    const { timeline, options } = this.#database
    const { suspectMs, ttlMs } = options.times
    const [shards, members] = await Promise.all([
      this.#database.ask<ShardRow>(VIEW, [this.#cluster, this.shards, suspectMs, ttlMs, this.#database.id]),
      this.#database.ask<MemberRow>(MEMBERS, [this.#cluster, this.shards, suspectMs, ttlMs]),
    ])
    await this.#tellOfCuts(shards.rows, timeline)
    const claims = new Map(shards.rows.map(({ shard, claim }) => [shard, claim]))
    for (const log of this.#logs) if (claims.get(log.shard) !== log.claim) void log.compare()
    const free = this.#database.isInGrace ? [] : shards.rows.filter((row) => row.free).map(({ shard }) => shard)
    const shardsOf = (id: string) => shards.rows.filter(({ owner }) => owner === id).map(({ shard }) => shard)
    return { members: members.rows.map((row) => memberOf(row, shardsOf(row.id))), free }
  }

  log(shard: number, onLost: (error: DramatisError) => void): ShardLog {
    for (const log of this.#logs) if (log.state === 'closed' || log.state === 'lost') this.#logs.delete(log)
    const log = new PostgresLog(this.#database, this.#writes, shard, onLost)
    this.#logs.add(log)
    return log
  }

  /** `ageMs`: time since it was accepted, if it is submitted again because the database has lost it. */
  async submit(task: ClusterTask, log?: ShardLog, ageMs = 0): Promise<'given' | 'fresh' | 'known' | 'conflict'> {
    const { id, shard, hash } = task
    const claim = log instanceof PostgresLog && log.state === 'open' ? log.claim : undefined
    const accepted = await this.#writes.submit(task, claim, ageMs)
    if (!accepted) {
      const { rows } = await this.#database.ask<{ hash: string }>(KNOWN, [this.#cluster, id])
      if (!rows[0]) return this.submit(task, log, ageMs) // it was there, and is kept no more
      if (rows[0].hash !== hash) return 'conflict'
    }
    this.#say(id, { task })
    if (accepted === 'fresh') this.tell({ shard })
    return accepted ?? 'known'
  }

  async take(log: ShardLog): Promise<readonly TakenTask[]> {
    if (!(log instanceof PostgresLog)) throw new TypeError('take: the log is not one of this store')
    return this.#takes.ask(log)
  }

  async #take(all: readonly PostgresLog[]): Promise<TakenTask[][]> {
    const logs = new Map(all.map((log) => [log.shard, log])) // of a shard that was opened again, the later
    const claims = Array.from(logs.values(), ({ claim }) => claim)
    const given = [...logs.values()].flatMap((log) => log.given)
    const values = [this.#cluster, [...logs.keys()], claims, given, this.#database.timeline]
    const { rows } = await this.#database.ask<TaskRow>(TAKE, values)
    return all.map((log) => {
      if (logs.get(log.shard) !== log) return []
      const tasks = rows.filter(({ shard }) => shard === log.shard)
      log.given = tasks.map(({ id }) => id)
      return tasks
    })
  }

  async settle(id: string, outcome: TaskOutcome): Promise<void> {
    this.#say(id, { outcome })
    await this.#writes.settle(id, outcome)
    this.tell({ settled: id })
  }

  async outcome(id: string): Promise<TaskState | undefined> {
    const row = await this.#outcomes.ask(id)
    if (!row) return this.#sayAgain(id)
    const { shard, hash, status, result } = row
    if (!status) return { shard, outcome: undefined }
    const outcome = { status, body: result }
    this.#say(id, { task: { id, shard, hash }, outcome })
    return { shard, outcome }
  }

  async #outcomesOf(ids: readonly string[]): Promise<(OutcomeRow | undefined)[]> {
    const { rows } = await this.#database.ask<OutcomeRow>(OUTCOME, [this.#cluster, ids])
    const found = new Map(rows.map((row) => [row.id, row]))
    return ids.map((id) => found.get(id))
  }

  /** Apart from what is written: transactions that notify commit one after the other, and these wait for no disk. */
  tell(notice: ClusterNotice): void {
    const { outcome } = 'settled' in notice ? notice : {}
    if (outcome && outcome.body.length > MOST_TOLD) return // it is told when it is kept
    const body = outcome && Buffer.from(outcome.body).toString('base64')
    const text = JSON.stringify(outcome ? { ...notice, outcome: { ...outcome, body } } : notice)
    this.#notices.ask(text).catch(() => {}) // it may always get lost
  }

  async #notify(texts: readonly string[]): Promise<undefined[]> {
    await this.#database.ask(NOTIFY, [this.#database.channel, [...new Set(texts)]])
    return texts.map(() => undefined)
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
      await this.#database.ask(PUT, [
        this.#cluster,
        id,
        shard,
        hash,
        outcome.status,
        outcome.body,
        this.#database.channel,
      ])
      this.#say(id, { outcome })
    } else if (body) await this.submit({ ...task, body }, undefined, SAID_MS) // it may have been begun before the failover
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
  readonly claim: string | null
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
  readonly id: string
  readonly shard: number
  readonly hash: string
  readonly status: 'finished' | 'failed' | null
  readonly result: Buffer
}

/** Undefined: it is nobody's of this version. */
function noticeIn(payload: string): ClusterNotice | undefined {
  try {
    const notice = JSON.parse(payload) as ClusterNotice
    if (!('settled' in notice) || !notice.outcome) return notice
    const { status, body } = notice.outcome
    return { ...notice, outcome: { status, body: Buffer.from(String(body), 'base64') } }
  } catch {
    return undefined
  }
}
