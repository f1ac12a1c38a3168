/**
 * Digest of a team that runs over several processes, made of those of its shards. Each shard counts once, as the
 * process says it that has the shard. Figures of an agent are the sums over all shards.
 */
import {
  AGAIN,
  CALL_COLUMNS,
  type Digest,
  type DigestFact,
  MESSAGE_COLUMNS,
  NONE,
  STATUSES,
  TURN_COLUMNS,
} from '../../runtime/views/digest-line.ts'
import { LineTable } from '../../runtime/views/line-table.ts'
import { listsOf } from '../digest/columns.ts'
import { DigestFold, type FoldedAgent } from '../digest/digest-fold.ts'

/** States of an agent, the one that people should know of first. */
export const WORST_FIRST: readonly string[] = [
  'failed',
  'stopped',
  'restarting',
  'starting',
  'running',
  'waiting',
  'idle',
  'passivated',
]

const MOST_ROWS = 256
const MOST_WAITS = 500
/** Messages of a shard whose turns may still end. */
const MOST_OPEN = 10_000
/** Names after which the table begins anew. */
const MOST_NAMES = 50_000

/** A shard as one process tells of it. */
export class ShardDigest {
  readonly fold = new DigestFold({ mostRows: MOST_ROWS })
  /** Names of the lines since the last snapshot, by their numbers. */
  names: string[] = []
  /** Numbers in the merged digest of messages whose turns have not ended. */
  readonly open = new Map<number, number>()

  read(line: Digest): void {
    if (line.snapshot) this.names = []
    this.names.push(...(line.names ?? []))
    this.fold.read(line)
  }
}

export class MergedDigest {
  #shards: ReadonlyMap<number, ShardDigest> = new Map()
  readonly #names = new Map<string, number>()
  #told = 0
  readonly #message = new LineTable(MESSAGE_COLUMNS)
  readonly #turn = new LineTable(TURN_COLUMNS)
  readonly #call = new LineTable(CALL_COLUMNS)
  #facts: DigestFact[] = []
  readonly #agents = new Set<string>()
  #hasWaits = false
  #hasLetters = false
  /** Epoch ms from which the times of the next line count; undefined while it has no row. */
  #at: number | undefined
  /** Number of the next message, and of the first that the next line may have. */
  #next = 0
  #n = 0
  #lines = 0

  /** Takes the shards of which is told from now on. What was said of them until now is in the next snapshot alone. */
  become(shards: ReadonlyMap<number, ShardDigest>): void {
    this.#shards = shards
  }

  /** Adds a line that its shard has read. */
  add(number: number, line: Digest): void {
    const shard = this.#shards.get(number)
    if (!shard) return
    if (line.message) this.#messages(shard, line, line.message)
    if (line.turn) this.#turns(shard, line, line.turn)
    if (line.call) this.#calls(shard, line, line.call)
    for (const agent of line.agent?.agent ?? []) this.#agents.add(shard.names[agent] ?? '')
    this.#hasWaits ||= line.waits !== undefined
    for (const fact of line.facts ?? []) this.#facts.push({ ...fact, shard: number })
    this.#hasLetters ||=
      line.deadLetters !== undefined || line.facts?.some(({ type }) => type === 'message.dead') === true
  }

  /** Returns the line of all that was added since the last one, or of nothing. `now`: epoch ms. */
  take(now: number): Digest {
    const [message, turn, call] = [this.#message.take(), this.#turn.take(), this.#call.take()]
    const agent = this.#figures()
    const line: Digest = {
      seq: ++this.#lines,
      at: this.#at ?? Math.round(now),
      n: this.#n,
      ...(message && { message }),
      ...(turn && { turn }),
      ...(call && { call }),
      ...(agent && { agent }),
      ...(this.#hasWaits && { waits: this.#waits() }),
      ...(this.#hasLetters && { deadLetters: this.#letters() }),
      ...(this.#facts.length > 0 && { facts: this.#facts }),
    }
    const names = [...this.#names.keys()].slice(this.#told)
    this.#told = this.#names.size
    this.#facts = []
    this.#agents.clear()
    this.#hasWaits = false
    this.#hasLetters = false
    this.#at = undefined
    this.#n = this.#next
    return names.length > 0 ? { ...line, names } : line
  }

  /** True if nothing was added since the last line. */
  get isEmpty(): boolean {
    const rows = this.#message.rows + this.#turn.rows + this.#call.rows + this.#facts.length + this.#agents.size
    return rows === 0 && !this.#hasWaits && !this.#hasLetters
  }

  /** True if the table of names should begin anew, which is for all readers. */
  get isFull(): boolean {
    return this.#names.size > MOST_NAMES
  }

  forgetNames(): void {
    this.#names.clear()
    this.#told = 0
  }

  /** Returns a line with the state of all shards. Lines that were taken before it are in it. */
  snapshot(now: number): Digest {
    const folds = Array.from(this.#shards.values(), ({ fold }) => fold)
    const names = new Set(folds.flatMap(({ members }) => members.map(({ name }) => name)))
    const runs = folds.flatMap((fold) => [...fold.runs.values()].filter(({ endedAt }) => endedAt === null))
    return {
      seq: this.#lines,
      at: Math.round(now),
      n: 0,
      names: [...this.#names.keys()].slice(0, this.#told),
      snapshot: {
        log: null,
        agents: Array.from(names, (name) => this.#agentNow(name)),
        runs: runs.map(({ id, query, status, startedAt, threadId }) => ({ id, query, status, startedAt, threadId })),
        questions: folds.flatMap(({ questions }) => [...questions.values()]),
        waits: this.#waits(),
        deadLetters: this.#letters(),
      },
    }
  }

  #agentNow(name: string) {
    const all = this.#all(name)
    const [first] = all.toSorted((one, other) => rank(one) - rank(other))
    const sum = (value: (agent: FoldedAgent) => number) => all.reduce((sum, agent) => sum + value(agent), 0)
    const [inputTokens, outputTokens] = [sum((agent) => agent.inputTokens), sum((agent) => agent.outputTokens)]
    return {
      name,
      status: STATUSES.find((status) => status === first?.status) ?? 'idle',
      queued: sum(({ queued }) => queued),
      inFlight: sum(({ inFlight }) => inFlight),
      restarts: sum(({ restarts }) => restarts),
      usage: {
        inputTokens,
        outputTokens,
        totalTokens: inputTokens + outputTokens,
        calls: sum(({ modelCalls }) => modelCalls),
      },
      turns: sum(({ turns }) => turns),
      failedTurns: sum(({ failedTurns }) => failedTurns),
      toolCalls: sum(({ toolCalls }) => toolCalls),
    }
  }

  #all(name: string): FoldedAgent[] {
    return [...this.#shards.values()].flatMap(({ fold }) => fold.agents.get(name) ?? [])
  }

  #figures(): Digest['agent'] {
    if (this.#agents.size === 0) return undefined
    const told: NonNullable<Digest['agent']> = { agent: [], status: [], queued: [], inFlight: [], restarts: [] }
    for (const name of this.#agents) {
      const { status, queued, inFlight, restarts } = this.#agentNow(name)
      const isThere = this.#all(name).length > 0
      told.agent.push(this.#placeOf(name))
      told.status.push(isThere ? STATUSES.indexOf(status) : NONE)
      told.queued.push(isThere ? queued : NONE)
      told.inFlight.push(isThere ? inFlight : NONE)
      told.restarts.push(isThere ? restarts : NONE)
    }
    return told
  }

  #waits() {
    return [...this.#shards.values()].flatMap(({ fold }) => fold.waits).slice(0, MOST_WAITS)
  }

  #letters(): number {
    return [...this.#shards.values()].reduce((sum, { fold }) => sum + fold.deadLetters, 0)
  }

  #placeOf(name: string): number {
    const known = this.#names.get(name)
    if (known !== undefined) return known
    this.#names.set(name, this.#names.size)
    return this.#names.size - 1
  }

  /** Place of a name by its number in the lines of a shard. */
  #place({ names }: ShardDigest, number: number): number {
    const name = names[number]
    return name === undefined ? NONE : this.#placeOf(name)
  }

  /** Ms from the time of the next line to a time in a line of a shard. */
  #time(line: Digest, ms: number): number {
    this.#at ??= line.at
    return line.at + ms - this.#at
  }

  #messages(shard: ShardDigest, line: Digest, table: NonNullable<Digest['message']>): void {
    const { n, run, from, to, type, at, bytes, turn } = listsOf(table)
    for (let row = 0; row < table.rows; row++) {
      const number = this.#next++
      shard.open.set(line.n + n[row]!, number)
      const place = this.#message.add()
      const { first } = this.#message
      first.n[place] = number - this.#n
      first.run[place] = this.#place(shard, run[row]!)
      first.from[place] = this.#place(shard, from[row]!)
      first.to[place] = this.#place(shard, to[row]!)
      first.type[place] = type[row]!
      first.at[place] = this.#time(line, at[row]!)
      first.bytes[place] = bytes[row]!
      first.turn[place] = turn[row]!
    }
    for (const old of shard.open.keys()) {
      if (shard.open.size <= MOST_OPEN) break
      shard.open.delete(old)
    }
  }

  #turns(shard: ShardDigest, line: Digest, table: NonNullable<Digest['turn']>): void {
    const { message, run, agent, turn, start, end, attempt, failed } = listsOf(table)
    for (let row = 0; row < table.rows; row++) {
      const of = line.n + message[row]!
      const place = this.#turn.add()
      const { first } = this.#turn
      first.message[place] = (shard.open.get(of) ?? NONE) - this.#n
      first.run[place] = this.#place(shard, run[row]!)
      first.agent[place] = this.#place(shard, agent[row]!)
      first.turn[place] = turn[row]!
      first.start[place] = this.#time(line, start[row]!)
      first.end[place] = this.#time(line, end[row]!)
      first.attempt[place] = attempt[row]!
      first.failed[place] = failed[row]!
      if (failed[row] !== AGAIN) shard.open.delete(of)
    }
  }

  #calls(shard: ShardDigest, line: Digest, table: NonNullable<Digest['call']>): void {
    const call = listsOf(table)
    for (let row = 0; row < table.rows; row++) {
      const place = this.#call.add()
      const { first } = this.#call
      first.message[place] = (shard.open.get(line.n + call.message[row]!) ?? NONE) - this.#n
      first.run[place] = this.#place(shard, call.run[row]!)
      first.agent[place] = this.#place(shard, call.agent[row]!)
      first.kind[place] = call.kind[row]!
      first.name[place] = this.#place(shard, call.name[row]!)
      first.start[place] = this.#time(line, call.start[row]!)
      first.end[place] = this.#time(line, call.end[row]!)
      first.in[place] = call.in[row]!
      first.out[place] = call.out[row]!
      first.failed[place] = call.failed[row]!
    }
  }
}

const rank = ({ status }: FoldedAgent): number => WORST_FIRST.indexOf(status)
