/**
 * What a message waits for before its turn begins, as the wait-for graph has it (rule 22): for the tasks that it depends on, for
 * room in a mailbox, for a turn of its recipient to end, and for those before it that it does not pass.
 */
import { senderOf } from '../mailbox/frame.ts'
import type { Envelope } from '../mailbox/mailbox.ts'
import type { TeamMemory } from '../mailbox/room.ts'
import type { Cell, HeldTask } from './cell.ts'
import { isNested } from './chain.ts'
import { type Core, type Holding, ORCHESTRATOR_INDEX } from './core.ts'
import type { RunState } from './run-state.ts'
import type { Wait } from './wait-graph.ts'

/** The graph that it is for. */
interface Graph {
  /** A node of no turn, with that wait. */
  add(wait: Wait): number
  /** The node of a turn, or of the message that it will be. */
  message(callee: Cell, envelope: Envelope<RunState>): number
  /** The node of who is to do that task. */
  task(id: string): number
}

type Waits = ReadonlyMap<Envelope<RunState>, Wait>

export class MessageWaits {
  readonly #held: Holding
  readonly #team: TeamMemory
  readonly #graph: Graph
  /** By mailbox: those that wait for room in it, and what for. */
  readonly #roomless = new Map<Cell['mailbox'], Waits>()
  /** By mailbox of an agent that may have turns of several runs: those that wait for more than their turn to come. */
  readonly #queues = new Map<Cell['mailbox'], Waits>()
  /** By agent with one turn at a time: what all wait for that it has not begun with. */
  readonly #places = new Map<Cell, Wait | undefined>()

  constructor({ held, team }: Pick<Core, 'held' | 'team'>, graph: Graph) {
    this.#held = held
    this.#team = team
    this.#graph = graph
  }

  /** Of a message that no turn has begun with; undefined: nothing is in its way. */
  waitOf(callee: Cell, envelope: Envelope<RunState>): Wait | undefined {
    const held = this.#held.of(envelope)
    if (held) return this.#forTasks(held)
    if (callee.gone || isNested(envelope)) return undefined
    const forRoom = callee.mailbox.parked.length > 0 ? this.#parkedAt(callee).get(envelope) : undefined
    if (forRoom) return this.#isOnItsWay(callee) ? undefined : forRoom
    const holder =
      envelope.turn === 0
        ? undefined
        : callee.instances.find(({ mailbox }) => mailbox.handed.get(envelope.turn) === envelope)
    if (holder) return this.#forPlace(callee, [holder], envelope)
    if (callee.interleaves) return this.#inQueue(callee).get(envelope)
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
  #parkedAt(callee: Cell): Waits {
    const known = this.#roomless.get(callee.mailbox)
    if (known) return known
    const waits = new Map<Envelope<RunState>, Wait>()
    this.#roomless.set(callee.mailbox, waits)
    const targets: number[] = []
    const any = this.#graph.add({ need: 1, targets })
    const forAny: Wait = { need: 1, targets: [any] }
    for (const envelope of callee.mailbox.parked) {
      const isLarge = envelope.bytes > callee.settings.mailbox.bytes
      waits.set(envelope, isLarge ? { need: callee.mailbox.waiting + callee.mailbox.underWay, targets } : forAny)
    }
    for (const { mailbox } of callee.instances)
      for (const envelope of mailbox.handed.values()) targets.push(this.#graph.message(callee, envelope))
    for (const envelope of callee.mailbox.queued()) targets.push(this.#graph.message(callee, envelope))
    return waits
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
    for (const envelope of callee.mailbox.queued()) {
      if (isNested(envelope)) continue
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
