/**
 * Finds turns that nothing can free, in the wait-for graph: deadlocks, each by its cycle, and stalls, at most one for
 * each run (rules 22 to 27).
 */
import { idOf } from '../../../mailbox/frame-id.ts'
import type { NamedWait } from '../../log/alarms.ts'
import type { RunState } from '../../state/run-state.ts'
import { isTimed } from '../../verbs/sync-rules.ts'
import { cyclesOf, stuckIn } from './cycles.ts'
import { type GraphNeeds, type OpenWait, type TurnNode, WaitEdges } from './wait-for-graph.ts'

/** Turns that nothing can free. */
export interface Stuck {
  /** The same turns that wait for each other by the same waits have the same key, whatever else they wait for. */
  readonly key: string
  /** Turns in the order in which they wait for each other, with the held tasks between them. Empty: a stall. */
  readonly cycle: readonly TurnNode[]
  /** Turns that wait for the cycle. */
  readonly tail: readonly TurnNode[]
  /** All turns that this depends on: the group is stuck only if each of these does nothing but wait. */
  readonly turns: readonly TurnNode[]
  /** Wait that keeps each turn of the cycle there; for a stall, the waits that are for nobody in particular. */
  readonly waits: ReadonlyMap<TurnNode, OpenWait>
  /** True if a turn waits for what anybody with the blackboard may write. */
  readonly isOpen: boolean
  readonly runs: ReadonlySet<RunState>
}

/** Returns all turns that are stuck now. */
export function stuckNow(needs: GraphNeeds): Stuck[] {
  const edges = new WaitEdges(needs)
  const stuck = stuckIn(edges.nodes)
  if (stuck.length === 0) return []
  const all = new Set(stuck)
  return cyclesOf(edges.nodes, stuck, edges.anybody).flatMap(({ cycle, tail }) =>
    cycle.length > 0 ? deadlock(edges, all, cycle, tail) : stalls(edges, all, tail),
  )
}

function deadlock(edges: WaitEdges, all: ReadonlySet<number>, cycle: number[], tail: number[]): Stuck {
  const inCycle = new Set(cycle)
  const waits = new Map<TurnNode, OpenWait>()
  const members: TurnNode[] = []
  for (const at of cycle) {
    const turn = edges.turns[at]
    const member = turn ?? edges.held.get(at)
    if (member) members.push(member)
    const wait = turn?.waits.find(({ target }) => inCycle.has(target))
    if (turn && wait) waits.set(turn, wait)
  }
  const isOpen = cycle.some((at) => edges.anybody.has(at))
  return { ...whole(edges.turnsBehind(cycle, all), waits), cycle: members, tail: turnsAt(edges, tail), isOpen }
}

function stalls(edges: WaitEdges, all: ReadonlySet<number>, tail: number[]): Stuck[] {
  const byRun = new Map<RunState, number[]>()
  for (const at of tail) {
    const run = edges.turns[at]?.envelope.run
    if (run) byRun.set(run, [...(byRun.get(run) ?? []), at])
  }
  return [...byRun.values()].flatMap((nodes) => {
    const turns = edges.turnsBehind(nodes, all)
    const meeting = turns.some(({ waits }) => waits.some(({ generation }) => isTimed(generation)))
    if (meeting) {
      // The time limit of the sync point ends this, as a deadline would. Still it is a deadlock: a turn that has
      // arrived waits for one that waits for an entry which the first would write.
      const cycle = throughAnybody(edges, nodes, all)
      return cycle.length > 0 ? [deadlock(edges, all, cycle, without(tail, cycle))] : []
    }
    const waits = new Map<TurnNode, OpenWait>()
    for (const turn of turns) {
      const wait = turn.waits.find(({ target, generation }) => edges.anybody.has(target) || generation)
      if (wait) waits.set(turn, wait)
    }
    return [{ ...whole(turns, waits), cycle: [], tail: turnsAt(edges, nodes), isOpen: true }]
  })
}

/**
 * Returns a shortest path from a turn at a sync point to a turn that waits for any writer. The first turn must be a
 * possible writer.
 */
function throughAnybody(edges: WaitEdges, nodes: readonly number[], stuck: ReadonlySet<number>): number[] {
  const mayWrite = (anybody: number, start: number) =>
    edges.nodes[anybody]!.waits.some(({ targets }) => targets.includes(start))
  let shortest: number[] = []
  for (const start of nodes) {
    if (!edges.turns[start]?.waits.some(({ generation }) => isTimed(generation))) continue
    const cameFrom = new Map([[start, start]])
    for (const [at] of cameFrom) {
      if (edges.anybody.has(at)) {
        if (!mayWrite(at, start)) continue
        const path = pathTo(at, start, cameFrom)
        if (shortest.length === 0 || path.length < shortest.length) shortest = path
        break
      }
      for (const { targets } of edges.nodes[at]!.waits)
        for (const target of targets) {
          const isWriter = edges.turns[at] || !edges.anybody.has(target) // else somebody may yet cause a turn
          if (isWriter && stuck.has(target) && !cameFrom.has(target)) cameFrom.set(target, at)
        }
    }
  }
  return shortest
}

function pathTo(end: number, start: number, cameFrom: ReadonlyMap<number, number>): number[] {
  const path = [end]
  for (let at = end; at !== start; path.push(at)) at = cameFrom.get(at)!
  return path.reverse()
}

const without = (nodes: readonly number[], others: readonly number[]): number[] =>
  nodes.filter((at) => !others.includes(at))

const turnsAt = (edges: WaitEdges, nodes: readonly number[]): TurnNode[] => nodes.flatMap((at) => edges.turns[at] ?? [])

function whole(
  turns: readonly TurnNode[],
  waits: ReadonlyMap<TurnNode, OpenWait>,
): Pick<Stuck, 'key' | 'turns' | 'waits' | 'runs'> {
  const key = Array.from(waits, ([turn, wait]) => waitKey(turn, wait))
  return { key: key.sort().join(' '), turns, waits, runs: new Set(turns.map(({ envelope }) => envelope.run)) }
}

/** Returns a key for a wait of a turn that differs from all others, also from those of the turn's earlier attempts. */
export const waitKey = ({ cell, envelope }: TurnNode, { number }: OpenWait): string =>
  `${cell.index}.${envelope.turn}.${envelope.attempt}:${number}`

/** Returns the waits of all members by name, the cycle first. */
export function namedWaits({ cycle, tail }: Stuck): NamedWait[] {
  return [...cycle, ...tail].map(({ cell, waits }) => ({
    agent: cell.name,
    for: [...new Set(waits.map((wait) => wait.for))],
    kind: [...new Set(waits.map(({ kind }) => kind))].join(', '),
  }))
}

const VERBS: Readonly<Record<OpenWait['kind'], (name: string) => string>> = {
  request: (name) => `for the answer of "${name}"`,
  delegate: (name) => `for "${name}" to do its task`,
  mailbox: (name) => `for room in the mailbox of "${name}"`,
  reader: (name) => `for "${name}" to read its stream`,
  blackboard: (key) => `for "${key}" on the blackboard`,
  sync: (name) => `for "${name}" at a sync point`,
  place: (name) => `for another turn of "${name}", which has its place`,
  dependency: (name) => `for the task of "${name}" to be done`,
}

/** Describes all open turns in words, for people. */
export function openTurns(needs: GraphNeeds): string[] {
  return new WaitEdges(needs).turns.flatMap((turn) => {
    if (!turn) return []
    const waits = turn.waits.filter((wait) => wait.for !== '')
    if (waits.length > 0) return [sentenceOf({ ...turn, waits })]
    return [`"${turn.cell.name}" (${messageOf(turn)}) waits for what nobody in the team brings`]
  })
}

/** Describes one turn in words, for people: the agent, its message, and what it waits for. */
export function sentenceOf(turn: TurnNode): string {
  const what = turn.waits.map((wait) => VERBS[wait.kind](wait.for)).join(' or ')
  const isTask = turn.waits.some(({ kind }) => kind === 'dependency')
  return `${isTask ? 'the task of ' : ''}"${turn.cell.name}" (${messageOf(turn)}) waits ${what}`
}

const messageOf = ({ envelope }: TurnNode) => `message ${idOf(envelope.memory, envelope.at)}`
