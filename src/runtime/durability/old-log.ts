/** Reads the log that earlier processes have written: what is open in it, and the entries of the runs that go on. */
import {
  ACCEPTED,
  CALL,
  CANCEL,
  correlationOf,
  END,
  kindOf,
  lengthOf,
  PATCH,
  REFUSED,
  REQUEST,
  recipientOf,
  SEND,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { type EntryOptions, entriesOf, type SeenBlock } from '../log/read-entries.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { EndingState } from '../settings/ending-state.ts'
import { callerIn } from '../state/caller.ts'
import { OpenWork } from '../state/open-work.ts'
import type { LogStore, Position, StoredBlock } from '../store/log-store.ts'
import { OldDeaths } from './old-deaths.ts'
import { OldRun } from './old-run.ts'
import { OldStates } from './old-states.ts'
import { OldTeam } from './old-team.ts'
import { OldTimes } from './old-times.ts'
import { hashesIn, PartIndex, type Referrers } from './part-index.ts'
import { type LoggedRun, RunIndex, type RunRow } from './run-index.ts'
import type { Slices } from './slices.ts'

/** Highest numbers that an agent has used. */
export interface Counters {
  turn: number
  correlation: number
  epoch: number
}

/** Gives the blocks of a log in their order, from that one on or all of them; each call begins anew. */
export type ReadFrom = (options?: { readonly from?: Position }) => AsyncIterable<StoredBlock>

interface ReadOptions extends Pick<EntryOptions, 'lost'> {
  readonly slices?: Slices
}

export class OldLog {
  /** Runs that a checkpoint has. */
  readonly #restored = new Set<number>()
  /** Blocks that the log has, in their order; those before a checkpoint as parts of the log. */
  readonly blocks: { readonly position: Position; readonly bytes: number }[] = []
  /** Bytes of the blocks that were read: those behind a checkpoint. */
  readBytes = 0
  /** All runs that the log has. */
  readonly index = new RunIndex()
  /** The parts whose bytes it has. */
  readonly parts = new PartIndex()
  /** Runs that have no end, or messages under way. */
  readonly runs = new Map<number, OldRun>()
  /** Runs that the log has forgotten: some of their entries may still stand there. */
  readonly gone = new Set<number>()
  readonly team: OldTeam
  readonly times = new OldTimes()
  readonly work = new OpenWork((name, run) => this.indexOf(name, run))
  readonly deaths = new OldDeaths(this.work)
  /** Names by index, the last one that had it. `run` 0: of the team. */
  readonly names = new Map<number, { readonly name: string; readonly run: number }>()
  readonly states = new OldStates()
  /** Agents of the team that have left: number of the last record of it, and of the last turn before it, by index. */
  readonly left = new Map<number, { readonly seq: number; readonly turn: number }>()
  readonly counters = new Map<number, Counters>()
  /** Ids of tool calls of the host that have begun and not ended. */
  readonly openTools = new Set<string>()
  /** Sends whose senders wait for their receipt. */
  readonly asking = new Map<string, { readonly run: number; readonly memory: Memory; readonly at: number }>()
  readonly #byName = new Map<string, number>()
  /** Lowest number of a message of the host, highest index of a run, and number of the next entry. */
  lastHostNumber = 0
  lastRun = 0
  next = 0
  /** Name of the log; undefined if no process has given it one. */
  name: string | undefined

  constructor(windowMs: number) {
    this.team = new OldTeam(windowMs)
  }

  /**
   * Reads the whole log. Throws `LogCorruptError` where it is damaged. `windowMs`: time for which the team counts what
   * model calls have cost. `lost`: called with entries that cannot be read, which are an error otherwise. `slices`:
   * lets others have a turn meanwhile.
   */
  static async from(read: ReadFrom, windowMs = 0, { lost, slices }: ReadOptions = {}): Promise<OldLog> {
    const log = new OldLog(windowMs)
    const options = lost ? { lost } : {}
    for await (const entry of entriesOf(read, { seen: (block) => log.wrote(block), ...options })) {
      log.see(entry)
      if (slices?.isOver) await slices.othersTurn()
    }
    await log.end(read, options)
    return log
  }

  /** Notes where a block stands whose entries were read. */
  wrote(block: SeenBlock): void {
    const { position, carried, sizes, leans } = block
    const isKnown = ([run]: readonly [number, number]) => carried && this.#restored.has(run)
    this.index.at({ position, carried, leans, sizes: new Map([...sizes].filter((size) => !isKnown(size))) })
    this.index.carriedTo(
      position,
      [...sizes].filter(isKnown).map(([run]) => run),
    )
    this.parts.at(position, block.parts)
    this.blocks.push(block)
    this.readBytes += block.bytes
  }

  /** Puts runs in place as a checkpoint has them. The entries of those that are open follow. */
  restore(runs: readonly RunRow[]): void {
    this.index.restore(runs)
    for (const { index } of runs) this.#restored.add(index)
  }

  /** Notes that all entries of a checkpoint were read. `next`: number of the next one. */
  openRead(next: number): void {
    this.next = next
    for (const run of [...this.runs.keys()]) if (this.#isQuiet(run)) this.#release(run)
  }

  /** Notes that the log has nothing before that position any more. */
  dropped(before: Position): void {
    this.index.dropped(before)
    this.parts.dropped(before)
    const first = this.blocks.findIndex(({ position }) => position >= before)
    this.blocks.splice(0, first < 0 ? this.blocks.length : first)
  }

  /** Notes that nothing follows. */
  async end(read: ReadFrom, options: EntryOptions = {}): Promise<void> {
    await this.#takeBack(read, options)
    this.#endAgentsOfRuns()
    const over = [...this.index.values()].filter(({ index }) => !this.runs.has(index))
    for (const run of over.sort((a, b) => a.agedFrom - b.agedFrom)) this.index.over(run) // the first to end is the first to go
  }

  /** Owners of references to parts. */
  get referrers(): Referrers {
    return { index: this.index, conversations: this.states.conversations.all(), letters: this.team.letters.entries }
  }

  /** Reads the bytes that open runs, conversations and dead letters refer to. */
  async readParts(store: LogStore): Promise<Map<string, Uint8Array>> {
    const { conversations, letters } = this.referrers
    const open = { values: () => [...this.runs.keys()].flatMap((run) => this.index.get(run) ?? []) }
    return this.parts.read(store, hashesIn({ index: open, conversations, letters }))
  }

  indexOf(name: string, run: number): number | undefined {
    return this.#byName.get(`${run} ${name}`) ?? this.#byName.get(`0 ${name}`)
  }

  see(entry: LogEntry): void {
    if (entry.kind !== 'frames') this.index.see(entry)
    this.seeOpen(entry)
    if (this.#isQuiet(entry.run)) this.#release(entry.run)
  }

  /** Reads an entry that the index knows of already. */
  seeOpen(entry: LogEntry): void {
    this.next = lastSeq(entry) + 1
    if (entry.kind === 'agent.left') this.#leaves(entry) // also if its run is forgotten
    const logged = this.index.get(entry.run)
    if (entry.run !== 0 && !logged) return // a rest of a run that is forgotten: its messages were all handled
    this.deaths.see(entry) // first: it asks for waits that the entry ends
    this.work.see(entry)
    this.times.see(entry)
    this.lastRun = Math.max(this.lastRun, entry.run)
    if (entry.kind === 'frames')
      for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry, entry.memory, at)
    else this.#record(entry)
    this.runs.get(entry.run)?.see(entry)
    if (entry.run === 0) for (const run of this.runs.values()) run.meanwhile(entry)
  }

  /** Checks for a run that has an end, or is the work of a message, and of which nothing is under way. */
  #isQuiet(run: number): boolean {
    const logged = this.index.get(run)
    return logged !== undefined && (logged.endedAt > 0 || logged.own) && this.work.openIn(run) === 0
  }

  /** Reads the runs again that have got a message when nothing of them was under way any more. */
  async #takeBack(readFrom: ReadFrom, options: EntryOptions): Promise<void> {
    const given = new Set<number>()
    for (const { run } of this.work.messages()) if (!this.runs.has(run)) given.add(run)
    if (given.size === 0) return
    const chains = [...given].flatMap((run) => this.#chainOf(run))
    const from = Math.min(...chains.flatMap(({ places }) => places))
    const read = () => readFrom(Number.isFinite(from) ? { from } : {})
    const runs = new Set([0, ...chains.map(({ index }) => index)])
    for await (const entry of entriesOf(read, { ...options, runs })) {
      if (entry.run === 0) for (const run of given) this.runs.get(run)?.meanwhile(entry)
      else if (!given.has(entry.run)) continue
      else if (entry.kind === 'run.launched') this.runs.set(entry.run, new OldRun(entry))
      else this.runs.get(entry.run)?.see(entry)
    }
  }

  #chainOf(run: number): LoggedRun[] {
    const logged = this.index.get(run)
    return logged ? this.index.chainOf(logged) : []
  }

  /** Gives up what is only needed of runs that go on. */
  #release(run: number): void {
    this.runs.delete(run)
    this.states.forget(run)
  }

  #name({ index, name, run }: Extract<HostRecord, { kind: 'name' }>): void {
    const before = this.names.get(index)
    if (before && (before.name !== name || before.run !== run)) this.#forgetAgent(index) // of a run that is over
    this.#byName.set(`${run} ${name}`, index)
    this.names.set(index, { name, run })
  }

  #forgetAgent(index: number): void {
    this.states.forgetAgent(index)
    this.team.forgetAgent(index)
  }

  #leaves({ index, seq, run }: Extract<HostRecord, { kind: 'agent.left' }>): void {
    this.#forgetAgent(index)
    if (run === 0) this.left.set(index, { seq, turn: this.#countersOf(index).turn })
  }

  /** Ends what agents have that went with their runs, if the process died before it had said so. */
  #endAgentsOfRuns(): void {
    for (const [index, { run }] of this.names) if (run !== 0 && !this.runs.has(run)) this.#forgetAgent(index)
  }

  #frame({ run }: LogEntry, memory: Memory, at: number): void {
    const [sender, turn, correlation] = [senderOf(memory, at), turnOf(memory, at), correlationOf(memory, at)]
    const kind = kindOf(memory, at)
    const counters = this.#countersOf(sender)
    counters.turn = Math.max(counters.turn, turn)
    if (correlation < 0) this.lastHostNumber = Math.min(this.lastHostNumber, correlation)
    else if (kind === SEND || kind === REQUEST || kind === CALL)
      counters.correlation = Math.max(counters.correlation, correlation)
    if (kind === SEND && correlation > 0) this.asking.set(`${sender} ${correlation}`, { run, memory, at })
    else if (kind === CANCEL) this.asking.delete(`${sender} ${correlation}`)
    else if (kind === ACCEPTED || kind === REFUSED) this.asking.delete(`${recipientOf(memory, at)} ${correlation}`)
    if (kind === PATCH || kind === END) this.states.frame(memory, at, run, this.runs.get(run)?.launched.threadId)
  }

  #record(record: HostRecord): void {
    this.team.see(record)
    if ('epoch' in record) {
      const counters = this.#countersOf(record.index)
      counters.epoch = Math.max(counters.epoch, record.epoch)
    }
    switch (record.kind) {
      case 'log.opened':
        this.name ??= record.name
        return
      case 'log.closed':
        if (record.ends && this.runs.size === 0) this.#endSession(record.ends)
        return
      case 'name':
        return this.#name(record)
      case 'state':
        this.states.ofAgents.set(record.index, Object(record.value))
        return
      case 'thread':
        return this.states.conversations.owners.set(record.threadId, record.owner)
      case 'conversation':
        this.states.conversations.keep(record.index, record.threadId, record.conversation)
        return
      case 'runs.gone':
        for (const run of record.runs) {
          this.#release(run)
          this.gone.add(run)
        }
        return
      case 'numbers':
        return this.#numbers(record)
      case 'turns':
      case 'turn.begins':
        for (const [index, turn] of record.turns) this.#turn(index, turn)
        return
      case 'turn.started':
        return this.#turn(record.index, record.turn)
      case 'tool.started':
        this.openTools.add(record.callId)
        return
      case 'tool.finished':
        this.openTools.delete(record.callId)
        return
      case 'run.launched':
        this.runs.set(record.run, new OldRun(record))
        if (record.threadId !== undefined)
          this.states.conversations.owners.begin(record.threadId, callerIn(record.metadata))
    }
  }

  #endSession(ends: readonly EndingState[]): void {
    this.states.endSession(ends)
    this.team.endSession(ends)
  }

  #numbers({ agents, lastHostNumber, lastRun }: Extract<HostRecord, { kind: 'numbers' }>): void {
    this.lastHostNumber = Math.min(this.lastHostNumber, lastHostNumber)
    this.lastRun = Math.max(this.lastRun, lastRun)
    for (const { index, ...numbers } of agents) {
      const counters = this.#countersOf(index)
      counters.turn = Math.max(counters.turn, numbers.turn)
      counters.correlation = Math.max(counters.correlation, numbers.correlation)
      counters.epoch = Math.max(counters.epoch, numbers.epoch)
    }
  }

  #turn(index: number, turn: number): void {
    const counters = this.#countersOf(index)
    counters.turn = Math.max(counters.turn, turn)
  }

  #countersOf(index: number): Counters {
    let counters = this.counters.get(index)
    if (!counters) {
      counters = { turn: 0, correlation: 0, epoch: 0 }
      this.counters.set(index, counters)
    }
    return counters
  }
}
