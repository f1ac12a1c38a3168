/**
 * Decides whether a dead agent restarts, which agents restart with it, and when: rules 1 to 3, after OTP's supervisor
 * (strategies, child types, add_restart/3) and capped exponential backoff.
 */
import type { RestartType, Strategy } from '../settings/options.ts'
import type { RestartTime } from '../state/cell.ts'

/** Checks whether an agent restarts. `ended`: its thread ended by itself and as it should, not by a crash. */
export const livesAgain = (type: RestartType, ended: boolean): boolean =>
  type === 'permanent' || (type === 'transient' && !ended)

/**
 * Returns the agents that end and start together when one has died: the dead one and others of `all`, in their order.
 */
export function groupOf<T>(strategy: Strategy, all: readonly T[], dead: T): readonly T[] {
  const at = all.indexOf(dead)
  if (strategy === 'one_for_one' || at < 0) return [dead]
  return strategy === 'one_for_all' ? all : all.slice(at)
}

export interface RestartPolicy {
  maxRestarts: number
  withinMs: number
  backoff: { baseMs: number; capMs: number }
}

export interface Restart {
  /** True: the agent restarts after `delayMs`. False: it has died too often, so it is stopped. */
  restart: boolean
  delayMs: number
  history: readonly RestartTime[]
}

/**
 * Decides on the next restart and its delay. The first restart is immediate; then base * 2^n up to the cap, times a
 * uniform 0.5 to 1. More than `maxRestarts` within `withinMs` is too many. After (base + cap) / 2 ms without a crash
 * the count for the delay starts anew.
 */
export function nextRestart(
  policy: RestartPolicy,
  history: readonly RestartTime[],
  now: number,
  epoch: number,
  random: () => number,
): Restart {
  const { maxRestarts, withinMs, backoff } = policy
  const recent = history.filter(({ at }) => now - at < withinMs)
  const n = consecutive(history, now, (backoff.baseMs + backoff.capMs) / 2)
  const delay = n === 0 ? 0 : Math.min(backoff.capMs, backoff.baseMs * 2 ** (n - 1))
  const delayMs = delay * (0.5 + random() / 2)
  return { restart: recent.length < maxRestarts, delayMs, history: [...recent, { at: now, epoch, delayMs }] }
}

/** Counts the restarts in a row, without a healthy time of `healthMs` between them. */
function consecutive(history: readonly RestartTime[], now: number, healthMs: number): number {
  let count = 0
  let later = now
  for (let i = history.length - 1; i >= 0; i--) {
    const { at, delayMs } = history[i]!
    if (later - at - delayMs > healthMs) break
    count += 1
    later = at
  }
  return count
}
