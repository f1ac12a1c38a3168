/**
 * All runs of a team, from launch to end. The limit on concurrent runs is in run-entries.ts, the handling of ended runs
 * in run-endings.ts, of interrupted ones in interrupted-runs.ts, of those of earlier processes in recalled-runs.ts.
 */
import type { Content } from '../../actors/definition/content.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import type { Memory } from '../../mailbox/frame.ts'
import { refused } from '../../shared/checks.ts'
import {
  ConfigurationError,
  DramatisError,
  type ErrorCode,
  RunTimeoutError,
  TeamClosedError,
} from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { Agent } from '../host/agent.ts'
import type { Reader } from '../host/journal.ts'
import { callerIn, RunOutput, RunState } from '../host/run.ts'
import type { AskedWith, Launched } from '../log/records.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { Tracing } from '../observers/tracing.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { Budgets } from '../verbs/budgets.ts'
import { ThreadStore } from './conversations.ts'
import { InterruptedRuns } from './interrupted-runs.ts'
import { otherQuery, RecalledRuns } from './recalled-runs.ts'
import type { MultiAgentResult, RunEnding } from './result.ts'
import { isOf, type RunOptions, type RunOwner, type RunStatus } from './run.ts'
import { type AnswerBefore, EndedRuns, RunDrain, RunEndings } from './run-endings.ts'
import { type Holds, RunEntries, type RunEntry, type RunLine, type RunRoom } from './run-entries.ts'
import { RunHandle, type RunViews } from './run-handle.ts'
import { launchedOf, questionOf, RunIntake, readQuery, readRunOptions, reasonOf } from './run-options.ts'
import { RunTime } from './run-time.ts'

export class RunBook {
  readonly #supervisor: Supervisor
  readonly #settings: TeamSettings
  readonly #start: () => Promise<void>
  readonly #entries: RunEntries
  readonly #intake: RunIntake
  readonly #tracing: Tracing | undefined
  #last: RunState | undefined
  closing = false
  /** True while a team that closes lets open runs end. */
  isDraining = false
  /** Hash of the text of the protocol script. */
  script: string | undefined
  /** Called with each run, and the work of each message from outside, of which nothing is under way any more. */
  onQuiet: ((run: RunState) => void) | undefined
  /** Budgets of the team: a run whose tenant has nothing left does not begin. */
  budgets: Pick<Budgets, 'refusalOf'> | undefined
  /** Checks for a run that the log has forgotten, but for its idempotency key. Set with the log. */
  isForgotten: ((runId: string) => boolean) | undefined
  /** Keeps the process alive while work is under way beside the runs, or somebody waits. */
  readonly holds: Holds
  /** State of the team as handles of runs and readers of events look it up. */
  readonly host: RunViews
  readonly line: RunLine
  readonly endings: RunEndings
  readonly ended: EndedRuns
  /** Conversations that several processes share, if the team has a store of them. */
  readonly conversations: ThreadStore | undefined
  readonly interrupted: InterruptedRuns
  readonly drain: RunDrain
  readonly recalled: RecalledRuns

  constructor(
    supervisor: Supervisor,
    settings: TeamSettings,
    start: () => Promise<void>,
    tracing?: Tracing,
    room?: RunRoom,
  ) {
    this.#supervisor = supervisor
    this.#settings = settings
    this.#start = start
    this.#tracing = tracing
    this.#entries = new RunEntries(
      supervisor,
      settings,
      tracing,
      {
        begin: (next) => void this.#begin(next),
        cancel: (run, reason) => this.endings.cancel(run, reason),
        started: start,
      },
      room,
    )
    const entries = this.#entries
    this.holds = entries.holds
    this.host = entries.host
    this.line = entries.line
    supervisor.limits.watch(() => this.#queued())
    const { conversations: store } = settings
    this.conversations = store && new ThreadStore(supervisor, store)
    this.#intake = new RunIntake(supervisor, settings)
    this.ended = new EndedRuns(entries, (run) => {
      this.onQuiet?.(run)
      // what turns have changed after its end, and what a message from outside has caused
      if (this.conversations && !this.interrupted.has(run)) void this.drain.entering(this.conversations.saveLate(run))
    })
    this.drain = new RunDrain(entries, this.ended)
    this.recalled = new RecalledRuns(entries, (entry) => this.#leave(entry))
    this.interrupted = new InterruptedRuns(entries, this.recalled, {
      script: () => this.script,
      enter: (handle, given, target) => this.#goOn(this.#enter(handle, given, target)),
      ready: async () => {
        await start()
        this.#assertTakes()
      },
    })
    this.endings = new RunEndings(entries, this.conversations, this.interrupted, this.ended)
  }

  /** Retires runs that have become quiet, trims logs, and wakes readers of events. */
  readonly part = (): Reader => ({
    next: () => {
      if (this.ended.due.size > 0) this.ended.settle()
      if (this.#supervisor.runs.large.size > 0) this.#trim()
      if (this.host.listeners.size > 0) this.host.tell()
    },
  })

  /** Trims large logs of runs under way: one may have as many bytes as the logs of all kept runs together. */
  #trim(): void {
    const { directory, runs } = this.#supervisor
    const held = () =>
      new Set(directory.byIndex.flatMap((agent) => Array.from(agent.messages(), ({ memory }) => memory)))
    for (const run of runs.large) if (!run.over || run.open > 0) run.log.trim(runs.most, held)
    runs.large.clear()
  }

  // ---- launch

  /**
   * `streams`: the default of the option `stream`. `question`: set for a request with a key, which somebody waits for
   * who has a place already, so it needs none.
   */
  launch<T>(
    given: string | Content,
    asked: RunOptions<T>,
    target: Agent,
    streams = false,
    question?: AskedWith,
  ): RunHandle<T> {
    this.#assertTakes()
    this.#settings.secrets.look()
    const { text: query, parts } = readQuery(given)
    const options = readRunOptions(asked)
    this.#intake.checkParts(parts)
    const output = options.output ?? (target.settings.isAgent ? undefined : this.#settings.output)
    const joined = options.runId === undefined ? undefined : this.#join(options.runId, query, options, output)
    if (joined) return this.#checked(joined, options)
    this.#intake.checkModels(options.models ?? {})
    if (options.speaker !== undefined) this.#checkSpeaker(options.speaker, target)
    this.#intake.checkBudget(options.budget)
    const refusal = this.budgets?.refusalOf(options.tenant)
    if (refusal) throw refusal
    const waits = question ? false : this.line.admit(options.tenant)
    const state = this.#supervisor.runs.open(
      options.runId ?? this.#supervisor.frames.id(),
      query,
      options.metadata,
      options.threadId,
    )
    this.#beginThread(state)
    state.tenant = options.tenant
    state.models = options.models ?? {}
    state.asked = question
    state.wanted = options.speaker
    state.budget = options.budget
    // A check of the answer comes before anybody sees a word of it.
    state.streams = (options.stream ?? streams) && this.#settings.guards.output.length === 0
    if (output) state.output = new RunOutput(output, state.id)
    this.#intake.take(state, parts, options.messages ?? [])
    const handle = this.#checked(new RunHandle<T>(state, this.host), options)
    const entry = this.#enter(handle, options, target)
    this.#tracing?.launched(state)
    this.#keep(entry)
    this.#last = state
    this.#supervisor.boards.board(state)
    if (options.signal?.aborted) this.endings.cancel(state, reasonOf(options.signal))
    else if (waits) this.#wait(entry)
    else void this.#begin(entry)
    return handle
  }

  #checkSpeaker(speaker: string, { settings }: Agent): void {
    const { floor } = this.#settings
    if (!floor || settings.isAgent)
      throw refused('speaker', speaker, 'no value here', 'It is for runs of a team under the strategy "handoff".')
    if (!floor.agents.has(speaker)) throw refused('speaker', speaker, [...floor.agents].join(', '))
  }

  #beginThread({ threadId, metadata }: RunState): void {
    if (threadId !== undefined) this.#claim(threadId, callerIn(metadata))
  }

  #claim(threadId: string, caller: string | null): string | null {
    const { agentStates, journal } = this.#supervisor
    const { owners } = agentStates.conversations
    if (!owners.get(threadId)) journal.keep(undefined, { kind: 'thread', threadId, owner: caller })
    return owners.begin(threadId, caller)
  }

  /** Begins a thread for a caller, unless somebody has. Resolves to whom it belongs; null: to nobody that is known. */
  async beginThread(threadId: string, caller: string): Promise<string | null> {
    return this.conversations ? this.conversations.begin(threadId, caller) : this.#claim(threadId, caller)
  }

  /** Resolves to the agent that has spoken last in a thread, null if there is none; undefined: no such thread. */
  async speakerOf(threadId: string): Promise<string | null | undefined> {
    if (this.conversations) return this.conversations.speakerOf(threadId)
    const fact = this.#supervisor.agentStates.conversations.owners.get(threadId)
    return fact && (fact.speaker ?? null)
  }

  *#queued(): IterableIterator<LimitWait> {
    for (const entry of this.line.queued) {
      const { id, state } = entry.handle
      yield { ...this.line.optionOf(entry), runId: id, since: state.startedAt }
    }
  }

  #wait(entry: RunEntry): void {
    this.line.enqueue(entry)
    const reached = { ...this.line.optionOf(entry), runId: entry.handle.id }
    this.#supervisor.limits.reached(reached, 'runs wait for their start', { queued: this.line.counts.queued })
  }

  /** Makes the result of a run that `launch` has no room for: nothing happened in it, and it cannot be found later. */
  refused<T>(given: string | Content, options: RunOptions<T>, error: DramatisError): MultiAgentResult<T> {
    const { boards, clock, frames } = this.#supervisor
    const { runId = frames.id(), metadata, threadId } = options
    const run = new RunState(0, runId, readQuery(given).text, clock.now(), metadata, threadId)
    boards.board(run)
    return this.#entries.resultOf(run, { error }, 0)
  }

  /** `schema`: that of the caller, or of the team. */
  #join(
    runId: string,
    query: string,
    options: RunOptions<unknown>,
    schema: ModelSchema | undefined,
  ): RunHandle<unknown> | undefined {
    const entry = this.#entries.find(runId)
    const output = schema && new RunOutput(schema, runId)
    if (!entry) return this.recalled.join(runId, query, output)
    if (!this.recalled.isOf(entry, query)) throw otherQuery(runId)
    this.recalled.takeOutput(entry, output)
    return this.interrupted.has(entry.handle.state) ? this.interrupted.resume(entry, options) : entry.handle
  }

  /** Returns a handle of that run for a caller with that schema. */
  #checked<T>(run: RunHandle<unknown>, { output }: RunOptions<T>): RunHandle<T> {
    if (!output) return run as RunHandle<T>
    return run.checkedBy((result, state) => this.interrupted.checkedBy(output, result, state))
  }

  /** Lets what was launched before the log was read join the runs that only the log has. */
  joinPast(): void {
    this.recalled.joinLaunched(this.line.all)
  }

  /** Takes a run out that turned out to be one that is there already. */
  #leave(entry: RunEntry): void {
    const { state } = entry.handle
    this.#entries.deleteState(state)
    this.#intake.forget(state)
    entry.time?.cancel()
    entry.clear()
    this.line.leave(entry)
  }

  #enter(handle: RunHandle<unknown>, options: RunOptions<unknown>, target: Agent): RunEntry {
    const { signal } = options
    const clear = signal && onAbort(signal, () => this.endings.cancel(handle.state, reasonOf(signal)))
    const timeoutMs = options.timeoutMs ?? this.#settings.globalTimeoutMs
    const entry: RunEntry = {
      handle,
      isKept: false,
      options,
      target,
      time: undefined,
      clear: () => clear?.(),
      result: undefined,
    }
    const expire = () => {
      const pausedMs = Math.round(entry.time?.pausedMs ?? 0)
      const uncounted = pausedMs > 0 ? `, not counting ${pausedMs} ms in which a person was asked` : ''
      const text = `The run did not end within ${timeoutMs} ms${uncounted} (globalTimeoutMs, or the run's timeoutMs). The trace shows what it waited for.`
      this.#supervisor.overdue(handle.state)
      this.endings.end(entry, { error: new RunTimeoutError(text, { runId: handle.id, timeoutMs }) }, 'failed')
    }
    const time = new RunTime(this.#supervisor.clock, timeoutMs, expire)
    entry.time = time
    handle.state.clockOn({
      get leftMs() {
        return time.leftMs
      },
      pause: () => {
        time.pause()
        this.line.asks(entry)
      },
      resume: () => {
        time.resume()
        this.line.goesOn(entry)
      },
    })
    this.#entries.add(entry)
    return entry
  }

  async #begin(entry: RunEntry): Promise<void> {
    const { handle, target } = entry
    const isDurable = this.#settings.durableLog !== undefined
    this.line.begin(entry)
    handle.status = 'running'
    if (!isDurable) this.#recordStart(handle.state)
    try {
      await this.#start()
    } catch (error) {
      if (handle.state.over) return
      if (error instanceof ConfigurationError) return this.endings.misconfigured(entry, error)
      if (error instanceof DramatisError && isOfLog(error)) return this.endings.end(entry, { error }, 'failed')
    }
    if (handle.state.over || this.#entries.find(handle.id) !== entry) return
    const refusal = this.budgets?.refusalOf(handle.state.tenant) // others may have spent it while it waited
    if (refusal) return this.endings.end(entry, { error: refusal }, 'failed')
    if (this.conversations) {
      try {
        await this.conversations.load(handle.state)
      } catch (error) {
        if (!(error instanceof DramatisError)) throw error
        this.endings.end(entry, { error }, 'failed')
      }
      if (handle.state.over || this.#entries.of(handle.state) !== entry) return
    }
    if (isDurable) this.#recordStart(handle.state) // the log was not there before
    const { guards } = this.endings
    const query = guards.asks ? await guards.query(entry) : handle.state.query
    if (query === undefined || handle.state.over || this.#entries.of(handle.state) !== entry) return
    const { floor } = this.#settings
    if (floor && !target.settings.isAgent)
      handle.state.wanted ??= this.#supervisor.agentStates.conversations.owners.get(
        handle.state.threadId ?? '',
      )?.speaker
    const settle = (memory: Memory, at: number) => void this.endings.answered(entry, memory, at)
    try {
      const { state: run } = handle
      this.#supervisor.hostMessages.ask({ target, run, question: questionOf(query, run), settle })
    } catch (error) {
      if (!(error instanceof DramatisError)) throw error
      this.endings.end(entry, { error }, 'failed')
    }
  }

  #recordStart(run: RunState): void {
    this.#supervisor.journal.record(run, { kind: 'run.started', query: run.query })
  }

  // ---- durable log

  /** Keeps the options of a run in the durable log, for a later process. */
  #keep(entry: RunEntry): void {
    const { journal } = this.#supervisor
    const { state } = entry.handle
    if (entry.isKept || state.over || !journal.isKept) return
    entry.isKept = true
    const { timeoutMs = this.#settings.globalTimeoutMs, priority = 0 } = entry.options
    const rest = { timeoutMs, priority, target: entry.target.index, own: false, script: this.script }
    const { part, bytes } = state.output?.written ?? {}
    if (part !== undefined && bytes) journal.keepBytes(part, bytes)
    const floor = state.threadId === undefined ? undefined : this.#settings.floor?.agents
    journal.keep(state, launchedOf(state, { ...rest, ...(floor && { floor: [...floor] }) }))
    for (const [hash, bytes] of state.stored) journal.keepPart(state, hash, bytes)
  }

  /** Keeps the runs in the durable log that were launched before there was one. */
  keepLaunched(): void {
    for (const entry of this.line.all) this.#keep(entry)
  }

  /**
   * Goes on with a run that an earlier process has begun, and returns what takes its answer. `begins`: its target was
   * not asked yet. `before`: answer after which it was asked again.
   */
  restore(
    state: RunState,
    { priority, target }: Launched,
    timeoutMs: number,
    begins: boolean,
    before: AnswerBefore | undefined,
  ): Settle {
    const given = this.#entries.of(state)?.options // those of a caller who resumes the run
    const ofTeam = this.#settings.output && new RunOutput(this.#settings.output, state.id)
    const logged = state.output?.written?.logged
    if (ofTeam && logged && ofTeam.is(logged)) state.takeOutput(ofTeam)
    const handle = this.recalled.handleOf(state)
    const budget = state.budget && { budget: state.budget }
    const options = { timeoutMs, priority, models: state.models, ...budget, ...given }
    const entry = this.#enter(handle, options, this.#supervisor.directory.byIndex[target]!)
    entry.isKept = true
    this.#tracing?.resumed(state)
    this.#supervisor.boards.board(state)
    if (begins && this.line.waits(entry)) this.line.enqueue(entry)
    else if (begins) void this.#begin(entry)
    else {
      this.#goOn(entry)
      this.endings.guards.beside(entry) // that process may have died before it was checked
    }
    return (memory, at) => {
      const now = this.#entries.of(state) // a run that was interrupted meanwhile has another
      if (now) void this.endings.answered(now, memory, at, before)
    }
  }

  #goOn(entry: RunEntry): void {
    entry.isKept = true
    this.line.begin(entry)
    entry.handle.status = 'running'
  }

  /** Adds a run that had ended in an earlier process. `goesOn`: false if messages of it are left where they are. */
  takeEnded(state: RunState, ending: RunEnding<unknown>, endedAt: number, status: RunStatus, goesOn: boolean): void {
    if (!state.over) this.recalled.takeEnded(state, ending, endedAt, status)
    if (goesOn) this.ended.addOld(state)
  }

  #assertTakes(): void {
    if (this.endings.lost) throw this.endings.lost
    if (!this.closing) return
    const text = this.isDraining
      ? 'The team is closing: open runs end, and no new one is taken. Ask the process that takes its place.'
      : 'The team is closed; make a new one with createTeam.'
    throw new TeamClosedError(text, {})
  }

  // ---- for handles and watchers

  get(runId: string): RunHandle<unknown> | undefined {
    return this.#entries.find(runId)?.handle
  }
  /** Finds a run also if only the durable log has it: then it is read. */
  find(runId: string, whose: RunOwner = {}): RunHandle<unknown> | undefined {
    const run = this.get(runId)
    if (!run) return this.recalled.find(runId, whose)
    const { metadata, tenant } = run.state
    return isOf(whose, callerIn(metadata), tenant) ? run : undefined
  }
  /** Opens a run for a message from outside of any run. */
  ownRun(threadId: string | undefined): RunState {
    const run = this.ended.open(threadId)
    this.#beginThread(run)
    this.#tracing?.posted(run)
    return run
  }
  /** Returns a handle of the work that a message from outside has caused. It settles when that work is over. */
  ownHandle(run: RunState): RunHandle<undefined> {
    const handle = new RunHandle<undefined>(run, this.host)
    handle.status = 'running'
    const settle = () => {
      const { ending } = run
      const outcome = ending ? { error: ending } : { finalOutput: '', data: undefined }
      const result = this.#entries.resultOf(run, outcome, this.#supervisor.clock.now() - run.startedAt)
      handle.finish(result, ending ? 'failed' : 'finished')
    }
    if (run.ended.aborted) settle()
    else onAbort(run.ended, settle)
    return handle
  }
  /** Runs of messages from outside, as far as they are kept, the oldest first. */
  get own(): RunState[] {
    return [...this.#supervisor.runs.values()].filter(({ isOwn }) => isOwn)
  }
  get last(): RunState | undefined {
    return this.#last
  }
  list(): RunHandle<unknown>[] {
    return this.#entries.all.map(({ handle }) => handle)
  }
}

type Settle = (memory: Memory, at: number) => void

const LOG_ERRORS: readonly ErrorCode[] = ['LOG_HELD', 'LOG_LOST', 'LOG_CORRUPT', 'LOG_VERSION']

const isOfLog = ({ code }: DramatisError) => LOG_ERRORS.includes(code)
