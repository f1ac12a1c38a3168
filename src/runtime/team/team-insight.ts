/** Queries about a running team: what happened in its runs, and its present state. */
import { existsSync } from 'node:fs'
import type { TaskStatus } from '../../actors/definition/task.ts'
import type { Blackboard } from '../../blackboard/entry.ts'
import { shown, UnknownRunError } from '../../errors.ts'
import type { TypedMessage } from '../../mailbox/message.ts'
import type { Budgets, BudgetUse } from '../budgets/budgets.ts'
import { oneOf } from '../checks/checks.ts'
import type { Wait } from '../digest/wait.ts'
import { type Health, healthOf } from '../metrics/health.ts'
import { metricsOf } from '../metrics/metrics.ts'
import { type Metric, prometheusText } from '../metrics/prometheus.ts'
import { Tallies } from '../metrics/tallies.ts'
import { pastInMemory } from '../replay/past-in-memory.ts'
import { recordedRuns } from '../replay/recorded-runs.ts'
import { LoggedReplay } from '../replay/run-replay.ts'
import type { RunReplay } from '../replay/run-view.ts'
import type { RunBook } from '../runs/runs.ts'
import { jointHistory } from '../runs/trace.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import { readLog } from '../store/log-reader.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { judgementOf, type OpenTurn, openTurnsOf, type TeamJudgement } from './open-turns.ts'
import { type WaitCycle, waitCyclesOf, waitsOf } from './waits.ts'

const metricsFormat = oneOf('prometheus')

export abstract class TeamInsight {
  protected abstract readonly supervisor: Supervisor
  protected abstract readonly runBook: RunBook
  protected readonly tallies = new Tallies()
  protected abstract readonly parts: { readonly budgets: Budgets }
  /** Folder of the team's durable log; undefined without one. */
  abstract readonly logPath: string | undefined

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
    return new LoggedReplay(pastInMemory(run, this.#namesFor(run)), redactor)
  }

  #namesFor(run: RunState) {
    const { directory, names } = this.supervisor
    return { names, indexOf: (name: string) => directory.cell(name, run)?.index }
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
    return healthOf(this.supervisor, this.runBook)
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
    const metrics = metricsOf(this.supervisor, this.runBook, this.tallies, slow)
    return format === undefined ? metrics : prometheusText(metrics)
  }
}

export function unknownRun(runId: string): UnknownRunError {
  return new UnknownRunError(`No run ${shown(runId)} is known; there was none, or it has left the log.`, { runId })
}
