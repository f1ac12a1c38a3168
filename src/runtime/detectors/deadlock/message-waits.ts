/**
 * What a message waits for before its turn begins, as the wait-for graph has it (rule 22): for the tasks that it depends on, for
 * room in a mailbox, for a turn of its recipient to end, and for those before it that it does not pass.
 */
import { senderOf } from '../../../mailbox/frame.ts'
import type { Envelope } from '../../../mailbox/mailbox.ts'
import type { TeamMemory } from '../../../mailbox/room.ts'
import { isNested } from '../../admission/chain.ts'
import type { BlockedTasks } from '../../mailboxes/blocked-tasks.ts'
import { ORCHESTRATOR_INDEX } from '../../state/agent-directory.ts'
import type { Cell, HeldTask } from '../../state/cell.ts'
import type { RunState } from '../../state/run-state.ts'
import type { Wait } from './cycles.ts'

/** The graph that it is for. */
interface Graph {
  /** A node of no turn, with that wait; without one it is live. */
  add(wait: Wait | undefined): number
  /** The node of a turn, or of the message that it will be. */
  message(callee: Cell, envelope: Envelope<RunState>): number
  /** The node of who is to do that task. */
  task(id: string): number
}

type Waits = ReadonlyMap<Envelope<RunState>, Wait>

/** What messages wait for that a mailbox has no room for. */
interface Roomless {
  /** Of most. */
  readonly any: Wait
  /** All that has room there. */
  readonly targets: readonly number[]
}

interface Needs {
  readonly blocked: BlockedTasks
  readonly team: TeamMemory
}

export class MessageWaits {
  readonly #blocked: BlockedTasks
  readonly #team: TeamMemory
  readonly #graph: Graph
  /** By mailbox: what those that wait for room in it wait for. */
  readonly #roomless = new Map<Cell['mailbox'], Roomless>()
  /** By mailbox of an agent that may have turns of several runs: those that wait for more than their turn to come. */
  readonly #queues = new Map<Cell['mailbox'], Waits>()
  /** By agent at which all that wait in line wait for the same: what for. */
  readonly #places = new Map<Cell, Wait | undefined>()
  /** By such agent: the node that stands for all that wait in line there. */
  readonly #lines = new Map<Cell, number>()

  constructor({ blocked, team }: Needs, graph: Graph) {
    this.#blocked = blocked
    this.#team = team
    this.#graph = graph
  }

  /** Of a message that no turn has begun with; undefined: nothing is in its way. */
  waitOf(callee: Cell, envelope: Envelope<RunState>): Wait | undefined {
    const held = this.#blocked.of(envelope)
    if (held) return this.#forTasks(held)
    if (callee.gone || isNested(envelope)) return undefined
    if (callee.mailbox.parked.includes(envelope)) return this.#forRoom(callee, envelope)
    const holder =
      envelope.turn === 0
        ? undefined
        : callee.instances.find(({ mailbox }) => mailbox.handed.get(envelope.turn) === envelope)
    if (holder) return this.#forPlace(callee, [holder], envelope)
    return isUniform(callee) ? this.#placeAt(callee, envelope) : this.#inQueue(callee).get(envelope)
  }

  /**
   * Nodes for all messages of a run that stand in a mailbox, or wait for room there, and that no turn has begun with. One stands
   * for many where that is the same: what this takes does not grow with what waits.
   */
  waiting(callee: Cell, run: RunState): number[] {
    const { mailbox } = callee
    const nodes: number[] = []
    for (const envelope of mailbox.nested) if (envelope.run === run) nodes.push(this.#graph.message(callee, envelope))
    if (mailbox.has(run)) {
      if (isUniform(callee)) nodes.push(this.#line(callee))
      else
        for (const envelope of inLine(mailbox))
          if (envelope.run === run) nodes.push(this.#graph.message(callee, envelope))
    }
    if (mailbox.parked.has(run)) nodes.push(this.#graph.add(this.#forRoom(callee, undefined)))
    return nodes
  }

  /** What stands for all that wait in line at an agent where these wait for the same. */
  #line(callee: Cell): number {
    let at = this.#lines.get(callee)
    if (at === undefined) {
      at = this.#graph.add(callee.gone ? undefined : this.#placeAt(callee, callee.mailbox.peek()!))
      this.#lines.set(callee, at)
    }
    return at
  }

  #placeAt(callee: Cell, envelope: Envelope<RunState>): Wait | undefined {
    if (!this.#places.has(callee)) this.#places.set(callee, this.#forPlace(callee, callee.instances, envelope))
    return this.#places.get(callee)
  }

  /** All that it depends on; what it has to wait for is not known before the board has it. */
  #forTasks({ waitsFor }: HeldTask): Wait | undefined {
    const targets = Array.from(waitsFor, (id) => this.#graph.task(id))
    return targets.length > 0 ? { need: targets.length, targets } : undefined
  }

  /** Whoever has taken room has a message here, or on its way. The first that waits has its room taken beforehand. */
  #isOnItsWay({ mailbox, index }: Cell): boolean {
    return this.#team.taken(index) > mailbox.waiting + mailbox.underWay + (mailbox.expected ? 1 : 0)
  }

  /** Any that has room there has to be done with; all, for one that is too large for a mailbox that is not empty. */
  #forRoom(callee: Cell, envelope: Envelope<RunState> | undefined): Wait | undefined {
    if (callee.gone || this.#isOnItsWay(callee)) return undefined
    const { any, targets } = this.#roomAt(callee)
    const isLarge = envelope !== undefined && envelope.bytes > callee.settings.mailbox.bytes
    return isLarge ? { need: targets.length, targets } : any
  }

  #roomAt(callee: Cell): Roomless {
    const { mailbox, instances } = callee
    const known = this.#roomless.get(mailbox)
    if (known) return known
    const targets: number[] = []
    const roomless: Roomless = { any: { need: 1, targets: [this.#graph.add({ need: 1, targets })] }, targets }
    this.#roomless.set(mailbox, roomless)
    for (const { mailbox } of instances)
      for (const envelope of mailbox.handed.values()) targets.push(this.#graph.message(callee, envelope))
    for (const envelope of mailbox.nested) targets.push(this.#graph.message(callee, envelope))
    if (!isUniform(callee)) for (const envelope of inLine(mailbox)) targets.push(this.#graph.message(callee, envelope))
    else if (mailbox.peek()) targets.push(this.#line(callee))
    return roomless
  }

  /**
   * The turns of which one has to end before one of these instances has a place for the message. A permit is nothing to wait
   * for: who only waits gives its own up. Nor is the turn that it is to run within: it waits itself, or goes on.
   */
  #forPlace(callee: Cell, instances: readonly Cell[], { run }: Envelope<RunState>): Wait | undefined {
    const targets: number[] = []
    for (const cell of instances) {
      if (cell.stopped) continue
      if (!cell.life?.ready) return undefined
      const turns = [...cell.underWay]
      const ofRun = callee.interleaves ? turns.filter((turn) => turn.run === run) : []
      if (callee.interleaves && ofRun.length === 0 && cell.openRuns < cell.atOnce) return undefined
      const inTheWay = ofRun.length > 0 ? ofRun : turns
      if (inTheWay.length === 0) return undefined
      for (const each of inTheWay) targets.push(this.#graph.message(callee, each))
    }
    return { need: 1, targets }
  }

  /** None passes an earlier one of its run, nor one of its sender and priority (rule 16): each waits for what these wait for, too. */
  #inQueue(callee: Cell): Waits {
    const known = this.#queues.get(callee.mailbox)
    if (known) return known
    const waits = new Map<Envelope<RunState>, Wait>()
    /** By run and by line: what it is that the last of them waits for. */
    const last = new Map<RunState | number, number>()
    for (const envelope of inLine(callee.mailbox)) {
      const own = this.#forPlace(callee, callee.instances, envelope)
      const line = lineOf(envelope)
      const before = [last.get(envelope.run), last.get(line)].filter((at) => at !== undefined)
      if (!own && before.length === 0) continue
      const place = own && before.length > 0 ? [this.#graph.add(own)] : []
      const wait = before.length > 0 ? { need: before.length + place.length, targets: [...before, ...place] } : own!
      waits.set(envelope, wait)
      const at = this.#graph.add(wait)
      last.set(envelope.run, at)
      if (senderOf(envelope.memory, envelope.at) !== ORCHESTRATOR_INDEX) last.set(line, at)
    }
    this.#queues.set(callee.mailbox, waits)
    return waits
  }
}

/** What comes one behind the other: of one sender and one priority. */
const lineOf = ({ memory, at, priority }: Envelope<RunState>): number => senderOf(memory, at) * 2 ** 32 + priority

/** All that wait in line at an agent wait for the same: for a turn of it to end. */
const isUniform = ({ interleaves, mailbox }: Cell): boolean => !interleaves || !mailbox.isMixed

/** Without those that are to run within others. */
function* inLine(mailbox: Cell['mailbox']): IterableIterator<Envelope<RunState>> {
  for (const envelope of mailbox.queued()) if (!isNested(envelope)) yield envelope
}
