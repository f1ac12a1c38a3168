/**
 * A turn: the handling of one message. Handlers get a `TurnContext`, whose verbs call the turn behind it. When the turn
 * ends it is closed: open waits are cancelled and later verbs fail with `TurnEndedError`.
 */
import { setMaxListeners } from 'node:events'
import type { Immutable } from 'immer'
import { idText, NOW, SIGNALLED } from '../../mailbox/frame.ts'
import type { OnMismatch } from '../../mailbox/mailbox.ts'
import { type AgentMessage, type MessageType, ORCHESTRATOR } from '../../mailbox/message.ts'
import { type DramatisError, TurnEndedError } from '../../shared/errors.ts'
import type { RemoteAnswer, RemoteRequest } from '../definition/assignment.ts'
import { durationOf } from '../definition/checks.ts'
import type { RequestOptions } from '../definition/context.ts'
import type { ModelAnswer, ModelCall } from '../definition/model.ts'
import {
  ACKNOWLEDGE,
  GUARD,
  type GuardArguments,
  type GuardedBy,
  MODEL_TURN,
  REMOTE,
  type RoleInfo,
} from '../definition/role.ts'
import type { Logger } from '../definition/tool.ts'
import { NO_OPTIONS, sleep, TurnCalls } from './calls.ts'
import { LimitWaits, RequestGroups } from './groups.ts'
import { Emitter, Messenger } from './messages.ts'
import { type AgentThread, type OpenTurn, Settlements } from './open-turn.ts'
import { type Replay, SeenAgents, type TurnStart } from './replay.ts'
import { byRecipe, type Change, type Draft, Drafts, type StateScope } from './state.ts'
import { Hold, OpenSteps } from './steps.ts'
import { StepRunner, TurnTools } from './tools.ts'

export class Turn implements OpenTurn {
  readonly thread: AgentThread
  readonly start: TurnStart
  /** Holds back what the log does not have; undefined for a turn that no earlier process has begun. */
  readonly hold: Hold | undefined
  step: number
  messagesSent = 0
  /** To be read only, as the next two: each turn is asked for them at its end. */
  ended = false
  /** The reason why the turn must stop, if there is one. */
  reason: DramatisError | undefined
  /** Metadata of its answer, beside those of the runtime. */
  answerMetadata: object | undefined
  #controller: AbortController | undefined
  /** Number of open sleeps, tool calls and model calls. They are the turn's own work. */
  #working = 0
  /** Number of those that are sleeps and model calls: nothing of them runs in the thread. */
  #elsewhere = 0
  #isToAcknowledge = false
  /** Open steps, once one has begun. To be read only, as the next two. */
  steps: OpenSteps | undefined
  emitter: Emitter | undefined
  /** Changes of its states; undefined until it makes one. */
  drafts: Drafts | undefined
  #stepRunner: StepRunner | undefined
  #calls: TurnCalls | undefined
  #limits: LimitWaits | undefined
  #messenger: Messenger | undefined
  #groups: RequestGroups | undefined
  #tools: TurnTools | undefined
  #seen: SeenAgents | undefined
  #settlements: Settlements | undefined

  constructor(thread: AgentThread, start: TurnStart) {
    this.thread = thread
    this.start = start
    this.step = start.replay?.nextStep ?? 0
    this.hold = start.replay?.onMismatch && this.#holdFor(start.replay, start.replay.onMismatch)
    if (start.replay) start.replay.onMatch = () => this.#getsOn()
  }

  /** The turn has come to what the log has. */
  #getsOn(): void {
    this.hold?.check()
    if (this.#settlements?.isSettling) this.#settlements.pause()
  }

  #holdFor(replay: Replay, onMismatch: OnMismatch): Hold {
    return new Hold({ replay, onMismatch, steps: () => this.steps, began: () => this.thread.held(this) })
  }

  get role(): RoleInfo {
    return this.thread.role
  }
  get data(): unknown {
    return this.thread.data
  }
  get runId(): string {
    return this.start.view.id
  }
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      setMaxListeners(0, this.#controller.signal) // a handler may pass it to everything it starts
      if (this.reason) this.#controller.abort(this.reason)
      else if (this.ended) this.#controller.abort(this.#endedError())
    }
    return this.#controller.signal
  }
  get log(): Logger {
    return this.thread.loggerFor(this.start)
  }

  // ---- state

  get state(): Immutable<object> {
    return this.draftOf('state')?.value ?? this.thread.state
  }
  setState(recipe: (draft: object) => void): void {
    this.check()
    this.thread.stateRules.assertMay('state', 'setState')
    this.drafts ??= new Drafts()
    this.drafts.change('state', this.thread.state, byRecipe('state', recipe))
  }
  get runState(): Immutable<object> {
    return this.draftOf('runState')?.value ?? this.thread.runState(this.start.view)
  }
  setRunState(recipe: (draft: object) => void): void {
    this.changeRunState(byRecipe('runState', recipe))
  }
  changeRunState(change: Change): void {
    this.check()
    this.thread.stateRules.assertMay('runState', 'setRunState')
    this.drafts ??= new Drafts()
    this.drafts.change('runState', this.thread.runState(this.start.view), change)
  }

  tellWithAnswer(metadata: object): void {
    this.answerMetadata = { ...this.answerMetadata, ...metadata }
  }

  /** Returns the changes of that state that the commit must write. Not called for a failed turn. */
  draftOf(scope: StateScope): Draft | undefined {
    return this.drafts?.of(scope, scope === 'state' ? this.thread.state : this.thread.runState(this.start.view))
  }

  /** True if the protocol script has sent the message of the turn, perhaps in the name of an agent. */
  get isOfScript(): boolean {
    return this.thread.names.name(this.start.caller) === ORCHESTRATOR
  }
  /** Id of the task that the turn works on; null if its message is no task. */
  get taskId(): string | null {
    const { type, correlation, id } = this.start
    return (type === 'delegate' || this.isOfScript) && correlation !== 0 ? idText(...id) : null
  }
  /** Sends a request of that type. `onSent` receives its id once it is sent. */
  ask(
    to: string,
    content: string,
    options: RequestOptions,
    type: MessageType,
    onSent?: (id: string) => void,
  ): Promise<AgentMessage> {
    return this.messages.request(to, content, options, type, undefined, onSent) as Promise<AgentMessage>
  }
  /** Releases the turn from its duty to answer. */
  release(): void {
    this.start.correlation = 0
    this.start.streams = false
    this.emitter?.close() // no reader will report progress any more
  }
  /** Reports progress to the agent's manager (escalateTo), or to the protocol script if there is none. */
  report(content: string, data?: object): Promise<void> {
    const options = data === undefined ? NO_OPTIONS : { structuredData: data }
    return this.messages.report(this.role.escalateTo ?? ORCHESTRATOR, content, options)
  }
  emit(chunk: string): void {
    this.check()
    this.emitter ??= new Emitter(this.thread, this.start)
    this.emitter.emit(chunk, ++this.step)
  }

  /**
   * Returns the frame's encoding of a wait that the signal may end. The turn's own signal does not count, because it
   * belongs to the runtime.
   */
  waitingFor(signal: AbortSignal | undefined): number {
    return signal && signal !== this.#controller?.signal ? SIGNALLED : 0
  }

  /** Refuses a use of memory that is lost where several threads play the role. */
  assertOneThread(use: string): void {
    this.thread.stateRules.assertMay('runState', use)
  }

  get limits(): LimitWaits {
    this.#limits ??= new LimitWaits(this.thread.outbox, this)
    return this.#limits
  }
  /** Requests that are waited for together. */
  get groups(): RequestGroups {
    this.#groups ??= new RequestGroups(this.thread, this, this.messages, this.limits)
    return this.#groups
  }
  get messages(): Messenger {
    this.#messenger ??= new Messenger(this.thread, this, this.calls)
    return this.#messenger
  }

  get calls(): TurnCalls {
    this.#calls ??= new TurnCalls(this.thread, this)
    return this.#calls
  }

  get settlements(): Settlements {
    this.#settlements ??= new Settlements({
      script: this.start.replay?.script,
      held: () => this.thread.held(this),
      settled: () => {
        this.hold?.check()
        this.thread.mayPark()
      },
    })
    return this.#settlements
  }

  /**
   * Calls a verb that the host serves. The answer is JSON; `signal` withdraws the call. For `alike` see
   * `TurnCalls.call`.
   */
  call(operation: string, args: object, signal?: AbortSignal, alike?: object): Promise<unknown> {
    return this.calls.call(operation, args, signal, undefined, alike)
  }

  // ---- tools

  get guardedBy(): GuardedBy | undefined {
    return this.thread.assignment.guardedBy
  }
  /** Has a value checked. Returns it, changed or not. Rejects with `GuardrailError` for a refusal. */
  guard(args: GuardArguments, signal?: AbortSignal): Promise<unknown> {
    return this.atWork(() => this.call(GUARD, args, signal))
  }

  /** The tools of the agent, for the verb and for the model loop. */
  get tools(): TurnTools {
    this.#tools ??= new TurnTools(this.thread, this, this.stepRunner)
    return this.#tools
  }

  // ---- models

  /** Makes one model call through the gateway in the host: a step. */
  askModel(call: ModelCall, signal: AbortSignal | undefined): Promise<ModelAnswer> {
    const onPiece = call.stream ? (piece: string) => this.emit(piece) : undefined
    return this.atWork(() => this.calls.call('model', call, signal, onPiece), 1) as Promise<ModelAnswer>
  }

  /** Asks the agent elsewhere that plays the role: a step. A later try is the same by the text alone. */
  askRemote(asked: RemoteRequest): Promise<RemoteAnswer> {
    const onPiece = asked.stream ? (piece: string) => this.emit(piece) : undefined
    const { text } = asked
    return this.atWork(() => this.calls.call(REMOTE, asked, undefined, onPiece, { text }), 1) as Promise<RemoteAnswer>
  }

  // ---- steps and time

  get stepRunner(): StepRunner {
    this.steps ??= new OpenSteps()
    this.#stepRunner ??= new StepRunner(this.thread, this, this.steps, () => this.#gate())
    return this.#stepRunner
  }
  now(): number {
    this.check()
    const logged = this.start.replay?.matchNow()
    if (logged !== undefined) return logged
    const { outbox, now } = this.thread
    outbox.begin(NOW, this.start.run, this.start.turn, ++this.step, '', undefined)
    return outbox.writeTimed(now())
  }
  /**
   * Logs how many turns of its conversation the turn begins with, and returns that. A later attempt gets the same
   * number, though others may have added to the conversation meanwhile.
   */
  beginsWith(known: number): number {
    const { run, turn, replay } = this.start
    const logged = replay?.matchKnown()
    if (logged !== undefined) return logged
    if (known === 0) return known // then a log with steps has no reading
    const { outbox } = this.thread
    outbox.begin(NOW, run, turn, ++this.step, MODEL_TURN, JSON.stringify({ known }))
    outbox.write(outbox.size(), 'later')
    return known
  }
  /** Checks whether the run has, or had, an agent of that name: one that was removed has taken part. */
  knows(name: string): boolean {
    return this.thread.names.indexOf(name, this.start.view) !== undefined
  }
  /** Returns those of the agents that a protocol script sees. */
  sees<T extends { readonly name: string }>(agents: readonly T[]): readonly T[] {
    const { outbox, writtenSteps } = this.thread
    if (!writtenSteps || this.ended) return agents
    this.#seen ??= new SeenAgents(outbox, this)
    return this.#seen.among(agents)
  }
  async sleep(ms: number): Promise<void> {
    this.check()
    const duration = durationOf(ms, 'ms')
    if (this.emitter?.behind) await this.#gate()
    await this.atWork(() => sleep(this.thread, this, duration), 1)
    this.check()
  }
  /**
   * Runs `work` and counts it as the turn's own work, even if nothing runs in the thread. The turn then does not only
   * wait. `elsewhere`: 1 if nothing runs in the thread.
   */
  async atWork<T>(work: () => Promise<T>, elsewhere = 0): Promise<T> {
    this.#working += 1
    this.#elsewhere += elsewhere
    const permit = this.thread.goingOn.permit(this.start)
    try {
      if (permit) await permit
      return await work()
    } finally {
      this.#working -= 1
      this.#elsewhere -= elsewhere
      if (!this.ended) this.thread.mayPark() // if ended, another turn may have its slot
    }
  }

  // ---- for the loop, and for the parts of the turn

  /** True if all open work of the turn waits for others. */
  get parked(): boolean {
    return this.waits && !this.steps?.work
  }
  /** True if nothing of the turn runs in its thread: it waits for others, for a model, or for a time to come. */
  get rests(): boolean {
    if (this.#isToAcknowledge || this.#settlements?.isSettling || this.steps?.work) return false
    const waits = (this.#calls?.waiting ?? 0) + (this.emitter?.waiting ?? 0)
    return waits + this.#elsewhere > 0 && this.#working === this.#elsewhere
  }
  /** True if something of the turn is held back. */
  get holds(): boolean {
    return (this.hold?.count ?? 0) > 0 || this.#settlements?.isBlocked === true
  }
  /** True if what the log has is waited for, and code that is the same would have come to it. */
  get hasStrayed(): boolean {
    return this.start.replay?.hasStrayed === true && this.#settlements?.isBlocked === true
  }
  /** True if all that the turn has open is held back. */
  get isHeld(): boolean {
    const { hold } = this
    if (this.#settlements?.isBlocked) return !this.steps?.work
    if (!hold || hold.count === 0 || hold.works !== this.#working || this.#isToAcknowledge) return false
    return (this.#calls?.waiting ?? 0) + (this.emitter?.waiting ?? 0) === 0 && !this.steps?.work
  }
  /** True if the turn waits for others and has no own work except perhaps steps. */
  get waits(): boolean {
    const waits = (this.#calls?.waiting ?? 0) + (this.emitter?.waiting ?? 0)
    return waits > 0 && this.#working === 0 && !this.#isToAcknowledge && !this.#settlements?.isSettling
  }
  /**
   * Goes on without what the log has and the handler does not come to, if something waits for that. Returns false if
   * nothing does.
   */
  skip(): boolean {
    const { start } = this
    const isWaitedFor = this.#settlements?.isBlocked || (this.hold?.isOpen && start.replay?.awaited === 0)
    if (isWaitedFor) this.settlements.skip()
    return isWaitedFor === true
  }
  refusal(): DramatisError | undefined {
    return this.ended ? this.#endedError() : this.reason
  }
  async breathe(): Promise<void> {
    this.thread.link.flush()
    await this.thread.breath()
    if (this.emitter?.behind) await this.#gate()
  }
  /** Waits for the reader of the answer. */
  async #gate(): Promise<void> {
    const open = this.steps
    const steps = open?.began()
    await this.emitter?.gate()
    if (steps) open?.settled(steps)
  }
  /** Notes that the reader of the answer has read `count` more chunks. */
  read(count: number): void {
    this.emitter?.read(count)
  }

  /**
   * Acknowledges a handed-off task that the turn has accepted, after a deferral. Until then the turn does not only
   * wait.
   */
  acknowledge(defer: (task: () => void) => void): void {
    this.#isToAcknowledge = true
    defer(() => {
      this.#isToAcknowledge = false
      if (!this.refusal()) void this.call(ACKNOWLEDGE, {})
    })
  }

  /** Stops the turn: fires its signal and withdraws its waits. The handler continues and decides what follows. */
  abort(reason: DramatisError): void {
    if (this.ended || this.reason) return
    this.reason = reason
    this.hold?.fail(reason)
    this.#calls?.withdrawAll(reason, true)
    this.#settlements?.close()
    this.emitter?.close()
    this.#controller?.abort(reason)
  }

  /** Closes the turn at its end. */
  close(): void {
    this.ended = true
    this.drafts = undefined // the changes that count are in the state by now
    // Only if waits are open: the stack of an error costs more than most turns.
    if (this.#calls && this.#calls.waiting > 0) this.#calls.withdrawAll(this.#endedError(), false)
    this.#settlements?.close()
    if (this.hold && this.hold.count > 0) this.hold.fail(this.#endedError())
    this.emitter?.close()
    if (this.#controller && !this.#controller.signal.aborted) this.#controller.abort(this.#endedError())
  }

  /** Throws if the turn has ended or must stop; for verbs that have no promise to reject. */
  check(): void {
    this.assertOpen()
    if (this.reason) throw this.reason
  }

  /** Throws if the turn has ended; for verbs that a turn which must stop may still use. */
  assertOpen(): void {
    if (this.ended) throw this.#endedError()
  }

  #endedError(): TurnEndedError {
    const agent = this.role.name
    const text = `The turn of agent "${agent}" has ended; its context cannot be used any more. Await what the handler starts before it returns.`
    return new TurnEndedError(text, { agent, runId: this.runId })
  }
}
