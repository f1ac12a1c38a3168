/** State of a team at any time of a digest, for who goes back in time: no line is read again. */
import { TO_SEVERAL, type Wait } from '../../runtime/views/digest-line.ts'
import { stateOf } from '../../runtime/views/slow.ts'
import { type Column, countWhile } from './columns.ts'
import type { DigestFold, FoldedAgent } from './digest-fold.ts'

export interface Moment {
  agents: AgentAt[]
  /** Requests that had no answer then. */
  waits: WaitAt[]
}

export interface AgentAt {
  name: string
  /** Messages that had come, and whose turns had not ended. */
  inMailbox: number
  /** Rows of the turns that ran then, and have ended since. */
  turns: number[]
}

export interface WaitAt {
  agent: string
  for: string
  /** Epoch ms. */
  since: number
  message: number
}

/** Rows before a moment that may still be open then. More turns and requests of one agent are not open at a time. */
const MOST_OPEN = 256

/** Returns the state at a time, in epoch ms, as far as the tables of the fold reach. */
export function momentOf(fold: DigestFold, time: number): Moment {
  const agents = [...fold.agents.values()]
  return {
    agents: agents.map((agent) => ({
      name: agent.name,
      inMailbox: Math.max(0, agent.arrivals.countUpTo(time) - agent.ends.countUpTo(time)),
      turns: turnsAt(fold, agent, time),
    })),
    waits: agents.flatMap((agent) => waitsAt(fold, agent, time)).sort((one, other) => one.since - other.since),
  }
}

function turnsAt({ turns: { columns, dropped } }: DigestFold, { turnRows }: FoldedAgent, time: number): number[] {
  const { start, end } = columns
  const first = firstAfter(turnRows, dropped, end, time)
  const found: number[] = []
  for (let place = first; place < Math.min(turnRows.length, first + MOST_OPEN); place++) {
    const row = turnRows[place]! - dropped
    if (start.at(row) <= time && end.at(row) > time) found.push(row)
  }
  return found
}

function waitsAt({ messages, names }: DigestFold, { name, requestRows }: FoldedAgent, time: number): WaitAt[] {
  const { columns, dropped } = messages
  const sent = firstAfter(requestRows, dropped, columns.at, time)
  const found: WaitAt[] = []
  for (let place = Math.max(0, sent - MOST_OPEN); place < sent; place++) {
    const row = requestRows[place]! - dropped
    if (columns.end.at(row) <= time || (columns.type.at(row) & TO_SEVERAL) !== 0) continue
    found.push({ agent: name, for: names[columns.to.at(row)] ?? '', since: columns.at.at(row), message: row })
  }
  return found
}

/** Returns the newest turns of an agent that have ended, the newest first. */
export function newestTurns({ turns, names }: DigestFold, { turnRows }: FoldedAgent, most: number) {
  const { columns, dropped } = turns
  return turnRows
    .slice(-most)
    .reverse()
    .map((absolute) => {
      const row = absolute - dropped
      return {
        turn: columns.turn.at(row),
        run: names[columns.run.at(row)] ?? '',
        start: columns.start.at(row),
        end: columns.end.at(row),
        attempt: columns.attempt.at(row),
        failed: columns.failed.at(row) > 0,
      }
    })
}

/** Returns the place of the first of the rows whose value is above that one. Their values ascend. */
const firstAfter = (rows: readonly number[], dropped: number, column: Column, value: number): number =>
  countWhile(rows.length, (place) => column.at(rows[place]! - dropped) <= value)

/**
 * An agent may have several: its turn waits for an answer within a step, and its next message for the turn to end. What
 * is slow comes first, then what a turn waits for, then its own steps, then limits; of equals the one that has stood
 * longest. `now`: epoch ms.
 */
export function toldWaits(waits: readonly Wait[], now: number): Map<string, Wait> {
  const rankOf = (wait: Wait): number => (stateOf(wait, now) !== 'fine' ? 0 : (RANKS.get(wait.kind) ?? 1))
  const told = new Map<string, Wait>()
  for (const wait of waits) {
    if (wait.agent === null) continue
    const known = told.get(wait.agent)
    if (!known || rankOf(wait) < rankOf(known) || (rankOf(wait) === rankOf(known) && wait.since < known.since))
      told.set(wait.agent, wait)
  }
  return told
}

const RANKS: ReadonlyMap<string, number> = new Map([
  ['step', 2],
  ['own', 2],
  ['limit', 3],
  ['place', 3],
])
