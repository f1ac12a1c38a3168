/** The team whose progress is shown, and the screen for it. */
import type { Team } from '../index.ts'
import type { Print } from './answer-stream.ts'

/** The part of a team that can be watched. */
export type Watched = Pick<Team, 'events' | 'health'>

/** A stream that may be a terminal. */
export type Screen = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number }

/** Checks whether lines on the screen can be overwritten. */
export function isTerminal({ isTTY, columns, rows }: Screen, env: NodeJS.ProcessEnv = process.env): boolean {
  const hasRoom = columns !== 0 && rows !== 0 // a recorded session often has 0 of both
  return isTTY === true && hasRoom && env.TERM !== 'dumb'
}

export interface Progress {
  /** Shows what happens in the team from now on. */
  watch(team: Watched): void
  /** Shows a text that is none of the team's events: a line of the log, what somebody printed. */
  readonly print: Print
  /** Shows the last state and leaves the terminal as it was. Twice is fine. */
  end(): void
}
