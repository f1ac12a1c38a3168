/**
 * Fold of the deaths of earlier processes: at how many in a row a turn was open and had got no further. A process that
 * closed its team has not died, nor has one that ended by itself: what ends a process before JavaScript learns of it is
 * a native crash, a lack of memory, or a kill from outside.
 */
import {
  ACCEPTED,
  BEGINS_AGAIN,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  type Memory,
  NOW,
  PATCH,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  readBody,
  recipientOf,
  SEND,
  SLEEP,
  SLEPT,
  STEP_DONE,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { LONGEST } from '../../shared/calendar.ts'
import { callerIn } from '../host/run.ts'
import { decodeEntries, EntryDecoder } from '../log/entry-codec.ts'
import { type EntryOptions, entriesOf, type SeenBlock, seenBlock } from '../log/read-entries.ts'
import type { GivenTurn, HostRecord, LogEntry, RecordOf } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Checkpoint, LogStore, Position, StoredBlock } from '../store/log-files.ts'
import { ThinkingTimes } from '../verbs/deadline-pauses.ts'
import { piecesOf } from './checkpoint.ts'
import { keyOf, type OpenMessage, OpenWork } from './open-work.ts'
import { RecoveredRun, RecoveredTeam } from './recovered-run.ts'
import { hashesIn, PartIndex, type Referrers, RunIndex, type RunRow } from './run-index.ts'
import type { Slices } from './slices.ts'
import type { Fact } from './team-facts.ts'

/**
 * Frames of a turn that a repeated attempt does not write again. The begin of a step is not among them: a step that may
 * run twice begins in each attempt.
 */
const PROGRESS: ReadonlySet<number> = new Set([SEND, REQUEST, CALL, STEP_DONE, NOW, SLEEP, SLEPT])

class RecoveredDeaths {
  readonly #work: OpenWork
  /** Number of the process: they are counted in their order. */
  #process = 0
  #isOpen = false
  #hasBegun = false
  /** Turns that nothing else was under way beside, in the order in which they began. */
  readonly #alone = new Set<OpenMessage>()
  #accused: readonly OpenMessage[] = []

  /** `work`: fold of the same log, which sees each entry after this one. */
  constructor(work: OpenWork) {
    this.#work = work
  }

  /** Turns one of which has ended the last process in which a turn had begun, in the order in which they began. */
  get accused(): readonly OpenMessage[] {
    return this.#accused
  }

  hasDied = false

  see(entry: LogEntry): void {
    switch (entry.kind) {
      case 'frames':
        if (!this.#work.hasTurns) return
        for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry.memory, at)
        return
      case 'turn.started':
        return this.#begun([entry.index, entry.turn, entry.attempt, entry.messageId])
      case 'turns':
        if (!entry.again) for (const turn of entry.turns) this.#begun(turn)
        return
      case 'turn.begins':
        for (const turn of entry.turns) this.#begun(turn)
        return this.#begin(entry.alone ? entry.turns : [])
      case 'log.opened':
        this.#end(entry.ended === true)
        this.#process += 1
        this.#isOpen = true
        return
      case 'log.closed':
        return this.#closed()
    }
  }

  /** Notes that nothing follows. `byItself`: the last process has ended by itself. */
  end(byItself: boolean): void {
    this.hasDied = this.#isOpen && !byItself
    this.#end(byItself)
  }

  #end(byItself: boolean): void {
    if (this.#isOpen && !byItself) this.#died()
    this.#isOpen = false
    this.#hasBegun = false
    this.#alone.clear()
  }

  #died(): void {
    for (const message of this.#work.messages()) {
      if (message.begunIn !== this.#process) continue
      message.deaths = message.furtherIn === this.#process ? 1 : message.deaths + 1
    }
    if (!this.#hasBegun) return
    const isOpen = (message: OpenMessage) => this.#work.message(message.id, message.recipient) === message
    this.#accused = [...this.#alone].filter(isOpen)
  }

  /** A process in which a turn was open, and that was closed in order, shows that the turn does no harm. */
  #closed(): void {
    for (const message of this.#work.messages()) if (message.begunIn === this.#process) message.deaths = 0
    this.#isOpen = false
  }

  #begun([index, , , id]: GivenTurn): void {
    const message = this.#work.message(id, index)
    if (!message) return
    this.#hasBegun = true
    message.begunIn = this.#process
  }

  #begin(turns: readonly GivenTurn[]): void {
    this.#alone.clear()
    for (const [index, , , id] of turns) {
      const message = this.#work.message(id, index)
      if (message) this.#alone.add(message)
    }
  }

  #frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    if (PROGRESS.has(kind)) return this.#further(senderOf(memory, at), turnOf(memory, at))
    if (kind === RESULT) return this.#further(recipientOf(memory, at), turnOf(memory, at))
    if (kind !== END && kind !== RESPONSE) return
    const wait = this.#work.wait(recipientOf(memory, at), correlationOf(memory, at))
    if (wait) this.#further(wait.caller, wait.turn)
    if (kind !== END) return
    this.#further(senderOf(memory, at), turnOf(memory, at))
  }

  #further(agent: number, turn: number): void {
    const message = this.#work.ofTurn(agent, turn)
    if (!message) return
    this.#alone.delete(message)
    message.furtherIn = this.#process
  }
}

/*
 * Team time of a log: it stands still while no process has the log. The deadlines of responses, queues, turns, runs and
 * sync points go on in it. Time that a model or a person takes does not count for responses and turns, as in a process
 * (verbs/deadline-pauses.ts).
 *
 * Between the last entry of a process and its death no time passes: nobody knows when that was.
 */

type Moment = Pick<LogEntry, 'seq' | 'at'>

/** Time at which a process took the log, by its clock and in team time. */
interface Opening extends Moment {
  readonly ms: number
}

/** Begin of a turn and of its present attempt, in team time. The death of a process begins no attempt of its own. */
interface Begun {
  readonly ms: number
  attemptMs: number
  /** Process that had the attempt last. */
  opening: Opening | undefined
}

export interface TurnTimes {
  readonly sinceMs: number
  /** Part of it that counts for no deadline. */
  readonly pausedMs: number
  /** Time of the present attempt that counts for the limit of the turn. */
  readonly attemptMs: number
}

interface Asking {
  open: number
  since: number
  ms: number
}

class RecoveredTimes {
  readonly #openings: Opening[] = []
  readonly #begun = new Map<number, Begun>()
  /** Times in which models and people worked, by run and by agent. */
  readonly #ofRuns = new Map<number, ThinkingTimes>()
  readonly #ofAgents = new Map<number, ThinkingTimes>()
  /** Calls of models and people that are open, by their callers. */
  readonly #thinking = new Map<string, { run: number; agent: number; isPerson: boolean }>()
  readonly #asking = new Map<number, Asking>()
  #now = 0

  see(entry: LogEntry): void {
    if (entry.kind === 'log.opened') {
      this.#openings.push({ seq: entry.seq, at: entry.at, ms: this.#now })
      return
    }
    if (entry.kind === 'answer') return this.#end(entry.questionId, this.#at(entry)) // perhaps while no process has the log
    const ms = this.#at(entry)
    this.#now = Math.max(this.#now, ms)
    if (entry.kind === 'frames')
      for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at))
        this.#frame(entry.run, entry.memory, at, ms)
    else this.#record(entry, ms)
  }

  /** Returns the team time from that entry until the end of the log, in ms. */
  since(entry: Moment): number {
    return Math.max(0, this.#now - this.#at(entry))
  }

  /** Checks for a question of that run to a person which nobody has answered. */
  asks(run: number): boolean {
    return (this.#asking.get(run)?.open ?? 0) > 0
  }

  /** Returns how long that run has asked people, until the end of the log, in ms. */
  askedMs(run: number): number {
    const asking = this.#asking.get(run)
    if (!asking) return 0
    return asking.open > 0 ? asking.ms + this.#now - asking.since : asking.ms
  }

  /** Returns the times of a turn that is open; undefined if it has not begun. */
  ofTurn(message: OpenMessage, work: OpenWork): TurnTimes | undefined {
    const begun = this.#begun.get(keyOf(message.recipient, message.turn))
    if (!begun) return undefined
    const paused = (from: number) => this.#paused(message, work, from, new Set())
    return {
      sinceMs: this.#now - begun.ms,
      pausedMs: paused(begun.ms),
      attemptMs: Math.max(0, this.#now - begun.attemptMs - paused(begun.attemptMs)),
    }
  }

  /**
   * Returns how long a model or a person worked: for the run, or for an agent that the turn waits for, at any depth.
   * That agent may have worked for others first.
   */
  #paused({ run, recipient, turn }: OpenMessage, work: OpenWork, from: number, seen: Set<OpenMessage>): number {
    let ms = this.#ofRuns.get(run)?.within(from, this.#now) ?? 0
    for (const { caller, turn: asks, message } of work.waits) {
      if (caller !== recipient || asks !== turn || seen.has(message)) continue
      seen.add(message)
      const ofCallee = this.#ofAgents.get(message.recipient)?.within(from, this.#now) ?? 0
      ms = Math.max(ms, ofCallee, this.#paused(message, work, from, seen))
    }
    return ms
  }

  /** Returns the team time of an entry. Entries that were carried on have the numbers of their old process. */
  #at({ seq, at }: Moment): number {
    const opening = this.#openings.findLast((each) => each.seq <= seq)
    return opening ? opening.ms + Math.max(0, at - opening.at) : 0
  }

  #frame(run: number, memory: Memory, at: number, ms: number): void {
    const [kind, sender, turn] = [kindOf(memory, at), senderOf(memory, at), turnOf(memory, at)]
    const key = keyOf(sender, turn)
    if (kind === END) {
      const begun = this.#begun.get(key)
      if (!(flagsOf(memory, at) & BEGINS_AGAIN)) this.#begun.delete(key)
      else if (begun) Object.assign(begun, { attemptMs: ms, opening: undefined })
    } else if (sender !== 0 && turn > 0 && !this.#begun.has(key)) this.#begins(key, ms)
    if (kind === CALL)
      this.#called(readBody(memory, at).content, `${sender} ${correlationOf(memory, at)}`, run, sender, ms)
    else if (kind === CANCEL) this.#end(`${sender} ${correlationOf(memory, at)}`, ms)
    else if (kind === RESULT) this.#end(`${recipientOf(memory, at)} ${correlationOf(memory, at)}`, ms)
  }

  #record(record: HostRecord, ms: number): void {
    if (record.kind === 'run.finished') {
      this.#ofRuns.delete(record.run)
      this.#asking.delete(record.run)
      return
    }
    if (record.kind === 'question' && record.ofTool)
      return this.#called('ask', record.questionId, record.run, record.ofTool.index, ms)
    if (record.kind === 'question.closed') return this.#end(record.questionId, ms)
    if (record.kind !== 'turn.started') return
    const key = keyOf(record.index, record.turn)
    const begun = this.#begun.get(key)
    if (!begun) return this.#begins(key, ms)
    // A second start in one process follows the death of a thread, which begins an attempt of its own.
    if (begun.opening === this.#openings.at(-1)) begun.attemptMs = ms
    begun.opening = this.#openings.at(-1)
  }

  #begins(key: number, ms: number): void {
    this.#begun.set(key, { ms, attemptMs: ms, opening: undefined })
  }

  #called(verb: string, call: string, run: number, agent: number, ms: number): void {
    const isPerson = verb === 'ask' || verb === 'approve'
    if (!isPerson && verb !== 'model') return
    this.#thinking.set(call, { run, agent, isPerson })
    timesIn(this.#ofRuns, run).begin(ms)
    timesIn(this.#ofAgents, agent).begin(ms)
    if (!isPerson) return
    const asking = this.#asking.get(run) ?? { open: 0, since: 0, ms: 0 }
    this.#asking.set(run, asking)
    asking.open += 1
    if (asking.open === 1) asking.since = ms
  }

  #end(call: string, ms: number): void {
    const thinking = this.#thinking.get(call)
    if (!thinking) return
    this.#thinking.delete(call)
    this.#ofRuns.get(thinking.run)?.end(ms)
    this.#ofAgents.get(thinking.agent)?.end(ms)
    const asking = thinking.isPerson && this.#asking.get(thinking.run)
    if (!asking) return
    asking.open -= 1
    if (asking.open === 0) asking.ms += ms - asking.since
  }
}

function timesIn(all: Map<number, ThinkingTimes>, key: number): ThinkingTimes {
  const times = all.get(key) ?? new ThinkingTimes()
  all.set(key, times)
  return times
}

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

export class RecoveredLog {
  readonly #restored = new Set<number>()
  /** Blocks that the log has, in their order; those before a checkpoint as parts of the log. */
  readonly blocks: { readonly position: Position; readonly bytes: number }[] = []
  /** Bytes of the blocks that were read: those behind a checkpoint. */
  readBytes = 0
  readonly index = new RunIndex()
  readonly parts = new PartIndex()
  /** Runs that have no end, or messages under way. */
  readonly runs = new Map<number, RecoveredRun>()
  /** Runs that the log has forgotten: some of their entries may still stand there. */
  readonly gone = new Set<number>()
  readonly team: RecoveredTeam
  readonly times = new RecoveredTimes()
  readonly work = new OpenWork((name, run) => this.indexOf(name, run))
  readonly deaths = new RecoveredDeaths(this.work)
  /** Names by index, the last one that had it. `run` 0: of the team. */
  readonly names = new Map<number, { readonly name: string; readonly run: number }>()
  /** Agents of the team that have left: number of the last record of it, and of the last turn before it, by index. */
  readonly left = new Map<number, { readonly seq: number; readonly turn: number }>()
  readonly counters = new Map<number, Counters>()
  /** Ids of tool calls of the host that have begun and not ended. */
  readonly openTools = new Set<string>()
  /** The last notes of those, by their ids. */
  readonly heldTools = new Map<string, RecordOf<'tool.held'>>()
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
    this.team = new RecoveredTeam(windowMs)
  }

  /**
   * Reads the whole log. Throws `LogCorruptError` where it is damaged. `windowMs`: time for which the team counts what
   * model calls have cost. `lost`: called with entries that cannot be read, which are an error otherwise. `slices`:
   * lets others have a turn meanwhile.
   */
  static async from(read: ReadFrom, windowMs = 0, { lost, slices }: ReadOptions = {}): Promise<RecoveredLog> {
    const log = new RecoveredLog(windowMs)
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

  async end(read: ReadFrom, options: EntryOptions = {}): Promise<void> {
    await this.#restore(read, options)
    // Agents that went with their runs: the process may have died before it had said so.
    for (const [index, { run }] of this.names) if (run !== 0 && !this.runs.has(run)) this.team.forgetAgent(index)
    const over = [...this.index.values()].filter(({ index }) => !this.runs.has(index))
    for (const run of over.sort((a, b) => a.agedFrom - b.agedFrom)) this.index.over(run) // the first to end is the first to go
  }

  get referrers(): Referrers {
    const { letters, states } = this.team
    return { index: this.index, conversations: states.conversations.all(), letters: letters.entries }
  }

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
  async #restore(readFrom: ReadFrom, options: EntryOptions): Promise<void> {
    const given = new Set<number>()
    for (const { run } of this.work.messages()) if (!this.runs.has(run)) given.add(run)
    if (given.size === 0) return
    const chains = [...given].flatMap((run) => this.index.get(run) ?? []).flatMap((run) => this.index.chainOf(run))
    const from = Math.min(...chains.flatMap(({ places }) => places))
    const read = () => readFrom(Number.isFinite(from) ? { from } : {})
    const runs = new Set([0, ...chains.map(({ index }) => index)])
    for await (const entry of entriesOf(read, { ...options, runs })) {
      if (entry.run === 0) for (const run of given) this.runs.get(run)?.meanwhile(entry)
      else if (!given.has(entry.run)) continue
      else if (entry.kind === 'run.launched') this.runs.set(entry.run, new RecoveredRun(entry))
      else this.runs.get(entry.run)?.see(entry)
    }
  }

  /** Gives up what is only needed of runs that go on. */
  #release(run: number): void {
    this.runs.delete(run)
    this.team.states.forget(run)
  }

  #name({ index, name, run }: RecordOf<'name'>): void {
    const before = this.names.get(index)
    if (before && (before.name !== name || before.run !== run)) this.team.forgetAgent(index) // of a run that is over
    this.#byName.set(`${run} ${name}`, index)
    this.names.set(index, { name, run })
  }

  #leaves({ index, seq, run }: RecordOf<'agent.left'>): void {
    this.team.forgetAgent(index)
    if (run === 0) this.left.set(index, { seq, turn: this.#countersOf(index).turn })
  }

  #frame({ run }: LogEntry, memory: Memory, at: number): void {
    const [sender, turn, correlation] = [senderOf(memory, at), turnOf(memory, at), correlationOf(memory, at)]
    const kind = kindOf(memory, at)
    const isNumbered = kind === SEND || kind === REQUEST || kind === CALL
    this.#used(sender, turn, isNumbered ? correlation : 0)
    if (correlation < 0) this.lastHostNumber = Math.min(this.lastHostNumber, correlation)
    if (kind === SEND && correlation > 0) this.asking.set(`${sender} ${correlation}`, { run, memory, at })
    else if (kind === CANCEL) this.asking.delete(`${sender} ${correlation}`)
    else if (kind === ACCEPTED || kind === REFUSED) this.asking.delete(`${recipientOf(memory, at)} ${correlation}`)
    if (kind === PATCH || kind === END) this.#state(memory, at, run)
  }

  #state(memory: Memory, at: number, run: number): void {
    const { floor } = this.runs.get(run)?.launched ?? {}
    const threadId = this.index.get(run)?.threadId ?? undefined
    const shares = (agent: number) => floor?.includes(this.names.get(agent)?.name ?? '') === true
    this.team.states.frame(memory, at, run, threadId, floor && shares)
  }

  #record(record: HostRecord): void {
    this.team.see(record)
    if ('epoch' in record) this.#used(record.index, 0, 0, record.epoch)
    switch (record.kind) {
      case 'log.opened':
        this.name ??= record.name
        return
      case 'log.closed':
        if (record.ends && this.runs.size === 0) this.team.endSession(record.ends)
        return
      case 'name':
        return this.#name(record)
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
        for (const [index, turn] of record.turns) this.#used(index, turn)
        return
      case 'turn.started':
        return this.#used(record.index, record.turn)
      case 'tool.started':
        this.openTools.add(record.callId)
        return
      case 'tool.finished':
        this.openTools.delete(record.callId)
        this.heldTools.delete(record.callId)
        return
      case 'tool.held':
        this.heldTools.set(record.callId, record)
        return
      case 'run.launched':
        this.runs.set(record.run, new RecoveredRun(record))
        if (record.threadId !== undefined)
          this.team.states.conversations.owners.begin(record.threadId, callerIn(record.metadata))
    }
  }

  #numbers({ agents, lastHostNumber, lastRun }: RecordOf<'numbers'>): void {
    this.lastHostNumber = Math.min(this.lastHostNumber, lastHostNumber)
    this.lastRun = Math.max(this.lastRun, lastRun)
    for (const { index, turn, correlation, epoch } of agents) this.#used(index, turn, correlation, epoch)
  }

  #used(index: number, turn: number, correlation = 0, epoch = 0): void {
    const counters = this.#countersOf(index)
    counters.turn = Math.max(counters.turn, turn)
    counters.correlation = Math.max(counters.correlation, correlation)
    counters.epoch = Math.max(counters.epoch, epoch)
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

/**
 * Returns the same as `OldLog.from`, but for what only runs had that are over. Rejects if the checkpoint cannot be
 * used: then all of the log has to be read.
 */
export async function logSince(
  checkpoint: Checkpoint,
  store: Pick<LogStore, 'read'>,
  windowMs: number,
  slices: Slices,
): Promise<RecoveredLog> {
  const log = new RecoveredLog(windowMs)
  const decoder = new EntryDecoder()
  const facts = await readPieces(checkpoint, log, decoder, slices)
  let told = 0
  const tell = (until: number) => {
    while (told < facts.length && facts[told]!.seq < until) log.see(facts[told++]!)
  }
  for await (const block of store.read({ from: checkpoint.position })) {
    if (block.position === checkpoint.position) continue
    // Entries that were carried since stand in the checkpoint, or behind it.
    if (!block.carried)
      for (const entry of decodeEntries(block.entries, all, true)) {
        tell(entry.seq)
        const whole = decoder.whole(entry)
        if (whole) log.see(whole)
        else if (log.index.get(entry.run)) throw new Error(`entry ${entry.seq} goes on from one that it does not have`)
      }
    log.wrote(seenBlock(block))
    await slices.othersTurn()
  }
  tell(log.next)
  if (told < facts.length) throw new Error('it was made of a log that had more entries')
  for await (const { position } of store.read()) {
    log.dropped(position)
    break
  }
  await log.end((options) => store.read(options))
  return log
}

const all = () => true

/** Puts the index in place and the entries of the runs that were open. Returns the facts of the team. */
async function readPieces(
  checkpoint: Checkpoint,
  log: RecoveredLog,
  decoder: EntryDecoder,
  slices: Slices,
): Promise<HostRecord[]> {
  const facts: HostRecord[] = []
  let next = 0
  for await (const piece of piecesOf(checkpoint)) {
    if (piece.kind === 'state') {
      const { runs = [], parts = [], logParts = [] } = piece.state
      next = piece.state.next ?? next
      log.restore(runs)
      log.parts.restore(parts)
      log.blocks.push(...logParts)
    } else
      for (const entry of decodeEntries(piece.bytes, all, true)) {
        const whole = decoder.whole(entry)
        if (!whole) throw new Error(`entry ${entry.seq} goes on from one that it does not have`)
        if (piece.kind === 'entries') log.seeOpen(whole)
        else if (whole.kind !== 'frames') facts.push(whole)
      }
    await slices.othersTurn()
  }
  log.openRead(next)
  return facts
}

/**
 * Time for which model calls are counted by who does not know the window of the team (`budget.perTeam`): longer windows
 * lose what is older.
 */
export const LONGEST_WINDOW_MS = LONGEST.month

interface Options {
  /** Selects the runs whose open turns, and whose agents, are among the facts. */
  isKept?: (run: number) => boolean
  /** Added to all numbers that were used: how many more the log may have had. */
  margin?: number
}

/** Returns the numbers of the records of the team that are carried under them (see `Compactor`). */
export const carriedRecords = ({ left, parts, referrers }: RecoveredLog): ReadonlySet<number> =>
  new Set([...Array.from(left.values(), ({ seq }) => seq), ...parts.needed(referrers)])

export function* oldFacts(
  old: RecoveredLog,
  now: number,
  { isKept = () => true, margin = 0 }: Options = {},
): Generator<Fact> {
  const { counters, lastHostNumber, lastRun, names, team, work } = old
  const known = new Set([...counters.keys(), ...names.keys()])
  const agents = Array.from(known, (index) => {
    const { turn, correlation, epoch } = counters.get(index) ?? { turn: 0, correlation: 0, epoch: 0 }
    return { index, turn: turn + margin, correlation: correlation + margin, epoch: epoch + margin }
  })
  yield { kind: 'numbers', agents, lastHostNumber: lastHostNumber - margin, lastRun: lastRun + margin }
  for (const [index, { name, run }] of names) if (run === 0 && name !== '') yield { kind: 'name', index, name }
  const turns: GivenTurn[] = []
  for (const { run, recipient, turn, attempt, id } of work.messages())
    if (turn > 0 && isKept(run)) turns.push([recipient, turn, attempt, id])
  yield { kind: 'turns', turns, again: true }
  // An agent of a run goes with its run: the next one in its place begins without what it had.
  yield* team.facts((index) => {
    const { run } = names.get(index) ?? { run: 0 }
    return run === 0 || isKept(run)
  })
  for (const { letter, bytes } of team.letters.entries) yield { kind: 'letter', letter, bytes }
  yield* team.payments.facts(now)
  yield* old.index.keyFacts()
}
