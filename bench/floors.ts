/** How far the runtime is from what wake-ups and copies alone take (programs/wake-ups.ts, copies.ts, bare-start.ts). */
import type { Detail } from './benchmark.ts'
import { median } from './statistics.ts'

/** The floor itself, and how far from it. */
export function floorDetails(
  what: string,
  unit: Detail['unit'],
  ours: readonly number[],
  floors: readonly number[],
): Detail[] {
  return [{ label: what, value: median(floors), unit }, overFloor(what, ours, floors)]
}

/** The median of the rounds' ratios. */
export const overFloor = (what: string, ours: readonly number[], floors: readonly number[]): Detail => ({
  label: `dramatis over ${what}`,
  value: median(ours.map((value, round) => value / floors[round]!)),
  unit: 'x',
})
