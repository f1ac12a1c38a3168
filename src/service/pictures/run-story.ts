/**
 * A run in the order of time: its messages, its calls of models and tools and its rare events as rows, its agents as
 * lanes, its time as a line.
 */

import { MESSAGE_TYPES } from '../../mailbox/message-type.ts'
import { COPY, type DigestFact, TO_SEVERAL } from '../../runtime/views/digest-line.ts'
import { own } from '../../shared/values.ts'
import { countWhile } from '../digest/columns.ts'
import type { DigestFold, FoldedAgent } from '../digest/digest-fold.ts'
import type { AgentAt } from '../digest/moment.ts'

export interface CrashStory {
  /** Run whose message it handled; '' if it is not known. */
  readonly runId: string
  readonly backAfterMs: number | undefined
  /** Words for what has become of the message that was handled; undefined if that is not known. */
  readonly message: string | undefined
}

/** Dead letter, as far as it is told: of its message that id, and who was to have it. */
export interface DeadMessage {
  readonly at: number
  readonly id: string
  readonly recipient: string
  readonly reason: string
}

/** Time within which the records of one crash are written. */
const CRASH_MS = 1_000
/** Reasons for which a crash itself makes a message a dead letter. */
const BY_CRASH: ReadonlySet<string> = new Set(['poison', 'stopped'])

/**
 * Returns what was done about a crash, as several digests tell it: the message may be of another run than the digest
 * that has told of the crash. `letters`: dead letters that are known from elsewhere.
 */
export function storyOfCrash(
  crash: DigestFact,
  folds: readonly DigestFold[],
  letters: readonly DeadMessage[],
  span: (ms: number) => string,
): CrashStory {
  const { agent, at, seq } = crash
  const facts = folds.flatMap((fold) => fold.facts)
  const backAts = facts
    .filter((fact) => fact.type === 'agent.ready' && fact.agent === agent && fact.seq > seq)
    .map((fact) => fact.at)
  const exit = exitOf(crash, facts)
  const messageId = typeof exit?.messageId === 'string' ? exit.messageId : undefined
  const dead = [...facts.flatMap(deadIn), ...letters].find(
    (letter) =>
      (messageId !== undefined && letter.id === messageId && letter.recipient === agent) ||
      (letter.recipient === agent && BY_CRASH.has(letter.reason) && Math.abs(letter.at - at) < CRASH_MS),
  )
  const again = folds.map((fold) => againIn(fold, String(agent), at)).find((found) => found !== undefined)
  return {
    runId: again?.runId ?? '',
    backAfterMs: backAts.length === 0 ? undefined : Math.min(...backAts) - at,
    message: again
      ? `Its message came again: attempt ${again.attempt} ${again.failed ? 'failed' : 'ended well'} after ${span(again.tookMs)}.`
      : dead
        ? `Its message is a dead letter: ${dead.reason}.`
        : messageId !== undefined
          ? 'Its message comes again.'
          : exit && 'No message was lost: it had none.',
  }
}

function deadIn({ type, at, letter }: DigestFact): DeadMessage[] {
  if (type !== 'message.dead') return []
  const { reason, message } = Object(letter) as Record<string, unknown>
  const [id, recipient] = ['id', 'recipient'].map((name) => own(Object(message), name))
  return typeof recipient === 'string' ? [{ at, id: String(id), recipient, reason: String(reason) }] : []
}

/** Finds the turn in which the message was tried again. */
function againIn({ agents, turns, names }: DigestFold, agent: string, at: number) {
  const { columns, dropped } = turns
  const row = agents
    .get(agent)
    ?.turnRows.map((absolute) => absolute - dropped)
    .find((each) => columns.start.at(each) >= at - 1 && columns.attempt.at(each) > 1)
  return row === undefined
    ? undefined
    : {
        runId: names[columns.run.at(row)] ?? '',
        attempt: columns.attempt.at(row),
        tookMs: columns.end.at(row) - columns.start.at(row),
        failed: columns.failed.at(row) > 0,
      }
}

export interface CrashedTurn {
  readonly agent: string
  /** Time at which it began, as far as it can be told: its message had come, and the turn before had ended. */
  readonly from: number
  readonly to: number
}

/** Messages before a crash that are looked at. */
const MOST_ROWS = 2_000
const TYPE_BITS = 7

function crashedTurns(fold: DigestFold): CrashedTurn[] {
  return fold.facts.flatMap((fact) => {
    if (fact.type !== 'agent.crashed' || typeof fact.agent !== 'string') return []
    if (typeof exitOf(fact, fold.facts)?.messageId !== 'string') return []
    const arrived = oldestOpen(fold, fact.agent, fact.at)
    if (arrived === undefined) return []
    const before = fold.agents.get(fact.agent)?.ends
    const ended = before ? before.at(before.countUpTo(fact.at) - 1) : Number.NaN
    return [{ agent: fact.agent, from: Math.min(fact.at, Math.max(arrived, ended || 0)), to: fact.at }]
  })
}

/** Returns the end of the thread that a crash tells of. */
const exitOf = ({ agent, at, seq }: DigestFact, facts: readonly DigestFact[]): DigestFact | undefined =>
  facts.findLast(
    (fact) => fact.type === 'agent.exited' && fact.agent === agent && fact.seq <= seq && at - fact.at < CRASH_MS,
  )

/** Returns when the oldest message came that the agent had not handled at a time; undefined if there was none. */
function oldestOpen({ messages, names }: DigestFold, agent: string, time: number): number | undefined {
  const { at, to, type, start } = messages.columns
  let oldest: number | undefined
  const last = at.countUpTo(time) - 1
  for (let row = last; row >= 0 && row > last - MOST_ROWS; row--) {
    if (names[to.at(row)] !== agent || MESSAGE_TYPES[type.at(row) & TYPE_BITS] === 'response') continue
    if (type.at(row) & TO_SEVERAL && !(type.at(row) & COPY)) continue
    if (!(start.at(row) < time)) oldest = at.at(row)
  }
  return oldest
}

export type Doing = 'waits' | 'works' | 'restarts' | 'crashed' | 'idle'

/** Signs and words: nobody has to tell them apart by colour. */
export const DOING: Readonly<Record<Doing, string>> = {
  waits: '◐ waits',
  works: '● works',
  restarts: '↻ restarts',
  crashed: '✕ crashed',
  idle: '○ idle',
}

/** `isWaiting`: a request of the agent, or a question to a person, was open. */
export function doingAt(story: RunStory, agent: AgentAt, time: number, isWaiting: boolean): Doing {
  const down = downAt(story, agent.name, time)
  if (down !== undefined) return down
  if (isWaiting) return 'waits'
  const isCutOff = story.crashed.some((turn) => turn.agent === agent.name && turn.from <= time && time < turn.to)
  if (agent.turns.length > 0 || isCutOff || (agent.inMailbox > 0 && !story.isOver)) return 'works'
  return 'idle'
}

/** Returns how an agent was without a thread after a crash; undefined if it had one. */
function downAt({ fold }: RunStory, name: string, time: number): 'restarts' | 'crashed' | undefined {
  let down: 'restarts' | 'crashed' | undefined
  for (const { type, at, agent, restartInMs } of fold.facts) {
    if (at > time) break
    if (agent !== name) continue
    if (type === 'agent.crashed') down = restartInMs === null ? 'crashed' : 'restarts'
    if (type === 'agent.ready') down = undefined
  }
  return down
}

/** Time of a run on a line, on which times at which nothing happened are folded. */

export interface Folded {
  readonly from: number
  readonly to: number
}

/** A gap is folded from this length on, and takes that share of the line. */
const LEAST_GAP_MS = 1_000
const GAP_SHARE = 0.012
/** A gap is folded if it is longer than this share of the whole time. */
const LONG_SHARE = 0.04

export class TimeScale {
  readonly from: number
  readonly to: number
  readonly folded: readonly Folded[]
  /** Times at which a piece begins, and its place from 0 to 1. Between two the way is straight. */
  readonly #times: number[]
  readonly #places: number[]

  /** `busy`: begins and ends of what happened, in pairs, ascending by their begins. */
  constructor(busy: Float64Array, from: number, to: number) {
    this.from = from
    this.to = Math.max(to, from + 1)
    const gaps = gapsIn(busy, this.from, this.to)
    const least = Math.max(LEAST_GAP_MS, (this.to - this.from) * LONG_SHARE)
    this.folded = gaps.filter((gap) => gap.to - gap.from >= least)
    const folded = this.folded.reduce((sum, gap) => sum + gap.to - gap.from, 0)
    const share = Math.min(GAP_SHARE, 0.3 / Math.max(1, this.folded.length))
    const perMs = (1 - share * this.folded.length) / Math.max(1, this.to - this.from - folded)
    this.#times = [this.from]
    this.#places = [0]
    for (const gap of this.folded) {
      this.#add(gap.from, (gap.from - this.#times.at(-1)!) * perMs)
      this.#add(gap.to, share)
    }
    this.#add(this.to, (this.to - this.#times.at(-1)!) * perMs)
  }

  #add(time: number, length: number): void {
    this.#times.push(time)
    this.#places.push(this.#places.at(-1)! + length)
  }

  placeOf(time: number): number {
    return between(this.#times, this.#places, time)
  }

  timeAt(place: number): number {
    return between(this.#places, this.#times, place)
  }
}

function between(from: readonly number[], to: readonly number[], value: number): number {
  if (value <= from[0]!) return to[0]!
  if (value >= from.at(-1)!) return to.at(-1)!
  const high = countWhile(from.length, (at) => from[at]! <= value)
  const low = high - 1
  const share = (value - from[low]!) / Math.max(Number.MIN_VALUE, from[high]! - from[low]!)
  return to[low]! + share * (to[high]! - to[low]!)
}

function gapsIn(busy: Float64Array, from: number, to: number): Folded[] {
  const gaps: Folded[] = []
  let until = from
  for (let at = 0; at < busy.length; at += 2) {
    const [begin, end] = [busy[at]!, busy[at + 1]!]
    if (begin > until) gaps.push({ from: until, to: begin })
    if (end > until) until = end
  }
  if (to > until) gaps.push({ from: until, to })
  return gaps
}

export interface RunStory {
  readonly fold: DigestFold
  /** Agents in the order of their first messages. */
  readonly lanes: readonly string[]
  readonly scale: TimeScale
  /** Rows of the story by time: of a message its row, of a call `CALL` + its row, of a fact -1 - its place. */
  readonly rows: Int32Array
  readonly times: Float64Array
  /** Turns that crashes have cut off. */
  readonly crashed: readonly CrashedTurn[]
  /** Times of what went wrong, ascending. */
  readonly troubles: readonly number[]
  readonly isOver: boolean
}

/** Number of the first row of a call in a story: no fold has so many messages. */
export const CALL = 2 ** 30

export const isMessage = (row: number): boolean => row >= 0 && row < CALL

const TROUBLES: ReadonlySet<string> = new Set(['agent.crashed', 'message.dead', 'deadlock', 'livelock', 'stall'])
/** Facts that say what other rows show. */
const UNTOLD: ReadonlySet<string> = new Set(['run.started', 'agent.ready', 'task'])

export const isTrouble = ({ type }: DigestFact): boolean => TROUBLES.has(type)

/** `until`: where the line of time ends in a run that is not over. */
export function storyOf(fold: DigestFold, until: number): RunStory {
  const [run] = fold.runs.values()
  const isOver = run !== undefined && run.endedAt !== null
  const first = Math.min(run?.startedAt || Number.POSITIVE_INFINITY, fold.began)
  const to = isOver ? Math.max(run.endedAt!, fold.now) : Math.max(fold.now, until)
  const from = Number.isFinite(first) ? first : to - 1
  const { rows, times } = rowsOf(fold)
  return {
    fold,
    lanes: lanesOf(fold),
    scale: new TimeScale(busyOf(fold, from, to), from, to),
    rows,
    times,
    crashed: crashedTurns(fold),
    troubles: fold.facts.filter(isTrouble).map(({ at }) => at),
    isOver,
  }
}

function lanesOf(fold: DigestFold): string[] {
  const at = ({ arrivals }: FoldedAgent) => (arrivals.length > 0 ? arrivals.at(0) : Number.POSITIVE_INFINITY)
  return fold.members.sort((one, other) => at(one) - at(other) || 0).map(({ name }) => name)
}

function rowsOf({ messages, facts, calls }: DigestFold): { rows: Int32Array; times: Float64Array } {
  const { at, type } = messages.columns
  const { end } = calls.columns
  const others = [
    ...facts.flatMap((fact, place) => (UNTOLD.has(fact.type) ? [] : { row: -1 - place, at: fact.at, order: fact.at })),
    // what a turn says at once after a call is said because of it
    ...Array.from({ length: end.length }, (_, row) => ({ row: CALL + row, at: end.at(row), order: end.at(row) - 1 })),
  ].sort((one, other) => one.order - other.order)
  const rows = new Int32Array(messages.length + others.length)
  const times = new Float64Array(rows.length)
  let count = 0
  let other = 0
  const add = (row: number, time: number) => {
    rows[count] = row
    times[count++] = time
  }
  const addOthers = (until: number) => {
    for (; other < others.length && others[other]!.order <= until; other++) add(others[other]!.row, others[other]!.at)
  }
  for (let row = 0; row < at.length; row++) {
    if (type.at(row) & COPY) continue
    addOthers(at.at(row) - 0.5)
    add(row, at.at(row))
  }
  addOthers(Number.POSITIVE_INFINITY)
  return { rows: rows.subarray(0, count), times: times.subarray(0, count) }
}

const PARTS = 4_096

/**
 * Times at which something happened, in pairs, as exact as a part of the whole time. While a person is asked, turns
 * only wait: what else happens then has messages and calls.
 */
function busyOf(fold: DigestFold, from: number, to: number): Float64Array {
  const { messages, turns, calls, facts } = fold
  const parts = new Uint8Array(PARTS)
  const perMs = PARTS / Math.max(1, to - from)
  const mark = (begin: number, end: number) => {
    const last = Math.min(PARTS - 1, Math.floor((end - from) * perMs))
    for (let part = Math.max(0, Math.floor((begin - from) * perMs)); part <= last; part++) parts[part] = 1
  }
  const asked = askedIn(fold)
  const { start, end } = turns.columns
  for (let row = 0; row < start.length; row++) {
    let begin = start.at(row)
    for (const [since, over] of asked) {
      if (since >= end.at(row) || over <= begin) continue
      if (since > begin) mark(begin, since)
      begin = over
    }
    if (begin < end.at(row)) mark(begin, end.at(row))
  }
  const { columns } = calls
  for (let row = 0; row < columns.start.length; row++) mark(columns.start.at(row), columns.end.at(row))
  const { at } = messages.columns
  for (let row = 0; row < at.length; row++) mark(at.at(row), at.at(row))
  for (const fact of facts) mark(fact.at, fact.at)
  const pairs: number[] = []
  for (let part = 0; part < PARTS; part++) {
    if (parts[part] === 0) continue
    if (part === 0 || parts[part - 1] === 0) pairs.push(from + part / perMs)
    if (part === PARTS - 1 || parts[part + 1] === 0) pairs.push(from + (part + 1) / perMs)
  }
  return Float64Array.from(pairs)
}

/** Times at which a person was asked, apart from each other and ascending. */
function askedIn({ facts }: DigestFold): [number, number][] {
  const open = new Map<unknown, number>()
  const found: [number, number][] = []
  for (const { type, at, questionId } of facts) {
    if (type === 'question') open.set(questionId, at)
    const since = open.get(questionId)
    if (type === 'question.closed' && since !== undefined) {
      found.push([since, at])
      open.delete(questionId)
    }
  }
  for (const since of open.values()) found.push([since, Number.POSITIVE_INFINITY])
  found.sort(([one], [other]) => one - other)
  const apart: [number, number][] = []
  for (const [from, to] of found) {
    const last = apart.at(-1)
    if (last && from <= last[1]) last[1] = Math.max(last[1], to)
    else apart.push([from, to])
  }
  return apart
}

/** Returns the last row of the story that is not after a time; -1 before the first. */
export const rowAt = ({ times }: RunStory, time: number): number =>
  countWhile(times.length, (row) => times[row]! <= time) - 1
