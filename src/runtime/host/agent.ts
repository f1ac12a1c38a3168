/** An agent in the host: its settings, its mailbox and open requests, and the thread that it has now. */

import { NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'
import { mostOpenTurns } from '../../mailbox/channel.ts'
import { idOf, type Memory, MOST_GROUPS } from '../../mailbox/frame.ts'
import { type Envelope, Mailbox } from '../../mailbox/mailbox.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { AgentSettings, TeamSettings } from '../settings/settings.ts'
import type { Incarnation } from './incarnation.ts'
import type { RunState } from './run.ts'

const MIB = 2 ** 20

export interface HostedSettings extends Omit<AgentSettings, 'name' | 'role'> {
  /** Place of the role in the team's options, for errors: `agents[0]`. */
  option: string
  /**
   * True for agents, false for the protocol script and for callers outside. Only turns of agents need a permit of the
   * run.
   */
  isAgent: boolean
  /** True if it may only answer and report (delegation.ts). */
  untrusted: boolean
}

/** Returns the settings of an agent. `option` is the agent's place in the team's options, for errors. */
export function hostedSettings(
  { name: _name, role: _role, ...settings }: AgentSettings,
  option: string,
): HostedSettings {
  return { ...settings, option, untrusted: settings.info.trust === 'untrusted', isAgent: true }
}

/** Returns the settings of one of the runtime's own names. They have no limits except on the size of a message. */
export function fixedCell(name: string, settings: TeamSettings): HostedSettings {
  const { supervision, retries, modelTimeoutMs, answerWithinMs, tools, loops } = settings
  return {
    info: { name },
    option: 'orchestration',
    module: null,
    playedByModel: false,
    isolation: 'thread',
    verbs: [],
    loops,
    contextStrategy: undefined,
    maxHeapMb: null,
    maxExternalMb: null,
    concurrency: Number.MAX_SAFE_INTEGER,
    instances: 1,
    reentrancy: 'none', // nobody can send it a request
    mailbox: { capacity: 2 ** 30, bytes: 2 ** 30, maxMessageBytes: 16 * MIB, overflow: 'block' },
    supervision: { ...supervision, onHandlerError: 'fail' },
    responseTimeoutMs: Number.POSITIVE_INFINITY,
    modelTimeoutMs,
    answerWithinMs,
    queueTimeoutMs: false,
    retries,
    turnRetries: 0, // a script that throws has failed
    turnTimeoutMs: false,
    messagesPerTurn: Number.POSITIVE_INFINITY,
    env: [],
    keys: undefined,
    guards: { input: [], output: [], tool: settings.guards.tool },
    tools: { ...tools, modules: [], names: [], skills: [] }, // these run in the threads of agents
    untrusted: false,
    isAgent: false,
  }
}

/*
 * Groups of requests that an agent's open turns wait for together: all of them, or so many of them. The deadlock
 * detector counts a group as one wait.
 */

/** Requests of one turn that form one wait. */
export interface RequestGroup {
  /** Number of answers that the group still waits for; 0: all. */
  need: number
  /** True if an earlier process has begun it: answers that it had are not counted here. */
  readonly isRestored?: boolean
}

export class WaitingGroups {
  readonly #groups = new Map<number, RequestGroup>()

  /** True if any turn has had a group. To be read only. */
  any = false

  /** Returns the group of that number of a turn. 0 is the number of a request that waits alone. */
  of(turn: number, group: number): RequestGroup | undefined {
    return group === 0 ? undefined : this.#groups.get(keyOf(turn, group))
  }

  /**
   * Notes how many answers a group needs, as its turn says. A turn that comes again may have had answers before, and
   * its own count does not know them: it waits in vain only if none of the others can answer. The requests that it has
   * open already stay in one group with new ones.
   */
  note(turn: number, group: number, count: number, attempt: number): void {
    const known = this.of(turn, group)
    const comesAgain = attempt > 1 || known?.isRestored === true
    this.any = true
    const need = comesAgain ? Math.min(count, 1) : count
    if (known && comesAgain) known.need = need
    else this.#groups.set(keyOf(turn, group), { need })
  }

  /**
   * Returns the group of a request of an earlier process. How many answers it still needs is not known until its turn
   * comes again: it waits in vain only if none of its requests can be answered.
   */
  restore(turn: number, group: number): RequestGroup | undefined {
    if (group !== 0 && !this.of(turn, group)) this.#groups.set(keyOf(turn, group), { need: 1, isRestored: true })
    this.any = this.#groups.size > 0
    return this.of(turn, group)
  }

  forget(turn: number): void {
    for (let group = 1; group <= MOST_GROUPS; group++) this.#groups.delete(keyOf(turn, group))
    this.any = this.#groups.size > 0
  }
}

const keyOf = (turn: number, group: number): number => turn * (MOST_GROUPS + 1) + group

/*
 * State that the host keeps for one agent: the mailbox, which outlives the agent's threads, and the thread that it has
 * now (`Incarnation`). An agent with several instances has an `Agent` for each, with its own thread, turns and
 * restarts. The instances share one name, one index, one mailbox and one count of waits, so that frames and the log
 * know one agent. Code that means the agent as a whole uses the one of the first instance.
 */

export interface OpenCall {
  readonly turn: number
  /** Epoch ms. */
  readonly since: number
  readonly verb: string
  /** Sync point, key, tool, agent or model that the call concerns. */
  readonly subject: string | undefined
  readonly withdraw: () => void
  /** Settles the call with an error from outside. */
  readonly fail: (error: DramatisError) => void
  /** True if the turn does not wait for others during this call. */
  readonly isOwnWork: boolean
  /** True while a person is asked. */
  ofPerson: boolean
  /** Wait that only the agents themselves can end, if the call is one. */
  readonly waitsFor: { readonly kind: 'blackboard' | 'handoff' | 'sync'; readonly name: string } | undefined
}

/**
 * Turn number for what is asked in an agent's name but not by one of its turns. No agent and no waiting message has it.
 */
export const NO_TURN = -1

export interface OpenRequest {
  readonly caller: Agent
  readonly correlation: number
  readonly run: RunState
  /** Turn of the caller; `NO_TURN` if none of its turns waits. */
  turn: number
  /** Agent that has to answer, and the message that asks it. A handoff changes both. */
  callee: Agent
  envelope: Envelope<RunState>
  readonly streams: boolean
  /** Takes the answer in place of a thread, for callers in the host. */
  settle: ((memory: Memory, at: number) => void) | undefined
  /** Number of retries that are allowed, and whether a retry may start the turn again (idempotent). */
  readonly retries: number
  readonly idempotent: boolean
  readonly group: RequestGroup | undefined
  /** True if a signal of the caller may end the wait. */
  readonly signalled: boolean
  tried: number
  /** Time that retries have added to the caller's wait, in ms. The wait counts from the start of the turn. */
  grantedMs: number
  /** Number of delegations that this request's message has replaced, by handoffs. */
  replaced: number
  /** True for a handoff offer: it offers the duty of the caller's turn. That turn ends when the offer is accepted. */
  offers: boolean
}

/** Task that its agent gets only when other tasks are done. */
export interface HeldTask {
  readonly callee: Agent
  readonly envelope: Envelope<RunState>
  readonly waitsFor: Set<string>
}

export class Agent {
  /** Number of the agent in frames. It is final once the agent has a thread. */
  index: number
  readonly name: string
  readonly settings: HostedSettings
  /** All instances of the agent, including this one. */
  readonly instances: readonly Agent[]
  /** Position of this instance among them. */
  readonly instance: number
  readonly mailbox: Mailbox<RunState>
  /** Requests that the agent waits for, by the agent's own number for them. */
  readonly open: Map<number, OpenRequest>
  /**
   * Verb calls of the agent that the host is working on, by the agent's own number for them, with the turns that wait
   * for them.
   */
  readonly calls: Map<number, OpenCall>
  readonly groups: WaitingGroups
  /** Callbacks of host callers that asked whether their message was accepted. */
  readonly acknowledgements: Map<number, (error: DramatisError | undefined) => void>
  /**
   * Broadcasts that some mailbox has not accepted yet, by the agent's own number for them: the turn and the numbers of
   * the copies.
   */
  readonly broadcasts: Map<number, { readonly turn: number; readonly copies: readonly number[] }>
  status: AgentStatus = 'starting'
  epoch: number
  /** Number of threads that the agent has had. Only the first instance counts it. */
  #epochs = 0
  incarnation: Incarnation | undefined
  /** Highest number that the agent has used for a wait, over all its threads. Instances take turns with the numbers. */
  correlation: number
  state: object | undefined
  restarts = 0
  /** Restarts that count for the intensity (the limit on restarts within a time). */
  restartTimes: RestartTime[] = []
  startFailures = 0
  /** Counts start attempts. An attempt that a later one has overtaken creates no thread. */
  beginnings = 0
  /** Number of frames of earlier threads that came after their end and were dropped. */
  staleFrames = 0
  stopped: DramatisError | undefined
  /** Run that the agent was made in and ends with. undefined: it belongs to the team. */
  readonly run: RunState | undefined
  /**
   * Passivated: 'asleep' while it has no thread and needs none, 'waking' from its next message until its new thread is
   * ready. Such an agent takes messages like one with a thread.
   */
  passivated: 'asleep' | 'waking' | false = false
  /** True when it has left the team permanently. Its name may be used again. */
  removed = false
  /**
   * Messages that were under way together when the thread died. They are delivered one at a time until the guilty one
   * is found: the next one comes when the others have ended, or wait for others alone.
   */
  readonly suspects: Set<Envelope<RunState>>
  /** True if it can have turns of several runs open at once. */
  readonly interleaves: boolean
  /** Run whose permit the agent has. Only for an agent with one turn at a time. */
  permit: RunState | undefined
  /**
   * Runs whose permit the agent has, but whose message it has not been handed yet. Only for an agent with several turns
   * at once.
   */
  readonly promised = new Set<RunState>()
  /** Runs, by index, whose turn gave up its permit while it waits. The answers for it are held back. */
  readonly withoutPermit = new Map<number, RunState>()
  /** Number of messages that it may still be handed while others wait for its permit. */
  slice = 0
  /** Estimated duration of its turns, in ms. For a new agent nothing is known; a long duration is the safe guess. */
  turnMs = 20
  /** Time at which its last turn ended or its thread started, monotonic ms. */
  lastEndAt = 0
  turns = 0
  /** Names of its tools, once one of its threads has loaded them. */
  tools: readonly string[] | undefined
  /** Names of the tools in modules that are not `readOnly`. */
  harmful: readonly string[] = []
  /** Tokens used on models by all instances, over all runs. */
  spent: TokenUsage = NO_TOKENS

  /**
   * `former` is the agent that had this index and name before. The counters that distinguish its turns and threads in
   * the log continue. `first` is only for the other instances of an agent; code that creates an agent leaves it out.
   */
  constructor(index: number, name: string, settings: HostedSettings, run?: RunState, former?: Agent, first?: Agent) {
    this.index = index
    this.name = name
    this.settings = settings
    this.interleaves = settings.concurrency > 1
    this.run = run
    this.instance = first?.instances.length ?? 0
    this.mailbox = new Mailbox<RunState>((first ?? former)?.mailbox, settings.instances > 1)
    this.calls = first?.calls ?? new Map()
    this.groups = first?.groups ?? new WaitingGroups()
    // The former agent's sends may still wait for room, and requests in its name for an answer.
    this.open = (first ?? former)?.open ?? new Map()
    this.acknowledgements = (first ?? former)?.acknowledgements ?? new Map()
    this.broadcasts = (first ?? former)?.broadcasts ?? new Map()
    this.suspects = first?.suspects ?? new Set()
    const all = former?.instances ?? []
    this.#epochs = former ? former.first.#epochs : 0
    this.epoch = this.#epochs
    this.correlation = beforeFirst(Math.max(0, ...all.map(({ correlation }) => correlation)), settings, this.instance)
    if (first) {
      this.instances = first.instances
      return
    }
    this.staleFrames = all.reduce((sum, { staleFrames }) => sum + staleFrames, 0)
    const instances: Agent[] = [this]
    this.instances = instances
    while (instances.length < settings.instances) instances.push(new Agent(index, name, settings, run, former, this))
  }

  get first(): Agent {
    return this.instances[0]!
  }

  /** Fields that name the agent a record belongs to. */
  get whose(): { agent: string; index: number; instance?: number } {
    const { name: agent, index, instance, instances } = this
    return instances.length === 1 ? { agent, index } : { agent, index, instance }
  }

  /** Continues the counters of its threads in an earlier process. */
  continueFrom({ epoch, correlation, turn }: { epoch: number; correlation: number; turn: number }): void {
    this.first.#epochs = Math.max(this.first.#epochs, epoch)
    this.mailbox.continueFrom(turn)
    for (const each of this.instances) {
      each.epoch = this.first.#epochs
      each.correlation = beforeFirst(correlation, each.settings, each.instance)
    }
  }

  /** Highest numbers that the agent has used: a later process continues from them. */
  get numbers(): { epoch: number; correlation: number; turn: number } {
    const correlation = Math.max(...this.instances.map((each) => each.correlation))
    return { epoch: this.first.#epochs, correlation, turn: this.mailbox.lastTurn }
  }

  nextEpoch(): number {
    this.first.#epochs += 1
    return this.first.#epochs
  }

  /** Reason why the agent is stopped, if all its instances are. */
  get gone(): DramatisError | undefined {
    for (const { stopped } of this.instances) if (!stopped) return undefined
    return this.stopped
  }

  /** Returns the instance that has that turn now; undefined while its message waits. */
  holderOf(turn: number): Agent | undefined {
    if (this.instances.length === 1) return this
    return this.instances.find(({ mailbox }) => mailbox.handed.get(turn) !== undefined)
  }

  /** Withdraws the call of a verb: a turn no longer waits for its result under that number. */
  cancelCall(correlation: number): void {
    const call = this.calls.get(correlation)
    this.calls.delete(correlation)
    call?.withdraw()
  }

  /** Number of runs with a message at this instance, where each message is of another run. */
  get openRuns(): number {
    const { handed } = this.mailbox
    return handed.nested === 0 ? handed.size : new Set(Array.from(handed.values(), ({ run }) => run)).size
  }

  /** Returns the message of a turn that is open, or that was cut off and will be redelivered. */
  messageOf(turn: number): Envelope<RunState> | undefined {
    for (const { mailbox } of this.instances) {
      const handed = mailbox.handed.get(turn)
      if (handed) return handed
    }
    for (const envelope of this.mailbox.cutOff()) if (envelope.turn === turn) return envelope
    return undefined
  }

  /** Returns the id of that message; '' if the turn has ended. */
  messageIdOf(turn: number): string {
    const envelope = this.messageOf(turn)
    return envelope ? idOf(envelope.memory, envelope.at) : ''
  }

  /**
   * Checks whether it may be handed a message of one more run. As long as there are suspects it may not while one of
   * its turns is at work, or it is to get another message. `promised`: number of the runs of which it is to get one.
   */
  hasPlace(promised = 0): boolean {
    if (this.openRuns + promised >= this.settings.concurrency) return false
    if (this.suspects.size === 0) return true
    if (promised > 0) return false
    for (const { turn } of this.mailbox.handed.values()) if (!this.incarnation?.quiet.has(turn)) return false
    return true
  }

  suspendedOf(run: RunState): Envelope<RunState> | undefined {
    for (const envelope of this.mailbox.handed.suspended.values()) if (envelope.run === run) return envelope
    return undefined
  }

  /**
   * Checks whether a suspended turn of that run may go on here: there is a place. One that is asked back needs none
   * among several: those that have them may wait for its run.
   */
  mayReturn(run: RunState): boolean {
    const { incarnation } = this
    if (!incarnation?.ready || incarnation.draining || incarnation.retired) return false
    if (!this.interleaves) return this.mailbox.handed.size === 0 && !incarnation.sending
    const { concurrency } = this.settings
    const most = this.isAskedWithin(run) ? mostOpenTurns(concurrency) : concurrency
    return this.openRuns + this.promised.size - (this.promised.has(run) ? 1 : 0) < most
  }

  /** Checks whether it has an open turn of that run that is not suspended. */
  isAt(run: RunState): boolean {
    const { handed } = this.mailbox
    if (!this.interleaves) return handed.size > 0 && this.incarnation?.run === run
    for (const envelope of handed.values()) if (envelope.run === run) return true
    return false
  }

  /** Checks whether it has no message of that run any more; with one turn at a time, no message of any run. */
  isDoneWith(run: RunState): boolean {
    if (!this.interleaves) return this.mailbox.handed.size === 0
    return this.settings.reentrancy === 'none' || !this.isAt(run)
  }

  /** Checks that nothing is left to be handed to the agent, and nothing to be given back. */
  isBare({ backlog, draining, held, retired }: Incarnation): boolean {
    const { handed, line } = this.mailbox
    if (this.interleaves || this.instances.length > 1 || this.permit || draining || retired) return false
    if (line.waiting + handed.size + handed.suspended.size > 0) return false
    return backlog.length + held.length + this.withoutPermit.size === 0
  }

  /** Checks whether a waiting request is to run within a turn that this instance has open for that run. */
  isAskedWithin(run: RunState): boolean {
    for (const { run: of, within } of this.mailbox.nested) if (of === run && this.mailbox.holds(within!)) return true
    return false
  }

  /** Messages that its thread is working on. */
  get underWay(): Iterable<Envelope<RunState>> {
    const { handed } = this.mailbox
    if (this.interleaves) return handed.all()
    const { current } = this
    const suspended = handed.suspended.values()
    if (!current) return suspended
    if (handed.nested === 0) return handed.suspended.size === 0 ? [current] : [current, ...suspended]
    const begun = [...handed.values()].filter((envelope) => envelope === current || this.incarnation?.begun(envelope))
    return [...begun, ...suspended]
  }

  /** Yields requests that were handed over to run within a turn and have not begun: they wait until that turn parks. */
  *notBegun(): IterableIterator<Envelope<RunState>> {
    for (const { incarnation, mailbox } of this.instances) {
      if (mailbox.handed.nested === 0) continue
      for (const envelope of mailbox.handed.values())
        if (envelope.within && !incarnation?.begun(envelope)) yield envelope
    }
  }

  /**
   * Yields every message of the agent that is not finished: in the mailbox, at an instance, or as its own unanswered
   * request.
   */
  *messages(): IterableIterator<Envelope<RunState>> {
    for (const { mailbox } of this.instances) yield* mailbox.handed.all()
    yield* this.mailbox.queued()
    yield* this.mailbox.pending
    for (const { envelope } of this.open.values()) yield envelope
  }

  /** Message that the thread has begun with, or takes next. Only for an agent with one turn at a time. */
  get current(): Envelope<RunState> | undefined {
    const { handed } = this.mailbox
    if (!this.incarnation || handed.ranked + handed.nested === 0) return handed.first
    let next: Envelope<RunState> | undefined
    let plain = false
    for (const envelope of handed.values()) {
      // Messages of priority 0 are taken in order, so the first stands for all. Nested ones have no order.
      if (envelope.within ? !this.incarnation.begun(envelope) : envelope.priority === 0 && plain) continue
      if (this.incarnation.begun(envelope)) return envelope
      if (envelope.priority === 0) plain = true
      if (!next || envelope.priority > next.priority) next = envelope
    }
    return next
  }
}

/**
 * Returns the number before the first wait number of an instance. Each instance takes every n-th number, so that an
 * answer finds its turn even if another instance retries that turn.
 */
const beforeFirst = (used: number, { instances }: HostedSettings, instance: number): number =>
  Math.ceil(used / instances) * instances + instance + 1 - instances

/** Restart of an agent: when the thread died (monotonic ms), its epoch, and the delay of the next start. */
export interface RestartTime {
  at: number
  epoch: number
  delayMs: number
}

/** Turn that waits. */
export interface Waiter {
  readonly agent: Agent
  readonly turn: number
  /** Number that the agent itself uses for the wait. */
  readonly correlation: number
}
