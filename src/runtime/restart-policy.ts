/** When a dead agent lives again: rules 2 and 3, after OTP's supervisor (add_restart/3) and capped exponential backoff. */

export interface RestartPolicy {
  maxRestarts: number
  withinMs: number
  backoff: { baseMs: number; capMs: number }
}

export type Restart =
  | { restart: true; delayMs: number; history: readonly RestartTime[] }
  | { restart: false; history: readonly RestartTime[] }

/** One restart: when (monotonic ms), and of which life. */
export interface RestartTime {
  at: number
  epoch: number
}

/**
 * The first restart is immediate; then base * 2^n up to the cap, times a uniform 0.5 to 1. More than `maxRestarts`
 * within `withinMs` is too many. After (base + cap) / 2 ms of health the count for the delay begins anew.
 */
export function nextRestart(
  policy: RestartPolicy,
  history: readonly RestartTime[],
  now: number,
  epoch: number,
  random: () => number,
): Restart {
  const { maxRestarts, withinMs, backoff } = policy
  const recent = [...history.filter(({ at }) => now - at < withinMs), { at: now, epoch }]
  if (recent.length > maxRestarts) return { restart: false, history: recent }
  const n = consecutive(history, now, (backoff.baseMs + backoff.capMs) / 2)
  if (n === 0) return { restart: true, delayMs: 0, history: recent }
  const delay = Math.min(backoff.capMs, backoff.baseMs * 2 ** (n - 1))
  return { restart: true, delayMs: delay * (0.5 + random() / 2), history: recent }
}

/** Restarts in a row, without health between them. */
function consecutive(history: readonly RestartTime[], now: number, healthMs: number): number {
  let count = 0
  let later = now
  for (let i = history.length - 1; i >= 0; i--) {
    const { at } = history[i]!
    if (later - at > healthMs) break
    count += 1
    later = at
  }
  return count
}
