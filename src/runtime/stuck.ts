/** Turns that wait in vain, as the wait-for graph has them: deadlocks, each by its cycle, and stalls, one of a run (rules 22 to 27). */
import { idOf } from '../mailbox/frame-id.ts'
import type { Core } from './core.ts'
import type { NamedWait } from './records.ts'
import type { RunState } from './run-state.ts'
import { isTimed, type OpenWait, type TurnNode, WaitEdges } from './wait-edges.ts'
import { cyclesOf, stuckIn } from './wait-graph.ts'

/** Turns that nothing can free. */
export interface Stuck {
  /** The same turns with the same waits have the same key. */
  readonly key: string
  /** In the order of who waits for whom; empty: a stall. */
  readonly cycle: readonly TurnNode[]
  /** Who waits for them. */
  readonly tail: readonly TurnNode[]
  /** All on whom it depends that nothing frees these: each has to do nothing but wait. */
  readonly turns: readonly TurnNode[]
  /** Of each of the cycle the wait that keeps it there; of a stall those that are for nobody. */
  readonly waits: ReadonlyMap<TurnNode, OpenWait>
  readonly runs: ReadonlySet<RunState>
}

/** All that are stuck now. */
export function stuckNow(core: Core): Stuck[] {
  const edges = new WaitEdges(core)
  const stuck = stuckIn(edges.nodes)
  if (stuck.length === 0) return []
  const all = new Set(stuck)
  // Who waits for whoever may write waits for nobody that can be named.
  const named = edges.nodes.map((node, at) => (edges.anybody.has(at) ? { live: false, waits: [] } : node))
  return cyclesOf(named, stuck).flatMap(({ cycle, tail }) =>
    cycle.length > 0 ? deadlock(edges, all, cycle, tail) : stalls(edges, all, tail),
  )
}

function deadlock(edges: WaitEdges, all: ReadonlySet<number>, cycle: number[], tail: number[]): Stuck {
  const inCycle = new Set(cycle)
  const waits = new Map<TurnNode, OpenWait>()
  const members: TurnNode[] = []
  for (const at of cycle) {
    const turn = edges.turns[at]
    if (!turn) continue
    members.push(turn)
    const wait = turn.waits.find(({ target }) => inCycle.has(target))
    if (wait) waits.set(turn, wait)
  }
  const turns = edges.turnsBehind(cycle, all)
  return { ...whole(turns, members), tail: turnsAt(edges, tail), waits }
}

function stalls(edges: WaitEdges, all: ReadonlySet<number>, tail: number[]): Stuck[] {
  const byRun = new Map<RunState, number[]>()
  for (const at of tail) {
    const run = edges.turns[at]?.envelope.run
    if (run) byRun.set(run, [...(byRun.get(run) ?? []), at])
  }
  return [...byRun.values()].flatMap((nodes) => {
    const turns = edges.turnsBehind(nodes, all)
    // The time of a sync point ends it: that is no stall.
    if (turns.some(({ waits }) => waits.some(({ generation }) => isTimed(generation)))) return []
    const waits = new Map<TurnNode, OpenWait>()
    for (const turn of turns) {
      const wait = turn.waits.find(({ target, generation }) => edges.anybody.has(target) || generation)
      if (wait) waits.set(turn, wait)
    }
    return [{ ...whole(turns, []), tail: turnsAt(edges, nodes), waits }]
  })
}

const turnsAt = (edges: WaitEdges, nodes: readonly number[]): TurnNode[] => nodes.flatMap((at) => edges.turns[at] ?? [])

function whole(
  turns: readonly TurnNode[],
  cycle: readonly TurnNode[],
): Pick<Stuck, 'key' | 'cycle' | 'turns' | 'runs'> {
  const keys = turns.map(
    ({ cell, envelope, waits }) =>
      `${cell.index}.${envelope.turn}.${envelope.attempt}:${waits.map(({ number }) => number).sort((a, b) => a - b)}`,
  )
  return { key: keys.sort().join(' '), cycle, turns, runs: new Set(turns.map(({ envelope }) => envelope.run)) }
}

/** What each of them waits for, by name: the cycle first. */
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
}

/** All turns that are under way, for people. */
export function openTurns(core: Core): string[] {
  return new WaitEdges(core).turns.flatMap((turn) => {
    if (!turn) return []
    const waits = turn.waits.filter((wait) => wait.for !== '')
    if (waits.length > 0) return [sentenceOf({ ...turn, waits })]
    return [`"${turn.cell.name}" (${messageOf(turn)}) waits for what nobody in the team brings`]
  })
}

/** One of them, for people: who, at which message, waits for what. */
export function sentenceOf(turn: TurnNode): string {
  const what = turn.waits.map((wait) => VERBS[wait.kind](wait.for)).join(' or ')
  return `"${turn.cell.name}" (${messageOf(turn)}) waits ${what}`
}

const messageOf = ({ envelope }: TurnNode) => `message ${idOf(envelope.memory, envelope.at)}`
