/** Lines of the picture of a team, from the edge of one box to that of another. */
import type { Size, Spot } from './team-layout.ts'

export interface Edge {
  /** Path of an SVG. */
  readonly path: string
  /** Place of the label. */
  readonly x: number
  readonly y: number
}

/** Space between a line and a box. */
const GAP = 5
/** How far the lines of a deadlock leave the straight way. */
export const BULGE = 0.24

/** Returns the line between two boxes; undefined if one is unknown. `bend`: how far it leaves the straight way. */
export function edgeBetween(
  from: Spot | undefined,
  to: Spot | undefined,
  bend: number,
  fromBox: Size,
  toBox: Size,
): Edge | undefined {
  if (!from || !to || from === to) return undefined
  const middle = bentMiddle(from, to, bend)
  const start = edgeOf(from, middle, fromBox)
  const end = edgeOf(to, middle, toBox)
  const x = (start.x + 2 * middle.x + end.x) / 4
  const y = (start.y + 2 * middle.y + end.y) / 4
  return { path: `M${start.x} ${start.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}`, x, y }
}

/**
 * Returns for each line of a ring the side, 1 or -1, to which it bends: away from the middle of the ring, so that its
 * lines and their ages do not lie on each other. Two agents that wait for each other have lines in both directions:
 * bent to one side they are apart.
 */
export function ringSides(lines: readonly (readonly [Spot | undefined, Spot | undefined])[]): (1 | -1)[] {
  const known = lines.flatMap(([from]) => from ?? [])
  const middle = { x: mean(known.map(({ x }) => x)), y: mean(known.map(({ y }) => y)) }
  return lines.map(([from, to]) => {
    if (!from || !to || lines.length < 3) return 1
    return farFrom(middle, bentMiddle(from, to, BULGE)) < farFrom(middle, bentMiddle(from, to, -BULGE)) ? -1 : 1
  })
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

const farFrom = (one: Spot, other: Spot): number => Math.round(Math.hypot(one.x - other.x, one.y - other.y))

function bentMiddle(from: Spot, to: Spot, bend: number): Spot {
  const [dx, dy] = [to.x - from.x, to.y - from.y]
  return { x: (from.x + to.x) / 2 - dy * bend, y: (from.y + to.y) / 2 + dx * bend }
}

/** Returns the point at which the way from the middle of a box to a point leaves the box. */
function edgeOf(middle: Spot, toward: Spot, box: Size): Spot {
  const [dx, dy] = [toward.x - middle.x, toward.y - middle.y]
  const [halfX, halfY] = [box.width / 2 + GAP, box.height / 2 + GAP]
  const share = Math.min(halfX / Math.max(1, Math.abs(dx)), halfY / Math.max(1, Math.abs(dy)), 1)
  return { x: middle.x + dx * share, y: middle.y + dy * share }
}
