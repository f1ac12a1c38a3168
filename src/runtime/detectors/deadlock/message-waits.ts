/**
 * Waits of a message before its turn begins, for the wait-for graph (rule 22). A message waits for the tasks that it
 * depends on, for room in a mailbox, and for a turn of its recipient to end. It also waits for earlier messages that it
 * may not pass.
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

/** Wait-for graph that the waits are for. */
interface Graph {
  /** Adds a node that is no turn, with that wait; without a wait it is live. */
  add(wait: Wait | undefined): number
  /** Returns the node of a turn, or of the message that will become the turn. */
  message(callee: Cell, envelope: Envelope<RunState>): number
  /** Returns the node of the agent that is to do the task. */
  task(id: string): number
}

type Waits = ReadonlyMap<Envelope<RunState>, Wait>

/** Waits of messages that a mailbox has no room for. */
interface Roomless {
  /** Wait of most messages: for any one of the targets. */
  readonly any: Wait
  /** Everything that has room in the mailbox. */
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
  /** By mailbox: the waits of messages that wait for room in it. */
  readonly #roomless = new Map<Cell['mailbox'], Roomless>()
  /** By mailbox of an agent that may have turns of several runs: the waits of its queued messages. */
  readonly #queues = new Map<Cell['mailbox'], Waits>()
  /** By agent at which all queued messages wait for the same: that wait. */
  readonly #places = new Map<Cell, Wait | undefined>()
  /** By such agent: the node that stands for all queued messages there. */
  readonly #lines = new Map<Cell, number>()

  constructor({ blocked, team }: Needs, graph: Graph) {
    this.#blocked = blocked
    this.#team = team
    this.#graph = graph
  }

  /** Returns the wait of a message that no turn has begun with; undefined if nothing is in its way. */
  waitOf(callee: Cell, envelope: Envelope<RunState>): Wait | undefined {
    const held = this.#blocked.of(envelope)
    if (held) return this.#forTasks(held)
    if (callee.gone) return undefined
    if (isNested(envelope)) return this.#forOuter(callee, envelope.within!)
    if (callee.mailbox.parked.includes(envelope)) return this.#forRoom(callee, envelope)
    const holder =
      envelope.turn === 0
        ? undefined
        : callee.instances.find(({ mailbox }) => mailbox.handed.get(envelope.turn) === envelope)
    if (holder) return this.#forPlace(callee, [holder], envelope)
    return isUniform(callee) ? this.#placeAt(callee, envelope) : this.#inQueue(callee).get(envelope)
  }

  /**
   * Returns nodes for all messages of a run that are in a mailbox, or wait for room there, and have no turn yet. One
   * node stands for many that wait for the same, so the cost does not grow with the number of messages.
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

  /** Returns the node for all queued messages of an agent at which these wait for the same. */
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

  /**
   * Returns the wait of a message that runs within a turn: for that turn to begin again, if it was interrupted, or to
   * have a place again. Any other open turn waits itself, or goes on.
   */
  #forOuter(callee: Cell, outer: Envelope<RunState>): Wait | undefined {
    for (const interrupted of callee.mailbox.cutOff())
      if (interrupted === outer) return { need: 1, targets: [this.#graph.message(callee, outer)] }
    const holder = callee.instances.find(({ mailbox }) => mailbox.handed.shelved.get(outer.turn) === outer)
    return holder && this.forReturn(callee, holder, outer.run)
  }

  /** Returns the wait of a shelved turn that is to go on: for another turn to leave its place. */
  forReturn(callee: Cell, holder: Cell, run: RunState): Wait | undefined {
    const open = [...holder.mailbox.handed.values()]
    if (!holder.life?.ready || holder.mayReturn(run) || open.length === 0) return undefined
    return { need: 1, targets: open.map((each) => this.#graph.message(callee, each)) }
  }

  /** Returns the wait for all tasks that a task depends on. These are unknown until the task board has the task. */
  #forTasks({ waitsFor }: HeldTask): Wait | undefined {
    const targets = Array.from(waitsFor, (id) => this.#graph.task(id))
    return targets.length > 0 ? { need: targets.length, targets } : undefined
  }

  /**
   * Checks whether a message is on its way here: then more room is taken than there are messages. The room of the first
   * parked message is taken beforehand.
   */
  #isOnItsWay({ mailbox, index }: Cell): boolean {
    return this.#team.taken(index) > mailbox.waiting + mailbox.underWay + (mailbox.expected ? 1 : 0)
  }

  /**
   * Returns the wait for room. It ends when any message that has room there is done. A message larger than the mailbox
   * waits for all of them.
   */
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
    for (const cell of instances)
      for (const envelope of handedTo(cell)) targets.push(this.#graph.message(callee, envelope))
    for (const envelope of mailbox.nested) targets.push(this.#graph.message(callee, envelope))
    if (!isUniform(callee)) for (const envelope of inLine(mailbox)) targets.push(this.#graph.message(callee, envelope))
    else if (mailbox.peek()) targets.push(this.#line(callee))
    return roomless
  }

  /**
   * Returns the turns of which one must end before one of these instances has a place for the message. Permits are not
   * waited for: a turn that only waits gives up its own. Nor are messages that come one at a time after a crash: the
   * next one comes when the turn before it only waits.
   */
  #forPlace(callee: Cell, instances: readonly Cell[], { run }: Envelope<RunState>): Wait | undefined {
    const targets: number[] = []
    for (const cell of instances) {
      if (cell.stopped) continue
      if (!cell.life?.ready) return undefined
      const { shelved } = cell.mailbox.handed
      const open = [...cell.underWay]
      const turns = open.filter(({ turn }) => !shelved.has(turn))
      const ofRun = open.filter((each) => each.run === run && (callee.interleaves || shelved.has(each.turn)))
      if (callee.interleaves && ofRun.length === 0 && cell.openRuns < cell.settings.concurrency) return undefined
      const inTheWay = ofRun.length > 0 ? ofRun : turns
      if (inTheWay.length === 0) return undefined
      for (const each of inTheWay) targets.push(this.#graph.message(callee, each))
    }
    return { need: 1, targets }
  }

  /**
   * Returns the waits in the queue of an agent. No message passes an earlier one of its run, nor one of its sender and
   * priority (rule 16). So each message also waits for what these wait for.
   */
  #inQueue(callee: Cell): Waits {
    const known = this.#queues.get(callee.mailbox)
    if (known) return known
    const waits = new Map<Envelope<RunState>, Wait>()
    /** By run and by line: the wait of the last message. */
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

/**
 * Yields the messages that a thread was handed. Of those that wait for the end of the same turn it yields only one,
 * since there can be thousands.
 */
function* handedTo(cell: Cell): IterableIterator<Envelope<RunState>> {
  const { current, interleaves, mailbox } = cell
  const { handed } = mailbox
  const waitsAlike = !interleaves && handed.nested === 0 && handed.shelved.size === 0
  for (const envelope of handed.all()) {
    yield envelope
    if (waitsAlike && envelope !== current) break
  }
}

/** Returns the key of a line: messages of one sender and one priority, which stay in order. */
const lineOf = ({ memory, at, priority }: Envelope<RunState>): number => senderOf(memory, at) * 2 ** 32 + priority

/** Checks whether all queued messages of an agent wait for the same: for one of its turns to end. */
const isUniform = ({ interleaves, mailbox }: Cell): boolean => !interleaves || !mailbox.isMixed

/** Yields the queued messages, without those that run within other turns. */
function* inLine(mailbox: Cell['mailbox']): IterableIterator<Envelope<RunState>> {
  for (const envelope of mailbox.queued()) if (!isNested(envelope)) yield envelope
}
