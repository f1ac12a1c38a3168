/**
 * Finds turns that nothing can free, in the wait-for graph: deadlocks, each by its cycle, and stalls, at most one for
 * each run (rules 22 to 27).
 */

import type { AgentStatus, AgentTask } from '../../actors/definition/task.ts'
import {
  ACCEPTED,
  ASKS,
  CALL,
  CANCEL,
  CORRELATION,
  END,
  idOf,
  KIND,
  LIMIT,
  type Memory,
  QUIET,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  RUN_INDEX,
  SEND,
  STREAM_WAIT,
  WHO,
} from '../../mailbox/frame.ts'
import type { Agent, OpenCall } from '../host/agent.ts'
import { type AgentDirectory, USER_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { Batch, NamedWait } from '../log/records.ts'
import type { Supervisor } from '../supervision/host.ts'
import { isTimed } from '../verbs/sync-points.ts'
import { cyclesOf, stuckIn } from './cycles.ts'
import { type OpenWait, type TurnNode, WaitEdges } from './wait-for-graph.ts'

export interface Stuck {
  /** The same turns that wait for each other by the same waits have the same key, whatever else they wait for. */
  readonly key: string
  /** Turns in the order in which they wait for each other, with the held tasks between them. Empty: a stall. */
  readonly cycle: readonly TurnNode[]
  readonly tail: readonly TurnNode[]
  /** All turns that this depends on: the group is stuck only if each of these does nothing but wait. */
  readonly turns: readonly TurnNode[]
  /** Wait that keeps each turn of the cycle there; for a stall, the waits that are for nobody in particular. */
  readonly waits: ReadonlyMap<TurnNode, OpenWait>
  /** True if a turn waits for what anybody with the blackboard may write. */
  readonly isOpen: boolean
  readonly runs: ReadonlySet<RunState>
}

export function stuckNow(host: Supervisor, edges = new WaitEdges(host)): Stuck[] {
  const stuck = stuckIn(edges.nodes)
  if (stuck.length === 0) return []
  const all = new Set(stuck)
  return cyclesOf(edges.nodes, stuck, edges.anybody).flatMap(({ cycle, tail }) =>
    cycle.length > 0 ? deadlock(edges, all, cycle, tail) : stalls(edges, all, tail),
  )
}

/** Turns of a run that nothing in its team can free, and the requests with a key that they wait for, at any depth. */
export interface Standing {
  readonly calls: readonly OpenCall[]
  readonly turns: readonly TurnNode[]
}

/** Returns, for each of these runs that stands still until a request with a key is answered, for which. */
export function standingNow(host: Supervisor, runs: readonly RunState[]): Map<RunState, Standing> {
  const edges = new WaitEdges(host, false)
  const nodes = runs.map((run) => [run, edges.run(run)] as const)
  const stuck = new Set(stuckIn(edges.nodes))
  const found = new Map<RunState, Standing>()
  for (const [run, node] of nodes) {
    if (!stuck.has(node)) continue
    const reached = new Set([node])
    for (const at of reached)
      for (const { targets } of edges.nodes[at]!.waits)
        for (const target of targets) if (stuck.has(target)) reached.add(target)
    const calls = [...reached].flatMap((at) => edges.outside.get(at) ?? [])
    const turns = [...reached].flatMap((at) => edges.turns[at] ?? [])
    if (calls.length > 0) found.set(run, { calls, turns })
  }
  return found
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
export const waitKey = ({ agent, envelope }: TurnNode, { number }: OpenWait): string =>
  `${agent.index}.${envelope.turn}.${envelope.attempt}:${number}`

export function namedWaits({ cycle, tail }: Stuck): NamedWait[] {
  return [...cycle, ...tail].map(({ agent, waits }) => ({
    agent: agent.name,
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

export function openTurns(host: Supervisor): string[] {
  return new WaitEdges(host).turns.flatMap((turn) => {
    if (!turn) return []
    const waits = turn.waits.filter((wait) => wait.for !== '')
    if (waits.length > 0) return [sentenceOf({ ...turn, waits })]
    return [`"${turn.agent.name}" (${messageOf(turn)}) waits for what nobody in the team brings`]
  })
}

/** Describes one turn in words, for people: the agent, its message, and what it waits for. */
export function sentenceOf(turn: TurnNode): string {
  const what = turn.waits.map((wait) => VERBS[wait.kind](wait.for)).join(' or ')
  const isTask = turn.waits.some(({ kind }) => kind === 'dependency')
  return `${isTask ? 'the task of ' : ''}"${turn.agent.name}" (${messageOf(turn)}) waits ${what}`
}

const messageOf = ({ envelope }: TurnNode) => `message ${idOf(envelope.memory, envelope.at)}`

/*
 * Decides when to look for stuck turns: when the start or the end of a wait can have closed a cycle. It sees every
 * record of the log, so it reads headers only. The detector then checks what is suspicious in the host's own records.
 */

const isHeld = ({ status, dependencies }: AgentTask) => status === 'blocked' && dependencies.length > 0

/** Statuses that leave no turn stuck: an agent without a thread gets one for its next message. */
const HARMLESS: ReadonlySet<AgentStatus> = new Set(['starting', 'passivated'])

export class Suspicion {
  readonly #directory: AgentDirectory
  /** Agents that found a mailbox full, and may still wait for room. */
  readonly #askers = new Set<number>()
  /** Runs in which a turn waits for an entry that anybody may write, by their index. */
  readonly #waitedIn = new Set<number>()
  /** Agent of each such run that got a message last: most likely it is at work. */
  readonly #lastAsked = new Map<number, Agent>()

  constructor(directory: AgentDirectory) {
    this.#directory = directory
  }

  has(batch: Batch): boolean {
    let suspicious = false
    for (const entry of batch) {
      if (entry.kind === 'frames') {
        const { memory, to } = entry
        for (let at = entry.from; at < to; at += memory.i32[at >> 2]!) if (this.#frame(memory, at)) suspicious = true
      } else if (entry.kind === 'agent.status' && !HARMLESS.has(entry.status)) suspicious ||= this.#isTurnOpen
      // A redelivered turn waits again for what it asked before it was interrupted, and writes nothing about that.
      else if (entry.kind === 'turn.started' && entry.attempt > 1) suspicious = true
      else if (entry.kind === 'task' && isHeld(entry.task)) suspicious = true
    }
    return suspicious
  }

  /** True if there is a turn that could be stuck. A team that ends has none, and may have thousands of agents. */
  get #isTurnOpen(): boolean {
    return this.#directory.living.some(({ mailbox }) => !mailbox.handed.isEmpty)
  }

  /** Notes the waits that are open now. Called when the detector looks at all turns. */
  looked(): void {
    this.#askers.clear()
    this.#waitedIn.clear()
    this.#lastAsked.clear()
    for (const agent of this.#directory.byIndex) {
      const { mailbox, calls } = agent
      for (const { waitsFor, turn } of calls.values()) {
        const run = waitsFor && agent.messageOf(turn)?.run
        if (run) this.#waitedIn.add(run.index)
      }
      if (mailbox.pending.length > 0) for (const sender of mailbox.pending.senders()) this.#askers.add(sender)
    }
  }

  /** Checks whether the frame can have left a turn stuck: only a wait for an agent that waits can. */
  #frame({ i32 }: Memory, at: number): boolean {
    const { byIndex: agents } = this.#directory
    const i = at >> 2
    const who = i32[i + WHO]!
    const sender = who & 0xffff
    const recipient = who >>> 16
    switch (i32[i + KIND]! & 0xff) {
      case SEND:
        if (this.#waitedIn.size > 0) this.#note(i32[i + RUN_INDEX]!, recipient)
        // A message that had its room already may have taken the room of others.
        if (((i32[i + KIND]! >>> 8) & ASKS) === 0) return this.#isFull(agents[recipient])
        this.#askers.add(sender)
        return true
      case REQUEST: {
        if (this.#waitedIn.size > 0) this.#note(i32[i + RUN_INDEX]!, recipient)
        if (((i32[i + KIND]! >>> 8) & ASKS) !== 0) this.#askers.add(sender)
        const callee = agents[recipient]
        return callee === undefined || this.#mayWait(callee)
      }
      case CALL: {
        const waits = agents[sender]?.calls.get(i32[i + CORRELATION]!)?.waitsFor !== undefined
        if (waits) this.#waitedIn.add(i32[i + RUN_INDEX]!)
        return waits
      }
      case END:
        if (this.#isBlocking(agents[sender])) return true
        if (i32[i + CORRELATION]! > 0 && this.#waitsOn(agents[recipient])) return true
        return this.#waitedIn.has(i32[i + RUN_INDEX]!) && !this.#isAnybodyAtWork(i32[i + RUN_INDEX]!)
      case RESPONSE:
      case RESULT:
      case ACCEPTED:
      case REFUSED:
        return this.#waitsOn(agents[recipient])
      case CANCEL:
        return this.#waitsOn(agents[sender])
      case STREAM_WAIT:
        return i32[i + LIMIT] === 1
      case QUIET:
        return true
      default:
        return false
    }
  }

  #note(run: number, recipient: number): void {
    if (!this.#waitedIn.has(run)) return
    const callee = this.#directory.byIndex[recipient]
    if (callee) this.#lastAsked.set(run, callee)
  }

  #isFull(agent: Agent | undefined): boolean {
    return agent !== undefined && agent.mailbox.pending.length > 0
  }

  /**
   * Checks for an open turn of the run that waits for nothing that the host knows: it may write what others wait for.
   */
  #isAnybodyAtWork(run: number): boolean {
    if (this.#lastAsked.get(run)?.instances.some((agent) => this.#isAtWork(agent, run))) return true
    return this.#directory.living.some((agent) => this.#isAtWork(agent, run))
  }

  #isAtWork(agent: Agent, run: number): boolean {
    if (!agent.incarnation || this.#mayWait(agent)) return false
    for (const envelope of agent.underWay) if (envelope.run.index === run) return true
    return false
  }

  /** Checks whether messages wait for the agent while its remaining turns may wait, too. */
  #isBlocking(agent: Agent | undefined): boolean {
    if (agent === undefined) return false
    const { pending, waiting } = agent.mailbox.line
    return waiting + pending.length > 0 && this.#mayWait(agent)
  }

  #mayWait({ instances }: Agent): boolean {
    const first = instances[0]!
    if (first.open.size > 0 || first.calls.size > 0 || this.#askers.has(first.index)) return true
    for (const { incarnation } of instances)
      if (incarnation !== undefined && incarnation.awaitReader.size > 0) return true
    return false
  }

  /**
   * Checks for a remaining wait that can be part of a cycle: for an agent that may wait itself, in a call, or for room.
   * Who asks from outside has no turn, so nobody waits for them.
   */
  #waitsOn(agent: Agent | undefined): boolean {
    if (!agent || agent.index === USER_INDEX) return false
    for (const { callee } of agent.open.values()) if (this.#mayWait(callee)) return true
    return agent.calls.size > 0 || this.#askers.has(agent.index)
  }
}
