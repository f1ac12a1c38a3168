/**
 * Writes what happens into the logs of the runs, and passes it to the readers in the same order. Only the journal
 * numbers records. Readers are trampolined: what a reader records while it reads is passed on after what it reads.
 */

import { randomBytes } from 'node:crypto'
import { LAST_SPEAKER } from '../../actors/model/last-speaker.ts'
import { describeStep, hasEffect } from '../../actors/turn/logged-turn.ts'
import { addresseeOf, type Directory, decodeMessage, isCopy } from '../../mailbox/codec.ts'
import {
  type DeadLetter,
  DeadLetterList,
  type DeadLetterReason,
  type Remains,
  remainsOf,
} from '../../mailbox/dead-letters.ts'
import {
  CALL,
  CHUNK,
  FAILED,
  flagsOf,
  idOf,
  kindBit,
  kindOf,
  lengthOf,
  type Memory,
  readBody,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
  stepOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { referenceIn } from '../../mailbox/stored-parts.ts'
import type { Clock } from '../../shared/clock.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { HostFrames } from '../log/host-frames.ts'
import {
  type Batch,
  concernsRuns,
  type FrameBlock,
  type HostRecord,
  type LogEntry,
  Observable,
  SEQ_STEP,
  Subject,
  type Unrecorded,
} from '../log/records.ts'
import { framesOf } from '../log/run-log.ts'
import type { Agent } from './agent.ts'
import { USER_INDEX } from './directory.ts'
import { type LoggedFrame, type RunState, type RunTable, TurnFrames } from './run.ts'

/*
 * Reads the attempts of one turn from the log of its run. The next attempt uses them, and so does an agent that takes
 * the turn over or helps with it.
 */

/**
 * Limit on the steps in words, because they travel with a message. Of a longer turn the last steps are kept: the end
 * counts.
 */
const MOST_STEPS = 100

/** Calls that start a turn, give its work away or ask what to do with it. They are not part of the work. */
const ABOUT_IT = /^(handoff|managers$|reassign$|model\.turn$|guard$)/

/** Returns the frames that the next attempt is given: what the turn has done, and the answers that it got. */
export function loggedFrames(agent: Agent, envelope: Envelope<RunState>): LoggedFrame[] {
  const { run, turn } = envelope
  const found = new TurnFrames(agent.index, turn, run.reread.get(envelope))
  for (const entry of run.log.entries(found.to)) found.see(entry)
  return found.frames
}

/** Checks whether the log in memory has given up entries from the time of that turn, and nobody has read them again. */
export function isForgotten(envelope: Envelope<RunState>): boolean {
  const { run, handedSeq } = envelope
  const { forgottenTo } = run.log
  return forgottenTo >= handedSeq && (run.reread.get(envelope)?.to ?? -1) < forgottenTo
}

/** Finds a step that ran in the dead thread itself, had begun, is not logged as finished, and may not run twice. */
export function unknownStep(
  agent: Agent,
  envelope: Envelope<RunState>,
): { kind: 'step' | 'tool'; name: string } | undefined {
  const begun = new Map<number, { kind: 'step' | 'tool'; name: string }>()
  for (const { memory, at } of loggedFrames(agent, envelope)) {
    const kind = kindOf(memory, at)
    if (kind === STEP_BEGAN && flagsOf(memory, at) & FAILED) {
      const { content: name, threadId } = readBody(memory, at)
      begun.set(stepOf(memory, at), { kind: threadId === undefined ? 'step' : 'tool', name })
    }
    if (kind === STEP_DONE) begun.delete(stepOf(memory, at))
  }
  return begun.values().next().value
}

/**
 * Checks whether a part of the model's answer was read already. A repeated model call would begin another answer. Who
 * reads the answer of a run is told which words do not count.
 */
export function isReadAlready(agent: Agent, envelope: Envelope<RunState>): boolean {
  const { memory: asked, at: place, run } = envelope
  if (!agent.settings.playedByModel || (run.streams && asksLastSpeaker(asked, place))) return false
  return loggedFrames(agent, envelope).some(
    ({ memory, at }) => kindOf(memory, at) === CHUNK && senderOf(memory, at) === agent.index,
  )
}

/** Checks for a message whose answer is to be the one of the run. */
export const asksLastSpeaker = (memory: Memory, at: number): boolean =>
  senderOf(memory, at) === USER_INDEX || readBody(memory, at).metadata?.includes(IS_LAST) === true

const IS_LAST = JSON.stringify(LAST_SPEAKER).slice(1, -1)

/** Returns the steps that the turn has made so far, in words. `nameOf` names an agent by its index. */
export function stepsOf(agent: Agent, { run, turn }: Envelope<RunState>, nameOf: (index: number) => string): string[] {
  const steps: string[] = []
  for (const [memory, at] of framesOf(run.log))
    if (senderOf(memory, at) === agent.index && turnOf(memory, at) === turn && isDone(memory, at))
      steps.push(describeStep({ memory, at, kind: kindOf(memory, at) }, nameOf))
  const before = steps.length - MOST_STEPS
  return before > 0 ? [`${before} steps before`, ...steps.slice(before)] : steps
}

const isDone = (memory: Memory, at: number) =>
  hasEffect(kindOf(memory, at)) && !(kindOf(memory, at) === CALL && ABOUT_IT.test(readBody(memory, at).content))

/** Size in bytes that the remains of a refused message count for: their maximum. */
const REMAINS = 16_384

export interface MadeLetter {
  readonly letter: DeadLetter
  readonly bytes: number
}

/** State of the durable log. `ok`: it takes what it is given, in time. `lagMs`: age of the oldest that it has not. */
export interface LogHealth {
  ok: boolean
  lagMs: number
}

/** Size of the durable log. Times are in epoch ms. */
export interface LogFigures {
  readonly bytes: number
  /** Number of its files; undefined where the store has no such. */
  readonly segments: number | undefined
  /** Number of runs in it, open ones too. */
  readonly runs: number
  readonly compactedAt: number | undefined
  /** Age of the oldest record, in ms. */
  readonly oldestMs: number
}

/** Keeps the log on a disk too. */
export interface JournalKeeper {
  /** Takes an entry. It can change until the current task of the event loop ends. */
  take(entry: LogEntry): void
  /** Notes that a message was given a turn of that agent. */
  handed(agent: Agent, envelope: Envelope<RunState>): void
  /** Resolves when all that was logged until now is written. Rejects if it never will be: the log is lost or closed. */
  written(): Promise<void>
  /** Number behind the last entry that stands in the log. A later process goes on with it. */
  readonly end: number
  readonly health: LogHealth
  readonly figures: LogFigures | undefined
  /** True if the bytes with that hash stand in the log, or will with what was taken. */
  hasPart(hash: string): boolean
  /** Reads the entries of a run in their order. `read` is called again if they were moved meanwhile. */
  reread<T>(run: number, read: (entries: AsyncIterable<LogEntry>) => Promise<T>): Promise<T>
}

/** Makes a name for a log. It is not made from the clock's seed: two processes with one seed have two logs. */
export const newLogName = (): string => randomBytes(8).toString('hex')

export class Journal {
  readonly deadLetters = new DeadLetterList()
  readonly records$: Observable<Batch>
  readonly #clock: Clock
  readonly #frames: HostFrames
  readonly #runs: RunTable
  readonly #names: Directory
  readonly #wake: () => void
  readonly #records = new Subject<Batch>()
  #watchers = 0
  /** Set by the readers of the team: they are called before all others. */
  #readers: ((batch: Batch, frames: number) => void) | undefined
  #pending: LogEntry[] = []
  /** True if there are records that the readers have not seen. To be read only. */
  hasNews = false
  /**
   * Kinds of the frames that the readers have not seen (`kindBit`). Who appends frames of a thread adds them here, from
   * the copy: the thread can still write to its ring.
   */
  frames = 0
  /** True while a reader is called: new records have to wait. */
  isTelling = false
  /** Number of the next record. To be read only. */
  seq = 0
  #keeper: JournalKeeper | undefined
  /** True if there is a durable log. To be read only. */
  isKept = false
  /**
   * Name of the log that the numbers of records belong to: a new one for each process, or that of the durable log.
   * undefined as long as the durable log is not open.
   */
  name: string | undefined = newLogName()

  /** `names`: of agents and runs in a message, for dead letters. `wake`: the readers must be called soon. */
  constructor(clock: Clock, frames: HostFrames, runs: RunTable, names: Directory, wake: () => void) {
    this.#clock = clock
    this.#frames = frames
    this.#runs = runs
    this.#names = names
    this.#wake = wake
    this.records$ = new Observable((watcher) => {
      this.#watchers += 1
      const subscription = this.#records.subscribe(watcher)
      return () => {
        this.#watchers -= 1
        subscription.unsubscribe()
      }
    })
  }

  /** Gives all that is logged from now on to a keeper too. `seq`: number of the next record; `name`: of its log. */
  keepWith(keeper: JournalKeeper, seq: number, name: string): void {
    this.#keeper = keeper
    this.isKept = true
    this.name = name
    this.seq = seq
  }

  /** Resolves when all that was logged until now is written; undefined without a durable log. */
  written(): Promise<void> | undefined {
    return this.#keeper?.written()
  }

  /** Number behind the last entry that stands in the durable log; undefined without one. */
  get keptEnd(): number | undefined {
    return this.#keeper?.end
  }

  /**
   * Reads the entries of a run from the durable log, in their order; undefined if there is none. `read` is called again
   * if they were moved meanwhile. Rejects if the log cannot be read.
   */
  reread<T>(run: RunState, read: (entries: AsyncIterable<LogEntry>) => Promise<T>): Promise<T> | undefined {
    return this.#keeper?.reread(run.index, read)
  }

  /** State of the durable log; of one in memory, which is always well. */
  get health(): LogHealth {
    return this.#keeper?.health ?? { ok: true, lagMs: 0 }
  }

  /** Size of the durable log, if there is one and it is open. */
  get figures(): LogFigures | undefined {
    return this.#keeper?.figures
  }

  /** Writes a record for the durable log alone, if there is one. */
  keep(run: RunState | undefined, fields: Unrecorded): void {
    this.#keeper?.take(this.#numbered(run, fields))
  }

  /** Notes in the durable log, if there is one, that a run refers to bytes. */
  keepPart(run: RunState, hash: string, bytes: Uint8Array): void {
    this.keepBytes(hash, bytes)
    this.keep(run, { kind: 'part.used', hash, size: bytes.length })
  }

  /** Writes bytes into the durable log, if there is one, for the record that comes next and refers to them: once. */
  keepBytes(hash: string, bytes: Uint8Array): void {
    if (this.#keeper?.hasPart(hash) !== false) return
    this.keep(undefined, { kind: 'part', hash, size: bytes.length, bytes })
  }

  handed(agent: Agent, envelope: Envelope<RunState>): void {
    this.#keeper?.handed(agent, envelope)
  }

  appendFrames(run: RunState, memory: Memory, from: number, to: number, count: number): FrameBlock {
    const { seq } = this
    this.seq = seq + count * SEQ_STEP
    const block = run.log.appendFrames(seq, this.#clock.now(), run.index, memory, from, to, count)
    this.#pending.push(block)
    this.hasNews = true
    this.#keeper?.take(block)
    return block
  }

  /** Adds a frame that the host made to the run's log, without a copy. */
  appendOwned(run: RunState, memory: Memory, bytes: number): FrameBlock {
    const { seq } = this
    this.seq = seq + SEQ_STEP
    const block = run.log.appendOwned(seq, this.#clock.now(), run.index, memory, bytes)
    this.frames |= kindBit(memory, 0)
    this.#add(block)
    return block
  }

  /**
   * Writes a record, made of `fields`, into the run's log. What happens to an agent belongs to no run, but concerns
   * every run under way: each of them keeps it, but not that an idle agent lost its thread, or that a message gave it
   * one. Any other record without a run is passed to the readers and not kept. A reader that needs it later has to
   * count it. Returns the record.
   */
  record(run: RunState | undefined, fields: Unrecorded): HostRecord {
    const record = this.#numbered(run, fields)
    if (run) run.log.append(record)
    else if (concernsRuns(record)) for (const { log } of this.#runs.values()) if (log.isUnderWay) log.append(record)
    this.#add(record)
    this.#wake()
    return record
  }

  /** Makes `fields` a record, in place: a copy of each record costs a microsecond. */
  #numbered(run: RunState | undefined, fields: Unrecorded): HostRecord {
    const { seq } = this
    this.seq = seq + SEQ_STEP
    return Object.assign(fields, { seq, at: this.#clock.now(), run: run?.index ?? 0 })
  }

  #add(entry: LogEntry): void {
    this.#pending.push(entry)
    this.hasNews = true
    this.#keeper?.take(entry)
  }

  /** Keeps the message at that place as a dead letter: nobody will handle it. */
  deadLetter(run: RunState, memory: Memory, at: number, reason: DeadLetterReason, errors: DramatisError[]): void {
    // A letter that was replayed and refused is in the list already, and its sender is notified.
    const messageId = idOf(memory, at)
    if (reason !== 'overflow' && this.deadLetters.replayed.has(messageId)) {
      const index = recipientOf(memory, at)
      this.record(run, { kind: 'message.refused', agent: this.#names.name(index), index, messageId })
      return
    }
    this.#addDeadLetter(run, this.#letterOf(memory, at, reason, errors))
  }

  /**
   * Makes the dead letter of the message at that place. For a message to several recipients the letter is about one of
   * them.
   */
  #letterOf(memory: Memory, at: number, reason: DeadLetterReason, errors: DramatisError[]): MadeLetter {
    const messageId = idOf(memory, at)
    const message: AgentMessage = decodeMessage(memory, at, this.#names)
    if (typeof message.recipient !== 'string') message.recipient = addresseeOf(memory, at, this.#names)
    const tooLarge = reason === 'rejected' && errors[0]?.code === 'MESSAGE_REJECTED'
    if (tooLarge) Object.assign(message, remainsOf(message))
    const isTaken = isCopy(memory, at) || this.deadLetters.get(messageId)
    const id = isTaken ? this.#frames.id() : messageId
    const stored = (message.parts ?? []).reduce((sum, part) => sum + (referenceIn(part)?.bytes ?? 0), 0)
    return {
      letter: { id, message, reason, errors, at: this.#clock.now() },
      bytes: tooLarge ? REMAINS : lengthOf(memory, at) + stored,
    }
  }

  /** Keeps the remains of a message that was refused before it was encoded, as a dead letter. */
  refused(run: RunState | undefined, remains: Remains, error: DramatisError): void {
    const at = this.#clock.now()
    const message: AgentMessage = { ...remains, id: this.#frames.id(), runId: run?.id ?? '', sentAt: at }
    this.#addDeadLetter(run, {
      letter: { id: message.id, message, reason: 'rejected', errors: [error], at },
      bytes: REMAINS,
    })
  }

  /** Takes a dead letter off the list. Returns false if it is not there. */
  removeLetter(id: string): boolean {
    if (!this.deadLetters.delete(id)) return false
    this.record(undefined, { kind: 'letter.gone', id })
    return true
  }

  /** Passes the logged records to the readers, and also those that the readers log meanwhile. */
  tell(): void {
    if (this.isTelling) return
    this.isTelling = true
    try {
      for (let batch = this.#pending; batch.length > 0; batch = this.#pending) {
        const { frames } = this
        this.#pending = []
        this.hasNews = false
        this.frames = 0
        this.#readers?.(batch, frames)
        if (this.#watchers > 0) this.#records.next(batch)
      }
    } finally {
      this.isTelling = false
    }
  }

  /** Sets what is called with each batch, before the subscribers of `records$`; undefined: nothing any more. */
  readWith(readers: ((batch: Batch, frames: number) => void) | undefined): void {
    this.#readers = readers
  }

  close(): void {
    this.#records.complete()
  }

  #addDeadLetter(run: RunState | undefined, { letter, bytes }: MadeLetter): void {
    this.deadLetters.add(letter, bytes)
    this.record(run, { kind: 'message.dead', letter, bytes })
  }
}

/**
 * Part of the supervisor that follows the journal: it gets batches of records, and acts on them with the owners that it
 * was made with.
 */
export interface Reader {
  /** Kinds of records that it handles: it gets only batches with at least one of them. Default: all batches. */
  readonly kinds?: readonly LogEntry['kind'][]
  /** Kinds of frames that it handles, by `kindBits`, if 'frames' is among its `kinds`. Default: all. */
  readonly frames?: number
  /** True while it has nothing to do, whatever comes: it is not called. */
  isIdle?: boolean
  next(batch: Batch): void
  /** Called when a wait in that run, or the run itself, has ended only because its time was up. */
  overdue?(run: RunState): void
  /** Called when these runs of an earlier process were put in place, before any of their messages is handled. */
  restored?(runs: ReadonlySet<RunState>): void
  close?(): void
}
