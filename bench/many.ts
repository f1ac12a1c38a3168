/** What many agents are given to do, and what it takes; the same for the runtime and for the relay. */

/** Of a hop, or of a message. In us. */
export interface Cost {
  us: number
  /** Processor time, of all threads of the process. */
  cpuUs: number
}

export interface ManyCosts {
  /** Before most code is compiled. */
  cold: Cost
  warm: Cost
}

/** Who asks whom in one round of `big`. */
interface Asks {
  asker: number
  others: number[]
}

export async function costOf(count: number, work: () => Promise<unknown>): Promise<Cost> {
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await work()
  const us = ((performance.now() - startedAt) * 1_000) / count
  const { user, system } = process.cpuUsage(cpu)
  return { us, cpuUs: (user + system) / count }
}

/**
 * Rounds in which half of all ask the other half, one after the other: by each bit of their numbers, both ways, so that each has asked
 * each other one at least once. An agent is at one turn at a time, so nobody who asks is asked in the same round. `size` is a power of two.
 */
export function roundsOf(size: number, laps: number): Asks[][] {
  const all = Array.from({ length: size }, (_, i) => i)
  const rounds: Asks[][] = []
  for (let bit = 1; bit < size; bit *= 2)
    for (const side of [0, bit]) {
      const askers = all.filter((i) => (i & bit) === side)
      const asked = all.filter((i) => (i & bit) !== side)
      rounds.push(
        askers.map((asker, k) => ({
          asker,
          others: Array.from({ length: asked.length * laps }, (_, i) => asked[(i + k) % asked.length]!),
        })),
      )
    }
  return rounds
}

/** A request and its answer are two. */
export const messagesIn = (rounds: readonly Asks[][]): number =>
  2 * rounds.flat().reduce((sum, { others }) => sum + others.length, 0)
