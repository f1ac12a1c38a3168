/** Methods of a team that start runs, wait for them, stream their events and find them. */
import { existsSync } from 'node:fs'
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { Content } from '../../actors/definition/content.ts'
import type { TaskStatus } from '../../actors/definition/task.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import { oneOf, refused } from '../../shared/checks.ts'
import {
  BudgetExceededError,
  ConfigurationError,
  shown,
  TeamClosedError,
  TeamOverloadedError,
  UnknownRunError,
} from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import { directoryOf, type RunState } from '../host/run.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import {
  checkRunFilter,
  pageOf,
  type ResumeOptions,
  type Run,
  type RunFilter,
  type RunOptions,
  type RunOwner,
  type RunSummary,
  type ThreadView,
  toldSummary,
} from '../runs/run.ts'
import type { RunBook } from '../runs/runs.ts'
import { jointHistory } from '../runs/trace.ts'
import { readLog } from '../store/log-reader.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { AnswerOptions } from '../verbs/approvals.ts'
import type { Budgets, BudgetUse } from '../verbs/budgets.ts'
import { endOf, type OpenQuestionInfo } from '../verbs/questions.ts'
import type { DigestFeed } from '../views/digest-feed.ts'
import type { Digest, Wait } from '../views/digest-line.ts'
import { metricsOf } from '../views/metrics.ts'
import { type Health, healthOf } from '../views/operator-log.ts'
import { type Metric, prometheusText } from '../views/prometheus.ts'
import { recordedRuns } from '../views/recorded-runs.ts'
import { LoggedReplay, pastInMemory } from '../views/run-replay.ts'
import type { OpenTurn, TeamJudgement } from '../views/slow.ts'
import { Tallies } from '../views/tallies.ts'
import type { RunReplay } from '../views/team-fold.ts'
import { runDigest, teamDigest, type WaitCycle, waitCyclesOf, waitsOf } from './digest-state.ts'
import { judgementOf, openTurnsOf } from './open-turns.ts'

const metricsFormat = oneOf('prometheus')

export abstract class TeamRuns {
  #digest: DigestFeed | undefined
  protected abstract readonly supervisor: Supervisor
  protected abstract readonly runBook: RunBook
  protected readonly tallies = new Tallies()
  protected abstract readonly parts: { readonly budgets: Budgets }
  /** Folder of the team's durable log; undefined without one. */
  abstract readonly logPath: string | undefined

  /** Resolves when the durable log has been read, if the team has one. */
  protected abstract untilLogRead(): Promise<void>

  /**
   * Returns the blackboard of a run; without a `runId`, that of the run that was launched last. A blackboard of the
   * team (`enableBlackboard: { scope: 'team' }`) is there before the first run. Throws `UnknownRunError`.
   */
  getBlackboard(runId?: string): Blackboard | undefined {
    const run = runId === undefined ? this.runBook.last : this.#run(runId)
    return this.runBook.host.blackboard(run)
  }

  /**
   * Returns every message that the log still has, in order: those of a run, or without a `runId` those of the run that
   * was launched last, and those that messages from outside (`sendMessage`, `broadcast`, `delegateTask`) have caused.
   * Throws `UnknownRunError`.
   */
  getMessageHistory(runId?: string): TypedMessage[] {
    return this.messagesOf(runId)
  }

  /** The same; `agent`: only those that it has sent or got. */
  protected messagesOf(runId: string | undefined, agent?: string): TypedMessage[] {
    const { names, redactor } = this.supervisor
    return redactor.data(jointHistory(this.#runs(runId), (run) => directoryOf(run, names), agent))
  }

  /** Returns the status of each task, by the task's id, of the same runs. Throws `UnknownRunError`. */
  getTaskStatus(runId?: string): Record<string, TaskStatus> {
    const tasks = this.#runs(runId).flatMap((run) => [...run.tasks.values()])
    return Object.fromEntries(tasks.map(({ id, status }) => [id, status]))
  }

  /**
   * Returns the past of a run, until now: the state of its agents, mailboxes, waits, blackboard and tasks at each
   * moment that was logged. The run may go on meanwhile. With `stateManagement: { path }` it is read from the log, also
   * after `close` and for runs of earlier processes. Without, it is in memory as long as the run's log is whole there.
   *
   * Rejects with `UnknownRunError` for a run that is not known, or whose oldest entries are no longer in memory; with
   * `LogCorruptError` if the log is damaged.
   *
   * @example
   * const past = await team.replay('report-7')
   * console.log(past.at(past.seqs.at(-1)).waits) // what it waited for at last
   */
  async replay(runId: string): Promise<RunReplay> {
    const { redactor } = this.supervisor
    const path = this.logPath
    if (path !== undefined && existsSync(path)) {
      await this.supervisor.journal.written()?.catch(() => {}) // what stands in a log that is lost or closed is readable
      const { runs } = await recordedRuns(
        () => readLog(path),
        ({ id }) => id === runId,
        { parts: true },
      )
      const run = runs.at(-1)
      if (run) return new LoggedReplay(run, redactor)
    }
    const run = this.supervisor.runs.find(runId)
    if (!run) throw unknownRun(runId)
    const { directory, names } = this.supervisor
    const past = pastInMemory(run, { names, indexOf: (name) => directory.agent(name, run)?.index })
    return new LoggedReplay(past, redactor)
  }

  #runs(runId: string | undefined): RunState[] {
    if (runId !== undefined) return [this.#run(runId)]
    const { last, own } = this.runBook
    return last ? [last, ...own] : own
  }

  #run(runId: string): RunState {
    const run = this.supervisor.runs.find(runId)
    if (run) return run
    throw unknownRun(runId)
  }

  /**
   * Returns what waits now, the oldest first: turns that wait for other agents, models, tools or people or are in steps
   * of their own, and what waits for a limit on how much runs at once, with the cause. No detector runs for it, and it
   * changes nothing.
   *
   * @example
   * for (const { agent, kind, for: what } of team.waits()) console.log(agent, 'waits for', kind, what)
   */
  waits(): Wait[] {
    return this.supervisor.redactor.data(waitsOf(this.supervisor))
  }

  /**
   * Returns the turns that are under way, the oldest first: what each of them does and for how long, and whether that
   * is longer than `supervision.slowMs`.
   *
   * @example
   * for (const { state, sentence } of team.turns()) console.log(state, sentence)
   */
  turns(): OpenTurn[] {
    return this.supervisor.redactor.data(openTurnsOf(this.supervisor))
  }

  /**
   * Returns what people should look at now: turns and queues that are slow or stuck, in words. Nothing is ended by it.
   *
   * @example
   * for (const sentence of team.judgement().sentences) console.log(sentence)
   */
  judgement(): TeamJudgement {
    return this.supervisor.redactor.data(judgementOf(this.supervisor))
  }

  /**
   * Returns the circles of turns that wait for each other now. The detector breaks those that stand
   * (`supervision.deadlock`) after `confirmMs`. No detector runs for it, and it changes nothing.
   *
   * @example
   * for (const { agents } of team.waitCycles()) console.log(agents.join(' waits for '))
   */
  waitCycles(): WaitCycle[] {
    return waitCyclesOf(this.supervisor)
  }

  /**
   * Returns what is used of the limits on tokens now: of the team's, and of those of its runs under way.
   *
   * @example
   * for (const { option, used, limit } of team.budgets()) console.log(option, used, 'of', limit)
   */
  budgets(): BudgetUse[] {
    return this.parts.budgets.uses([...this.supervisor.runs.values()].filter(({ over }) => !over))
  }

  /** Returns the present state of the team. */
  health(): Health {
    return healthOf(this.supervisor, this.runBook, this.turns())
  }

  /**
   * Returns the metrics of this team for a monitoring system: as data, or as a page in Prometheus' text format (version
   * 0.0.4; serve it as `text/plain; version=0.0.4`). Counters count from the team's start. It can also be called after
   * `close`.
   *
   * @throws {ConfigurationError} for another format.
   *
   * @example
   * const type = 'text/plain; version=0.0.4'
   * server.get('/metrics', (_request, response) => response.type(type).send(team.metrics('prometheus')))
   */
  metrics(): Metric[]
  metrics(format: 'prometheus'): string
  metrics(format?: 'prometheus'): Metric[] | string {
    if (format !== undefined) metricsFormat(format, 'format')
    const slow = openTurnsOf(this.supervisor).filter(({ state }) => state !== 'fine').length
    const metrics = metricsOf(this.supervisor, this.runBook, this.tallies, slow, this.parts.budgets.uses([]))
    return format === undefined ? metrics : prometheusText(metrics)
  }

  /**
   * Runs the team on a query: a text, or parts (texts, images, sounds, files). Rejects only on misuse
   * (`ConfigurationError`, `TeamClosedError` after `close`). A run that fails, times out, is aborted, finds no room in
   * the team (`TeamOverloadedError`), is of a tenant that has nothing left (`BudgetExceededError`) or comes while the
   * team drains (`TeamClosedError`) resolves with `success: false` and the reason.
   *
   * @example
   * const result = await team.execute('Should we migrate?', { timeoutMs: 30_000 })
   * console.log(result.success ? result.finalOutput : result.error.message)
   */
  async execute<T = undefined>(query: string | Content, options: RunOptions<T> = {}): Promise<MultiAgentResult<T>> {
    return this.resultOf(query, options, this.supervisor.directory.byIndex[ORCHESTRATOR_INDEX]!)
  }

  /**
   * Starts a run and gives its handle.
   *
   * @throws {TeamOverloadedError} when `maxConcurrentRuns` run and `maxQueuedRuns` wait.
   * @throws {BudgetExceededError} when the tenant of the run has nothing left (`budget.perTenant`).
   * @throws {TeamClosedError} after `close`.
   * @throws {ConfigurationError} for a wrong option, or a `runId` of a run with another query.
   */
  launch<T = undefined>(query: string | Content, options: RunOptions<T> = {}): Run<T> {
    const run = this.runBook.launch(query, options, this.supervisor.directory.byIndex[ORCHESTRATOR_INDEX]!, true)
    run.state.held = true
    return run
  }

  /**
   * Runs the team for a caller who waits for the result and gets no handle. A run that is not taken has a result too.
   */
  protected async resultOf<T>(
    query: string | Content,
    options: RunOptions<T>,
    target: Agent,
  ): Promise<MultiAgentResult<T>> {
    try {
      const { state, result } = this.runBook.launch(query, options, target)
      state.held ??= false
      return result
    } catch (error) {
      const isRefused =
        error instanceof TeamOverloadedError ||
        error instanceof BudgetExceededError ||
        (error instanceof TeamClosedError && this.runBook.isDraining)
      if (!isRefused) throw error
      return this.runBook.refused(query, options, error)
    }
  }

  /**
   * Starts a run and yields its events. A caller who leaves the loop aborts the run.
   *
   * @example
   * for await (const event of team.stream('Should we migrate?')) {
   *   if (event.type === 'output.delta' && event.final) process.stdout.write(event.chunk)
   * }
   */
  async *stream<T = undefined>(query: string | Content, options: RunOptions<T> = {}): AsyncGenerator<RuntimeEvent<T>> {
    const run = this.launch(query, options)
    try {
      yield* run.events()
      await run.result // a configuration that cannot work has no last event
    } finally {
      await run.cancel('the reader left the stream')
    }
  }

  /**
   * Goes on with an interrupted run, and resolves with its result. Also resolves with the result of a run that goes on
   * already, or has ended. `output` checks the answer; `signal` aborts the run; `timeoutMs` is its time from now on, by
   * default what was left. A run that cannot go on has the reason as its error and stays interrupted:
   * `UnknownAgentError` if the team lacks an agent that the run has work for, `StepMismatchError` if its code has
   * changed. With `onMismatch: 'continue'` a run goes on although its code has changed.
   *
   * Rejects with `UnknownRunError`, and with `ConfigurationError` for a wrong option.
   *
   * @example
   * const [left] = await team.listRuns({ status: 'interrupted' })
   * if (left) console.log(await team.resume(left.id))
   */
  resume<T = undefined>(runId: string, options: ResumeOptions<T> = {}): Promise<MultiAgentResult<T>> {
    return this.runBook.holds.until(this.runBook.interrupted.resultOf(runId, options))
  }

  /**
   * Goes on with all interrupted runs, also with what messages from outside have caused, and returns the runs. One that
   * cannot go on stays interrupted; its result has the reason.
   */
  async resumePending(): Promise<Run<unknown>[]> {
    return this.runBook.holds.until(this.runBook.interrupted.resumePending())
  }

  /**
   * Returns the run of that id, if the log still has it. A run that ended long ago is read from the durable log: its
   * tasks, history and usage, and a query of more than 512 characters, are there when its `result` has resolved. Runs
   * of earlier processes are known from `start` on. `caller`: only a run that this caller began, `tenant`: only one of
   * this tenant; another one is not even read.
   */
  getRun(runId: string, whose: RunOwner = {}): Run<unknown> | undefined {
    return this.runBook.find(runId, whose)
  }

  /**
   * Checks whether the durable log has forgotten the run of that id, and still knows that an idempotency key has begun
   * it over HTTP (`stateManagement.keep.keysMs`): what it did is not to be done again.
   */
  isForgotten(runId: string): boolean {
    return this.runBook.isForgotten?.(runId) ?? false
  }

  /**
   * Returns the wait of this team that stands in the path of a message from elsewhere, in words; undefined: there is
   * none. A run that such a message begins would wait for itself.
   */
  circleIn(path: readonly string[]): string | undefined {
    return this.supervisor.remotes.circleIn(path)
  }

  /**
   * Returns the questions to a person that nobody has answered yet, of one run or of all. After a restart the runs that
   * go on have theirs, with the same ids. `answer` takes the answer.
   */
  questions(runId?: string): OpenQuestionInfo[] {
    const runs = this.runBook.list().filter(({ id }) => runId === undefined || id === runId)
    return runs.flatMap(({ questions }) => questions)
  }

  /**
   * Answers a question of any run, by its id: see `Run.answer`. Rejects with `ConfigurationError` if no run of this
   * process has such an open question, or for an answer that it does not take.
   *
   * @example
   * for (const { questionId, kind } of team.questions()) if (kind === 'approval') await team.answer(questionId, 'no')
   */
  async answer(questionId: string, answer: string | ApprovalAnswer, options?: AnswerOptions): Promise<void> {
    const runs = this.runBook.list()
    const run =
      runs.find(({ state }) => state.questions.has(questionId)) ??
      runs.find(({ state }) => endOf(state.log.entries(), questionId) !== undefined)
    if (run) return run.answer(questionId, answer, options)
    const open = runs.flatMap(({ state }) => [...state.questions.keys()]).join(', ') || 'none'
    const text = `questionId: no run of this team has a question ${shown(questionId)}. Open: ${open}.`
    throw new ConfigurationError(text, { path: 'questionId', got: shown(questionId), accepted: open })
  }

  /**
   * Begins a thread (`threadId`) for a caller, unless somebody has begun it, and resolves to whom it belongs: to the
   * caller in the metadata (`caller`) of its first run. null: to nobody that is known. A service of your own asks it
   * before it runs a query in a thread that a client has named; runs of the program are not bound by it.
   *
   * Rejects with `ConfigurationError` for an empty id, and with what keeps the durable log or the store of
   * `conversations` from being read.
   *
   * @example
   * if ((await team.beginThread(threadId, user.id)) !== user.id) throw new Error('There is no such thread.')
   */
  async beginThread(threadId: string, caller: string): Promise<string | null> {
    if (typeof threadId !== 'string' || threadId === '') throw refused('threadId', threadId, 'a text that is not empty')
    if (typeof caller !== 'string') throw refused('caller', caller, 'a text')
    await this.untilLogRead()
    return this.runBook.beginThread(threadId, caller)
  }

  /**
   * Returns what the team knows of a thread (`threadId`); undefined if it knows none of that id. Rejects with what
   * keeps the durable log or the store of `conversations` from being read.
   *
   * @example
   * console.log((await team.thread('ann'))?.speaker) // the agent that gets the next message
   */
  async thread(threadId: string): Promise<ThreadView | undefined> {
    await this.untilLogRead()
    const speaker = await this.runBook.speakerOf(threadId)
    if (speaker === undefined) return undefined
    const runs = await this.listRuns({ threadId })
    return { threadId, speaker, runIds: runs.map(({ id }) => id) }
  }

  /**
   * Returns the runs that the log still has, those that started last first. For all of them in pages, give `limit`, and
   * in `before` the id of the last run of the page before. A team with a durable log that has not started is started
   * for it, since only the log knows its runs.
   *
   * Rejects with `ConfigurationError` for a wrong filter, with `UnknownRunError` if the run `before` is not there any
   * more, and with what keeps the durable log from being read.
   *
   * @example
   * const failed = await team.listRuns({ status: 'failed', limit: 20 })
   * for (const { id, errorCode, usage } of failed) console.log(id, errorCode, usage.totalTokens)
   */
  async listRuns(filter: RunFilter = {}): Promise<RunSummary[]> {
    checkRunFilter(filter)
    await this.untilLogRead()
    const known = this.runBook.list().flatMap(({ listed }) => listed ?? [])
    const page = pageOf(known, this.runBook.recalled.newest(filter.caller), filter)
    return page.map((run) => toldSummary(run, this.supervisor.redactor, this.supervisor.runs.currency))
  }

  /**
   * Name of the log that numbers the events: the id of an event is this name, a dot and its `seq`, and `run.events`
   * goes on behind it. With `stateManagement: { path }` the name stays the same in later processes, and is undefined
   * until `start`; without, each team has a new one.
   */
  get logName(): string | undefined {
    return this.runBook.host.logName
  }

  /**
   * Yields what happens in the team, in short, until the team is closed or `signal` is aborted: who sent what to whom,
   * turns, calls, waits, and the rare events. The first line is the state of the team. Of what agents say it has names
   * and sizes alone. A line comes at most ten times a second; all who watch share the work, and a watcher changes
   * nothing in the team. Who reads too slowly misses lines, and gets the state of the team again.
   *
   * @example
   * for await (const { facts = [] } of team.watch()) for (const { type, runId } of facts) console.log(type, runId)
   */
  watch({ signal }: { signal?: AbortSignal } = {}): AsyncIterable<Digest> {
    this.#digest ??= teamDigest({
      supervisor: this.supervisor,
      runs: this.runBook,
      tallies: this.tallies,
      questions: () => this.questions(),
    })
    return this.#digest.watch(signal)
  }

  /**
   * Yields the digest of one run until now, in the lines of `watch`, from the beginning or from the oldest entry that
   * the log still has. Rejects with `UnknownRunError`.
   */
  async *digestOf(runId: string): AsyncGenerator<Digest> {
    const run = this.runBook.find(runId)
    if (!run) throw unknownRun(runId)
    if (run.state.index === 0) await run.result // it is read from the log
    yield* runDigest(this.supervisor, this.runBook, run.state)
  }
}

const unknownRun = (runId: string) =>
  new UnknownRunError(`No run ${shown(runId)} is known; there was none, or it has left the log.`, { runId })
