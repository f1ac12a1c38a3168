/** Ends of runs: by an answer, an error, a caller who cancels, or a team that closes or loses its log. */

import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import { END, kindOf, type Memory, readBody, senderOf } from '../../mailbox/frame.ts'
import type { Timer } from '../../shared/clock.ts'
import {
  AgentTerminatedError,
  type ConfigurationError,
  DramatisError,
  describe,
  ReplyInvalidError,
  RunAbortedError,
  RunTimeoutError,
  TeamClosedError,
} from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { queueMicrotask } from '../../shared/timers.ts'
import type { Agent } from '../host/agent.ts'
import { rememberHandedAnswers, speakerIn } from '../host/handed-answers.ts'
import { KEPT_BYTES, RunOutput, type RunState } from '../host/run.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'
import type { Supervisor } from '../supervision/host.ts'
import { recordUnread } from '../verbs/steering.ts'
import { cancelOpenTasks } from '../verbs/task-board.ts'
import type { ThreadStore } from './conversations.ts'
import type { InterruptedRuns } from './interrupted-runs.ts'
import type { RunEnding } from './result.ts'
import type { RunStatus } from './run.ts'
import { type RunEntries, type RunEntry, RunGuards } from './run-entries.ts'

/*
 * Runs that are over: they wait until their last messages are handled, are kept while the log has room for them, and
 * are then forgotten.
 */

const KEPT_RUNS = 100
const HANDING_MS = 10_000

export class EndedRuns {
  readonly #entries: RunEntries
  readonly #supervisor: Supervisor
  readonly #quietWithinMs: number
  readonly #quiet: (run: RunState) => void
  /** Runs that still have messages under way that nobody waits for. */
  readonly #quieting = new Map<RunState, Timer | undefined>()
  /** Those of them that may be quiet by now. */
  readonly due = new Set<RunState>()
  /** Runs that are over and quiet, oldest first, with the bytes that each has in memory. */
  readonly #kept = new Map<RunState, number>()
  #keptBytes = 0

  /** `quiet`: called with each run of which nothing is under way any more. */
  constructor(entries: RunEntries, quiet: (run: RunState) => void) {
    this.#entries = entries
    this.#supervisor = entries.supervisor
    this.#quietWithinMs = entries.settings.globalTimeoutMs // also for all work that a message from outside has caused
    this.#quiet = quiet
  }

  add(run: RunState): void {
    if (this.#quieting.has(run)) return
    this.#quieting.set(run, undefined)
    this.#await(run)
    this.#entries.holds.begin()
  }

  /** Opens a run for a message from outside of any run. It ends when the work that the message has caused is done. */
  open(threadId: string | undefined): RunState {
    const run = this.#supervisor.runs.open(this.#supervisor.frames.id(), '', undefined, threadId)
    this.#supervisor.journal.keep(run, {
      kind: 'run.launched',
      id: run.id,
      query: '',
      startedAt: run.startedAt,
      metadata: {},
      ...(threadId !== undefined && { threadId }),
      models: {},
      timeoutMs: this.#quietWithinMs,
      priority: 0,
      target: 0,
      own: true,
    })
    this.restore(run)
    return run
  }

  /** Waits for the end of the work that a message from outside has caused. `leftMs`: how long it may still take. */
  restore(run: RunState, leftMs = this.#quietWithinMs): void {
    run.over = true
    run.isOwn = true
    run.log.isUnderWay = false
    this.#entries.holds.begin()
    const limit = this.#quietWithinMs
    this.#quieting.set(
      run,
      this.#supervisor.clock.timer(leftMs, () => {
        const text = `What a message caused did not fall quiet within ${limit} ms (globalTimeoutMs).`
        windDown(this.#supervisor, run, new RunTimeoutError(text, { runId: run.id, timeoutMs: limit }))
      }),
    )
    this.#await(run)
  }

  #await(run: RunState): void {
    run.onQuiet = () => this.due.add(run)
    if (run.open <= 0) this.due.add(run)
  }

  /** Adds a run that had ended in an earlier process. Nothing else may be under way, so no reader may be called. */
  addOld(run: RunState): void {
    this.add(run)
    this.#supervisor.clock.defer(() => this.settle())
  }

  get areQuiet(): boolean {
    return this.#quieting.size === 0
  }

  settle(): void {
    for (const run of this.due) {
      this.due.delete(run)
      if (run.open <= 0 && this.#quieting.has(run)) this.#retire(run)
    }
  }

  abort(run: RunState, error: DramatisError): void {
    if (this.#quieting.has(run)) windDown(this.#supervisor, run, error)
  }

  abortAll(error: DramatisError): void {
    for (const run of this.#quieting.keys()) this.abort(run, error)
  }

  #retire(run: RunState): void {
    this.#quieting.get(run)?.cancel()
    this.#quieting.delete(run)
    this.#entries.holds.end()
    run.onQuiet = undefined
    run.end(() => new RunAbortedError('The run is over.', { runId: run.id }))
    for (const stop of run.subscriptions.values()) stop()
    run.subscriptions.clear()
    run.watches.clear()
    endAgentsOf(run, this.#supervisor)
    this.#supervisor.replies.runOver(run)
    let { bytes } = run.log
    for (const part of run.stored.values()) bytes += part.length // those of several runs count for each
    this.#kept.set(run, bytes)
    this.#keptBytes += bytes
    this.#quiet(run)
    this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const [oldest, bytes] of this.#kept) {
      if (this.#kept.size === 1 || (this.#kept.size <= KEPT_RUNS && this.#keptBytes <= KEPT_BYTES)) return
      this.#kept.delete(oldest)
      this.#keptBytes -= bytes
      this.#entries.deleteId(oldest.id)
      this.#entries.deleteState(oldest)
      this.#supervisor.parts.release(oldest)
      this.#supervisor.runs.forget(oldest)
    }
  }
}

function endAgentsOf(run: RunState, { lifecycle, directory, journal, sharedStates }: Supervisor): void {
  for (const index of run.agents.values()) {
    const agent = directory.byIndex[index]
    if (agent?.run !== run) continue // it went in an earlier process
    const gone = new AgentTerminatedError(`Agent "${agent.name}" went with its run.`, { agent: agent.name })
    void lifecycle.remove(agent, gone).then(() => {
      journal.keep(run, { kind: 'agent.left', index })
      for (const each of agent.instances) each.state = undefined
      sharedStates.forget(index)
      directory.vacate(index)
    })
  }
}

/** Asks all open work of the run to stop, and accepts nothing more. */
function windDown(supervisor: Supervisor, run: RunState, error: DramatisError): void {
  run.ending = error
  const { blocked, cancellation, directory, loop, ready } = supervisor
  for (const agent of directory.byIndex) {
    const { mailbox, instances } = agent
    const handed = instances.flatMap((each) => [...each.mailbox.handed.all()])
    for (const envelope of [...mailbox.pending, ...mailbox.queued(), ...handed]) {
      if (envelope.run !== run) continue
      cancellation.fail(agent, envelope, error)
    }
  }
  // Replies that are held back until a turn has its permit again are not limited any more.
  for (const agent of directory.actors) if (agent.withoutPermit.has(run.index)) ready.touch(agent)
  loop.wake()
  for (const { callee, envelope } of blocked.all) if (envelope.run === run) cancellation.fail(callee, envelope, error)
  cancelOpenTasks(supervisor, run)
  run.end(() => error)
}

export class RunDrain {
  readonly #entries: RunEntries
  readonly #ended: EndedRuns
  readonly #entering = new Set<Promise<unknown>>()

  constructor(entries: RunEntries, ended: EndedRuns) {
    this.#entries = entries
    this.#ended = ended
  }

  /** Tracks a message from outside on its way to its run: `drained` waits for it. */
  entering<T>(sent: Promise<T>): Promise<T> {
    this.#entering.add(this.#entries.holds.until(sent))
    const done = () => void this.#entering.delete(sent)
    sent.then(done, done)
    return sent
  }

  async quiet(): Promise<void> {
    const { line } = this.#entries
    while (!line.isEmpty) {
      await Promise.all(line.all.map(({ handle }) => handle.result.catch(() => {})))
    }
  }

  /**
   * Resolves when nothing is under way any more, including messages that nobody waits for. A run that waits for a
   * person is not waited for: who answers may take days. With a durable log a later process asks on.
   */
  async drained(): Promise<void> {
    const { line } = this.#entries
    for (;;) {
      if (this.#entering.size > 0) await Promise.allSettled(this.#entering)
      else if (!line.onlyAsks || !this.#ended.areQuiet) await this.nextRecords()
      else return
    }
  }

  /** Resolves when something has been recorded, or the signal is aborted. */
  nextRecords(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        stop()
        stopAborting?.()
        resolve()
      }
      const stop = this.#entries.host.onRecords(done)
      const stopAborting = signal && onAbort(signal, done)
    })
  }
}

/** Answer of a run that guardrails and schemas have let pass. */
interface CheckedAnswer {
  /** Words of its agent. */
  readonly said: string
  /** The same as guardrails have made them. */
  readonly content: string
  readonly structured: unknown
  readonly data: unknown
}

/** An answer whose agent was asked again. */
export interface AnswerBefore {
  readonly memory: Memory
  readonly at: number
  /** Ids of the calls of models that had words in the prompt by then. */
  readonly calls: ReadonlySet<string>
  /** Set in the process that has checked it. */
  readonly checked?: CheckedAnswer
}

export class RunEndings {
  readonly #entries: RunEntries
  readonly #supervisor: Supervisor
  readonly #conversations: ThreadStore | undefined
  readonly #interrupted: InterruptedRuns
  readonly #ended: EndedRuns
  readonly guards: RunGuards
  /** Set when the durable log is lost: no run is taken any more. */
  lost: DramatisError | undefined

  constructor(
    entries: RunEntries,
    conversations: ThreadStore | undefined,
    interrupted: InterruptedRuns,
    ended: EndedRuns,
  ) {
    this.#entries = entries
    this.#supervisor = entries.supervisor
    this.#conversations = conversations
    this.#interrupted = interrupted
    this.#ended = ended
    const fail = (entry: RunEntry, error: DramatisError) => this.end(entry, { error }, 'failed')
    this.guards = new RunGuards(entries.supervisor.guards, entries.settings.guards, fail)
  }

  /** `before`: answer that stands if this one is a failure, or is refused: its agent was asked again for words. */
  async answered(entry: RunEntry, memory: Memory, at: number, before?: AnswerBefore): Promise<void> {
    const { state } = entry.handle
    const { steers } = this.#supervisor
    try {
      if (isFailure(memory, at)) throw errorOf(memory, at)
      const answer = await this.#checked(entry, memory, at)
      const calls = new Set(state.steering?.calls.map(({ callId }) => callId))
      const again = (next: Memory, from: number) =>
        void this.answered(entry, next, from, { memory, at, calls, checked: answer })
      if (steers.asksAgain(state, answer.said, again)) return
      const saved = this.#finish(entry, answer, answer.content !== answer.said)
      if (saved) await saved
    } catch (error) {
      if (!before || state.over || state.ending) return this.#failed(entry, error)
      steers.unreadSince(state, before.calls)
      try {
        await this.#finish(entry, before.checked ?? (await this.#checked(entry, before.memory, before.at)), true)
      } catch (refusal) {
        this.#failed(entry, refusal)
      }
    }
  }

  /** Has guardrails and schemas check an answer. */
  async #checked(entry: RunEntry, memory: Memory, at: number): Promise<CheckedAnswer> {
    const { guards } = this
    const { content: said, data } = readBody(memory, at)
    const content = guards.holds(entry) ? await guards.answer(entry, said) : said
    const structured: unknown = data === undefined || content !== said ? undefined : jsonIn(data)
    const output = entry.handle.state.output ?? this.#outputOfSpeaker(entry, said)
    return { said, content, structured, data: await output?.dataOf(structured, content) }
  }

  /**
   * Ends a run with its answer, once its conversation is kept: what those who handed off have said is in it too, or the
   * next message of the thread would be handed off again. `isWritten`: no message in its log ends with it.
   */
  #finish(entry: RunEntry, checked: CheckedAnswer, isWritten: boolean): Promise<void> | undefined {
    const { state } = entry.handle
    if (state.threadId !== undefined && state.handing?.size)
      return this.#handedOff(state).then(() =>
        state.over || state.ending ? undefined : this.#finish(entry, checked, isWritten),
      )
    const { content, structured, data } = checked
    const answer = { finalOutput: content, data }
    const output = isWritten ? content : undefined
    state.structured = structured
    rememberHandedAnswers(this.#supervisor, state)
    this.#rememberSpeaker(entry)
    const saved = this.#conversations?.saveAtEnd(state).then(() => this.end(entry, answer, 'finished', output))
    if (!saved) this.end(entry, answer, 'finished', output)
    return saved
  }

  /** Resolves when no turn that has handed off is open, or none of them ends in time: they usually have long ended. */
  #handedOff(run: RunState): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        timer.cancel()
        run.handing = undefined
        run.onHandedOff = undefined
        resolve()
      }
      const timer = this.#supervisor.clock.timer(HANDING_MS, done, true)
      run.onHandedOff = done
    })
  }

  #failed(entry: RunEntry, cause: unknown): void {
    const error = cause instanceof DramatisError ? cause : new ReplyInvalidError(describe(cause), {}, cause)
    this.end(entry, { error }, 'failed')
  }

  /** Notes who has spoken last, if the thread of the run is to go on with that agent. */
  #rememberSpeaker(entry: RunEntry): void {
    const { handle, target } = entry
    const { state } = handle
    const { threadId } = state
    if (threadId === undefined || target.settings.isAgent || !this.#entries.settings.floor) return
    const { agentStates, journal } = this.#supervisor
    const { owners } = agentStates.conversations
    const speaker = this.#speakerOf(entry)
    if (speaker === null) return // the log has given it up
    state.spoken = speaker
    const { owner = null } = owners.get(threadId) ?? {}
    owners.set({ threadId, owner, speaker })
    journal.keep(state, { kind: 'thread', threadId, owner, speaker })
  }

  #speakerOf({ handle: { state } }: RunEntry): string | null {
    const { directory } = this.#supervisor
    return speakerIn(state.log, state.index, (index) => directory.name(index))
  }

  /** Returns the output of the role that has given the answer of a run, if it has one. */
  #outputOfSpeaker({ handle: { state }, target }: RunEntry, said: string): RunOutput | undefined {
    const { byIndex: agents } = this.#supervisor.directory
    const speaker = target.settings.isAgent ? target : speakerOf(state.log, said, agents)
    const schema = speaker?.settings.output
    return schema && new RunOutput(schema, state.id)
  }

  cancel(run: RunState, reason: string): void {
    const entries = this.#entries
    const left = entries.of(run)
    if (left && this.#interrupted.has(run)) this.#interrupted.goOn(left) // so that its messages become dead letters
    const entry = entries.of(run)
    const error = new RunAbortedError(`The run was aborted: ${reason}.`, { runId: run.id, reason })
    if (run.isOwn) return this.#ended.abort(run, error)
    if (!entry || run.over) return
    this.#supervisor.journal.record(run, { kind: 'run.aborted', reason })
    this.end(entry, { error }, 'aborted')
  }

  /**
   * Ends a run with an error. Also ends what is left of a run that is over, or of the work that a message from outside
   * has caused.
   */
  fail(run: RunState, error: DramatisError): void {
    const entry = this.#entries.of(run)
    if (entry && !run.over) this.end(entry, { error }, 'failed')
    else this.#ended.abort(run, error)
  }

  /**
   * Ends a run, tells those who watch, and gives its caller the result once it is in the durable log. `output`: the
   * answer, if it is not the one that the log has from its agent.
   */
  end(entry: RunEntry, ending: RunEnding<unknown>, status: RunStatus, output?: string): void {
    const entries = this.#entries
    const { supervisor, tracing } = entries
    const { handle } = entry
    const { state } = handle
    if (state.over) return
    state.over = true
    this.#interrupted.release(state) // what was set aside is left over now
    supervisor.journal.tell()
    if ('error' in ending) windDown(supervisor, state, ending.error)
    if (state.steering && status !== 'interrupted')
      recordUnread(supervisor, state, 'error' in ending ? null : this.#speakerOf(entry))
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
    this.#leave(entry)
    const writing = status === 'interrupted' ? undefined : supervisor.journal.written()
    if (writing) void this.#finishWritten(entry, writing, status)
    else handle.finish(entry.result, status)
    supervisor.loop.wake()
  }

  #leave(entry: RunEntry): void {
    entry.time?.cancel()
    entry.clear()
    this.#entries.line.leave(entry)
    this.#ended.add(entry.handle.state)
    // Readers of the team's events learn of it before callers that wait, and not inside the call that led to the end.
    queueMicrotask(() => this.#supervisor.journal.tell())
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
      entry.result = this.#entries.resultOf(handle.state, ending, entry.result!.executionTimeMs)
      handle.finish(entry.result, 'interrupted')
    }
  }

  /** Ends a run whose team cannot start: its handle rejects. */
  misconfigured(entry: RunEntry, error: ConfigurationError): void {
    const { supervisor, tracing } = this.#entries
    const { handle } = entry
    handle.state.over = true
    handle.state.ending = error
    const { at } = supervisor.journal.record(handle.state, { kind: 'run.finished', error })
    tracing?.finished(handle.state, error)
    this.#leave(entry)
    handle.misconfigured(error, at)
  }

  /** Ends all runs for their callers, because the durable log is lost. A later process can go on with them. */
  interrupt(error: DramatisError): void {
    this.lost = error
    this.#supervisor.interruption = error
    this.#interrupted.leave(error)
    for (const entry of this.#entries.line.all) this.end(entry, { error }, 'interrupted')
    this.#ended.abortAll(error)
  }

  /** Ends all runs. In a team with a durable log they are only interrupted: a later process goes on with them. */
  abortAll(error: DramatisError): void {
    const { journal } = this.#supervisor
    const isDurable = journal.isKept
    const text = 'The team was closed; a later process goes on with its runs.'
    if (isDurable) this.#supervisor.interruption = new TeamClosedError(text, {})
    this.#interrupted.leave(error)
    for (const entry of this.#entries.line.all) {
      journal.record(entry.handle.state, { kind: 'run.aborted', reason: error.message })
      this.end(entry, { error }, isDurable ? 'interrupted' : 'aborted')
    }
    this.#ended.abortAll(error)
  }
}

/** Finds the agent whose role has an output, and which has answered in these words last. */
function speakerOf(log: RunLog, said: string, agents: readonly (Agent | undefined)[]): Agent | undefined {
  if (!agents.some((agent) => agent?.settings.output)) return undefined
  let speaker: Agent | undefined
  for (const [memory, at] of framesOf(log)) {
    const agent = kindOf(memory, at) === END ? agents[senderOf(memory, at)] : undefined
    if (agent?.settings.output && !isFailure(memory, at) && readBody(memory, at).content === said) speaker = agent
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
