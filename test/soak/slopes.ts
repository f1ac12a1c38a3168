/**
 * Whether a series of samples climbs: most pairs of samples have to agree that it does (the test of Mann and Kendall), and
 * the median of their slopes (Theil and Sen) has to come to something. So single samples of a busy machine say nothing.
 */
import { median } from 'simple-statistics'

/** Fewer samples say nothing. */
const ENOUGH = 10
/** Standard deviations that the pairs have to be beyond chance: once in 200 series that have no slope. */
const BEYOND_CHANCE = 2.58

/** Rise from the first sample to the last, if they climb by more than `allowed`; null if not, undefined if too few. */
export function climb(values: readonly number[], allowed: number): number | null | undefined {
  const { length: n } = values
  if (n < ENOUGH) return undefined
  const slopes: number[] = []
  let agreed = 0
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++) {
      const rise = values[j]! - values[i]!
      slopes.push(rise / (j - i))
      agreed += Math.sign(rise)
    }
  const deviation = Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18)
  const rise = median(slopes) * (n - 1)
  return agreed > BEYOND_CHANCE * deviation && rise > allowed ? rise : null
}
