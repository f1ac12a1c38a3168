/**
 * Team time of a log: it stands still while no process has the log. The deadlines of responses, queues, turns, runs and
 * sync points go on in it. Time that a model or a person takes does not count for responses and turns, as in a process
 * (verbs/deadline-pauses.ts).
 *
 * Between the last entry of a process and its death no time passes: nobody knows when that was.
 */
import {
  BEGINS_AGAIN,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  RESULT,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import type { OpenMessage, OpenWork } from '../state/open-work.ts'
import { ThinkingTimes } from '../state/thinking-times.ts'

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

/** Times of an open turn until the end of the log, in ms. */
export interface TurnTimes {
  /** Time since its begin. */
  readonly sinceMs: number
  /** Part of it that counts for no deadline. */
  readonly pausedMs: number
  /** Time of the present attempt that counts for the limit of the turn. */
  readonly attemptMs: number
}

/** Time in which a run has asked people, in team time. */
interface Asking {
  open: number
  since: number
  ms: number
}

export class OldTimes {
  readonly #openings: Opening[] = []
  readonly #begun = new Map<number, Begun>()
  /** Times in which models and people worked, by run and by agent. */
  readonly #ofRuns = new Map<number, ThinkingTimes>()
  readonly #ofAgents = new Map<number, ThinkingTimes>()
  /** Calls of models and people that are open, by their callers. */
  readonly #thinking = new Map<string, { run: number; agent: number; isPerson: boolean }>()
  /** Times in which people were asked, by run. */
  readonly #asking = new Map<number, Asking>()
  /** Team time of the last entry. */
  #now = 0

  see(entry: LogEntry): void {
    if (entry.kind === 'log.opened') {
      this.#openings.push({ seq: entry.seq, at: entry.at, ms: this.#now })
      return
    }
    if (entry.kind === 'answer') return // a person may answer while no process has the log
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
      if (flagsOf(memory, at) & BEGINS_AGAIN) this.#beginsAgain(key, ms)
      else this.#begun.delete(key)
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

  #beginsAgain(key: number, ms: number): void {
    const begun = this.#begun.get(key)
    if (begun) Object.assign(begun, { attemptMs: ms, opening: undefined })
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

/** Returns a number for a turn of an agent: indices of agents have 16 bits, numbers of turns 31. */
const keyOf = (agent: number, turn: number): number => agent * 2 ** 32 + turn

function timesIn(all: Map<number, ThinkingTimes>, key: number): ThinkingTimes {
  const times = all.get(key) ?? new ThinkingTimes()
  all.set(key, times)
  return times
}
