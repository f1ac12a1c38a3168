/**
 * Makes lines of the digest from entries of a log. Of frames it reads the headers: what a message says is decoded for
 * nobody. So a watched message costs the host a fraction of what its events cost.
 */
import type { TokenUsage } from '../../actors/definition/model.ts'
import { isHead } from '../../mailbox/codec.ts'
import * as frame from '../../mailbox/frame.ts'
import { type FrameId, idFrom, type Memory } from '../../mailbox/frame.ts'
import { DramatisError } from '../../shared/errors.ts'
import { toolEventOf } from '../log/host-frames.ts'
import { type FrameBlock, type HostRecord, type LogEntry, type RecordOf, SEQ_STEP } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import {
  AGAIN,
  CALL_COLUMNS,
  COPY,
  type Digest,
  type DigestFact,
  MESSAGE_COLUMNS,
  NONE,
  questionInShort,
  TO_SEVERAL,
  TURN_COLUMNS,
} from './digest-line.ts'
import { AgentPlaces, LineTable, RecentNumbers } from './line-table.ts'

/** Constants of this file: those of another one are looked up each time that a loop comes to them. */
const { BEGINS_AGAIN, BODY, CORRELATION, END, FAILED, HAS_THREAD, ID, KIND, MANY } = frame
const { NOBODY, REQUEST, RESPONSE, SEND, STARTED, STEP_DONE, TIME, TURN, WHO } = frame
const NO_AGENT: number = NONE

export interface Digested {
  name(index: number): string
  runId(index: number): string
  /** Returns a record in short; undefined if it is no rare event. */
  factOf(record: HostRecord): DigestFact | undefined
  /** Removes the team's keys from a name. */
  shown(name: string): string
}

/** State of the team that is told when it has changed. */
export type Looked = Pick<Digest, 'agent' | 'waits' | 'deadLetters'>

export class DigestMaker {
  readonly #needs: Digested
  readonly #names = new Map<string, number>()
  readonly #shown: string[] = []
  #told = 0
  readonly #agents: AgentPlaces
  #run = { index: -1, at: NONE }
  /** Run and time of the block of frames that is read. */
  readonly #block = { run: NONE, at: 0 }
  /** Numbers of messages by their ids, of those that a turn may still end for. */
  readonly #numbers = new RecentNumbers()
  readonly #message = new LineTable(MESSAGE_COLUMNS)
  readonly #turn = new LineTable(TURN_COLUMNS)
  readonly #call = new LineTable(CALL_COLUMNS)
  #facts: DigestFact[] = []
  #seq = -1
  #at: number | undefined
  #n = 0

  constructor(needs: Digested) {
    this.#needs = needs
    this.#agents = new AgentPlaces(needs, this)
  }

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
  take(looked: Looked = {}, now = 0): Digest | undefined {
    if (this.rows === 0 && Object.keys(looked).length === 0) return undefined
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

  get names(): number {
    return this.#shown.length
  }

  /** Names that lines have told: the next line has those behind them. */
  get toldNames(): string[] {
    return this.#shown.slice(0, this.#told)
  }

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

  /**
   * Reads frames in a single loop, with all that it needs in variables: each message of a watched team costs it. Rows
   * that say the same but for the number of a message are written as one stretch when another begins.
   */
  #frames({ memory, from, to, seq, run, at: loggedAt }: FrameBlock): void {
    const numbers = this.#numbers
    const { i32, f64 } = memory
    this.#agents.beginBlock()
    this.#block.run = this.#runAt(run)
    this.#block.at = Math.round(loggedAt) - this.#at!
    let n = seq / SEQ_STEP
    // The stretch of messages, with the word of its frames that has their kind and type.
    let [sent, sentN, sentStep, sentWho, sentWord, sentType, sentBytes, sentTurn] = [0, 0, 0, 0, 0, 0, 0, 0]
    // The stretch of ends of turns.
    let [ended, endMessage, messageStep, endTurn, turnStep, endWho, endWord, endStart, endTime] = [
      0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]
    for (let at = from; at < to; n += 1) {
      const i = at >> 2
      const word = i32[i + KIND]!
      const kind = word & 0xff
      if (kind === SEND || kind === REQUEST || ((kind === END || kind === RESPONSE) && i32[i + CORRELATION] !== 0)) {
        const who = i32[i + WHO]!
        const bytes = i32[i + BODY]!
        const turn = i32[i + TURN]!
        const isSame = who === sentWho && word === sentWord && bytes === sentBytes && turn === sentTurn
        if (isSame && (n - sentN === sentStep || sent === 1)) {
          sentStep = n - sentN
          sent += 1
        } else {
          if (sent > 1) this.#lengthenSent(sent, sentStep)
          const isToSeveral = kind === SEND && ((word >>> 8) & MANY) !== 0
          sentType = ((word >>> 24) & 7) | (isToSeveral ? (isHead(memory, at) ? TO_SEVERAL : COPY) : 0)
          sentWord = isToSeveral ? NO_WORD : word
          sentWho = who
          sentBytes = bytes
          sentTurn = turn
          sent = 1
          this.#addSent(n, who, sentType, bytes, turn)
        }
        sentN = n
        if (kind !== END && (sentType & COPY) === 0) {
          const third = i32[i + ID + 2]!
          numbers.set(serialIn(third), third, i32[i + ID + 3]!, n)
        }
      }
      if (kind === END) {
        const f = at >> 3
        const who = i32[i + WHO]!
        const turn = i32[i + TURN]!
        const start = Math.round(f64[f + STARTED]!)
        const time = Math.round(f64[f + TIME]!)
        const third = i32[i + ID + 2]!
        const message = numbers.get(serialIn(third), third, i32[i + ID + 3]!)
        const isSame = who === endWho && word === endWord && start === endStart && time === endTime
        const isNext = message - endMessage === messageStep && turn - endTurn === turnStep
        if (isSame && (isNext || ended === 1)) {
          messageStep = message - endMessage
          turnStep = turn - endTurn
          ended += 1
        } else {
          if (ended > 1) this.#lengthenEnded(ended, messageStep, turnStep)
          endWho = who
          endWord = word
          endStart = start
          endTime = time
          ended = 1
          this.#addEnded(message, who, word, turn, start, time)
        }
        endMessage = message
        endTurn = turn
      } else if (kind === STEP_DONE && frame.flagsOf(memory, at) & HAS_THREAD) this.#threadTool(memory, at, run)
      at += i32[i]!
    }
    if (sent > 1) this.#lengthenSent(sent, sentStep)
    if (ended > 1) this.#lengthenEnded(ended, messageStep, turnStep)
  }

  #addSent(n: number, who: number, type: number, bytes: number, turn: number): void {
    const at = this.#message.add()
    const { first } = this.#message
    first.n[at] = n - this.#n
    first.run[at] = this.#block.run
    first.from[at] = this.#agents.of(who & 0xffff)
    first.to[at] = who >>> 16 === NOBODY || type & TO_SEVERAL ? NO_AGENT : this.#agents.of(who >>> 16)
    first.type[at] = type
    first.at[at] = this.#block.at
    first.bytes[at] = bytes
    first.turn[at] = turn
  }

  #lengthenSent(rows: number, step: number): void {
    const at = this.#message.lengthen(rows)
    this.#message.steps.n[at] = step
  }

  #addEnded(message: number, who: number, word: number, turn: number, start: number, end: number): void {
    const at = this.#turn.add()
    const { first } = this.#turn
    first.message[at] = message - this.#n
    first.run[at] = this.#block.run
    first.agent[at] = this.#agents.of(who & 0xffff)
    first.turn[at] = turn
    first.start[at] = start - this.#at!
    first.end[at] = end - this.#at!
    first.attempt[at] = ((word >>> 16) & 0xff) + 1
    first.failed[at] = outcomeOf(word >>> 8)
  }

  #lengthenEnded(rows: number, messageStep: number, turnStep: number): void {
    const at = this.#turn.lengthen(rows)
    this.#turn.steps.message[at] = messageStep
    this.#turn.steps.turn[at] = turnStep
  }

  #modelCall(record: RecordOf<'model.called'>): void {
    const { agent, at, durationMs, error, messageId, model, run, usage } = record
    this.#called(run, agent, messageId, { kind: MODEL, name: model, end: at, durationMs, error, usage })
  }

  #hostTool(record: RecordOf<'tool.finished'>): void {
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
    const row = this.#call.add()
    const columns = this.#call.first
    const ended = Math.round(end)
    const [, , third, fourth] = messageId ? idFrom(messageId) : NO_ID
    columns.message[row] = this.#numbers.get(serialIn(third), third, fourth) - this.#n
    columns.run[row] = this.#runAt(run)
    columns.agent[row] = this.placeOf(agent)
    columns.kind[row] = kind
    columns.name[row] = this.placeOf(name)
    columns.start[row] = ended - Math.round(durationMs) - this.#at!
    columns.end[row] = ended - this.#at!
    columns.in[row] = usage?.inputTokens ?? 0
    columns.out[row] = usage?.outputTokens ?? 0
    columns.failed[row] = error ? 1 : 0
  }
}

interface Called {
  readonly kind: number
  readonly name: string
  readonly end: number
  readonly durationMs: number
  readonly error: unknown
  readonly usage?: TokenUsage
}

/** Stands for the kind and type of frames that form no stretch. */
const NO_WORD = 0

const MODEL = 0
const TOOL = 1

const outcomeOf = (flags: number): number => {
  if (flags & BEGINS_AGAIN) return AGAIN
  return flags & FAILED ? 1 : 0
}

/** The counter of a source, in the third word of an id. */
const serialIn = (third: number): number => (third >>> 12) & 0x3ffff

const NO_ID: FrameId = [0, 0, 0, 0]

/** Records that are rows of the digest's tables, or too many for it. */
const NO_FACTS: ReadonlySet<HostRecord['kind']> = new Set([
  'turn.started',
  'model.piece',
  'model.superseded',
  'model.called',
  'tool.started',
  'tool.finished',
  'tool.progress',
])

/** Checks whether a record can be a fact: no event need be made of others. */
export const mayBeFact = ({ kind }: HostRecord): boolean => !NO_FACTS.has(kind)

const LONGEST_TEXT = 200
const MOST_ITEMS = 20
const DEEPEST = 4

/** Returns an event in short; undefined if it is none to tell. `shown` makes a text that may leave the team. */
export function factOf(event: RuntimeEvent<unknown>, shown: Shown): DigestFact | undefined {
  if (event.type === 'guardrail' && event.outcome === 'passed') return undefined
  const told = event.type === 'run.finished' ? { ...event, result: resultInShort(event.result) } : event
  const fact = short(told, shown) as DigestFact
  const isAsked = event.type === 'question' || event.type === 'question.voted'
  if (!isAsked || event.text === undefined) return fact
  return { ...fact, text: questionInShort(shown(event.text)) }
}

type Shown = (text: string) => string

/** Reads no part of a result that is folded from the log when it is read. */
function resultInShort({ success, finalOutput, error, executionTimeMs, totalTokenUsage, failures }: Result): object {
  return { success, finalOutput, error, executionTimeMs, totalTokenUsage, failures: failures.length }
}

type Result = MultiAgentResult<unknown>

/** Returns a copy as JSON in which long texts and lists are cut, and what lies deep is left out. */
function short(value: unknown, shown: Shown, depth = 0): unknown {
  if (typeof value === 'string') return cut(shown(value))
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof DramatisError) return { code: value.code, message: cut(shown(value.message)) }
  if (depth === DEEPEST) return CUT
  if (Array.isArray(value)) return value.slice(0, MOST_ITEMS).map((item) => short(item, shown, depth + 1))
  const entries = Object.entries(value).slice(0, MOST_ITEMS)
  return Object.fromEntries(entries.map(([key, item]) => [shown(key), short(item, shown, depth + 1)]))
}

const CUT = '…'

const cut = (text: string): string => (text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}${CUT}` : text)
