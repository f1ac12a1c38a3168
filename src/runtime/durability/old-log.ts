/** Reads the log that earlier processes have written: what is open in it, and the entries of the runs that go on. */
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import { isFailure, jsonIn } from '../../mailbox/codec.ts'
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
  PATCH,
  REFUSED,
  REQUEST,
  recipientOf,
  SEND,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { decodeEntries } from '../log/entry-codec.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import { OpenWork } from '../state/open-work.ts'
import type { Block } from '../store/log-store.ts'
import { OldTeam } from './old-team.ts'

type OfKind<Kind extends HostRecord['kind']> = Extract<HostRecord, { kind: Kind }>

/** Run of an earlier process. */
export interface OldRun {
  readonly index: number
  readonly launched: OfKind<'run.launched'>
  entries: LogEntry[]
  /** Set when it was begun: its target is asked, or was about to be. */
  started: boolean
  /** Answer to its caller, if there is one. */
  answer: { readonly memory: Memory; readonly at: number } | undefined
  finished: OfKind<'run.finished'> | undefined
  aborted: boolean
  /** Epoch ms of its last entry. */
  lastAt: number
}

/** State that an agent had after its start, or that a turn has left. */
export type StateChange =
  | { readonly index: number; readonly value: unknown }
  | { readonly index: number; readonly run: number; readonly notice: PatchNotice }

/** Highest numbers that an agent has used. */
export interface Counters {
  turn: number
  correlation: number
  epoch: number
}

export class OldLog {
  readonly runs = new Map<number, OldRun>()
  readonly team = new OldTeam()
  readonly work = new OpenWork((name, run) => this.indexOf(name, run))
  /** Names by index, the last one that had it. `run` 0: of the team. */
  readonly names = new Map<number, { readonly name: string; readonly run: number }>()
  readonly states: StateChange[] = []
  readonly counters = new Map<number, Counters>()
  /** Ids of tool calls of the host that have begun and not ended. */
  readonly openTools = new Set<string>()
  /** Sends whose senders wait for their receipt. */
  readonly asking = new Map<string, { readonly run: number; readonly memory: Memory; readonly at: number }>()
  readonly #byName = new Map<string, number>()
  readonly #patches = new Map<string, PatchNotice[]>()
  /** Lowest number of a message of the host, highest index of a run, and number of the next entry. */
  lastHostNumber = 0
  lastRun = 0
  next = 0

  /** Reads the whole log. Throws `LogCorruptError` where it is damaged. */
  static async from(blocks: AsyncIterable<Block>): Promise<OldLog> {
    const log = new OldLog()
    for await (const block of blocks) {
      for (const entry of decodeEntries(block.entries)) log.#see(entry)
      if (!block.carried) log.next = block.lastSeq + 1
    }
    return log
  }

  indexOf(name: string, run: number): number | undefined {
    return this.#byName.get(`${run} ${name}`) ?? this.#byName.get(`0 ${name}`)
  }

  #see(entry: LogEntry): void {
    this.work.see(entry)
    this.lastRun = Math.max(this.lastRun, entry.run)
    if (entry.kind === 'frames')
      for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry, entry.memory, at)
    else this.#record(entry)
    const run = this.runs.get(entry.run)
    if (!run || isKeptAlone(entry)) return
    run.entries.push(entry)
    if (entry.kind !== 'answer') run.lastAt = entry.at // a person may answer while no process has the log
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
    const key = `${sender} ${turn}`
    if (kind === PATCH) {
      const notices = this.#patches.get(key) ?? []
      this.#patches.set(key, [...notices, Object(jsonIn(readBody(memory, at).data)) as PatchNotice])
    } else if (kind === END) {
      const isLeft = !isFailure(memory, at) && (flagsOf(memory, at) & BEGINS_AGAIN) === 0
      for (const notice of this.#patches.get(key) ?? []) if (isLeft) this.states.push({ index: sender, run, notice })
      this.#patches.delete(key)
      if (recipientOf(memory, at) === USER_INDEX && correlation > 0) this.#answered(run, memory, at)
    }
  }

  #answered(index: number, memory: Memory, at: number): void {
    const run = this.runs.get(index)
    if (run) run.answer ??= { memory, at }
  }

  #record(record: HostRecord): void {
    this.team.see(record)
    if ('epoch' in record) {
      const counters = this.#countersOf(record.index)
      counters.epoch = Math.max(counters.epoch, record.epoch)
    }
    switch (record.kind) {
      case 'name':
        this.#byName.set(`${record.run} ${record.name}`, record.index)
        this.names.set(record.index, { name: record.name, run: record.run })
        return
      case 'state':
        this.states.push({ index: record.index, value: record.value })
        return
      case 'turns':
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
        this.runs.set(record.run, oldRun(record))
        return
      case 'run.started':
        this.#with(record.run, (run) => Object.assign(run, { started: true }))
        return
      case 'run.aborted':
        this.#with(record.run, (run) => Object.assign(run, { aborted: true }))
        return
      case 'run.finished':
        this.#with(record.run, (run) => Object.assign(run, { finished: record }))
    }
  }

  #with(index: number, change: (run: OldRun) => void): void {
    const run = this.runs.get(index)
    if (run) change(run)
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

function oldRun(launched: OfKind<'run.launched'>): OldRun {
  return {
    index: launched.run,
    launched,
    entries: [],
    started: false,
    answer: undefined,
    finished: undefined,
    aborted: false,
    lastAt: launched.at,
  }
}

/** Checks for a record that no reader of a run gets. */
function isKeptAlone({ kind }: LogEntry): boolean {
  return kind === 'run.launched' || kind === 'name' || kind === 'turns' || kind === 'state' || kind === 'log.opened'
}
