/** Ends of runs: by an answer, an error, a caller who cancels, or a team that closes or loses its log. */
import { type ConfigurationError, DramatisError, describe, ReplyInvalidError, RunAbortedError } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import { END, kindOf, senderOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { queueMicrotask } from '../../timers.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'
import type { Cell } from '../state/cell.ts'
import { RunOutput } from '../state/run-output.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import type { Tracing } from '../telemetry/tracing.ts'
import { type EndedRuns, windDown } from './ended-runs.ts'
import type { InterruptedRuns } from './interrupted-runs.ts'
import type { RunEnding } from './result.ts'
import type { RunConversations } from './run-conversations.ts'
import type { RunEntries, RunEntry } from './run-entries.ts'
import type { RunGuards } from './run-guards.ts'
import type { RunStatus } from './run-list.ts'
import type { RunLine } from './run-queue.ts'

interface Needs {
  readonly supervisor: Supervisor
  readonly tracing: Tracing | undefined
  readonly entries: RunEntries
  readonly line: RunLine<RunEntry>
  readonly guards: RunGuards
  readonly conversations: RunConversations | undefined
  readonly interrupted: InterruptedRuns
  readonly ended: EndedRuns
  /** Starts the run that has the place of one that has ended. */
  readonly begin: (next: RunEntry) => void
}

export class RunEndings {
  readonly #needs: Needs
  /** Set when the durable log is lost: no run is taken any more. */
  lost: DramatisError | undefined

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Ends a run with the answer of its target: a body, or an error. */
  async answered(entry: RunEntry, memory: Memory, at: number): Promise<void> {
    const { guards, conversations } = this.#needs
    const { handle } = entry
    if (isFailure(memory, at)) return this.end(entry, { error: errorOf(memory, at) }, 'failed')
    const { content: said, data } = readBody(memory, at)
    try {
      const content = guards.holds(entry) ? await guards.answer(entry, said) : said
      const structured: unknown = data === undefined || content !== said ? undefined : jsonIn(data)
      handle.state.structured = structured
      const output = handle.state.output ?? this.#outputOfSpeaker(entry, said)
      const checked = await output?.dataOf(structured, content)
      this.#needs.supervisor.handedAnswers.remember(handle.state)
      if (conversations) await conversations.save(handle.state)
      this.end(entry, { finalOutput: content, data: checked }, 'finished', content === said ? undefined : content)
    } catch (error) {
      this.end(
        entry,
        { error: error instanceof DramatisError ? error : new ReplyInvalidError(describe(error), {}, error) },
        'failed',
      )
    }
  }

  /** Returns the output of the role that has given the answer of a run, if it has one. */
  #outputOfSpeaker({ handle: { state }, target }: RunEntry, said: string): RunOutput | undefined {
    const { cells } = this.#needs.supervisor.directory
    const speaker = target.settings.isAgent ? target : speakerOf(state.log, said, cells)
    const schema = speaker?.settings.output
    return schema && new RunOutput(schema, state.id)
  }

  cancel(run: RunState, reason: string): void {
    const { entries, interrupted, supervisor } = this.#needs
    const left = entries.of(run)
    if (left && interrupted.has(run)) interrupted.goOn(left) // so that its messages become dead letters
    const entry = entries.of(run)
    const error = new RunAbortedError(`The run was aborted: ${reason}.`, { runId: run.id, reason })
    if (run.isOwn) return this.#needs.ended.abort(run, error)
    if (!entry || run.over) return
    supervisor.journal.record(run, { kind: 'run.aborted', reason })
    this.abort(entry, error, 'aborted')
  }

  /**
   * Ends a run with an error. Also ends what is left of a run that is over, or of the work that a message from outside
   * has caused.
   */
  fail(run: RunState, error: DramatisError): void {
    const entry = this.#needs.entries.of(run)
    if (entry && !run.over) this.abort(entry, error, 'failed')
    else this.#needs.ended.abort(run, error)
  }

  abort(entry: RunEntry, error: DramatisError, status: RunStatus): void {
    if (entry.handle.state.over) return
    this.end(entry, { error }, status)
  }

  /**
   * Ends a run, tells those who watch, and gives its caller the result once it is in the durable log. `output`: the
   * answer, if it is not the one that the log has from its agent.
   */
  end(entry: RunEntry, ending: RunEnding<unknown>, status: RunStatus, output?: string): void {
    const { supervisor, interrupted, tracing, entries, line, ended, begin } = this.#needs
    const { handle } = entry
    const { state } = handle
    if (state.over) return
    state.over = true
    interrupted.release(state) // what was set aside is left over now
    supervisor.journal.tell()
    if ('error' in ending) windDown(supervisor, state, ending.error)
    const boardRevision = supervisor.boards.revisionFor(state)
    state.boardRevision = boardRevision
    const { at } = supervisor.journal.record(state, {
      kind: 'run.finished',
      error: 'error' in ending ? ending.error : null,
      ...(boardRevision !== undefined && { boardRevision }),
      ...(output !== undefined && { output }),
      ...('data' in ending && { data: asJson(ending.data) }),
    })
    tracing?.finished(state, 'error' in ending ? ending.error : undefined)
    // Before anybody is notified of the end: the event carries the result.
    entry.result = entries.resultOf(state, ending, at - state.startedAt)
    entry.time?.cancel()
    entry.clear()
    line.leave(entry, begin)
    ended.add(state)
    this.#tellNext()
    const writing = status === 'interrupted' ? undefined : supervisor.journal.written()
    if (writing) void this.#finishWritten(entry, writing, status)
    else handle.finish(entry.result, status)
    supervisor.loop.wake()
  }

  /**
   * Gives a result to its caller once it is in the durable log. If the log is lost, a later process may find another.
   */
  async #finishWritten(entry: RunEntry, writing: Promise<void>, status: RunStatus): Promise<void> {
    const { handle } = entry
    try {
      await writing
      handle.finish(entry.result!, status)
    } catch (error) {
      const ending = { error: error instanceof DramatisError ? error : this.lost! }
      entry.result = this.#needs.entries.resultOf(handle.state, ending, entry.result!.executionTimeMs)
      handle.finish(entry.result, 'interrupted')
    }
  }

  /** Ends a run whose team cannot start: its handle rejects. */
  misconfigured(entry: RunEntry, error: ConfigurationError): void {
    const { supervisor, tracing, line, ended, begin } = this.#needs
    const { handle } = entry
    handle.state.over = true
    handle.state.ending = error
    entry.time?.cancel()
    entry.clear()
    const { at } = supervisor.journal.record(handle.state, { kind: 'run.finished', error })
    tracing?.finished(handle.state, error)
    line.leave(entry, begin)
    ended.add(handle.state)
    this.#tellNext()
    handle.misconfigured(error, at)
  }

  /**
   * Notifies readers of the team's events before callers that wait for the run resume. It uses a microtask, so that
   * this does not happen inside the call that has led to the end.
   */
  #tellNext(): void {
    queueMicrotask(() => this.#needs.supervisor.journal.tell())
  }

  /** Ends all runs for their callers, because the durable log is lost. A later process can go on with them. */
  interrupt(error: DramatisError): void {
    const { interrupted, line, ended } = this.#needs
    this.lost = error
    interrupted.leave(error)
    for (const entry of line.all) {
      if (entry.handle.state.over) continue
      this.end(entry, { error }, 'interrupted')
    }
    ended.abortAll(error)
  }

  /** Ends all runs. In a team with a durable log they are only interrupted: a later process goes on with them. */
  abortAll(error: DramatisError): void {
    const { supervisor, interrupted, line, ended } = this.#needs
    const isDurable = supervisor.journal.isKept
    interrupted.leave(error)
    for (const entry of line.all) {
      supervisor.journal.record(entry.handle.state, { kind: 'run.aborted', reason: error.message })
      this.abort(entry, error, isDurable ? 'interrupted' : 'aborted')
    }
    ended.abortAll(error)
  }
}

/** Finds the agent whose role has an output, and which has answered in these words last. */
function speakerOf(log: RunLog, said: string, cells: readonly (Cell | undefined)[]): Cell | undefined {
  if (!cells.some((cell) => cell?.settings.output)) return undefined
  let speaker: Cell | undefined
  for (const [memory, at] of framesOf(log)) {
    const cell = kindOf(memory, at) === END ? cells[senderOf(memory, at)] : undefined
    if (cell?.settings.output && !isFailure(memory, at) && readBody(memory, at).content === said) speaker = cell
  }
  return speaker
}

/** Returns a copy of data as the log has it; without a value where JSON has none. */
function asJson(data: unknown): { value?: unknown } {
  try {
    const text = JSON.stringify(data)
    return text === undefined ? {} : { value: JSON.parse(text) }
  } catch {
    return {} // a bigint, or a cycle, that a schema has made
  }
}
