/**
 * A running team: the supervisor with all its parts, the agents' cells, the runs. It takes a protocol as a value and
 * knows no strategy; `src/team.ts` joins the two.
 */
import type { Observable } from 'rxjs'
import type { Protocol } from '../actors/protocol.ts'
import type { AgentRole } from '../actors/role.ts'
import type { AgentStatus, AgentTask, TaskInput, TaskStatus } from '../actors/task.ts'
import type { Blackboard } from '../blackboard/entry.ts'
import {
  ConfigurationError,
  RunAbortedError,
  StartFailedError,
  shown,
  TeamClosedError,
  UnknownRunError,
  unavailable,
} from '../errors.ts'
import type { DeadLetter } from '../mailbox/dead-letters.ts'
import type { AgentMessage, MessageInput, TypedMessage } from '../mailbox/message.ts'
import { MAX_AGENTS } from '../mailbox/room.ts'
import type { AgentInstance } from './agent-instance.ts'
import type { AgentRegistry } from './agent-registry.ts'
import { budgets } from './budgets/budgets.ts'
import type { Cell } from './cell.ts'
import { contextSummary } from './context-summary.ts'
import { FIXED_NAMES, ORCHESTRATOR_INDEX } from './core.ts'
import { delegateTask } from './delegate-task.ts'
import { delegationGraph, mayDelegate } from './delegation.ts'
import { eventStream } from './event-stream.ts'
import type { RuntimeEvent } from './events.ts'
import { guardedLogger } from './guarded-logger.ts'
import { type Health, healthOf } from './health.ts'
import { Letters } from './letters.ts'
import type { LivelockBounds } from './livelock.ts'
import { type Metric, prometheusText } from './metric.ts'
import { metricsOf } from './metrics.ts'
import { ModelGateway } from './models/gateway.ts'
import { modelTurnVerbs } from './models/model-turn.ts'
import { Newcomers, type Reloaded } from './newcomers.ts'
import { deadlines } from './parts/deadlines.ts'
import { deadlock } from './parts/deadlock.ts'
import { livelock } from './parts/livelock.ts'
import { notices } from './parts/notices.ts'
import { permits } from './parts/permits.ts'
import { restarts } from './parts/restarts.ts'
import { syncPoints } from './parts/sync-points.ts'
import { Tallies } from './parts/tallies.ts'
import { taskDeadlines } from './parts/task-deadlines.ts'
import { taskDependencies } from './parts/task-dependencies.ts'
import { tasks } from './parts/tasks.ts'
import { usage } from './parts/usage.ts'
import { watchdog } from './parts/watchdog.ts'
import { watchers } from './parts/watchers.ts'
import { Posting } from './posting.ts'
import { Provision, type TeamKit } from './provision.ts'
import { reading } from './refused.ts'
import type { MultiAgentResult } from './result.ts'
import { noRegistry, Roster } from './roster.ts'
import { TaskRouter } from './routing/task-router.ts'
import type { Run, RunHandle, RunOptions } from './run.ts'
import { RunBook } from './run-book.ts'
import { directoryOf } from './run-state.ts'
import type { TeamSettings } from './settings.ts'
import { oneOf, pause, shape } from './settings-checks.ts'
import { sharedStateVerbs } from './shared-states.ts'
import { WorkerSpawner } from './spawner.ts'
import { MemoryStore } from './state-store.ts'
import { Supervisor } from './supervisor.ts'
import { Tracing } from './telemetry/tracing.ts'
import type { Spawner } from './thread.ts'
import { historyOf } from './trace.ts'

const closeOptions = shape<{ drainMs?: number }>({ drainMs: pause })

const metricsFormat = oneOf('prometheus')

const SPARE_NAMES = 1024

export class TeamRuntime {
  protected readonly supervisor: Supervisor
  readonly #runs: RunBook
  readonly #posting: Posting
  readonly #letters: Letters
  readonly #roster: Roster
  readonly #newcomers: Newcomers | undefined
  readonly #events: Observable<RuntimeEvent>
  readonly #tallies = new Tallies()
  readonly #spawner: Spawner
  readonly #livelockOfModels: LivelockBounds | false
  #watched = false
  #started: Promise<void> | undefined
  #startFailed = false
  #closed: Promise<void> | undefined

  constructor(settings: TeamSettings, protocol: Protocol, kit?: TeamKit) {
    const { clock, logger, redactor, warmSpares, maxConcurrentAgents } = settings
    if (settings.agents.length + FIXED_NAMES.length > MAX_AGENTS)
      throw new ConfigurationError(
        `agents: ${settings.agents.length} are too many; a team has up to ${MAX_AGENTS - FIXED_NAMES.length}.`,
        { path: 'agents' },
      )
    this.#spawner = new WorkerSpawner(kit ? 0 : warmSpares, guardedLogger(logger, redactor))
    this.supervisor = new Supervisor({
      clock,
      logger,
      redactor,
      spawner: this.#spawner,
      capacity: Math.min(settings.agents.length + FIXED_NAMES.length + SPARE_NAMES, MAX_AGENTS),
      parts: [
        restarts,
        permits(maxConcurrentAgents),
        deadlines,
        watchdog,
        tasks,
        taskDeadlines,
        taskDependencies,
        watchers,
        syncPoints,
        this.#tallies.part,
        usage,
        notices,
        ...(settings.deadlock === false
          ? []
          : [deadlock(settings.deadlock, settings.confirmMs, 'foreign' in protocol)]),
      ],
    })
    this.supervisor.delegationBound = settings.delegation
    const tracing = settings.telemetry && new Tracing(settings.telemetry, this.supervisor)
    if (tracing) {
      this.supervisor.attach(tracing.part) // before what lets runs be forgotten
      this.supervisor.calls.tools.around = tracing.aroundTool
    }
    this.#runs = new RunBook(this.supervisor, settings, () => this.#whenStarted(), tracing)
    this.supervisor.attach(this.#runs.part)
    this.#livelockOfModels = settings.livelockOfModels
    this.#watch(settings.livelock)
    this.#posting = new Posting(this.supervisor, this.#runs)
    this.#letters = new Letters(this.supervisor, this.#runs)
    this.supervisor.calls.mayBeAnswered = (run) => this.#runs.get(run.id)?.state === run
    this.supervisor.calls.spawn = async (run, role) => {
      const name = await this.#roster.spawn(run, role)
      this.#joined(this.supervisor.cell(name, run))
      return name
    }
    this.supervisor.calls.define = (by, run, type) => this.#roster.define(by, run, type, this.#newcomers)
    this.supervisor.calls.boardScope = settings.blackboard
    this.supervisor.calls.waitTimeoutMs = settings.globalTimeoutMs
    this.#serveModels(settings, kit, tracing)
    // The only log store there is, is the team's memory.
    for (const [operation, verb] of sharedStateVerbs(this.supervisor, new MemoryStore()))
      this.supervisor.calls.verbs.set(operation, verb)
    this.supervisor.syncPoints.declare(settings.syncPoints)
    this.#roster = new Roster(this.supervisor, settings, {
      run: (of, task, options) => this.#runAlone(of, task, options),
      deliver: (to, message) => this.#post(() => this.#posting.deliver(to, message)),
      context: (of) => contextSummary(of, this.supervisor.runs.values()),
    })
    this.#newcomers = settings.registry && this.#newcomersOf(settings.registry)
    this.#provide(new Provision(settings, protocol, this.supervisor, kit))
    this.#events = eventStream(this.supervisor, this.#runs)
  }

  /** Looks for livelocks from now on. */
  #watch(bounds: LivelockBounds | false): void {
    if (bounds === false || this.#watched) return
    this.#watched = true
    this.supervisor.attach(livelock(bounds, (run, error) => this.#runs.fail(run, error)))
  }

  #joined(cell: Cell | undefined): void {
    if (cell?.settings.playedByModel) this.#watch(this.#livelockOfModels)
  }

  #serveModels(settings: TeamSettings, kit: TeamKit | undefined, tracing: Tracing | undefined): void {
    const { models, budget, clock, taskRouting } = settings
    const { calls } = this.supervisor
    const { layer, left } = budgets(budget, this.supervisor)
    const gateway = new ModelGateway({
      clock,
      resolve: (wanted, { cell, run }) =>
        kit?.model
          ? { client: kit.model, model: wanted ?? 'default' }
          : models.resolve(wanted, `the model of "${cell.name}"`, run.models),
      record: (run, record) => this.supervisor.record(run, record),
      redactor: this.supervisor.redactor,
      layers: [...(tracing ? [tracing.layer] : []), layer], // a span has the wait for tokens in it
    })
    calls.verbs.set('model', gateway.verb)
    const router = new TaskRouter(this.supervisor, taskRouting, left)
    for (const [operation, verb] of [...modelTurnVerbs(this.supervisor), ...router.verbs])
      calls.verbs.set(operation, verb)
  }

  #newcomersOf(registry: AgentRegistry): Newcomers {
    const newcomers = new Newcomers(this.supervisor, registry, {
      join: (role, expected) => {
        const cell = this.#roster.add(role, expected)
        this.#joined(cell)
        return cell
      },
      begin: async (cell) => {
        if (this.#started) await this.#roster.begin(cell)
      },
      leave: (cell) => this.#roster.dismiss(cell),
      left: (name) => this.#roster.left(name),
    })
    this.supervisor.newcomer = (name) => (this.#runs.closing ? undefined : newcomers.find(name))
    return newcomers
  }

  #provide(provision: Provision): void {
    const { lives } = this.supervisor
    lives.roster = (run) => provision.roster(run)
    lives.codeOf = (cell) => provision.codeOf(cell)
    lives.toolsOf = (cell) => provision.toolsOf(cell)
    lives.threadFor = (cell) => provision.threadFor(cell)
  }

  // ---- life

  /**
   * Starts all agents. `execute` does it by itself; call it to find out early whether everything loads.
   *
   * Rejects with `ConfigurationError` for a module that is missing or exports no agent, with `StartFailedError` for an
   * agent that failed twice while it started, with `TeamClosedError` after `close`.
   */
  start(): Promise<void> {
    if (this.#runs.closing) return Promise.reject(closedError())
    if (!this.#started) {
      this.#started = this.#startAll()
      this.#started.catch(() => {
        this.#startFailed = true // who does not wait for it learns it from the first run
      })
    }
    return this.#started
  }

  /** What kept the team from starting may be gone. */
  #reconsiderStart(): void {
    if (!this.#startFailed) return
    this.#startFailed = false
    this.#started = undefined
  }

  /** An agent that cannot start is gone; whether anybody needs it shows when it is asked. */
  async #whenStarted(): Promise<void> {
    await this.start().catch((error: unknown) => {
      if (!(error instanceof StartFailedError)) throw error
    })
  }

  async #startAll(): Promise<void> {
    const { lives, actors } = this.supervisor
    const living = actors.slice(ORCHESTRATOR_INDEX).filter((cell) => !cell.removed)
    const outcomes = await Promise.allSettled(
      living.map((cell) => Promise.all([cell.epoch > 0 || cell.stopped || lives.begin(cell), lives.ready(cell)])),
    )
    for (const [at, outcome] of outcomes.entries())
      if (outcome.status === 'rejected' && !living[at]!.removed) throw outcome.reason
  }

  /**
   * Ends all runs and threads, in order. Twice is fine. `drainMs`: takes no new runs and lets those under way, and
   * what messages from outside have caused, end for so long. Afterwards nothing of the team keeps the process alive.
   */
  close(options: { drainMs?: number } = {}): Promise<void> {
    try {
      closeOptions(options, '')
    } catch (error) {
      return Promise.reject(error)
    }
    this.#closed ??= this.#close(options.drainMs ?? 0)
    return this.#closed
  }

  async #close(drainMs: number): Promise<void> {
    const { clock, lives, cells } = this.supervisor
    this.#runs.closing = true
    if (drainMs > 0) {
      const drained = new AbortController()
      await Promise.race([this.#runs.drained(), clock.sleep(drainMs, drained.signal).catch(() => {})])
      drained.abort()
    }
    this.#runs.abortAll(new RunAbortedError('The team was closed.', { reason: 'close' }))
    await this.#runs.quiet()
    for (const cell of [...cells].slice(ORCHESTRATOR_INDEX).reverse()) await lives.endAll(cell)
    await Promise.all([this.#spawner.close(), this.supervisor.calls.tools.close()])
    this.supervisor.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  // ---- runs

  /**
   * Runs the team on a query. Rejects only on misuse (`ConfigurationError`, `TeamOverloadedError`, `TeamClosedError`); a
   * run that fails, times out or is aborted resolves with `success: false` and the reason.
   *
   * @example
   * const result = await team.execute('Should we migrate?', { timeoutMs: 30_000 })
   * console.log(result.success ? result.finalOutput : result.error.message)
   */
  async execute<T = undefined>(query: string, options: RunOptions<T> = {}): Promise<MultiAgentResult<T>> {
    return this.#await(query, options, this.supervisor.cells[ORCHESTRATOR_INDEX]!)
  }

  /**
   * Starts a run and gives its handle.
   *
   * @throws {TeamOverloadedError} when `maxConcurrentRuns` run and `maxQueuedRuns` wait.
   * @throws {TeamClosedError} after `close`.
   * @throws {ConfigurationError} for a wrong option, or a `runId` of a run with another query.
   */
  launch<T = undefined>(query: string, options: RunOptions<T> = {}): Run<T> {
    const run = this.#runs.launch(query, options, this.supervisor.cells[ORCHESTRATOR_INDEX]!)
    run.state.held = true
    return run
  }

  /** Its caller waits for the result, and gets no handle. */
  #await<T>(query: string, options: RunOptions<T>, target: Cell): Promise<MultiAgentResult<T>> {
    const { state, result } = this.#runs.launch(query, options, target)
    state.held ??= false
    return result
  }

  /**
   * The events of a run; leaving the loop aborts it.
   *
   * @example
   * for await (const event of team.stream('Should we migrate?')) {
   *   if (event.type === 'output.delta' && event.final) process.stdout.write(event.chunk)
   * }
   */
  async *stream<T = undefined>(query: string, options: RunOptions<T> = {}): AsyncGenerator<RuntimeEvent<T>> {
    const run = this.launch(query, options)
    try {
      yield* run.events()
      await run.result // a configuration that cannot work has no last event
    } finally {
      await run.cancel('the reader left the stream')
    }
  }

  async #runAlone(cell: Cell, task: string, options: RunOptions): Promise<string> {
    const result = await this.#await(task, options, cell)
    if (result.success) return result.finalOutput
    throw result.error
  }

  /** The run of that id, if the log still has it. */
  getRun(runId: string): Run<unknown> | undefined {
    return this.#runs.get(runId)
  }

  /** The runs that the log still has. `startedAt` is epoch ms. */
  async listRuns(
    filter: { status?: Run['status'] } = {},
  ): Promise<{ id: string; query: string; status: Run['status']; startedAt: number }[]> {
    const runs = this.#runs.list().filter(({ status }) => filter.status === undefined || status === filter.status)
    return runs.map(({ id, query, status, state }: RunHandle<unknown>) => ({
      id,
      query,
      status,
      startedAt: state.startedAt,
    }))
  }

  /** Goes on with a run after the end of its process. Not available in this version. */
  resume<T = undefined>(_runId: string, _options: Omit<RunOptions<T>, 'runId'> = {}): Promise<MultiAgentResult<T>> {
    return Promise.reject(unavailable('resume'))
  }

  // ---- messages and agents

  /**
   * Sends a message from outside of any run; it is a run of its own, which ends when what it caused is quiet. The default
   * type is `request`. Resolves to the response where `requiresResponse` is set, else to null once the message is
   * accepted. Rejects with `MessageRejectedError` for what is no message, with `UnknownAgentError`, `MailboxFullError`,
   * and with what the agent answered with. To a list of agents each is sent it once; history has it once.
   *
   * @example
   * const reply = await team.sendMessage({ recipient: 'critic', content: 'Read this.', requiresResponse: true })
   */
  sendMessage(message: MessageInput): Promise<AgentMessage | null> {
    return this.#post(() => this.#posting.send(message))
  }

  /** Tells every agent but the sender (an agent, or '$user'); it arrives at `observe`. */
  async broadcast(content: string, sender: string): Promise<void> {
    await this.#post(() => this.#posting.send({ type: 'broadcast', sender, recipient: null, content }))
  }

  #post<T>(send: () => Promise<T>): Promise<T> {
    return this.#runs.entering(this.#whenStarted().then(send))
  }

  /** One agent, or undefined. */
  getAgent(name: string): AgentInstance | undefined {
    return this.#roster.get(name)
  }

  /** All agents, in the order in which they came. */
  listAgents(): AgentInstance[] {
    return this.#roster.list()
  }

  /** What an agent does now. */
  getAgentStatus(name: string): AgentStatus | undefined {
    return this.#roster.get(name)?.status
  }

  /**
   * Adds an agent to the team, also while runs are under way: they can reach it by its name at once, and scripts see it in
   * `orchestrator.agents`. Resolves when it is ready; in a team that has not started yet, at once. Source: document
   * 000, teammates that come later.
   *
   * Rejects with `ConfigurationError` for a wrong role, a name that an agent has already, or a module that cannot be
   * loaded; with `StartFailedError` for an agent that failed twice while it started. Then it is not in the team.
   *
   * @example
   * const critic = await team.addAgent({ name: 'critic', module: new URL('./critic.js', import.meta.url) })
   * console.log(await critic.run('Read this.'))
   */
  async addAgent(role: AgentRole): Promise<AgentInstance> {
    await this.#roster.left(reading('role', () => role?.name))
    this.#assertOpen()
    const cell = this.#roster.add(role)
    const instance = this.#roster.get(cell.name)!
    this.#joined(cell)
    if (this.#started) await this.#roster.begin(cell)
    return instance
  }

  /**
   * Takes an agent out of the team: its turn under way is aborted and has `stopGraceMs`, its stop hook runs, its thread
   * ends. What waits for it becomes dead letters, who asked it gets `AgentTerminatedError`, and so does who sends to it
   * from now on. Its name can be given to another agent, which begins with a state of its own. Resolves when it is gone.
   *
   * Rejects with `UnknownAgentError`.
   */
  async removeAgent(name: string): Promise<void> {
    this.#assertOpen()
    await this.#roster.remove(name)
    this.#reconsiderStart()
  }

  /**
   * Begins again with an agent that was stopped for good, without waiting for `coolDownMs`. Resolves when it is ready.
   *
   * Rejects with `UnknownAgentError`, with `ConfigurationError` for an agent that is not stopped, and with what keeps it
   * from starting.
   */
  async restartAgent(name: string): Promise<void> {
    this.#assertOpen()
    await this.#roster.restart(name)
    this.#reconsiderStart()
  }

  #assertOpen(): void {
    if (this.#runs.closing) throw closedError()
  }

  /**
   * Reads the team's registry again (the agents.yaml that `loadTeam` has read): agents that the team does not have join it, and
   * who may delegate to whom is as it says now. What else has changed it names in `outdated`: that counts for the next
   * team. Nobody has to call it for a message or a task to an agent that is new there: that looks by itself.
   *
   * Rejects with `ConfigurationError` for a team without a registry, for what is wrong in it (then nothing changes) and for an
   * agent that cannot be loaded, with `StartFailedError` for one that failed twice while it started; the others have joined.
   *
   * @example
   * const { added } = await team.reload()
   */
  async reload(): Promise<Reloaded> {
    this.#assertOpen()
    if (!this.#newcomers) throw noRegistry('reload')
    return this.#newcomers.reload()
  }

  /** Not available in this version. */
  reloadAgent(_name: string): Promise<void> {
    return Promise.reject(unavailable('reloadAgent'))
  }

  // ---- delegation

  /**
   * Whether one agent may give tasks to another, as their roles say: `delegationAllowed`, `canDelegateTo`,
   * `canBeDelegatedTo`; never to itself. `'$user'` and `'$orchestrator'` may delegate to all who take tasks.
   *
   * @throws {UnknownAgentError} for a name that no agent has.
   */
  canDelegate(from: string, to: string): boolean {
    return mayDelegate(this.#roster.delegator(from), this.#roster.present(to))
  }

  /**
   * Gives an agent a task in the name of another, as its `context.delegate` would, in a run of its own like `sendMessage`.
   * Resolves with the task when it is done.
   *
   * Rejects with `UnknownAgentError`, with `DelegationRefusedError` where the roles do not allow it, with
   * `MessageRejectedError` for what is no task, and with what the task ended in, as `context.delegate` does. It is the one task of
   * its run, so there is none that it can depend on.
   *
   * @example
   * const { result } = await team.delegateTask('lead', 'critic', { description: 'Read this.', deadline: Date.now() + 60_000 })
   */
  delegateTask(from: string, to: string, task: TaskInput): Promise<AgentTask> {
    return this.#post(async () => {
      const [giver, taker] = [this.#roster.delegator(from), this.#roster.present(to)]
      return delegateTask(this.supervisor, this.#runs, giver, taker, task)
    })
  }

  /** To whom each agent may delegate, by name. Source: document 003, the registry. */
  getDelegationGraph(): Record<string, string[]> {
    return delegationGraph(this.supervisor.agents())
  }

  // ---- what happened

  /** Without a `runId`: the run that was launched last; the same for the next two. */
  getBlackboard(runId?: string): Blackboard | undefined {
    const run = this.#run(runId)
    return run && this.#runs.blackboard(run)
  }

  /** Every message that the log still has, in order. Throws `UnknownRunError`. */
  getMessageHistory(runId?: string): TypedMessage[] {
    const run = this.#run(runId)
    return run ? this.supervisor.redactor.data(historyOf(run.log, directoryOf(run, this.supervisor))) : []
  }

  /** By the task's id. Throws `UnknownRunError`. */
  getTaskStatus(runId?: string): Record<string, TaskStatus> {
    const run = this.#run(runId)
    return Object.fromEntries([...(run?.tasks.values() ?? [])].map(({ id, status }) => [id, status]))
  }

  #run(runId: string | undefined) {
    if (runId === undefined) return this.#runs.last
    const run = this.supervisor.run(runId)
    if (run) return run
    throw new UnknownRunError(`No run ${shown(runId)} is known; there was none, or it has left the log.`, { runId })
  }

  /**
   * Messages that nobody will handle, with the reason: the last 10,000, or the last 64 MiB of them;
   * `health().deadLettersForgotten` counts the others.
   *
   * `replay` sends the message of a letter to its recipient again, as a new message: in its own run while that is under
   * way, else in one of its own; `metadata.replayOf` is the letter's id. Nobody waits for its reply, also where it was a
   * request. The letter leaves the list when the recipient has accepted the message, and stays when it is refused.
   * Rejects with `MessageRejectedError` for an unknown id, for a response, for a message of which only a part was kept
   * and for one that was refused for several agents; with what refuses it (`AgentTerminatedError`, `MailboxFullError`);
   * with `TeamClosedError` after `close`. `discard` takes a letter off the list; throws `MessageRejectedError` for an
   * unknown id.
   *
   * @example
   * for (const { id, reason } of team.deadLetters.list()) if (reason === 'stopped') await team.deadLetters.replay(id)
   */
  readonly deadLetters = {
    list: (): DeadLetter[] => this.supervisor.redactor.data(this.supervisor.deadLetters.list()),
    replay: (id: string): Promise<void> => this.#post(() => this.#letters.replay(id)),
    discard: (id: string): void => this.#letters.discard(id),
  }

  /** Everything that happens in all runs, as it happens. A subscriber that throws is reported to the logger and closed. */
  get events(): Observable<RuntimeEvent> {
    return this.#events
  }

  /** How the team is now. */
  health(): Health {
    return healthOf(this.supervisor, this.#runs)
  }

  /**
   * The figures of this team, for a monitoring system: as data, or as a page in Prometheus' text format (version 0.0.4;
   * serve it as `text/plain; version=0.0.4`). Counters count from the team's start. Also after `close`.
   *
   * @throws {ConfigurationError} for another format.
   *
   * @example
   * server.get('/metrics', (_request, response) => response.type('text/plain; version=0.0.4').send(team.metrics('prometheus')))
   */
  metrics(): Metric[]
  metrics(format: 'prometheus'): string
  metrics(format?: 'prometheus'): Metric[] | string {
    if (format !== undefined) metricsFormat(format, 'format')
    const metrics = metricsOf(this.supervisor, this.#runs, this.#tallies)
    return format === undefined ? metrics : prometheusText(metrics)
  }
}

const closedError = () => new TeamClosedError('The team is closed; make a new one with createTeam.', {})
