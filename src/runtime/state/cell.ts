/**
 * What the host knows of one agent: the mailbox that outlives its threads, and the life that it has now. An agent with several
 * instances has a cell for each, with a life, turns and restarts of its own. They have one name, one index, one mailbox and
 * one count of waits, so that frames and the log know one agent; who speaks of the agent has the cell of the first.
 */
import { NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'
import type { DramatisError } from '../../errors.ts'
import { MOST_GROUPS } from '../../mailbox/frame.ts'
import { type Envelope, Mailbox } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { CellSettings } from './cell-settings.ts'
import type { Life } from './life.ts'
import type { RunState } from './run-state.ts'

/** Requests of one turn that are one wait. */
export interface RequestGroup {
  /** How many answers it waits for still; 0: for all. */
  need: number
}

/** A verb that the host is busy with. */
export interface OpenCall {
  readonly turn: number
  /** Epoch ms. */
  readonly since: number
  readonly withdrawn: AbortController
  /** Settles it from outside. */
  readonly fail: (error: DramatisError) => void
  /** The turn does not wait for others meanwhile. */
  readonly isOwnWork: boolean
  /** Whose move it waits for, where that is the agents' own. */
  readonly waitsFor: { readonly kind: 'blackboard' | 'handoff' | 'sync'; readonly name: string } | undefined
}

/** Of what is asked in somebody's name, and not by a turn: no agent has it, nor a message that waits. */
export const NO_TURN = -1

/** A request that its caller waits for. */
export interface OpenRequest {
  readonly caller: Cell
  readonly correlation: number
  readonly run: RunState
  /** The caller's turn; `NO_TURN` where none of its turns waits. */
  turn: number
  /** Who is to answer, and the message that it has for that; a handoff changes both. */
  callee: Cell
  envelope: Envelope<RunState>
  readonly streams: boolean
  /** For callers in the host: takes the answer in place of a thread. */
  readonly settle: ((memory: Memory, at: number) => void) | undefined
  /** How often it may be asked again, and whether its turn may then begin again. */
  readonly retries: number
  readonly idempotent: boolean
  readonly group: RequestGroup | undefined
  /** A signal of the caller's may end the wait. */
  readonly signalled: boolean
  /** How often it has been asked. */
  tried: number
  /** What this has added to the time that its caller waits from the start of the turn. */
  grantedMs: number
  /** Delegations whose place its message has taken, by handoffs. */
  replaced: number
  /** It offers the duty of the caller's turn, which ends when that is taken. */
  offers: boolean
}

/** A task whose agent gets it when others are done. */
export interface HeldTask {
  readonly callee: Cell
  readonly envelope: Envelope<RunState>
  /** Ids of the tasks that are to be done before it. */
  readonly waitsFor: Set<string>
}

export class Cell {
  readonly index: number
  readonly name: string
  readonly settings: CellSettings
  /** All of the agent, this one among them. */
  readonly instances: readonly Cell[]
  /** Which of them it is. */
  readonly instance: number
  readonly mailbox: Mailbox<RunState>
  /** Requests that the agent waits for, by its own number for them. */
  readonly open: Map<number, OpenRequest>
  /** Verbs of the agent that the host is busy with, by its own number for them, and the turns that wait for them. */
  readonly calls: Map<number, OpenCall>
  /** Groups of requests of the turns that are open, by `groupKey`. */
  readonly groups: Map<number, RequestGroup>
  /** Callers in the host that asked whether their message was taken. */
  readonly verdicts: Map<number, (error: DramatisError | undefined) => void>
  /** Its broadcasts that some mailbox has not accepted yet: their turns and the numbers of their copies, by its own number for them. */
  readonly broadcasts: Map<number, { readonly turn: number; readonly copies: readonly number[] }>
  status: AgentStatus = 'starting'
  epoch: number
  /** Of the first instance: how many lives the agent has had. */
  #lives = 0
  life: Life | undefined
  /** The highest number that it has used for a wait, over its lives. Instances take turns with the numbers. */
  correlation: number
  state: object | undefined
  restarts = 0
  /** For the intensity. */
  restartTimes: RestartTime[] = []
  startFailures = 0
  /** Counts the beginnings: one that another has overtaken makes no life. */
  beginnings = 0
  /** Frames of its earlier lives that came after their end, and were dropped. */
  staleFrames = 0
  /** Why it is stopped, if it is. */
  stopped: DramatisError | undefined
  /** The run that it was made in and goes with; undefined: it is of the team. */
  readonly run: RunState | undefined
  /** It has left the team for good. Its name may come again. */
  removed = false
  /** Messages that were under way together when the thread died: they come one at a time until the guilty one is found. */
  readonly suspects: Set<Envelope<RunState>>
  /** Has turns of several runs open at once. */
  readonly interleaves: boolean
  /** Of an agent with one turn at a time: the run whose permit it has. */
  permit: RunState | undefined
  /** Of the others: runs whose permit it has and whose message it has not been handed yet. */
  readonly promised = new Set<RunState>()
  /** Runs whose turn gave its permit up while it waits, by their index: its answers are held back. */
  readonly suspended = new Map<number, RunState>()
  /** How many messages more it may be handed while others wait for its permit. */
  slice = 0
  /** What its turns take, about, in ms. Of a new agent nothing is known: long ones are the safe guess. */
  turnMs = 20
  /** When its last turn ended or its life began, monotonic ms. */
  lastEndAt = 0
  turns = 0
  /** The names of its tools, once a thread of its has loaded them. */
  tools: readonly string[] | undefined
  /** Of those in modules the ones that are not `readOnly`. */
  harmful: readonly string[] = []
  /** On models, by all instances, over all runs. */
  spent: TokenUsage = NO_TOKENS

  /**
   * `former`: who had that index and name before. What tells its turns and lives apart in the log goes on counting. `first`:
   * for the other instances of an agent; who makes an agent leaves it out.
   */
  constructor(index: number, name: string, settings: CellSettings, run?: RunState, former?: Cell, first?: Cell) {
    this.index = index
    this.name = name
    this.settings = settings
    this.interleaves = settings.concurrency > 1
    this.run = run
    this.instance = first?.instances.length ?? 0
    this.mailbox = new Mailbox<RunState>((first ?? former)?.mailbox, settings.instances > 1)
    this.calls = first?.calls ?? new Map()
    this.groups = first?.groups ?? new Map()
    // What the one before had sent may wait for room still, and what was asked in its name for an answer.
    this.open = (first ?? former)?.open ?? new Map()
    this.verdicts = (first ?? former)?.verdicts ?? new Map()
    this.broadcasts = (first ?? former)?.broadcasts ?? new Map()
    this.suspects = first?.suspects ?? new Set()
    const all = former?.instances ?? []
    this.#lives = former ? former.first.#lives : 0
    this.epoch = this.#lives
    this.correlation = beforeFirst(Math.max(0, ...all.map(({ correlation }) => correlation)), settings, this.instance)
    if (first) {
      this.instances = first.instances
      return
    }
    this.staleFrames = all.reduce((sum, { staleFrames }) => sum + staleFrames, 0)
    const instances: Cell[] = [this]
    this.instances = instances
    while (instances.length < settings.instances) instances.push(new Cell(index, name, settings, run, former, this))
  }

  /** The one that stands for the agent. */
  get first(): Cell {
    return this.instances[0]!
  }

  /** Of whom a record is. */
  get whose(): { agent: string; index: number; instance?: number } {
    const { name: agent, index, instance, instances } = this
    return instances.length === 1 ? { agent, index } : { agent, index, instance }
  }

  /** A number for the next life: no two of the agent have the same. */
  nextEpoch(): number {
    this.first.#lives += 1
    return this.first.#lives
  }

  /** Why the agent is stopped, if it is: all its instances are. */
  get gone(): DramatisError | undefined {
    for (const { stopped } of this.instances) if (!stopped) return undefined
    return this.stopped
  }

  /** Which instance has that turn now; none, while its message waits. */
  holderOf(turn: number): Cell | undefined {
    if (this.instances.length === 1) return this
    return this.instances.find(({ mailbox }) => mailbox.handed.get(turn) !== undefined)
  }

  /** A turn no longer waits for the verb that it called under that number. */
  cancelCall(correlation: number): void {
    const call = this.calls.get(correlation)
    this.calls.delete(correlation)
    call?.withdrawn.abort()
  }

  /** Of how many runs it has messages, where each is of another. */
  get openRuns(): number {
    const { handed } = this.mailbox
    return handed.nested === 0 ? handed.size : new Set(Array.from(handed.values(), ({ run }) => run)).size
  }

  /** The message of a turn that is open, or was cut off and comes again. */
  messageOf(turn: number): Envelope<RunState> | undefined {
    for (const { mailbox } of this.instances) {
      const handed = mailbox.handed.get(turn)
      if (handed) return handed
    }
    for (const envelope of this.mailbox.cutOff()) if (envelope.turn === turn) return envelope
    return undefined
  }

  /** How many messages it may have at once, where they are of several runs. */
  get atOnce(): number {
    return this.suspects.size > 0 ? 1 : this.settings.concurrency
  }

  /** Whether it has a turn of that run. */
  isAt(run: RunState): boolean {
    const { handed } = this.mailbox
    if (!this.interleaves) return handed.size > 0 && this.life?.run === run
    for (const envelope of handed.values()) if (envelope.run === run) return true
    return false
  }

  /** Nothing of that run is with it any more. With one turn at a time: nothing of any. */
  isDoneWith(run: RunState): boolean {
    if (!this.interleaves) return this.mailbox.handed.size === 0
    return this.settings.reentrancy === 'none' || !this.isAt(run)
  }

  /** A request waits that is to run within a turn that it has of that run. */
  isAskedWithin(run: RunState): boolean {
    for (const { run: of, within } of this.mailbox.nested) if (of === run && this.mailbox.holds(within!)) return true
    return false
  }

  /** The messages that its thread is at. */
  get underWay(): Iterable<Envelope<RunState>> {
    const { handed } = this.mailbox
    if (this.interleaves) return handed.values()
    const { current } = this
    if (!current) return []
    if (handed.nested === 0) return [current]
    return [...handed.values()].filter((envelope) => envelope === current || this.life?.begun(envelope))
  }

  /** Requests that were handed over to run within a turn, and wait for it to park. */
  *notBegun(): IterableIterator<Envelope<RunState>> {
    for (const { life, mailbox } of this.instances) {
      if (mailbox.handed.nested === 0) continue
      for (const envelope of mailbox.handed.values()) if (envelope.within && !life?.begun(envelope)) yield envelope
    }
  }

  /** Every message of the agent that is not done with: in the mailbox, at an instance, or a request of its own that is not answered. */
  *messages(): IterableIterator<Envelope<RunState>> {
    for (const { mailbox } of this.instances) yield* mailbox.handed.values()
    yield* this.mailbox.queued()
    yield* this.mailbox.parked
    for (const { envelope } of this.open.values()) yield envelope
  }

  /** Of an agent with one turn at a time: the message that its thread has begun with, or takes next. */
  get current(): Envelope<RunState> | undefined {
    const { handed } = this.mailbox
    if (!this.life || handed.ranked + handed.nested === 0) return handed.first
    let next: Envelope<RunState> | undefined
    let plain = false
    for (const envelope of handed.values()) {
      // Those of priority 0 are taken in order, so the first of them speaks for all. Nested ones stand in no order.
      if (envelope.within ? !this.life.begun(envelope) : envelope.priority === 0 && plain) continue
      if (this.life.begun(envelope)) return envelope
      if (envelope.priority === 0) plain = true
      if (!next || envelope.priority > next.priority) next = envelope
    }
    return next
  }
}

/** What a turn's group of that number is called. */
export const groupKey = (turn: number, group: number): number => turn * (MOST_GROUPS + 1) + group

/** Instances take every n-th number, each its own, so that an answer finds its turn wherever that is tried again. */
const beforeFirst = (used: number, { instances }: CellSettings, instance: number): number =>
  Math.ceil(used / instances) * instances + instance + 1 - instances

/** One restart: when its life had died (monotonic ms), which one that was, and how long the next was put off. */
export interface RestartTime {
  at: number
  epoch: number
  delayMs: number
}

/** A turn that waits. */
export interface Waiter {
  readonly cell: Cell
  readonly turn: number
  /** The agent's own number for the wait. */
  readonly correlation: number
}
