/**
 * A running team: the supervisor with all its parts, the agents, the runs. It takes a protocol as a value and
 * knows no strategy; `src/team.ts` joins the two.
 */
import { readFileSync } from 'node:fs'
import type { Observable } from 'rxjs'
import type { Content } from '../../actors/definition/content.ts'
import type { Protocol } from '../../actors/definition/protocol.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import type { AgentStatus, AgentTask, TaskInput } from '../../actors/definition/task.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import { type AgentMessage, FIXED_NAMES, type MessageInput } from '../../mailbox/message.ts'
import { MAX_AGENTS } from '../../mailbox/team-memory.ts'
import { reading } from '../../shared/checks.ts'
import { ConfigurationError } from '../../shared/errors.ts'
import { hashOf } from '../../shared/random.ts'
import type { TeamParts } from '../durability/team-facts.ts'
import { TeamLog } from '../durability/team-log.ts'
import type { Agent } from '../host/agent.ts'
import { delegationGraph, mayDelegate } from '../host/delegation.ts'
import { outboxes } from '../host/outbox.ts'
import { guardedLogger } from '../logging/logger.ts'
import { detectorsOf } from '../observers/detectors.ts'
import { Tracing, tracings } from '../observers/tracing.ts'
import { eventStream } from '../runs/event-stream.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { Run, RunOptions } from '../runs/run.ts'
import { RunBook } from '../runs/runs.ts'
import type { TokenLimit } from '../settings/options.ts'
import type { TeamSettings } from '../settings/settings.ts'
import { Supervisor } from '../supervision/host.ts'
import type { ReloadOptions } from '../supervision/reloads.ts'
import { SharedThreads } from '../threads/shared-threads.ts'
import { WorkerSpawner, workersFor } from '../threads/spawner.ts'
import { threadCode } from '../threads/worker-thread.ts'
import { Budgets } from '../verbs/budgets.ts'
import type { AgentInstance } from './agent-instance.ts'
import type { Commons } from './commons.ts'
import { KeyedRequests } from './keyed-requests.ts'
import { KeyedTeam, KeyedWaits } from './keyed-waits.ts'
import { Letters, Posting } from './outside-messages.ts'
import { Provision, partsOf, serveTeamVerbs, type TeamKit } from './provision.ts'
import { Newcomers, noRegistry, type Reloaded, Roster } from './roster.ts'
import { type CloseOptions, delegateTask, TeamLife } from './start-stop.ts'
import { TeamRuns } from './team-runs.ts'

const SPARE_NAMES = 1024

export class TeamRuntime extends TeamRuns {
  protected readonly supervisor: Supervisor
  protected readonly runBook: RunBook
  readonly logPath: string | undefined
  protected readonly parts: TeamParts
  readonly #posting: Posting
  readonly #letters: Letters
  readonly #roster: Roster
  readonly #newcomers: Newcomers | undefined
  readonly #life: TeamLife
  readonly #kit: TeamKit | undefined
  readonly #events: Observable<RuntimeEvent>

  /** Limits of each run that brings none of its own: `globalTimeoutMs` and `budget.perRun`. */
  readonly runLimits: { readonly timeoutMs: number; readonly budget: Readonly<TokenLimit> }
  /** Currency of the prices of the team; null if it has none. */
  readonly currency: string | null

  constructor(settings: TeamSettings, protocol: Protocol, kit?: TeamKit, commons?: Commons) {
    super()
    const { clock, logger, redactor, threads } = settings
    this.#kit = kit
    this.currency = settings.prices?.currency ?? null
    this.runLimits = { timeoutMs: settings.globalTimeoutMs, budget: { ...settings.budget.perRun } }
    if (settings.agents.length + FIXED_NAMES.length > MAX_AGENTS)
      throw new ConfigurationError(
        `agents: ${settings.agents.length} are too many; a team has up to ${MAX_AGENTS - FIXED_NAMES.length}.`,
        { path: 'agents' },
      )
    if (!kit) threadCode() // refuses a bundle without thread code before anything waits for a thread
    const log = guardedLogger(logger, redactor)
    const shared = commons?.means(settings)
    const spawner = shared?.spawner ?? new WorkerSpawner(kit ? 0 : threads.warmSpares, clock, log, workersFor(clock))
    this.supervisor = new Supervisor({
      clock,
      logger,
      redactor,
      spawner,
      ...(shared && { places: shared.places, pools: shared.pools }),
      provisioning: new Provision(
        settings,
        protocol,
        kit,
        spawner,
        shared?.seats ?? new SharedThreads(spawner, log),
        () => this.supervisor,
      ),
      limits: settings.limits,
      threads,
      maxConcurrentAgents: settings.maxConcurrentAgents,
      maxStoredBytes: settings.maxStoredBytes,
      delegationBound: settings.delegation,
      maxHandoffs: settings.maxHandoffs,
      handoffFilter: settings.floor?.filter,
      capacity: Math.min(
        settings.agents.length + FIXED_NAMES.length + SPARE_NAMES + settings.maxSpawnedAgents,
        MAX_AGENTS,
      ),
      parts: [
        ...partsOf(this.tallies),
        ...detectorsOf({ settings, protocol, fail: (run, error) => this.runBook.endings.fail(run, error) }),
      ],
      newcomer: (name) => (this.runBook.closing ? undefined : this.#newcomers?.find(name)),
      interrupted: (run, error, turn) => this.runBook.interrupted.suspend(run, error, turn),
      hasHandle: (run) => this.runBook.get(run.id)?.state === run,
      blackboard: { scope: settings.blackboard, waitTimeoutMs: settings.globalTimeoutMs },
      ...(settings.persistentFile && { persistentFile: settings.persistentFile }),
    })
    commons?.showWaits(this.supervisor)
    outboxes.set(this, this.supervisor.outbox)
    this.supervisor.runs.currency = settings.prices?.currency
    const budget = new Budgets(settings, this.supervisor, kit?.model === undefined)
    this.supervisor.attach(() => budget.part)
    const tracing = settings.telemetry && new Tracing(settings.telemetry, this.supervisor)
    if (tracing) {
      tracings.set(this, tracing)
      this.supervisor.attach(tracing.part) // before the run book, which lets runs be forgotten
      this.supervisor.tools.around = tracing.aroundTool
    }
    this.runBook = new RunBook(this.supervisor, settings, () => this.#life.whenStarted(), tracing, shared?.room)
    this.runBook.budgets = budget
    this.runBook.script = scriptHash(protocol)
    if (kit?.keptBytes !== undefined) this.supervisor.runs.most = kit.keptBytes
    this.supervisor.attach(this.runBook.part)
    const watch = commons?.keyed ?? new KeyedWaits(clock)
    const keyed = new KeyedRequests(
      this.supervisor,
      this.runBook,
      () => watch.look(),
      () => commons?.carrier,
    )
    new KeyedTeam(keyed, settings.deadlock, watch)
    commons?.requests.set(this, keyed)
    this.#posting = new Posting(this.supervisor, this.runBook)
    this.#letters = new Letters(this.supervisor, this.runBook)
    this.supervisor.calls.register([
      ['spawn', (role, caller) => this.#roster.spawn(caller, role as object)],
      ['define', (type, caller) => this.#roster.define(caller, type as object, this.#newcomers)],
    ])
    serveTeamVerbs(this.supervisor, settings, budget, kit, tracing)
    this.supervisor.syncPoints.declare(settings.syncPoints)
    this.#roster = new Roster(this.supervisor, settings, {
      run: (of, task, options) => this.#runAlone(of, task, options),
      deliver: (to, message) => this.#post(() => this.#posting.deliver(to, message)),
      history: (of, runId) => this.messagesOf(runId, of.name),
    })
    if (settings.registry)
      this.#newcomers = new Newcomers(this.supervisor, settings.registry, this.#roster, (agent) => this.#begin(agent))
    this.parts = { budgets: budget, madeAgents: this.#roster }
    const { durableLog } = settings
    const isKept = durableLog && (!kit || kit.newStore)
    const teamLog = isKept
      ? new TeamLog(this.supervisor, this.parts, this.runBook, durableLog, kit?.newStore)
      : undefined
    this.logPath = teamLog && durableLog?.path
    this.#life = new TeamLife(this.supervisor, this.runBook, teamLog, commons === undefined)
    this.#events = eventStream(this.supervisor, this.runBook.host)
    const { calls, journal } = this.supervisor
    if (kit?.serve) calls.wrap((verb, real) => kit.serve!(verb, real, (run, record) => journal.record(run, record)))
  }

  protected untilLogRead(): Promise<void> {
    return this.#life.untilRead()
  }

  // ---- life

  /**
   * Starts all agents. `execute` does it by itself; call it to find out early whether everything loads.
   *
   * Rejects with `ConfigurationError` for a module that is missing or exports no agent, with `StartFailedError` for an
   * agent that failed twice while it started, with `TeamClosedError` after `close`.
   */
  start(): Promise<void> {
    return this.#life.start()
  }

  /**
   * Ends all runs and threads, in order, and runs the `stop` hooks of agents. A second call is harmless. `drainMs`: how
   * long runs under way, and work that messages from outside have caused, may continue; new runs are refused.
   * `stepsMs`: how long, with a durable log, steps that may not be repeated may continue behind that. A team that is
   * not closed does not keep the process alive while it is idle: no run or message is under way, and no caller waits.
   */
  close(options: CloseOptions = {}): Promise<void> {
    return this.#life.close(options)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  // ---- messages and agents

  async #runAlone(agent: Agent, task: string | Content, options: RunOptions): Promise<string> {
    const result = await this.resultOf(task, options, agent)
    if (result.success) return result.finalOutput
    throw result.error
  }

  /**
   * Sends a message from outside of any run, in a run of its own, which ends when all work that it caused is over. The
   * default type is `request`. Resolves to the response if `requiresResponse` is set, also to one in an agent's name
   * (`sender`), else to null once the message is accepted. Rejects with `MessageRejectedError` for an invalid message,
   * with `UnknownAgentError`, `MailboxFullError`, and with the error that the agent answered with. Each agent in a list
   * of recipients gets the message once; history has it once.
   *
   * @example
   * const reply = await team.sendMessage({ recipient: 'critic', content: 'Read this.', requiresResponse: true })
   */
  sendMessage(message: MessageInput): Promise<AgentMessage | null> {
    return this.#post(() => this.#posting.send(message))
  }

  /**
   * Sends a message to every agent but the sender (an agent, or '$user'); it arrives at `observe`. Resolves with the
   * run of the message when all of them have accepted it. That run ends, without an answer, when all work that the
   * message caused is over.
   *
   * @example
   * const { result } = await team.broadcast('The harbour is closed.', '$user')
   * console.log((await result).messageHistory.length)
   */
  async broadcast(content: string, sender: string): Promise<Run> {
    const run = await this.#post(() => this.#posting.broadcast(content, sender))
    return this.runBook.ownHandle(run)
  }

  #post<T>(send: () => Promise<T>): Promise<T> {
    return this.runBook.drain.entering(this.#life.whenStarted().then(() => this.#written(send)))
  }

  /** Resolves with what was done, once it is in the durable log. */
  async #written<T>(act: () => Promise<T>): Promise<T> {
    const done = await act()
    await this.runBook.host.written()
    return done
  }

  /**
   * Resolves when all that the team has accepted until now is in its durable log, and survives the death of the
   * process; at once without one. A service awaits it after `launch`, before it says that it has taken a run. Rejects
   * with `LogLostError` when nothing can be written any more, and with what keeps the team from starting.
   */
  async flush(): Promise<void> {
    await this.#life.whenStarted()
    await this.runBook.host.written()
  }

  /** Returns the agent of that name, or undefined. */
  getAgent(name: string): AgentInstance | undefined {
    return this.#roster.get(name)
  }

  /** Returns all agents, in the order in which they joined. */
  listAgents(): AgentInstance[] {
    return this.#roster.list()
  }

  /** Returns the present activity of an agent. */
  getAgentStatus(name: string): AgentStatus | undefined {
    return this.#roster.get(name)?.status
  }

  /**
   * Adds an agent to the team, also while runs are under way: they can reach it by its name at once, and scripts see it
   * in `orchestrator.agents`. Resolves when it is ready; in a team that has not started yet, at once. Source: document
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
    this.#life.assertOpen()
    const agent = this.#roster.add(role)
    const instance = this.#roster.get(agent.name)!
    await this.runBook.holds.until(this.#begin(agent))
    return instance
  }

  /** Starts an agent that has joined a team at work, once the durable log says which place its name has. */
  async #begin(agent: Agent): Promise<void> {
    if (!this.#life.hasBegun) return
    try {
      await this.#life.untilRead()
    } catch (error) {
      await this.#roster.dismiss(agent)
      throw error
    }
    await this.#roster.begin(agent)
  }

  /**
   * Takes an agent out of the team: its turn under way is aborted and has `stopGraceMs`, its stop hook runs, its thread
   * ends. What waits for it becomes dead letters, who asked it gets `AgentTerminatedError`, and so does who sends to it
   * from now on. Its name can be given to another agent, which begins with a state of its own. Resolves when it is
   * gone.
   *
   * Rejects with `UnknownAgentError`.
   */
  async removeAgent(name: string): Promise<void> {
    this.#life.assertOpen()
    await this.runBook.holds.until(this.#roster.remove(name))
    await this.runBook.host.written()
    this.#life.reconsiderStart()
  }

  /**
   * Restarts an agent that was stopped for good, without waiting for `coolDownMs`. Resolves when it is ready.
   *
   * Rejects with `UnknownAgentError`, with `ConfigurationError` for an agent that is not stopped, and with the error
   * that keeps it from starting.
   */
  async restartAgent(name: string): Promise<void> {
    this.#life.assertOpen()
    await this.runBook.holds.until(this.#roster.restart(name))
    this.#life.reconsiderStart()
  }

  /**
   * Loads the code of an agent anew, while the team runs: its module with all that this imports, and the modules of its
   * tools. The new code loads in a thread of its own; when the open turns of the old code have ended, it takes over the
   * mailbox, the state and the conversations. No message is lost or handled twice, and it is no restart. Resolves when
   * the new code runs; in a team that has not started yet, at once. A second reload of the same agent waits for the
   * first, then loads again. Several instances are reloaded one after the other.
   *
   * Rejects when the code does not load or start (`ConfigurationError`, `StartFailedError`), when a turn does not end
   * within `timeoutMs` (`TurnTimeoutError`), with `CancelledError` for an aborted `signal`: then the old code goes on.
   * Rejects with `UnknownAgentError`, with `AgentTerminatedError` for an agent that is stopped or removed, and with
   * `ConfigurationError` for an agent without a module.
   *
   * @example
   * await team.reloadAgent('critic', { timeoutMs: 10_000 })
   */
  async reloadAgent(name: string, options: ReloadOptions = {}): Promise<void> {
    this.#life.assertOpen()
    const reload = this.#roster.reloader(name, options, this.#kit)
    if (this.#life.hasBegun) await this.runBook.holds.until(this.#life.whenStarted().then(reload))
  }

  /**
   * Reads the team's registry again (the agents.yaml that `loadTeam` has read). Agents that the team does not have join
   * it, and the delegation rules are updated. Agents with other changes are listed in `outdated`; these changes take
   * effect in the next team. A message or a task to an agent that is new in the registry needs no `reload`: the lookup
   * reads the registry itself.
   *
   * Rejects with `ConfigurationError` for a team without a registry, for what is wrong in it (then nothing changes) and
   * for an agent that cannot be loaded, with `StartFailedError` for one that failed twice while it started; the others
   * have joined.
   *
   * @example
   * const { added } = await team.reload()
   */
  async reload(): Promise<Reloaded> {
    this.#life.assertOpen()
    if (!this.#newcomers) throw noRegistry('reload')
    return this.runBook.holds.until(this.#newcomers.reload())
  }

  // ---- delegation

  /**
   * Checks whether one agent may give tasks to another, as their roles say: `delegationAllowed`, `canDelegateTo`,
   * `canBeDelegatedTo`; never to itself. `'$user'` and `'$orchestrator'` may delegate to all who take tasks.
   *
   * @throws {UnknownAgentError} for a name that no agent has.
   */
  canDelegate(from: string, to: string): boolean {
    return mayDelegate(this.#roster.delegator(from), this.#roster.present(to))
  }

  /**
   * Gives an agent a task in the name of another, as its `context.delegate` would, in a run of its own like
   * `sendMessage`. Resolves with the task when it is done. `context`: what else the agent is to know, text or other
   * JSON; a model reads it below the task, code finds it in `message.metadata.context`.
   *
   * Rejects with `UnknownAgentError`, with `DelegationRefusedError` where the roles do not allow it, with
   * `MessageRejectedError` for what is no task, and with what the task ended in, as `context.delegate` does. It is the
   * one task of its run, so there is none that it can depend on.
   *
   * @example
   * const task = { description: 'Read this.', deadline: Date.now() + 60_000 }
   * const { result } = await team.delegateTask('lead', 'critic', task, 'It is for children.')
   */
  delegateTask(from: string, to: string, task: TaskInput, context?: unknown): Promise<AgentTask> {
    return this.#post(async () => {
      const [giver, taker] = [this.#roster.delegator(from), this.#roster.present(to)]
      return delegateTask(this.supervisor, this.runBook, giver, taker, task, context)
    })
  }

  /** Returns the names of the agents to which each agent may delegate. */
  getDelegationGraph(): Record<string, string[]> {
    return delegationGraph(this.supervisor.directory.agents())
  }

  /**
   * Messages that nobody will handle, with the reason: the last 10,000, or the last 64 MiB of them;
   * `health().deadLettersForgotten` counts the others.
   *
   * `replay` sends the message of a letter to its recipient again, as a new message: in its own run while that is under
   * way, else in one of its own, whose `runId` it resolves to; `metadata.replayOf` is the letter's id. Nobody waits for
   * its reply, also where it was a request. The letter leaves the list when the recipient has accepted the message, and
   * stays when it is refused. Rejects with `MessageRejectedError` for an unknown id, for a response, for a message of
   * which only a part was kept and for one that was refused for several agents; with what refuses it
   * (`AgentTerminatedError`, `MailboxFullError`); with `TeamClosedError` after `close`. `discard` takes a letter off
   * the list; throws `MessageRejectedError` for an unknown id.
   *
   * @example
   * for (const { id, reason } of team.deadLetters.list()) if (reason === 'stopped') await team.deadLetters.replay(id)
   */
  readonly deadLetters = {
    list: (): DeadLetter[] => this.supervisor.redactor.data(this.supervisor.journal.deadLetters.list()),
    replay: async (id: string): Promise<{ runId: string }> => ({
      runId: await this.#post(() => this.#letters.replay(id)),
    }),
    discard: (id: string): void => this.#letters.discard(id),
  }

  /** Events of all runs, as they happen. A subscriber that throws is reported to the logger and closed. */
  get events(): Observable<RuntimeEvent> {
    return this.#events
  }
}

/** Returns a hash of the text of a script; undefined where there is none. */
function scriptHash(protocol: Protocol): string | undefined {
  if ('run' in protocol) return protocol.text === undefined ? undefined : hashOf(protocol.text)
  try {
    return hashOf(readFileSync(new URL(protocol.module), 'utf8'), JSON.stringify(protocol.config ?? {}))
  } catch {
    return undefined
  }
}
