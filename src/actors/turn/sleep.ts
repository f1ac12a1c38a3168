/**
 * A sleep is a step with its end by wall clock: a later attempt of the turn sleeps only what is left of it, and not at
 * all if the log has its end.
 */
import { SLEEP, SLEPT, timeOf } from '../../mailbox/frame.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { Settlements } from './settlements.ts'
import type { TurnStart } from './turn-start.ts'

export interface SleepNeeds {
  readonly outbox: Outbox
  /** Returns the time in epoch ms. */
  now(): number
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** The parts of its turn that are needed here. */
export interface SleepingTurn {
  readonly start: TurnStart
  readonly ended: boolean
  readonly signal: AbortSignal
  readonly settlements: Settlements
  nextStep(): number
}

/** Sleeps for `ms`, or for what earlier attempts of the turn have left of that. */
export async function sleep(needs: SleepNeeds, turn: SleepingTurn, ms: number): Promise<void> {
  const { settlements, signal, start } = turn
  const logged = start.replay?.matchSleep(ms)
  const slept = logged?.settled
  settlements.began()
  try {
    if (slept) return await new Promise((resolve) => settlements.again(slept, resolve))
    const isNew = !logged || logged.isUndone
    const step = isNew ? turn.nextStep() : logged.number
    if (isNew) record(needs, turn, SLEEP, step, ms)
    // A clock that was set back does not make it longer.
    const left = isNew ? ms : Math.min(ms, Math.max(0, timeOf(logged.memory, logged.at) + ms - needs.now()))
    await needs.sleep(left, signal)
    if (!turn.ended) record(needs, turn, SLEPT, step, -1)
    if (!settlements.isFree) await settlements.turn()
  } finally {
    settlements.ended()
  }
}

function record(needs: SleepNeeds, turn: SleepingTurn, kind: number, step: number, ms: number): void {
  const { outbox, now } = needs
  const { start, settlements } = turn
  const fields = outbox.begin(kind, start.run, start.turn, step, '', undefined)
  fields.limit = ms
  if (kind === SLEPT) settlements.mark(fields)
  outbox.writeTimed(now())
}
