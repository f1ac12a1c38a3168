/**
 * A sleep is a step with its end by wall clock: a later attempt of the turn sleeps only what is left of it, and not at
 * all if the log has its end.
 */
import { SLEEP, SLEPT } from '../../mailbox/frame.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { TurnCalls } from './calls.ts'
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
  readonly calls: TurnCalls
  nextStep(): number
}

/** Order of settlement of a sleep that had not ended: behind all that the log has. */
const LAST = Number.MAX_SAFE_INTEGER

/** Sleeps for `ms`, or for what earlier attempts of the turn have left of that. */
export async function sleep(needs: SleepNeeds, turn: SleepingTurn, ms: number): Promise<void> {
  const logged = turn.start.replay?.matchSleep(ms)
  if (logged) await new Promise<void>((resolve) => turn.calls.waits.inOrder(logged.order ?? LAST, resolve, true))
  if (logged?.order !== undefined) return
  const step = logged?.step ?? turn.nextStep()
  if (!logged) record(needs, turn, SLEEP, step, ms)
  // A clock that was set back does not make it longer.
  const left = logged ? Math.min(ms, Math.max(0, logged.beganAt + ms - needs.now())) : ms
  await needs.sleep(left, turn.signal)
  if (!turn.ended) record(needs, turn, SLEPT, step, -1)
}

function record({ outbox, now }: SleepNeeds, { start }: SleepingTurn, kind: number, step: number, ms: number): void {
  outbox.begin(kind, start.run, start.turn, step, '', undefined).limit = ms
  outbox.writeTimed(now())
}
