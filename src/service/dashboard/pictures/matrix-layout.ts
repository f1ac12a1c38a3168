/** Places in the picture of a large team: a square field for each pair of agents, with names at its edges. */

export interface MatrixLayout {
  /** Width and height of the whole picture. */
  readonly width: number
  readonly height: number
  /** Place of the first field. */
  readonly left: number
  readonly top: number
  /** Width of a field. */
  readonly cell: number
  /** Every so many agents there is room for a name. */
  readonly step: number
}

/** Room for names, at most. */
const LABELS_PX = 120
const LETTER_PX = 6.2
const LINE_PX = 11
/** Width of the strip that shows the status of each agent. */
export const STRIP_PX = 5
const LEAST_CELL_PX = 1
const MOST_CELL_PX = 18

export function matrixLayout(names: readonly string[], width: number, height: number): MatrixLayout {
  const longest = Math.max(0, ...names.map((name) => name.length))
  const labels = Math.min(LABELS_PX, longest * LETTER_PX) + STRIP_PX + 6
  const room = Math.min(width, height) - labels - 4
  const cell = Math.min(MOST_CELL_PX, Math.max(LEAST_CELL_PX, room / Math.max(1, names.length)))
  const side = labels + cell * names.length + 4
  return { width: side, height: side, left: labels, top: labels, cell, step: Math.max(1, Math.ceil(LINE_PX / cell)) }
}

/** Returns the sender and the recipient at a point; undefined beside the fields. */
export function pairAt(
  names: readonly string[],
  { left, top, cell }: MatrixLayout,
  x: number,
  y: number,
): [string, string] | undefined {
  const [from, to] = [names[Math.floor((y - top) / cell)], names[Math.floor((x - left) / cell)]]
  return from !== undefined && to !== undefined ? [from, to] : undefined
}
