/**
 * Writes of a process, most of them one statement at a time: all that waits meanwhile goes with the next one, in one
 * commit. A statement that is sent and answered costs more than the rows that it writes.
 */
import type { ClusterTask, TaskOutcome } from '../runtime/cluster/cluster-store.ts'
import { nextTurn } from '../shared/timers.ts'
import { type Database, isPassing } from './database.ts'

/** Bytes that go with one statement, about. */
const MOST_BYTES = 2 ** 22
const MOST_ITEMS = 1_000

interface Waiting<Item, Answer> {
  readonly item: Item
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/** Asks for what is wanted at the same time by one statement. */
export class Together<Item, Answer> {
  readonly #ask: (items: readonly Item[]) => Promise<readonly Answer[]>
  readonly #bytesOf: (item: Item) => number
  #waiting: Waiting<Item, Answer>[] = []
  #isAsking = false

  constructor(ask: (items: readonly Item[]) => Promise<readonly Answer[]>, bytesOf: (item: Item) => number = () => 0) {
    this.#ask = ask
    this.#bytesOf = bytesOf
  }

  ask(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      if (this.#isAsking) return
      this.#isAsking = true
      setImmediate(() => void this.#askAll())
    })
  }

  async #askAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      let bytes = 0
      const past = this.#waiting.findIndex(({ item }, i) => {
        bytes += this.#bytesOf(item)
        return i === MOST_ITEMS || (i > 0 && bytes > MOST_BYTES)
      })
      await this.#askSome(this.#waiting.splice(0, past < 0 ? this.#waiting.length : past))
      await nextTurn() // what this turn of the loop still brings goes with the next
    }
    this.#isAsking = false
  }

  /** Asks for each alone if the database refuses them together: only the one at fault is told. */
  async #askSome(some: readonly Waiting<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.#ask(some.map(({ item }) => item))
      for (const [i, { resolve }] of some.entries()) resolve(answers[i]!)
    } catch (error) {
      if (some.length > 1 && !isPassing(error)) for (const one of some) await this.#askSome([one])
      else for (const { reject } of some) reject(error)
    }
  }
}

export interface Chunk {
  readonly position: number
  readonly bytes: Uint8Array
  readonly lastSeq: number
}

interface Submit {
  readonly task: ClusterTask
  /** Claim of the shard, if it is this process's. */
  readonly claim: string | undefined
  /** Time since the task was accepted, if it is submitted again because the database has lost it. */
  readonly ageMs: number
}

interface Append {
  readonly shard: number
  readonly claim: string
  /** Makes the chunk when it is to be written. It is the same each time. */
  readonly chunk: () => Chunk
}

interface Settle {
  readonly id: string
  readonly outcome: TaskOutcome
}

type Write = Submit | Append | Settle

/**
 * A new task of an owner counts as given to it, if no other one waits before. An append writes only where the last
 * claim is its own, and the log ends where it believes. The first outcome stays. Tasks are not joined: a plan that is
 * made while their table is empty would read all of them.
 */
const WRITE = `with submit as materialized (
    select $1::text as cluster, * from json_to_recordset($2::json)
      i (id text, shard int, hash text, claim uuid, age float8, start int, length int)),
  append as materialized (
    select $1::text as cluster, * from json_to_recordset($3::json)
      i (shard int, claim uuid, "end" bigint, seq bigint, start int, length int)),
  fresh as (
    insert into dramatis.task (cluster, id, shard, hash, body, at, given)
    select cluster, id, shard, hash, substr($5::bytea, start, length), clock_timestamp() - age * interval '1 ms',
      case when claim is not null and not exists (select from dramatis.task t where t.cluster = i.cluster
        and t.shard = i.shard and t.settled is null and t.given is distinct from i.claim) then claim end
    from submit i on conflict do nothing returning id, given),
  fence as (
    update dramatis.shard s set position = position + length, last_seq = seq
    from append i where s.cluster = i.cluster and s.shard = i.shard and s.claim = i.claim and position = "end"
    returning i.*, incarnation),
  written as (
    insert into dramatis.chunk
    select cluster, shard, "end", incarnation, claim, substr($5::bytea, start, length) from fence),
  settled as (
    update dramatis.task set status = $4::jsonb -> id ->> 'said', settled = clock_timestamp(), body = null,
      result = substr($5::bytea, ($4::jsonb -> id -> 'start')::int, ($4::jsonb -> id -> 'length')::int)
    where cluster = $1 and id = any($6::text[]) and status is null)
  select id as key, given is not null as "isGiven" from fresh union all select claim::text, false from fence`

interface Written {
  readonly [column: string]: unknown
  /** Id of a task that is new, or claim of a log that was written. */
  readonly key: string
  readonly isGiven: boolean
}

export class Writes {
  readonly #database: Database
  readonly #all = new Together<Write, Written | undefined>(
    (writes) => this.#write(writes),
    (write) => bytesOf(write).length,
  )

  constructor(database: Database) {
    this.#database = database
  }

  /** Resolves to nothing if the task is known. */
  async submit(task: ClusterTask, claim: string | undefined, ageMs: number): Promise<'given' | 'fresh' | undefined> {
    const written = await this.#all.ask({ task, claim, ageMs })
    return written && (written.isGiven ? 'given' : 'fresh')
  }

  /** Resolves to false if the shard has another claim, or its log ends elsewhere. */
  async append(shard: number, claim: string, chunk: () => Chunk): Promise<boolean> {
    return (await this.#all.ask({ shard, claim, chunk })) !== undefined
  }

  async settle(id: string, outcome: TaskOutcome): Promise<void> {
    await this.#all.ask({ id, outcome })
  }

  async #write(writes: readonly Write[]): Promise<(Written | undefined)[]> {
    const submits: object[] = []
    const appends: object[] = []
    const settles = new Map<string, object>()
    let start = 1
    for (const write of writes) {
      const place = { start, length: bytesOf(write).length }
      start += place.length
      if ('task' in write) {
        const { task, claim, ageMs } = write
        submits.push({ id: task.id, shard: task.shard, hash: task.hash, claim, age: ageMs, ...place })
      } else if ('chunk' in write) {
        const { position, lastSeq } = write.chunk()
        appends.push({ shard: write.shard, claim: write.claim, end: position, seq: lastSeq, ...place })
      } else if (!settles.has(write.id)) settles.set(write.id, { said: write.outcome.status, ...place })
    }
    const rows = [submits, appends, Object.fromEntries(settles)].map((each) => JSON.stringify(each))
    const bytes = Buffer.concat(writes.map(bytesOf))
    const values = [this.#database.cluster, ...rows, bytes, [...settles.keys()]]
    const answer = await this.#database.query<Written>(WRITE, values)
    const written = new Map(answer.rows.map((row) => [row.key, row]))
    return writes.map((write) => {
      const key = 'task' in write ? write.task.id : 'chunk' in write ? write.claim : ''
      const row = written.get(key)
      written.delete(key) // the same task again is known
      return row
    })
  }
}

function bytesOf(write: Write): Uint8Array {
  return 'task' in write ? write.task.body : 'chunk' in write ? write.chunk().bytes : write.outcome.body
}
