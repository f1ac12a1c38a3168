/**
 * A run in the order of time: its messages, its calls of models and tools and its rare events as rows, its agents as
 * lanes, its time as a line.
 */
import { COPY, type DigestFact } from '../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../digest/digest-fold.ts'
import { type CrashedTurn, crashedTurns } from './crashed-turns.ts'
import { TimeScale } from './time-scale.ts'

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
  const first = [...fold.agents.values()].filter(({ name }) => !name.startsWith('$'))
  const at = (agent: (typeof first)[number]) =>
    agent.arrivals.length > 0 ? agent.arrivals.at(0) : Number.POSITIVE_INFINITY
  return first.sort((one, other) => at(one) - at(other) || 0).map(({ name }) => name)
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
export function rowAt({ times }: RunStory, time: number): number {
  let low = 0
  let high = times.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (times[middle]! <= time) low = middle + 1
    else high = middle
  }
  return low - 1
}
