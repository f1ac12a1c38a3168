/**
 * Makes lines of the digest from entries of a log. Of frames it reads the headers: what a message says is decoded for
 * nobody. So a watched message costs the host a fraction of what its events cost.
 */
import type { TokenUsage } from '../../actors/definition/model.ts'
import { isHead } from '../../mailbox/codec.ts'
import * as frame from '../../mailbox/frame.ts'
import { type FrameId, idFrom } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import { toolEventOf } from '../log/tool-frames.ts'
import { AgentPlaces } from './agent-places.ts'
import {
  AGAIN,
  CALL_COLUMNS,
  COPY,
  type Digest,
  type DigestFact,
  MESSAGE_COLUMNS,
  NONE,
  TO_SEVERAL,
  TURN_COLUMNS,
} from './digest-line.ts'
import { LineTable } from './line-table.ts'
import { RecentNumbers } from './recent-numbers.ts'

/** Constants of this file: those of another one are looked up each time that a loop comes to them. */
const { BEGINS_AGAIN, BODY, CORRELATION, END, FAILED, HAS_THREAD, ID, KIND, MANY } = frame
const { NOBODY, REQUEST, RESPONSE, SEND, STARTED, STEP_DONE, TIME, TURN, WHO } = frame
const NO_AGENT: number = NONE

interface Needs {
  /** Returns the name of the agent with that index. */
  name(index: number): string
  /** Returns the id of the run with that index; '' for none. */
  runId(index: number): string
  /** Returns a record in short; undefined if it is no rare event. */
  factOf(record: HostRecord): DigestFact | undefined
  /** Removes the team's keys from a name. */
  shown(name: string): string
}

export class DigestMaker {
  readonly #needs: Needs
  readonly #names = new Map<string, number>()
  readonly #shown: string[] = []
  /** Number of names that lines have told. */
  #told = 0
  readonly #agents: AgentPlaces
  #run = { index: -1, at: NONE }
  /** Numbers of messages by their ids, of those that a turn may still end for. */
  readonly #numbers = new RecentNumbers()
  readonly #message = new LineTable(MESSAGE_COLUMNS)
  readonly #turn = new LineTable(TURN_COLUMNS)
  readonly #call = new LineTable(CALL_COLUMNS)
  #facts: DigestFact[] = []
  #seq = -1
  #at: number | undefined
  #n = 0

  constructor(needs: Needs) {
    this.#needs = needs
    this.#agents = new AgentPlaces(needs.name, (name) => this.placeOf(name))
  }

  /** Number of rows that the next line has. */
  get rows(): number {
    return this.#message.rows + this.#turn.rows + this.#call.rows + this.#facts.length
  }

  see(entry: LogEntry): void {
    this.#seq = lastSeq(entry)
    if (this.#at === undefined) {
      this.#at = Math.round(entry.at)
      this.#n = entry.seq / SEQ_STEP
    }
    if (entry.kind === 'frames') return this.#frames(entry)
    if (entry.kind === 'model.called') return this.#modelCall(entry)
    if (entry.kind === 'tool.finished') return this.#hostTool(entry)
    const fact = this.#needs.factOf(entry)
    if (fact) this.#facts.push(fact)
  }

  /**
   * Returns the line of all that was seen since the last one; undefined if there is nothing to tell. `looked`:
   * state of the team to tell with it.
   */
  take(looked: Pick<Digest, 'agent' | 'waits'> = {}, now = 0): Digest | undefined {
    if (this.rows === 0 && !looked.agent && !looked.waits) return undefined
    const [message, turn, call] = [this.#message.take(), this.#turn.take(), this.#call.take()]
    const line: Digest = {
      seq: this.#seq,
      at: this.#at ?? Math.round(now),
      n: this.#n,
      ...(this.#shown.length > this.#told && { names: this.#shown.slice(this.#told) }),
      ...(message && { message }),
      ...(turn && { turn }),
      ...(call && { call }),
      ...looked,
      ...(this.#facts.length > 0 && { facts: this.#facts }),
    }
    this.#told = this.#shown.length
    this.#facts = []
    this.#at = undefined
    return line
  }

  /** Table of names. */
  get names(): readonly string[] {
    return this.#shown
  }

  /** Returns the place of a name in the table. */
  placeOf(name: string): number {
    let at = this.#names.get(name)
    if (at === undefined) {
      at = this.#shown.push(this.#needs.shown(name)) - 1
      this.#names.set(name, at)
    }
    return at
  }

  #runAt(index: number): number {
    if (index !== this.#run.index) {
      const id = this.#needs.runId(index)
      this.#run = { index, at: id === '' ? NONE : this.placeOf(id) }
    }
    return this.#run.at
  }

  /** Reads frames in a single loop, with all that it needs in variables: each message of a watched team costs it. */
  #frames({ memory, from, to, seq, run, count, at: loggedAt }: FrameBlock): void {
    const agents = this.#agents
    const numbers = this.#numbers
    const messages = this.#message
    const turns = this.#turn
    const base = this.#n
    const baseAt = this.#at!
    const sent = messages.roomFor(count)
    const { n: sentN, run: sentRun, from: sentFrom, to: sentTo, type: sentType } = sent
    const { at: sentTime, bytes: sentBytes, turn: sentTurn } = sent
    const ended = turns.roomFor(count)
    const { message: endMessage, run: endRun, agent: endAgent, turn: endTurn } = ended
    const { start: endStart, end: endTime, attempt: endAttempt, failed: endFailed } = ended
    const place = this.#runAt(run)
    const sentAt = Math.round(loggedAt) - baseAt
    let n = seq / SEQ_STEP
    let row = messages.rows
    let turnRow = turns.rows
    agents.beginBlock()
    const { i32, f64 } = memory
    // Frames that follow one another are mostly of the same agents.
    let pair = ~i32[(from >> 2) + WHO]!
    let [sender, recipient] = [NO_AGENT, NO_AGENT]
    for (let at = from; at < to; n += 1) {
      const i = at >> 2
      const word = i32[i + KIND]!
      const kind = word & 0xff
      const isEnd = kind === END
      const who = i32[i + WHO]!
      const third = i32[i + ID + 2]!
      const fourth = i32[i + ID + 3]!
      const answers = (isEnd || kind === RESPONSE) && i32[i + CORRELATION] !== 0
      const isMessage = kind === SEND || kind === REQUEST || answers
      if (who !== pair && (isMessage || isEnd)) {
        pair = who
        sender = agents.of(who & 0xffff)
        recipient = who >>> 16 === NOBODY ? NO_AGENT : agents.of(who >>> 16)
      }
      if (isMessage) {
        const several = kind === SEND && ((word >>> 8) & MANY) !== 0
        const head = several && isHead(memory, at)
        const copy = several && !head
        messages.put(sentN, row, n - base)
        sentRun[row] = place
        sentFrom[row] = sender
        sentTo[row] = head ? NO_AGENT : recipient
        sentType[row] = ((word >>> 24) & 7) | (head ? TO_SEVERAL : 0) | (copy ? COPY : 0)
        messages.put(sentTime, row, sentAt)
        sentBytes[row] = i32[i + BODY]!
        sentTurn[row] = i32[i + TURN]!
        row += 1
        if (!copy && !isEnd) numbers.set(serialIn(third), third, fourth, n)
      }
      if (isEnd) {
        const f = at >> 3
        turns.put(endMessage, turnRow, numbers.get(serialIn(third), third, fourth) - base)
        endRun[turnRow] = place
        endAgent[turnRow] = sender
        endTurn[turnRow] = i32[i + TURN]!
        turns.put(endStart, turnRow, Math.round(f64[f + STARTED]!) - baseAt)
        turns.put(endTime, turnRow, Math.round(f64[f + TIME]!) - baseAt)
        endAttempt[turnRow] = ((word >>> 16) & 0xff) + 1
        endFailed[turnRow] = outcomeOf(word >>> 8)
        turnRow += 1
      } else if (kind === STEP_DONE && frame.flagsOf(memory, at) & HAS_THREAD) this.#threadTool(memory, at, run)
      at += i32[i]!
    }
    messages.rows = row
    turns.rows = turnRow
  }

  #modelCall(record: Extract<HostRecord, { kind: 'model.called' }>): void {
    const { agent, at, durationMs, error, messageId, model, run, usage } = record
    this.#called(run, agent, messageId, { kind: MODEL, name: model, end: at, durationMs, error, usage })
  }

  #hostTool(record: Extract<HostRecord, { kind: 'tool.finished' }>): void {
    const { agent, at, durationMs, error, messageId, run, tool } = record
    this.#called(run, agent, messageId, { kind: TOOL, name: tool, end: at, durationMs, error })
  }

  /** Adds a call of a tool that ran in the thread of its agent. */
  #threadTool(memory: Memory, at: number, run: number): void {
    const event = toolEventOf(memory, at, this.#needs.name(frame.senderOf(memory, at)))
    if (event?.type !== 'tool.finished') return
    const { agent, durationMs, error, messageId, tool } = event
    this.#called(run, agent, messageId, { kind: TOOL, name: tool, end: frame.timeOf(memory, at), durationMs, error })
  }

  #called(
    run: number,
    agent: string,
    messageId: string | undefined,
    { kind, name, end, durationMs, error, usage }: Called,
  ): void {
    const columns = this.#call.roomFor(1)
    const row = this.#call.rows++
    const ended = Math.round(end)
    const [, , third, fourth] = messageId ? idFrom(messageId) : NO_ID
    this.#call.put(columns.message, row, this.#numberOf(third, fourth))
    columns.run[row] = this.#runAt(run)
    columns.agent[row] = this.placeOf(agent)
    columns.kind[row] = kind
    columns.name[row] = this.placeOf(name)
    this.#call.put(columns.start, row, ended - Math.round(durationMs) - this.#at!)
    this.#call.put(columns.end, row, ended - this.#at!)
    this.#call.put(columns.in, row, usage?.inputTokens ?? 0)
    this.#call.put(columns.out, row, usage?.outputTokens ?? 0)
    columns.failed[row] = error ? 1 : 0
  }

  /** Returns the number of a message, as the line has it. */
  #numberOf(third: number, fourth: number): number {
    return this.#numbers.get(serialIn(third), third, fourth) - this.#n
  }
}

/** A call that has ended. */
interface Called {
  readonly kind: number
  readonly name: string
  readonly end: number
  readonly durationMs: number
  readonly error: unknown
  readonly usage?: TokenUsage
}

const MODEL = 0
const TOOL = 1

const outcomeOf = (flags: number): number => {
  if (flags & BEGINS_AGAIN) return AGAIN
  return flags & FAILED ? 1 : 0
}

/** The counter of a source, in the third word of an id. */
const serialIn = (third: number): number => (third >>> 12) & 0x3ffff

const NO_ID: FrameId = [0, 0, 0, 0]
