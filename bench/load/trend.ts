/**
 * Whether a series of samples grows: a straight line through its second half, since the first half is start and warm-up.
 * It has to rise by more than the series' own noise, and the line has to explain most of what the samples do.
 */
import { linearRegression, linearRegressionLine, rSquared } from 'simple-statistics'

/** Fewer samples in the second half say nothing. */
export const ENOUGH_SAMPLES = 16
/** Of the mean: a rise over the second half that is less is no growth. */
export const LEAST_RISE = 0.1
/** Share of the variance that the line explains, from 0 to 1; less is noise, such as a collector's ups and downs. */
export const LEAST_FIT = 0.5

export interface Trend {
  /** In the series' unit. */
  perSecond: number
  /** Over the second half, along the line. */
  rise: number
  /** How long that half was. */
  overSeconds: number
}

/**
 * The trend of the samples `[seconds, value]` if they grow, null if they don't, undefined if there are too few to tell.
 * A rise of less than `atLeast` is no growth, however small the values are.
 */
export function growthOf(samples: readonly (readonly [number, number])[], atLeast: number): Trend | null | undefined {
  const half = samples.slice(samples.length >> 1).map(([at, value]) => [at, value])
  if (half.length < ENOUGH_SAMPLES) return undefined
  const line = linearRegression(half)
  const overSeconds = half.at(-1)![0]! - half[0]![0]!
  const rise = line.m * overSeconds
  const mean = half.reduce((sum, [, value]) => sum + value!, 0) / half.length
  if (rise < Math.max(atLeast, mean * LEAST_RISE)) return null
  if (rSquared(half, linearRegressionLine(line)) < LEAST_FIT) return null
  return { perSecond: line.m, rise, overSeconds }
}
