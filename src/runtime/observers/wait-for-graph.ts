/**
 * Wait-for graph of a team (rule 22), read from the host's own records: no verb writes anything for it. A node is a
 * turn. Messages whose turn has not begun, and the possible writers of a blackboard, are nodes too, so that each wait
 * is for nodes.
 */
import { KEYED } from '../../actors/definition/role.ts'
import {
  correlationOf,
  idOf,
  kindOf,
  SEND,
  SIGNALLED,
  senderOf,
  timeOf,
  turnOf,
  typeOf,
  waitingOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Agent, HeldTask, OpenCall, OpenRequest, RequestGroup } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { isNested } from '../host/delegation.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { Supervisor } from '../supervision/host.ts'
import { isTimed, type SyncGenerations } from '../verbs/sync-points.ts'
import type { Wait } from './cycles.ts'

/*
 * Waits of a message before its turn begins, for the wait-for graph (rule 22). A message waits for the tasks that it
 * depends on, for room in a mailbox, and for a turn of its recipient to end. It also waits for earlier messages that it
 * may not pass.
 */

type Waits = ReadonlyMap<Envelope<RunState>, Wait>

/** Waits of messages that a mailbox has no room for. */
interface Roomless {
  readonly any: Wait
  readonly targets: readonly number[]
}

export class MessageWaits {
  readonly #host: Core
  readonly #graph: WaitEdges
  /** By mailbox: the waits of messages that wait for room in it. */
  readonly #roomless = new Map<Agent['mailbox'], Roomless>()
  /** By mailbox of an agent that may have turns of several runs: the waits of its queued messages. */
  readonly #queues = new Map<Agent['mailbox'], Waits>()
  /** By agent at which all queued messages wait for the same: that wait. */
  readonly #places = new Map<Agent, Wait | undefined>()
  /** By such agent: the node that stands for all queued messages there. */
  readonly #lines = new Map<Agent, number>()

  constructor(host: Core, graph: WaitEdges) {
    this.#host = host
    this.#graph = graph
  }

  /** Returns the wait of a message that no turn has begun with; undefined if nothing is in its way. */
  waitOf(callee: Agent, envelope: Envelope<RunState>): Wait | undefined {
    const held = this.#host.blocked.of(envelope)
    if (held) return this.#forTasks(held)
    if (callee.gone) return undefined
    if (isNested(envelope)) return this.#forOuter(callee, envelope.within!)
    if (callee.mailbox.pending.includes(envelope)) return this.#forRoom(callee, envelope)
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
  waiting(callee: Agent, run: RunState): number[] {
    const { mailbox } = callee
    const nodes: number[] = []
    for (const envelope of mailbox.nested) if (envelope.run === run) nodes.push(this.#graph.message(callee, envelope))
    if (mailbox.has(run)) {
      if (isUniform(callee)) nodes.push(this.#line(callee))
      else
        for (const envelope of inLine(mailbox))
          if (envelope.run === run) nodes.push(this.#graph.message(callee, envelope))
    }
    if (mailbox.pending.has(run)) nodes.push(this.#graph.node(this.#forRoom(callee, undefined)))
    return nodes
  }

  /** Returns the node for all queued messages of an agent at which these wait for the same. */
  #line(callee: Agent): number {
    let at = this.#lines.get(callee)
    if (at === undefined) {
      at = this.#graph.node(callee.gone ? undefined : this.#placeAt(callee, callee.mailbox.peek()!))
      this.#lines.set(callee, at)
    }
    return at
  }

  #placeAt(callee: Agent, envelope: Envelope<RunState>): Wait | undefined {
    if (!this.#places.has(callee)) this.#places.set(callee, this.#forPlace(callee, callee.instances, envelope))
    return this.#places.get(callee)
  }

  /**
   * Returns the wait of a message that runs within a turn: for that turn to begin again, if it was interrupted, or to
   * have a place again. Any other open turn waits itself, or goes on.
   */
  #forOuter(callee: Agent, outer: Envelope<RunState>): Wait | undefined {
    for (const interrupted of callee.mailbox.cutOff())
      if (interrupted === outer) return { need: 1, targets: [this.#graph.message(callee, outer)] }
    const holder = callee.instances.find(({ mailbox }) => mailbox.handed.suspended.get(outer.turn) === outer)
    return holder && this.forReturn(callee, holder, outer.run)
  }

  /** Returns the wait of a suspended turn that is to go on: for another turn to leave its place. */
  forReturn(callee: Agent, holder: Agent, run: RunState): Wait | undefined {
    const open = [...holder.mailbox.handed.values()]
    if (!holder.incarnation?.ready || holder.mayReturn(run) || open.length === 0) return undefined
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
  #isOnItsWay({ mailbox, index }: Agent): boolean {
    return this.#host.team.taken(index) > mailbox.waiting + mailbox.underWay + (mailbox.expected ? 1 : 0)
  }

  /**
   * Returns the wait for room. It ends when any message that has room there is done. A message larger than the mailbox
   * waits for all of them.
   */
  #forRoom(callee: Agent, envelope: Envelope<RunState> | undefined): Wait | undefined {
    if (callee.gone || this.#isOnItsWay(callee)) return undefined
    const { any, targets } = this.#roomAt(callee)
    const isLarge = envelope !== undefined && envelope.bytes > callee.settings.mailbox.bytes
    return isLarge ? { need: targets.length, targets } : any
  }

  #roomAt(callee: Agent): Roomless {
    const { mailbox, instances } = callee
    const known = this.#roomless.get(mailbox)
    if (known) return known
    const targets: number[] = []
    const roomless: Roomless = { any: { need: 1, targets: [this.#graph.node({ need: 1, targets })] }, targets }
    this.#roomless.set(mailbox, roomless)
    for (const agent of instances)
      for (const envelope of handedTo(agent)) targets.push(this.#graph.message(callee, envelope))
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
  #forPlace(callee: Agent, instances: readonly Agent[], { run }: Envelope<RunState>): Wait | undefined {
    const targets: number[] = []
    for (const agent of instances) {
      if (agent.stopped) continue
      if (!agent.incarnation?.ready) return undefined
      const { suspended } = agent.mailbox.handed
      const open = [...agent.underWay]
      const turns = open.filter(({ turn }) => !suspended.has(turn))
      const ofRun = open.filter((each) => each.run === run && (callee.interleaves || suspended.has(each.turn)))
      if (callee.interleaves && ofRun.length === 0 && agent.openRuns < agent.settings.concurrency) return undefined
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
  #inQueue(callee: Agent): Waits {
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
      const place = own && before.length > 0 ? [this.#graph.node(own)] : []
      const wait = before.length > 0 ? { need: before.length + place.length, targets: [...before, ...place] } : own!
      waits.set(envelope, wait)
      const at = this.#graph.node(wait)
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
function* handedTo(agent: Agent): IterableIterator<Envelope<RunState>> {
  const { current, interleaves, mailbox } = agent
  const { handed } = mailbox
  const waitsAlike = !interleaves && handed.nested === 0 && handed.suspended.size === 0
  for (const envelope of handed.all()) {
    yield envelope
    if (waitsAlike && envelope !== current) break
  }
}

/** Returns the key of a line: messages of one sender and one priority, which stay in order. */
const lineOf = ({ memory, at, priority }: Envelope<RunState>): number => senderOf(memory, at) * 2 ** 32 + priority

/** Checks whether all queued messages of an agent wait for the same: for one of its turns to end. */
const isUniform = ({ interleaves, mailbox }: Agent): boolean => !interleaves || !mailbox.isMixed

/** Yields the queued messages, without those that run within other turns. */
function* inLine(mailbox: Agent['mailbox']): IterableIterator<Envelope<RunState>> {
  for (const envelope of mailbox.queued()) if (!isNested(envelope)) yield envelope
}

/**
 * Kinds of waits of a turn: for an answer, a task, room in a mailbox, the reader of its answer, an entry on a
 * blackboard, or others at a sync point. 'dependency': a task that has not begun waits for another task. 'place': a
 * turn that was suspended waits for another turn of its agent.
 */
export type WaitKind = 'request' | 'delegate' | 'mailbox' | 'reader' | 'blackboard' | 'sync' | 'dependency' | 'place'

export interface OpenWait {
  readonly kind: WaitKind
  /** Agent that must act; or the key of an entry, which nobody in particular must write. */
  readonly for: string
  readonly target: number
  /** Number that is unique among the waits of the turn. */
  readonly number: number
  /** Epoch ms. */
  readonly since: number
  readonly request?: OpenRequest
  readonly call?: OpenCall
  readonly generation?: SyncGenerations | undefined
  readonly sent?: { callee: Agent; envelope: Envelope<RunState> }
}

/** Turn that is under way, or task that is held until others are done, with the waits that the host knows. */
export interface TurnNode {
  /** Instance that has the turn. */
  readonly agent: Agent
  readonly envelope: Envelope<RunState>
  readonly waits: OpenWait[]
}

interface Node {
  live: boolean
  waits: Wait[]
}

export class WaitEdges {
  readonly nodes: Node[] = []
  /** Turns by node; undefined for a node that is not a turn. */
  readonly turns: (TurnNode | undefined)[] = []
  /** Tasks by node that are held until other tasks are done. */
  readonly held = new Map<number, TurnNode>()
  /** Nodes that stand for any possible writer: a wait for them is for nobody in particular. */
  readonly anybody = new Set<number>()
  readonly #host: Supervisor
  readonly #byEnvelope = new Map<Envelope<RunState>, number>()
  readonly #atWork = new Set<number>()
  readonly #anybodyOf = new Map<RunState, number>()
  /** Streamed answers that their readers have not read completely: these readers wait for something else. */
  readonly #unread = new Set<OpenRequest>()
  /** Requests with a key, by node, if nothing in this team is to end their waits. */
  readonly outside = new Map<number, OpenCall>()
  /** True if requests with a key end by themselves, as far as this team knows. */
  readonly #keyedEnd: boolean
  /** Messages that have found no room, by the index of their sender. */
  readonly #parked = new Map<number, OpenWait[]>()

  /** Open requests by message id; made when a task waits for another. */
  #asked: Map<string, OpenRequest> | undefined
  readonly #messages: MessageWaits

  constructor(host: Supervisor, keyedEnd = true) {
    this.#host = host
    this.#keyedEnd = keyedEnd
    this.#messages = new MessageWaits(host, this)
    const { living } = host.directory
    for (const agent of living) for (const envelope of agent.underWay) this.#turn(agent, envelope)
    for (const agent of living)
      if (agent.incarnation && agent.incarnation.awaitReader.size > 0)
        for (const [turn, since] of agent.incarnation.awaitReader) this.#writer(agent, turn, since)
    for (const agent of host.directory.byIndex) {
      if (agent.open.size > 0 && this.#atWork.has(agent.index)) this.#requests(agent)
      if (agent.calls.size > 0) for (const [number, call] of agent.calls) this.#call(agent, number, call)
    }
    for (const agent of host.directory.byIndex) if (agent.mailbox.pending.length > 0) this.#room(agent)
    for (const agent of host.directory.byIndex) if (agent.broadcasts.size > 0) this.#broadcasts(agent)
    this.#inLine()
    for (const agent of living)
      for (const envelope of agent.mailbox.handed.suspended.values()) this.#returning(agent, envelope)
    for (const node of this.nodes) if (node.waits.length === 0) node.live = true
    for (const [run, at] of this.#anybodyOf) this.#writers(run, at)
  }

  /** Returns the turns among these nodes, and among all stuck nodes that they wait for. */
  turnsBehind(nodes: readonly number[], stuck: ReadonlySet<number>): TurnNode[] {
    const reached = new Set(nodes)
    for (const at of reached)
      for (const { targets } of this.nodes[at]!.waits)
        for (const target of targets) if (stuck.has(target)) reached.add(target)
    return [...reached].flatMap((at) => this.turns[at] ?? [])
  }

  #add(waits: Wait[] = [], turn?: TurnNode): number {
    this.turns.push(turn)
    return this.nodes.push({ live: false, waits }) - 1
  }

  /** Adds a node that is no turn, with that wait; without a wait it is live. */
  node(wait: Wait | undefined): number {
    return wait ? this.#add([wait]) : this.#free()
  }

  #turn(agent: Agent, envelope: Envelope<RunState>): void {
    const at = this.#add([], { agent, envelope, waits: [] })
    this.#byEnvelope.set(envelope, at)
    this.#atWork.add(agent.index)
  }

  /** Adds the wait of a suspended turn that has what it waited for. */
  #returning(agent: Agent, envelope: Envelope<RunState>): void {
    const at = this.#byEnvelope.get(envelope)
    const brought = agent.incarnation?.heldFor(envelope.turn)
    if (at === undefined || !brought) return
    const wait = this.#messages.forReturn(agent.first, agent, envelope.run)
    if (!wait) return
    const since = timeOf(brought.memory, 0)
    this.#wait(at, { kind: 'place', for: agent.name, target: this.#add([wait]), number: PLACE, since })
  }

  #of({ instances }: Agent, turn: number): number | undefined {
    for (const { mailbox } of instances) {
      const envelope = mailbox.handed.get(turn)
      const at = envelope && this.#byEnvelope.get(envelope)
      if (at !== undefined && this.turns[at]) return at
    }
    return undefined
  }

  #wait(at: number, wait: OpenWait): void {
    this.turns[at]!.waits.push(wait)
    this.nodes[at]!.waits.push({ need: 1, targets: [wait.target] })
  }

  // ---- requests

  #requests(caller: Agent): void {
    let groups: Map<RequestGroup, { at: number; targets: number[] }> | undefined
    for (const request of caller.open.values()) {
      const at = this.#of(caller, request.turn)
      if (at === undefined || this.#unread.has(request)) continue
      const target = this.#answerOf(request)
      const { memory, at: place } = request.envelope
      const wait: OpenWait = {
        kind: typeOf(memory, place) === 'delegate' ? 'delegate' : 'request',
        for: request.callee.name,
        target,
        number: request.correlation,
        since: timeOf(memory, place),
        request,
      }
      const { group } = request
      if (!group) this.#wait(at, wait)
      else {
        this.turns[at]!.waits.push(wait)
        groups ??= new Map()
        const known = groups.get(group)
        if (known) known.targets.push(target)
        else groups.set(group, { at, targets: [target] })
      }
    }
    for (const [{ need }, { at, targets }] of groups ?? [])
      this.nodes[at]!.waits.push({ need: need === 0 ? targets.length : need, targets })
  }

  /** Returns the node of the turn that is to answer, or of the message that will become that turn. */
  #answerOf({ callee, envelope, signalled }: OpenRequest): number {
    return signalled ? this.#free() : this.message(callee, envelope)
  }

  #free(): number {
    const at = this.#add()
    this.nodes[at]!.live = true
    return at
  }

  message(callee: Agent, envelope: Envelope<RunState>): number {
    const known = this.#byEnvelope.get(envelope)
    if (known !== undefined) return known
    const at = this.#add()
    this.#byEnvelope.set(envelope, at)
    const wait = this.#messages.waitOf(callee, envelope)
    if (wait) this.nodes[at]!.waits.push(wait)
    else this.nodes[at]!.live = true
    const held = wait && this.#host.blocked.of(envelope)
    if (held) this.held.set(at, heldNode(held, wait))
    return at
  }

  /** Returns the node that does a task. A task that nobody waits for any more ends by itself: its node is live. */
  task(id: string): number {
    this.#asked ??= requestsById(this.#host)
    const request = this.#asked.get(id)
    return request ? this.#answerOf(request) : this.#free()
  }

  // ---- the other waits

  #call(agent: Agent, number: number, call: OpenCall): void {
    const { turn, waitsFor, since } = call
    const at = this.#of(agent, turn)
    if (at === undefined) return
    const { run } = this.turns[at]!.envelope
    if (waitsFor?.kind === 'handoff') return // the request to the target has the wait already
    if (call.verb === KEYED && !this.#keyedEnd) return this.#outside(at, number, call)
    if (waitsFor?.kind === 'sync') return this.#sync(at, run, waitsFor.name, number, call)
    const isTheirs = waitsFor && !run.boardLent && !this.#host.boards.isShared(run)
    const target = isTheirs ? this.#anybody(run) : this.#free()
    this.#wait(at, { kind: 'blackboard', for: waitsFor?.name ?? '', target, number, since, call })
  }

  #outside(at: number, number: number, call: OpenCall): void {
    const target = this.#add([NEVER])
    this.outside.set(target, call)
    this.#wait(at, { kind: 'request', for: call.subject ?? '', target, number, since: call.since, call })
  }

  /** Returns a node that goes on if anything of the run does: any turn, and any message that is to begin one. */
  run(run: RunState): number {
    const at = this.#add()
    this.#writers(run, at)
    const node = this.nodes[at]!
    node.live = node.waits.every(({ targets }) => targets.length === 0) // it is between two things
    return at
  }

  #sync(at: number, run: RunState, point: string, number: number, call: OpenCall): void {
    const generation = [...this.#host.syncPoints.open].find((open) => open.run === run && open.point.name === point)
    const targets: number[] = []
    for (const name of generation?.missing ?? []) {
      const target = this.#agent(name, run, isTimed(generation))
      targets.push(target)
      this.turns[at]!.waits.push({ kind: 'sync', for: name, target, number, since: call.since, call, generation })
    }
    this.nodes[at]!.waits.push({ need: targets.length, targets })
  }

  /**
   * Adds a node for an agent that must come to a sync point in this run: by a turn that it has there, or by one that
   * somebody may yet cause. If it has no turn, the point's time limit ends the wait if there is one: that is no
   * deadline within a cycle.
   */
  #agent(name: string, run: RunState, timed: boolean): number {
    const at = this.#add()
    const agent = this.#host.directory.agent(name, run)
    const own: number[] = []
    for (const { mailbox } of agent?.instances ?? [])
      for (const envelope of mailbox.handed.all()) if (envelope.run === run) own.push(this.message(agent!, envelope))
    if (agent) own.push(...this.#messages.waiting(agent, run))
    if (own.length === 0 && timed) this.nodes[at]!.live = true
    else this.nodes[at]!.waits.push({ need: 1, targets: [...own, this.#anybody(run)] })
    return at
  }

  #anybody(run: RunState): number {
    let at = this.#anybodyOf.get(run)
    if (at === undefined) {
      at = this.#add()
      this.#anybodyOf.set(run, at)
      this.anybody.add(at)
    }
    return at
  }

  /** Makes a node wait for the possible writers: any turn of the run, and any message that is still to begin one. */
  #writers(run: RunState, at: number): void {
    const targets: number[] = []
    for (const [envelope, turn] of this.#byEnvelope) if (envelope.run === run && this.turns[turn]) targets.push(turn)
    for (const agent of this.#host.directory.byIndex) targets.push(...this.#messages.waiting(agent, run))
    for (const { callee, envelope } of this.#host.blocked.all)
      if (envelope.run === run) targets.push(this.message(callee, envelope))
    this.nodes[at] = { live: false, waits: [{ need: 1, targets }] }
  }

  #room(callee: Agent): void {
    for (const line of callee.mailbox.pending.lines) {
      const envelope = firstSent(line) // those behind it wait for the same
      if (!envelope) continue
      const { memory, at } = envelope
      const sender = senderOf(memory, at)
      const turn = turnOf(memory, at)
      const wait: OpenWait = {
        kind: 'mailbox',
        for: callee.name,
        target: waitingOf(memory, at) & SIGNALLED ? this.#free() : this.message(callee, envelope),
        number: correlationOf(memory, at),
        since: timeOf(memory, at),
        sent: { callee, envelope },
      }
      const parked = this.#parked.get(sender)
      if (parked) parked.push(wait)
      else this.#parked.set(sender, [wait])
      const own = this.#of(this.#host.directory.byIndex[sender]!, turn)
      if (own !== undefined) this.#wait(own, wait)
    }
  }

  /** Adds the waits of broadcasts: for the recipients whose mailboxes have no room. */
  #broadcasts(sender: Agent): void {
    for (const [number, { turn, copies }] of sender.broadcasts) {
      const at = this.#of(sender, turn)
      if (at === undefined) continue
      const waits = (this.#parked.get(sender.index) ?? []).filter((wait) => copies.includes(wait.number))
      this.turns[at]!.waits.push(...waits.map((wait) => ({ ...wait, number })))
      this.nodes[at]!.waits.push({ need: waits.length, targets: waits.map(({ target }) => target) })
    }
  }

  /**
   * Adds waits to turns without any wait that the host knows: their sends may queue in the thread, behind a message
   * that found no room.
   */
  #inLine(): void {
    for (const [at, turn] of this.turns.entries())
      if (turn?.waits.length === 0) for (const wait of this.#parked.get(turn.agent.index) ?? []) this.#wait(at, wait)
  }

  /** Adds the wait of a writer whose reader is far behind. */
  #writer(agent: Agent, turn: number, since: number): void {
    const at = this.#of(agent, turn)
    if (at === undefined) return
    const request = this.#host.requests.of(this.turns[at]!.envelope)
    if (request) this.#unread.add(request)
    const reader = request && this.#of(request.caller, request.turn)
    const target = reader ?? this.#free()
    this.#wait(at, { kind: 'reader', for: request?.caller.name ?? '', target, number: 0, since })
  }
}

/** Wait that nothing in the team ends. */
const NEVER: Wait = { need: 1, targets: [] }

/** Number of the wait for a place. */
const PLACE = -1

const requestsById = (host: Core): Map<string, OpenRequest> =>
  new Map(
    host.directory.byIndex.flatMap(({ open }) =>
      Array.from(open.values(), (request) => [idOf(request.envelope.memory, request.envelope.at), request] as const),
    ),
  )

/** Returns the node of a task that waits for others, with the agents that are to do those. */
const heldNode = ({ callee: agent, envelope, waitsFor }: HeldTask, { targets }: Wait): TurnNode => ({
  agent,
  envelope,
  waits: Array.from(waitsFor, (id, i) => ({
    kind: 'dependency',
    for: envelope.run.tasks.get(id)?.assignedTo ?? id,
    target: targets[i]!,
    number: 0,
    since: timeOf(envelope.memory, envelope.at),
  })),
})

function firstSent(line: Iterable<Envelope<RunState>>): Envelope<RunState> | undefined {
  for (const envelope of line) {
    const { memory, at } = envelope
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0) return envelope
  }
  return undefined
}
