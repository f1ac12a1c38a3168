/**
 * Turns whose thread is ended at a chosen place. Places are counted in the log: each thing that the agent asks others or the
 * host for, and each answer, is one, and so are beginning and end of what it does in its own thread. So whatever plays the
 * models, a fake client or a server, each step of a turn can be cut off in the middle and just after.
 */
import { isAnswer } from '../../src/actors/turn/logged-turn.ts'
import {
  CALL,
  kindOf,
  lengthOf,
  REQUEST,
  recipientOf,
  STEP_BEGAN,
  STEP_DONE,
  senderOf,
} from '../../src/mailbox/frame.ts'
import type { Batch } from '../../src/runtime/log/records.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'

/** A team whose agents' lives a test can end. */
export interface Mortal {
  readonly host: Supervisor
  end(agent: string): void
}

/**
 * Ends the agent's life at each of these places; returns how many places there have been so far. A life that still starts is
 * left alone: what comes then is for the one before it, and two that end while they start are a start that failed.
 */
export function killAt(team: Mortal, agent: string, places: (place: number) => boolean): () => number {
  let place = 0
  const { index } = team.host.directory.agent(agent)!
  team.host.journal.records$.subscribe((batch) => {
    const before = place
    place += placesIn(batch, index)
    if (!team.host.directory.agent(agent)?.incarnation?.ready) return
    for (let at = before + 1; at <= place; at++) if (places(at)) return team.end(agent)
  })
  return () => place
}

const DOING: ReadonlySet<number> = new Set([CALL, REQUEST, STEP_BEGAN, STEP_DONE])

function placesIn(batch: Batch, agent: number): number {
  let count = 0
  for (const entry of batch) {
    if (entry.kind !== 'frames') continue
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      const does = DOING.has(kind) && senderOf(memory, at) === agent
      const isTold = isAnswer(kind) && recipientOf(memory, at) === agent && senderOf(memory, at) !== agent
      if (does || isTold) count += 1
    }
  }
  return count
}
