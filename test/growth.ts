/** Whether the time of work grows with the size of what it is given, and not with its square. */

const ROUNDS = 3
const TRIES = 5

/**
 * How many times longer four times the size takes: about 4 where the time grows with the size, 16 where with its square. Of several
 * rounds the fastest counts, since other programs can only make one slower, and of several tries the smallest result.
 */
export function growthOf(work: (size: number) => void, size: number): number {
  let least = Number.POSITIVE_INFINITY
  for (let tried = 0; tried < TRIES && least > LINEAR; tried += 1)
    least = Math.min(least, fastest(work, 4 * size) / Math.max(fastest(work, size), FLOOR_MS))
  return least
}

/** Between 4 and 16. */
export const LINEAR = 10
/** What is faster than that is not told apart from the noise of a clock. */
const FLOOR_MS = 0.2

function fastest(work: (size: number) => void, size: number): number {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round += 1) {
    const began = process.cpuUsage()
    work(size)
    const { user, system } = process.cpuUsage(began)
    least = Math.min(least, (user + system) / 1_000)
  }
  return least
}
