/** Places of agents in the picture of a team. They follow from its strategy, so each agent stays where it is. */
import { COPY, TO_SEVERAL } from '../../runtime/views/digest-line.ts'
import { own } from '../../shared/values.ts'
import type { DigestFold } from '../digest/digest-fold.ts'

/** Places in the picture of a large team: a square field for each pair of agents, with names at its edges. */

export interface MatrixLayout {
  readonly width: number
  readonly height: number
  /** Place of the first field. */
  readonly left: number
  readonly top: number
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

export interface Edge {
  readonly path: string
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

export interface Flow {
  readonly from: string
  readonly to: string
  readonly count: number
  /** Time since the last message. */
  readonly ageMs: number
}

const RECENT_MS = 30_000
const MOST_ROWS = 20_000

export function recentFlow({ messages, names }: DigestFold, now: number, recentMs = RECENT_MS): Flow[] {
  const { at, from, to, type } = messages.columns
  const found = new Map<number, { from: string; to: string; count: number; ageMs: number }>()
  const first = Math.max(at.countUpTo(now - recentMs), at.length - MOST_ROWS)
  for (let row = first; row < at.length; row++) {
    if (to.at(row) < 0 || (type.at(row) & TO_SEVERAL && !(type.at(row) & COPY))) continue
    const key = from.at(row) * names.length + to.at(row)
    const known = found.get(key)
    const ageMs = now - at.at(row)
    if (known) Object.assign(known, { count: known.count + 1, ageMs })
    else found.set(key, { from: names[from.at(row)]!, to: names[to.at(row)]!, count: 1, ageMs })
  }
  return [...found.values()]
}

export interface TeamShape {
  readonly strategy: string
  readonly agents: readonly string[]
  /** Agents that options of the strategy name. */
  readonly roles: Readonly<Record<string, readonly string[]>>
}

export interface Spot {
  /** Middle of the agent. */
  readonly x: number
  readonly y: number
}

export interface TeamLayout {
  readonly width: number
  readonly height: number
  readonly spots: ReadonlyMap<string, Spot>
  /** Place of the strategy's script. */
  readonly script: Spot
}

export interface Size {
  readonly width: number
  readonly height: number
}

export const BOX: Size = { width: 150, height: 54 }
export const SCRIPT_BOX: Size = { width: 124, height: 34 }
const STEP_X = 210
const STEP_Y = 128
const LEADS = ['manager', 'supervisor', 'judge', 'auctioneer', 'aggregator', 'moderator', 'synthesizer']

/** `isNarrow`: there is room for two agents side by side. */
export function layoutOf({ strategy, agents, roles }: TeamShape, isNarrow = false): TeamLayout {
  const lead = LEADS.flatMap((role) => own(roles, role) ?? [])[0]
  const debaters = roles.debaters ?? []
  if (isNarrow) return rows(inOrder(agents, roles.agentOrder ?? []), 2)
  if (debaters.length > 1) return sides(agents, debaters, lead)
  if (strategy === 'sequential') return rows(inOrder(agents, roles.agentOrder ?? []))
  if (lead !== undefined) return tree(lead, agents)
  return agents.length < 4 ? rows(agents) : ring(agents)
}

const inOrder = (agents: readonly string[], order: readonly string[]): readonly string[] => [
  ...order,
  ...agents.filter((name) => !order.includes(name)),
]

const usualAcross = (count: number): number => (count <= 5 ? 5 : Math.ceil(Math.sqrt(count * 1.6)))

/** A row, that turns at its end as long as there are more. */
function rows(agents: readonly string[], most = usualAcross(agents.length)): TeamLayout {
  const across = Math.min(agents.length, most)
  const spots = new Map<string, Spot>()
  for (const [at, name] of agents.entries()) {
    const row = Math.floor(at / across)
    const column = row % 2 === 0 ? at % across : across - 1 - (at % across)
    spots.set(name, { x: (column + 0.5) * STEP_X, y: (row + 1.5) * STEP_Y })
  }
  const width = across * STEP_X
  return {
    width,
    height: (Math.ceil(agents.length / across) + 1.1) * STEP_Y,
    spots,
    script: { x: width / 2, y: STEP_Y / 2 },
  }
}

function tree(lead: string, agents: readonly string[]): TeamLayout {
  const others = agents.filter((name) => name !== lead)
  const across = Math.max(1, Math.min(others.length, others.length <= 6 ? 6 : Math.ceil(Math.sqrt(others.length * 2))))
  const width = Math.max(2, across) * STEP_X
  const spots = new Map<string, Spot>([[lead, { x: width / 2, y: 1.4 * STEP_Y }]])
  for (const [at, name] of others.entries()) {
    const row = Math.floor(at / across)
    const inRow = Math.min(across, others.length - row * across)
    const from = (width - inRow * STEP_X) / 2
    spots.set(name, { x: from + ((at % across) + 0.5) * STEP_X, y: (row + 2.6) * STEP_Y })
  }
  const height = (Math.ceil(others.length / across) + 2.2) * STEP_Y
  return { width, height, spots, script: { x: width / 2, y: STEP_Y / 2 } }
}

function ring(agents: readonly string[]): TeamLayout {
  const around = Math.max(agents.length * (BOX.width + 34), 2.2 * Math.PI * STEP_Y)
  const radius = around / (2 * Math.PI)
  const [rx, ry] = [radius * 1.75, radius * 0.8] // panes are wide, and lines between boxes need room
  const middle = { x: rx + BOX.width * 0.7, y: ry + STEP_Y * 0.8 }
  const spots = new Map<string, Spot>()
  for (const [at, name] of agents.entries()) {
    const angle = (at / agents.length) * 2 * Math.PI - Math.PI / 2
    spots.set(name, { x: middle.x + rx * Math.cos(angle), y: middle.y + ry * Math.sin(angle) })
  }
  return { width: middle.x * 2, height: middle.y * 2, spots, script: middle }
}

/** Two sides, and the judge below between them. */
function sides(agents: readonly string[], debaters: readonly string[], judge: string | undefined): TeamLayout {
  const width = 4 * STEP_X
  const spots = new Map<string, Spot>()
  for (const [at, name] of debaters.entries()) {
    const isLeft = at % 2 === 0
    spots.set(name, { x: width * (isLeft ? 0.2 : 0.8), y: (Math.floor(at / 2) + 1.4) * STEP_Y })
  }
  const below = (Math.ceil(debaters.length / 2) + 1.2) * STEP_Y
  const rest = agents.filter((name) => !debaters.includes(name) && name !== judge)
  if (judge !== undefined) spots.set(judge, { x: width / 2, y: below })
  for (const [at, name] of rest.entries())
    spots.set(name, { x: ((at % 4) + 0.5) * STEP_X, y: below + (Math.floor(at / 4) + 1) * STEP_Y })
  const height = below + (Math.ceil(rest.length / 4) + 0.7) * STEP_Y
  return { width, height, spots, script: { x: width / 2, y: STEP_Y / 2 } }
}
