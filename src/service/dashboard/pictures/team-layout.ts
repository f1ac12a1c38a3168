/** Places of agents in the picture of a team. They follow from its strategy, so each agent stays where it is. */
import { own } from '../../../own.ts'

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

/** Size of the box of an agent, and of that of the strategy's script. */
export const BOX: Size = { width: 150, height: 54 }
export const SCRIPT_BOX: Size = { width: 124, height: 34 }
/** Space around the box of an agent. */
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
