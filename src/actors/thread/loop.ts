/** The loop of an agent: takes frames, runs turns, settles waits, and sleeps when there is nothing to do. */

import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { Channel } from '../../mailbox/channel.ts'
import { type Directory, type Mark, ReceivedMessage, setMark } from '../../mailbox/codec.ts'
import {
  allocate,
  CANCEL,
  CORRELATION,
  HEADER,
  KIND,
  type Memory,
  NESTED,
  REQUEST,
  RUN_INDEX,
  readId,
  runOf,
  STREAMS,
  setLimit,
  TURN,
  WANTS_PERMIT,
  WHO,
  writeControl,
} from '../../mailbox/frame.ts'
import { type AgentMessage, MESSAGE_TYPES, type TypedMessage } from '../../mailbox/message.ts'
import type { ReadBytes } from '../../mailbox/stored-parts.ts'
import { TeamMemory } from '../../mailbox/team-memory.ts'
import type { Timer } from '../../shared/clock.ts'
import {
  AgentTerminatedError,
  ConfigurationError,
  type DramatisError,
  describe,
  MessageRejectedError,
  StartFailedError,
  StepMismatchError,
} from '../../shared/errors.ts'
import type { Assignment } from '../definition/assignment.ts'
import type { AgentContext } from '../definition/context.ts'
import { type AgentHandlers, initialStateOf } from '../definition/definition.ts'
import { handled } from '../definition/promises.ts'
import type { ContextStrategy, RoleInfo } from '../definition/role.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Logger } from '../definition/tool.ts'
import { strategyOf } from '../model/window.ts'
import { TurnContext } from '../turn/context.ts'
import { GrantedKeys } from '../turn/granted.ts'
import { turnLogger } from '../turn/host-calls.ts'
import { Link, NOTHING_TAKEN, Outbox, SendQueue, type Taken, type ThreadPort } from '../turn/link.ts'
import { type AgentThread, type Wait, Waits } from '../turn/open-turn.ts'
import { ExternalMemory } from '../turn/own-work.ts'
import { GoingOn, NO_SLOT, Parking } from '../turn/parking.ts'
import type { TurnStart } from '../turn/replay.ts'
import { deepFreeze, firstState, Names, NO_RUN, type RunView, RunViews } from '../turn/run-views.ts'
import { StateRules } from '../turn/state.ts'
import { WrittenSteps } from '../turn/steps.ts'
import type { Toolbox } from '../turn/toolbox.ts'
import { Turn } from '../turn/turn.ts'
import { Commit } from './commit.ts'
import { HeldTurns, Nesting, Probes } from './nesting.ts'
import { EarlyAborts, Replies } from './replies.ts'

/** Metadata of the end of a turn in which code has observed words of a person. */
const HEARD = Object.freeze({ heard: true })

/**
 * Calls the handler with the data that the agent's input schema returns. Invalid data is the sender's fault: the turn
 * is aborted with a MessageRejectedError and the handler does not run.
 */
async function checked(
  { input, receive }: AgentHandlers,
  turn: Turn,
  context: AgentContext,
  message: ReceivedMessage,
): Promise<unknown> {
  const agent = turn.role.name
  const refuse = (issues: string) => {
    const text = `The message to "${agent}" misses its input schema: ${issues}`
    return new MessageRejectedError(text, { agent, path: 'structuredData', issues })
  }
  let structuredData: unknown
  try {
    structuredData = await checkBySchema(input!, message.structuredData, refuse)
  } catch (error) {
    if (!(error instanceof MessageRejectedError)) throw error
    turn.abort(error)
  }
  return turn.reason ? undefined : receive({ ...message.toJSON(), structuredData }, context)
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

const thrownBy = (error: unknown) => error ?? new Error(`a handler threw ${error}`)

/**
 * Prepares the agent's state and data, then runs its start hook. Returns the state as JSON if the host does not have it
 * yet.
 *
 * @param state state that an earlier thread of this agent left, as JSON
 */
async function startAgent(loop: AgentThread, state: string | undefined): Promise<string | undefined> {
  const { handlers, assignment } = loop
  const { name } = loop.role
  const { initialRunState, data, start } = handlers
  loop.stateRules.check(handlers)
  const initial = firstState(initialStateOf(handlers, loop.role), 'initialState', name)
  if (typeof initialRunState !== 'function') firstState(initialRunState, 'initialRunState', name)
  loop.state = state === undefined ? initial : deepFreeze(JSON.parse(state) as object)
  loop.data = loop.role.data
  if (data) {
    const path = `${assignment.option}.data`
    const refuse = (issues: string) =>
      new MessageRejectedError(`${path}: the data of agent "${name}" misses its schema: ${issues}`, { path, issues })
    loop.data = await checkBySchema(data, loop.role.data, refuse)
  }
  if (start) await runStart(loop, start)
  const now = JSON.stringify(loop.state)
  return now === state ? undefined : now
}

async function runStart(loop: AgentThread, start: NonNullable<AgentHandlers['start']>): Promise<void> {
  const turn = new Turn(loop, {
    turn: 0,
    run: 0,
    view: NO_RUN,
    id: [0, 0, 0, 0],
    message: undefined,
    attempt: 1,
    caller: 0,
    correlation: 0,
    streams: false,
    type: 'request',
    startedAt: loop.now(),
    replay: undefined,
    slot: NO_SLOT,
    nested: false,
  })
  const { role, data, log, signal } = turn // the start hook has no run, so it gets no verbs that need one
  const context = {
    role,
    data,
    log,
    signal,
    get state() {
      return turn.state
    },
    setState: (recipe: (draft: object) => void) => turn.setState(recipe),
  }
  try {
    await start(context)
    loop.state = turn.state
  } finally {
    turn.close()
  }
}

/**
 * Converts an error of the start. Errors in the code or its data become a ConfigurationError. Anything else that
 * `start` throws becomes a StartFailedError.
 */
export function startFailure(agent: string, error: unknown): DramatisError {
  if (error instanceof ConfigurationError) return error
  if (error instanceof MessageRejectedError)
    return new ConfigurationError(error.message, { agent, ...error.details }, error)
  return new StartFailedError(`Agent "${agent}" failed while it started: ${describe(error)}`, { agent }, error)
}

const TURNS_A_SLICE = 512
const SLICE_MS = 1

export class AgentLoop implements AgentThread {
  readonly assignment: Assignment
  readonly handlers: AgentHandlers
  readonly role: RoleInfo
  readonly link: Link
  readonly parking: Parking
  readonly goingOn: GoingOn
  readonly writtenSteps: WrittenSteps | undefined
  readonly outbox: Outbox
  readonly now: () => number
  readonly toolbox: Toolbox
  data: unknown
  state: object = {}
  readonly stateRules: StateRules
  readonly strategy: ContextStrategy | undefined
  readonly #port: ThreadPort
  readonly me: number
  readonly #scriptContext: ((turn: Turn) => AgentContext) | undefined
  readonly names: Names
  readonly runs: RunViews
  /** The open turns, usually one. */
  readonly turns: Turn[] = []
  /** Open turns that wait for a person: they take no place. */
  readonly #suspended = new Set<Turn>()
  readonly sends: SendQueue
  readonly waits: Waits
  readonly nesting: Nesting
  readonly #held: HeldTurns
  readonly probes: Probes
  readonly #replies: Replies
  readonly aborts: EarlyAborts
  readonly #commit: Commit
  readonly #external: ExternalMemory | undefined
  readonly #taken: Taken = { ...NOTHING_TAKEN }
  #pumping = false
  #again = false
  #stopping = false
  /** True while no message may begin: the agent is stopping, or its last turn ended without a permit. */
  #takesNone = false
  /**
   * True if a turn began or continued since the event loop last turned, when all microtasks of its handler are done.
   */
  #stirred = false
  /** End time of the previous turn within the same slice, 0 if there is none. */
  #endedAt = 0
  readonly #resume = () => {
    this.#again = false
    if (!this.#pumping) this.#stirred = false
    this.pump()
  }
  readonly directory: Directory

  constructor(
    assignment: Assignment,
    handlers: AgentHandlers,
    toolbox: Toolbox,
    port: ThreadPort,
    scriptContext?: (turn: Turn) => AgentContext,
  ) {
    this.assignment = assignment
    this.handlers = handlers
    this.role = assignment.role
    this.stateRules = new StateRules(assignment)
    this.strategy = strategyOf(assignment, handlers)
    this.toolbox = toolbox
    this.#port = port
    this.#scriptContext = scriptContext
    this.me = assignment.index
    this.names = new Names(assignment.names)
    this.waits = new Waits(assignment.correlation, assignment.instances)
    this.runs = new RunViews(handlers.initialRunState, assignment.role.name)
    this.directory = {
      name: this.names.name.bind(this.names),
      runId: this.runs.idOf.bind(this.runs),
      bytesOf: (run, hash) => this.bytesOf(run, hash),
    }
    const channel = new Channel(assignment.channel)
    this.link = new Link(channel, new TeamMemory(assignment.team), port, assignment.index)
    this.parking = new Parking(channel.words, assignment.concurrency, this.link)
    this.nesting = new Nesting(this.turns, channel.words)
    this.goingOn = new GoingOn({
      unpark: (turn) => this.parking.unpark(turn),
      isAlone: (start) => !this.nesting.isOpen || this.nesting.isAlone({ start }),
      ask: (turn) => {
        this.writeControl(WANTS_PERMIT, turn, 0, 0)
        this.link.flush()
      },
    })
    this.writtenSteps = assignment.isDurable ? new WrittenSteps(() => this.link.flush()) : undefined
    this.probes = new Probes(port.work)
    port.work?.follow(this.turns, () => {
      if (this.probes.waiting || this.#held.any) this.#later()
    })
    this.#held = new HeldTurns({
      isQuiet: (turn) => turn.hasStrayed || this.probes.isQuiet(turn),
      later: () => this.#later(),
      timer: (ms, task) => port.scheduler.timer(ms, task),
      changed: (turn) => this.#changed(turn),
    })
    this.aborts = new EarlyAborts(channel)
    this.#replies = new Replies(this)
    const { maxExternalMb } = assignment
    if (maxExternalMb !== null && port.memories)
      this.#external = new ExternalMemory(channel.words, maxExternalMb, port.memories, () => port.scheduler.monotonic())
    this.now = port.scheduler.now.bind(port.scheduler)
    const random = () => (Math.imul(assignment.seed, 0x9e3779b1) >>> 2) / 2 ** 30
    const keys = GrantedKeys.of(assignment.env, assignment.keys)
    this.outbox = new Outbox(this.link, assignment.index, assignment.maxMessageBytes, this.now, random, keys)
    this.sends = new SendQueue(this.outbox, this.waits)
    this.#commit = new Commit(this, scriptContext !== undefined)
    port.onWake(() => {
      this.link.woken()
      if (!this.#pumping) this.#stirred = false
      this.pump()
    })
  }

  // ---- start and stop

  /** Runs before the first message. Returns the state as JSON if the host does not have it yet. */
  async start(state: string | undefined): Promise<string | undefined> {
    const started = await startAgent(this, state)
    this.#port.work?.rest()
    return started
  }

  /**
   * Takes no more messages, aborts the open turns and waits for their ends, then runs the stop hook. Turns that wait
   * for a person are left alone: the host gives them to the next incarnation of the agent, or ends them.
   */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#takesNone = true
    const reason = new AgentTerminatedError(`Agent "${this.role.name}" is being stopped.`, { agent: this.role.name })
    for (const turn of [...this.turns]) if (!this.#suspended.has(turn)) turn.abort(reason)
    while (this.turns.length > this.#suspended.size) await new Promise<void>((resolve) => this.#onTurnEnd.push(resolve))
    await this.handlers.stop?.()
  }

  /** True if no turn is open, no message of an earlier turn waits for room, and no callback waits for entries. */
  get isIdle(): boolean {
    return this.turns.length === 0 && this.sends.isEmpty && this.link.isClear && !this.runs.listens
  }
  readonly #onTurnEnd: (() => void)[] = []

  // ---- the pump

  /** Runs the frames that are present, for as long as timers and sockets can wait, and sleeps behind the last one. */
  pump(): void {
    if (this.#pumping || this.link.closed) return
    this.#pumping = true
    this.#endedAt = 0
    let more = false
    try {
      const { scheduler, work } = this.#port
      if (this.#replies.drain()) {
        this.#stirred = true
        if (work) work.behind = undefined
      }
      if (this.turns.length === 0 && work?.hasConnections) work.rest()
      let until = 0 // read behind the first turn: most often it is the only one
      for (let turns = 0; !this.#isFull(); turns++) {
        if (turns === 1) until = scheduler.monotonic() + SLICE_MS
        more = turns >= TURNS_A_SLICE || (turns > 0 && (turns & 7) === 0 && scheduler.monotonic() > until)
        if (more || !this.link.takeMessage(this.#taken)) break
        this.#begin()
      }
    } finally {
      this.#pumping = false
      this.#external?.sample()
      this.link.flush()
    }
    if (more) this.#later()
    else this.#sleep()
  }

  /** True if no message may begin. Nested turns share the slot of their outer turn, so only runs are counted then. */
  #isFull(): boolean {
    if (this.#takesNone) return true
    if (this.turns.length === 0) return false
    const suspended = this.#suspended.size
    if (this.turns.length - suspended < this.assignment.concurrency) return false
    return !this.nesting.isOpen || this.nesting.runs - suspended >= this.assignment.concurrency
  }

  #later(): void {
    if (this.#again) return
    this.#again = true
    this.#port.scheduler.defer(this.#resume)
  }

  #sleep(): void {
    if (this.nesting.isOpen && this.#deliver()) return this.#later()
    const { parking } = this
    if (parking.isAsked && (parking.marked > 0 || this.probes.waiting || this.link.arePermitsWanted()))
      for (const turn of this.turns) this.#judge(turn)
    if (this.probes.waiting) {
      if (this.#stirred)
        this.#later() // the turn that got an answer continues before it is judged
      else this.probes.answer(this, this.turns, (turn) => this.#replies.replays.has(turn))
    }
    if (this.#held.any) {
      if (this.#stirred) this.#later()
      else this.#held.judge()
    }
    if (!this.link.sleep(this.#isFull())) this.#later()
  }

  /**
   * Delivers what waits for turns to park, if they have parked. Returns true if something was delivered, or may be
   * delivered once the answered turn has continued.
   */
  #deliver(): boolean {
    if (this.#stirred || this.#stopping) return this.#stirred && this.nesting.waits
    if (this.#port.work) this.#port.work.behind = undefined
    return this.nesting.goOn(this.#nestingActions)
  }
  readonly #nestingActions = {
    letIn: (memory: Memory) => this.#replies.letIn(memory),
    begin: (memory: Memory) => this.beginNested(memory, undefined),
  }

  /** Decides whether the turn is parked; called when the loop is idle. */
  #judge(turn: Turn): void {
    const { start } = turn
    // A step may wait for another step that began earlier. Then the turn has no other open work in this thread.
    const parked = turn.parked || (turn.waits && this.probes.isQuiet(turn))
    if (!parked || (this.nesting.isOpen && !this.nesting.isAlone(turn))) this.parking.unpark(start)
    else if (!this.#stirred) this.parking.park(start)
    else if (this.link.arePermitsWanted()) this.#later() // let the started or answered turn continue before judging it
  }

  /** Lets the event loop turn once, so that timers, sockets and wake-ups run. */
  breath(): Promise<void> {
    return new Promise((resolve) => this.#port.scheduler.defer(resolve))
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return this.#port.scheduler.sleep(ms, signal)
  }

  timer(ms: number, task: () => void, limit?: boolean): Timer {
    return this.#port.scheduler.timer(ms, task, limit)
  }

  // ---- messages in

  #begin(): void {
    const { memory, at } = this.#taken
    const { i32 } = memory
    const i = at >> 2
    const run = i32[i + RUN_INDEX]!
    const attempt = ((i32[i + KIND]! >>> 16) & 0xff) + 1
    const turnId = i32[i + TURN]!
    // Replies carry the run's data, new agents and the log of earlier attempts. They are published before the message.
    if (attempt > 1 || !this.runs.get(run) || !this.names.isKnown(i32[i + WHO]! & 0xffff))
      this.#replies.drainFor(turnId)
    this.#stirred = true
    if (this.#port.work) this.#port.work.behind = undefined
    const turn = this.#open(memory, at, NO_SLOT, false)
    this.link.done('plain', this.#taken) // the turn counts as begun from here on
    this.#perform(turn, this.aborts.size > 0 ? this.aborts.take(turnId) : undefined)
  }

  /**
   * Begins a request inside an open turn, in that turn's slot. With a reason in `aborted` the turn ends at once
   * instead.
   */
  beginNested(request: Memory, aborted: DramatisError | undefined): void {
    const [outer] = this.nesting.of(runOf(request, 0))
    const turn = this.#open(request, 0, outer ? this.parking.slotOf(outer.start) : NO_SLOT, true)
    if (!aborted) {
      this.nesting.began(turn)
      this.writeControl(NESTED, turn.start, 0, 0)
    }
    this.#perform(turn, aborted)
  }

  #open(memory: Memory, at: number, slot: number, nested: boolean): Turn {
    const { i32 } = memory
    const i = at >> 2
    const word = i32[i + KIND]!
    const isRequest = (word & 0xff) === REQUEST
    const run = i32[i + RUN_INDEX]!
    const number = i32[i + TURN]!
    const view = this.runs.get(run)
    if (!view) throw new Error(`Run ${run} was never announced to this thread.`)
    const id = readId(memory, at)
    const turn = new Turn(this, {
      turn: number,
      run,
      view,
      id,
      message: new ReceivedMessage(memory, at, id, this.directory),
      attempt: ((word >>> 16) & 0xff) + 1,
      caller: i32[i + WHO]! & 0xffff,
      correlation: isRequest ? i32[i + CORRELATION]! : 0,
      streams: isRequest && ((word >>> 8) & STREAMS) !== 0,
      type: MESSAGE_TYPES[(word >>> 24) & 7] ?? 'request',
      // Turns that run back to back need only one reading of the clock.
      startedAt: this.#endedAt > 0 ? this.#endedAt : this.now(),
      replay: this.#replies.replays.size > 0 ? this.#replies.takeReplay(number) : undefined,
      slot,
      nested,
    })
    this.turns.push(turn)
    return turn
  }

  #perform(turn: Turn, aborted: DramatisError | undefined): void {
    if (aborted) {
      turn.abort(aborted)
      return this.#end(turn, undefined, aborted)
    }
    const { type, nested, view } = turn.start
    const { receive, observe, input } = this.handlers
    const message = turn.start.message!
    const typed = message as AgentMessage as TypedMessage
    const context = (nested ? undefined : this.#scriptContext?.(turn)) ?? new TurnContext(turn)
    let result: unknown
    try {
      if (type === 'publish') view.listeners?.deliver(message.structuredData as BlackboardEntry)
      if (observe && type === 'broadcast' && 'steerId' in message.metadata) turn.tellWithAnswer(HEARD)
      if (type === 'broadcast' || type === 'report' || type === 'publish') result = observe?.(typed, context)
      else if (input && (type === 'request' || type === 'delegate'))
        result = checked(this.handlers, turn, context, message)
      else result = receive(typed, context)
      if (result instanceof Promise || isThenable(result)) {
        // A handler that refuses a handed-off task does so synchronously. If it returns a promise, it has accepted the
        // task.
        if (type === 'delegate' && 'handoff' in message.metadata)
          turn.acknowledge((acknowledge) => this.#port.scheduler.defer(acknowledge))
        // A thenable that is no real promise may throw, or settle twice. Promise.resolve protects against both.
        const settled = result instanceof Promise ? result : Promise.resolve(result)
        settled.then(
          (value) => this.#endLater(turn, value, undefined),
          (error: unknown) => this.#endLater(turn, undefined, thrownBy(error)),
        )
        return
      }
    } catch (error) {
      return this.#end(turn, undefined, thrownBy(error))
    }
    this.#end(turn, result, undefined)
  }

  // ---- the end of a turn

  #endLater(turn: Turn, value: unknown, error: unknown): void {
    if (this.link.closed || turn.ended) return // its code had changed, and it goes on beside
    this.#end(turn, value, error)
    if (this.goingOn.any) this.goingOn.letGo(turn.start.turn)
    this.writtenSteps?.ended(turn.start.turn)
    // Most often it was the last turn, and nothing has to be judged or sampled: the thread goes to sleep at once.
    const isBusy = this.#pumping || this.turns.length > 0 || this.#takesNone || this.nesting.isOpen
    if (isBusy || this.#external || this.probes.waiting || this.#held.any) return this.pump()
    if (this.#port.work?.hasConnections) this.#port.work.rest()
    this.link.flush()
    if (!this.link.sleep(false)) this.pump()
  }

  #end(turn: Turn, value: unknown, thrown: unknown): void {
    if (turn.hold?.isOpen && !turn.reason) {
      const how = thrown === undefined ? 'its end' : `its failure: ${describe(thrown)}`
      return turn.hold.untilEnd(how, () => this.#endLater(turn, value, thrown))
    }
    const { reason, start } = turn
    if (thrown !== undefined || !this.handlers.output || start.correlation === 0 || reason)
      return this.#finish(turn, value, thrown)
    handled(this.#commit.check(turn, value)).then(
      (checked) => this.#finishLater(turn, checked, undefined),
      (error: unknown) => this.#finishLater(turn, undefined, error),
    )
  }

  /** The code of a turn has changed since an earlier process began it: the turn goes on, or its run is interrupted. */
  #changed(turn: Turn): void {
    if (turn.skip()) return
    const { hold, start } = turn
    if (!hold || hold.onMismatch === 'continue') return hold?.release()
    const agent = this.role.name
    const missed = start.replay?.missing((index) => this.names.name(index)) ?? []
    const [step = '', ...others] = hold.steps
    hold.drop()
    const beside = others.length > 0 ? ` (and ${others.join(', ')})` : ''
    const text = `The code of "${agent}" has changed since its turn began in an earlier process: it comes to ${step}${beside}, which the log does not have, and did not ask again for ${missed.join(', ')}. Nothing of that was done. Put the code back as it was, or resume the run with onMismatch: 'continue'.`
    this.#endLater(turn, undefined, new StepMismatchError(text, { agent, runId: turn.runId, step, missed }))
  }

  #finishLater(turn: Turn, value: unknown, error: unknown): void {
    if (this.link.closed) return
    this.#finish(turn, value, error)
    this.pump()
  }

  #finish(turn: Turn, value: unknown, thrown: unknown): void {
    const { slot } = turn.start
    const hasPermit = slot < 0 || (this.nesting.isOpen && this.nesting.shares(turn)) || this.parking.close(turn.start)
    this.#endedAt = this.#commit.write(turn, value, thrown)
    if (this.turns[this.turns.length - 1] === turn) this.turns.pop()
    else this.turns.splice(this.turns.indexOf(turn), 1)
    if (this.#suspended.size > 0) this.#suspended.delete(turn)
    if (this.nesting.isOpen) this.nesting.ended(turn)
    // With a higher concurrency the run has no other message in this thread.
    if (!hasPermit && this.assignment.concurrency === 1) this.#pause(turn.start.run)
    if (this.#onTurnEnd.length > 0) for (const resolve of this.#onTurnEnd.splice(0)) resolve()
  }

  // ---- permits that were taken

  #pause(run: number): void {
    this.#takesNone = true
    this.goingOn.nextMessage(run)
  }

  goOn(turn: number): void {
    if (turn === 0) this.#takesNone = this.#stopping
    else this.goingOn.letGo(turn)
  }

  suspend(turn: Turn, isSuspended: boolean): void {
    if (isSuspended) {
      this.#suspended.add(turn)
      this.parking.suspend(turn.start)
    } else if (this.#suspended.delete(turn)) this.parking.resume(turn.start)
  }

  runState(view: RunView): object {
    return this.runs.stateOf(view)
  }

  failure(thrown: unknown, at: string): DramatisError {
    return this.#commit.failure(thrown, at)
  }

  // ---- replies in

  answer(wait: Wait, memory: Memory, at: number, later?: (settle: () => void) => void): void {
    this.#replies.answer(wait, memory, at, later)
  }

  // ---- for the turns

  get observes(): boolean {
    // A protocol script has no observe handler of its own.
    return this.handlers.observe !== undefined && !this.#scriptContext
  }

  /** Returns what reads the bytes of a stored part. The part came in that run, so the host has them for it. */
  bytesOf(run: number, hash: string): ReadBytes {
    this.runs.get(run)?.stored.add(hash)
    return () => this.#port.bytesOf?.(hash)
  }

  held(turn: Turn): void {
    this.#held.add(turn)
  }

  mayPark(): void {
    if (this.#pumping) return // the end of the pump does it
    if (this.#held.any || this.nesting.isOpen || this.probes.waiting) this.#later()
    else if (this.parking.isAsked && this.link.arePermitsWanted()) this.#later()
  }

  writeControl(kind: number, start: Pick<TurnStart, 'run' | 'turn'>, correlation: number, limit: number): void {
    const memory = this.#control(kind, start, correlation)
    setLimit(memory, 0, limit)
    this.link.post(memory, HEADER)
  }

  writeCancel(start: TurnStart, correlation: number, last: Mark): void {
    const memory = this.#control(CANCEL, start, correlation)
    setMark(memory, 0, last)
    this.link.post(memory, HEADER)
  }

  #control(kind: number, { run, turn }: Pick<TurnStart, 'run' | 'turn'>, correlation: number): Memory {
    const memory = allocate(HEADER)
    writeControl(memory, 0, kind, this.me, 0, run, turn, correlation, 0)
    return memory
  }

  loggerFor(start: TurnStart, fields?: object): Logger {
    return turnLogger(this.outbox, start, fields)
  }
}
