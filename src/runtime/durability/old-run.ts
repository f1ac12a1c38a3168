/** Run of an earlier process, as its entries tell. */
import { correlationOf, END, kindOf, lengthOf, recipientOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { concernsRuns, type HostRecord, type JoinedAgent, type LogEntry } from '../log/records.ts'
import { USER_INDEX } from '../state/agent-directory.ts'

type OfKind<Kind extends HostRecord['kind']> = Extract<HostRecord, { kind: Kind }>

export class OldRun {
  readonly index: number
  readonly launched: OfKind<'run.launched'>
  /** Entries that readers of a run get, in their order. */
  readonly entries: LogEntry[] = []
  /** Indices by name of the agents that it has, or had, for itself. */
  readonly agents = new Map<string, number>()
  /** Agents that were made in it and have not left it, by their index. */
  readonly joined = new Map<number, JoinedAgent>()
  /** Subscriptions that the host has made in the name of an agent. */
  readonly subscribed: OfKind<'subscribed'>[] = []
  /** Set when it was begun: its target is asked, or was about to be. */
  started = false
  /** Answer to its caller, if there is one. */
  answer: { readonly memory: Memory; readonly at: number } | undefined
  finished: OfKind<'run.finished'> | undefined
  aborted = false
  /** Bytes of the large parts that it refers to, as far as they were read. */
  stored: ReadonlyMap<string, Uint8Array> = new Map()

  constructor(launched: OfKind<'run.launched'>) {
    this.index = launched.run
    this.launched = launched
  }

  /** Takes an entry of the team: a run keeps what happens to agents until its log has its end, as in memory. */
  meanwhile(entry: LogEntry): void {
    if (entry.kind === 'frames' || !concernsRuns(entry)) return
    if (!this.finished && !this.launched.own) this.entries.push(entry)
  }

  /** Takes an entry of the run. */
  see(entry: LogEntry): void {
    if (entry.kind === 'frames') this.#frames(entry)
    else if (entry.kind === 'name') this.agents.set(entry.name, entry.index)
    else if (entry.kind === 'subscribed') this.subscribed.push(entry)
    else if (entry.kind === 'agent.joined') this.joined.set(entry.index, entry)
    else if (entry.kind === 'agent.left') this.joined.delete(entry.index)
    else if (entry.kind === 'run.started') this.started = true
    else if (entry.kind === 'run.aborted') this.aborted = true
    else if (entry.kind === 'run.finished') this.finished = entry
    if (!isKeptAlone(entry)) this.entries.push(entry)
  }

  #frames({ memory, from, to }: Extract<LogEntry, { kind: 'frames' }>): void {
    for (let at = from; at < to; at += lengthOf(memory, at)) {
      const isAnswer = kindOf(memory, at) === END && recipientOf(memory, at) === USER_INDEX
      if (isAnswer && correlationOf(memory, at) > 0) this.answer ??= { memory, at }
    }
  }
}

/** Checks for a record that no reader of a run gets. */
function isKeptAlone({ kind }: LogEntry): boolean {
  return KEPT_ALONE.has(kind)
}

const KEPT_ALONE: ReadonlySet<string> = new Set([
  'run.launched',
  'name',
  'agent.joined',
  'agent.left',
  'subscribed',
  'part.used',
])
