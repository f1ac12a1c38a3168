/** Methods of a team that start runs, wait for them, stream their events and find them. */
import type { ApprovalAnswer } from '../../actors/definition/approval.ts'
import type { Content } from '../../actors/definition/content.ts'
import { ConfigurationError, shown, TeamClosedError, TeamOverloadedError } from '../../errors.ts'
import { refused } from '../checks/refused.ts'
import type { DigestFeed } from '../digest/digest-feed.ts'
import type { Digest } from '../digest/digest-line.ts'
import type { RuntimeEvent } from '../runs/events.ts'
import type { MultiAgentResult } from '../runs/result.ts'
import type { ResumeOptions, Run, RunOptions } from '../runs/run.ts'
import { checkRunFilter, pageOf, type RunFilter, type RunSummary, toldSummary } from '../runs/run-list.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import { type AnswerOptions, endOf, type OpenQuestionInfo } from '../verbs/open-question.ts'
import { runDigest, teamDigest } from './digests.ts'
import { TeamInsight, unknownRun } from './team-insight.ts'

export abstract class TeamRuns extends TeamInsight {
  #digest: DigestFeed | undefined

  /** Resolves when the durable log has been read, if the team has one. */
  protected abstract untilLogRead(): Promise<void>

  /**
   * Runs the team on a query: a text, or parts (texts, images, sounds, files). Rejects only on misuse
   * (`ConfigurationError`, `TeamClosedError` after `close`). A run that fails, times out, is aborted, finds no room in
   * the team (`TeamOverloadedError`) or comes while it drains (`TeamClosedError`) resolves with `success: false` and
   * the reason.
   *
   * @example
   * const result = await team.execute('Should we migrate?', { timeoutMs: 30_000 })
   * console.log(result.success ? result.finalOutput : result.error.message)
   */
  async execute<T = undefined>(query: string | Content, options: RunOptions<T> = {}): Promise<MultiAgentResult<T>> {
    return this.resultOf(query, options, this.supervisor.directory.cells[ORCHESTRATOR_INDEX]!)
  }

  /**
   * Starts a run and gives its handle.
   *
   * @throws {TeamOverloadedError} when `maxConcurrentRuns` run and `maxQueuedRuns` wait.
   * @throws {TeamClosedError} after `close`.
   * @throws {ConfigurationError} for a wrong option, or a `runId` of a run with another query.
   */
  launch<T = undefined>(query: string | Content, options: RunOptions<T> = {}): Run<T> {
    const run = this.runBook.launch(query, options, this.supervisor.directory.cells[ORCHESTRATOR_INDEX]!, true)
    run.state.held = true
    return run
  }

  /**
   * Runs the team for a caller who waits for the result and gets no handle. A run that is not taken has a result too.
   */
  protected async resultOf<T>(
    query: string | Content,
    options: RunOptions<T>,
    target: Cell,
  ): Promise<MultiAgentResult<T>> {
    try {
      const { state, result } = this.runBook.launch(query, options, target)
      state.held ??= false
      return result
    } catch (error) {
      const isRefused =
        error instanceof TeamOverloadedError || (error instanceof TeamClosedError && this.runBook.isDraining)
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
    return this.runBook.holds.until(this.runBook.resumption.resume(runId, options))
  }

  /**
   * Goes on with all interrupted runs, also with what messages from outside have caused, and returns the runs. One that
   * cannot go on stays interrupted; its result has the reason.
   */
  async resumePending(): Promise<Run<unknown>[]> {
    return this.runBook.holds.until(this.runBook.resumption.resumePending())
  }

  /**
   * Returns the run of that id, if the log still has it. A run that ended long ago is read from the durable log: its
   * tasks, history and usage, and a query of more than 512 characters, are there when its `result` has resolved. Runs
   * of earlier processes are known from `start` on. `caller`: only a run that this caller began, as its metadata name
   * it; another one is not even read.
   */
  getRun(runId: string, { caller }: { caller?: string } = {}): Run<unknown> | undefined {
    return this.runBook.find(runId, caller)
  }

  /**
   * Checks whether the durable log has forgotten the run of that id, and still knows that an idempotency key has begun
   * it over HTTP (`stateManagement.keep.keysMs`): what it did is not to be done again.
   */
  isForgotten(runId: string): boolean {
    return this.runBook.isForgotten?.(runId) ?? false
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
    return page.map((run) => toldSummary(run, this.supervisor.redactor))
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
