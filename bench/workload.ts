/** What the runtime and its baselines are given to do, alike. */

/** Characters of a message, where the size is not the question. */
export const SIZE = 200
export const CONTENT = 'x'.repeat(SIZE)

export interface Payload {
  a: number
  tags: string[]
}

export function payload(a: number): Payload {
  return { a, tags: ['alpha', 'beta', 'gamma'] }
}

/** What each agent has to wait beside one that loops. */
export const WAIT_MS = 60
