/** What the runtime and its baselines are given to do, alike. */

/** What every message of the transport benchmarks carries. */
export const CONTENT = 'x'.repeat(200)

export interface Payload {
  a: number
  tags: string[]
}

export function payload(a: number): Payload {
  return { a, tags: ['alpha', 'beta', 'gamma'] }
}

/** What each agent has to wait beside one that loops. */
export const WAIT_MS = 60
