/** Runs of an earlier process: their results, and all of those that go on but their messages and calls. */
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import type { Memory } from '../../mailbox/frame.ts'
import * as frame from '../../mailbox/frame.ts'
import type { DramatisError } from '../../shared/errors.ts'
import type { OpenRequest } from '../host/agent.ts'
import { USER_INDEX } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { HostRecord, LogEntry } from '../log/records.ts'
import { framesIn } from '../log/run-log.ts'
import type { RunEnding } from '../runs/result.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Supervisor } from '../supervision/host.ts'
import { noteTold, watch } from '../verbs/calls.ts'
import { isDone } from '../verbs/task-board.ts'
import type { RecoveredLog } from './recovered-log.ts'
import { type RecoveredRun, RecoveredStates } from './recovered-run.ts'

/*
 * Puts in place what the entries of a run of an earlier process say: its board, sync points, tasks, subscriptions,
 * watches, and the number of agents that it has made. The entries are read in their order.
 */

interface LastingCall {
  readonly verb: string
  readonly args: { readonly pattern?: unknown; readonly agent?: unknown; readonly point?: unknown }
  /** True if another agent has the name of its caller by now. */
  readonly isOfFormer: boolean
}

const LASTING: ReadonlySet<string> = new Set(['subscribe', 'watch', 'spawn', 'define', 'sync', 'synced'])

class RunFold {
  readonly #owners: Supervisor
  readonly #old: RecoveredLog
  readonly #state: RunState
  readonly #calls = new Map<string, LastingCall>()

  constructor(owners: Supervisor, old: RecoveredLog, state: RunState) {
    this.#owners = owners
    this.#old = old
    this.#state = state
  }

  /** Reads the entries of a run. The board of a run that has ended is in its place already. */
  read({ entries, finished, subscribed }: RecoveredRun): void {
    for (const entry of entries) {
      if (entry.kind === 'frames')
        for (let at = entry.from; at < entry.to; at += frame.lengthOf(entry.memory, at)) this.#frame(entry.memory, at)
      else if (entry.kind !== 'blackboard' || !finished) this.#record(entry)
    }
    const { boards, directory } = this.#owners
    for (const { index, pattern, seq } of subscribed) {
      const agent = directory.present(index)
      if (agent && seq > (this.#old.left.get(index)?.seq ?? -1)) boards.subscribeAgain(agent, this.#state, pattern)
    }
  }

  #record(entry: HostRecord): void {
    const { boards, syncPoints } = this.#owners
    const state = this.#state
    if (entry.kind === 'blackboard') boards.restore(state, entry.entry)
    else if (entry.kind === 'sync') {
      const { at, error, point, result } = entry
      const isWatched = [...this.#calls.values()].some(({ verb, args }) => verb === 'synced' && args.point === point)
      syncPoints.of(state, point)?.restore({ result, at, error }, isWatched)
    } else if (entry.kind === 'handoff' && entry.step === 'handed_off') {
      state.handoffs += 1
      if (entry.offer !== undefined) state.successors.set(entry.messageId, entry.offer)
    }
  }

  #frame(memory: Memory, at: number): void {
    const sender = frame.senderOf(memory, at)
    switch (frame.kindOf(memory, at)) {
      case frame.REQUEST:
        return this.#task(sender, frame.correlationOf(memory, at), frame.idOf(memory, at))
      case frame.SEND:
        if (sender === 0 && frame.typeOf(memory, at) === 'report') noteTold(this.#state, memory, at)
        return
      case frame.CALL: {
        const { content: verb, data } = frame.readBody(memory, at)
        if (!LASTING.has(verb)) return
        const isOfFormer = frame.turnOf(memory, at) <= (this.#old.left.get(sender)?.turn ?? 0)
        this.#calls.set(keyOf(sender, frame.correlationOf(memory, at)), {
          verb,
          args: Object(jsonIn(data)),
          isOfFormer,
        })
        return
      }
      case frame.CANCEL:
        this.#calls.delete(keyOf(sender, frame.correlationOf(memory, at)))
        return
      case frame.RESULT: {
        const key = keyOf(frame.recipientOf(memory, at), frame.correlationOf(memory, at))
        const call = this.#calls.get(key)
        this.#calls.delete(key)
        if (call) this.#answered(call, frame.recipientOf(memory, at), isFailure(memory, at))
      }
    }
  }

  #answered({ verb, args, isOfFormer }: LastingCall, index: number, failed: boolean): void {
    const { boards, directory, syncPoints } = this.#owners
    const state = this.#state
    const agent = directory.present(index)
    if (verb === 'synced') syncPoints.of(state, String(args.point))?.heard()
    else if (verb === 'sync' && agent && !isOfFormer) syncPoints.of(state, String(args.point))?.came(agent)
    if (failed) return
    if (verb === 'spawn' || verb === 'define') state.spawned += 1
    if (!agent || isOfFormer) return
    if (verb === 'subscribe') boards.subscribeAgain(agent, state, String(args.pattern))
    const watched = verb === 'watch' ? directory.agent(String(args.agent), state) : undefined
    if (watched) watch(this.#owners.hostMessages, agent, state, watched)
  }

  /** Notes the number under which an open task was given. */
  #task(giver: number, correlation: number, id: string): void {
    const { directory } = this.#owners
    const state = this.#state
    const task = state.tasks.get(id)
    const isOpen = directory.byIndex[giver]?.open.has(correlation)
    if (!task || !isOpen || isDone(task.status)) return
    const open = state.openTasks.get(giver) ?? new Map<number, string>()
    if (open.has(correlation)) return
    state.openTasks.set(giver, open.set(correlation, id))
    const parent = state.tasks.get(task.parentTask ?? '')
    if (parent && !isDone(parent.status) && parent.assignedTo === directory.name(giver))
      state.delegated.set(parent.id, (state.delegated.get(parent.id) ?? 0) + 1)
  }
}

const keyOf = (agent: number, correlation: number): string => `${agent} ${correlation}`

export class RunRecovery {
  readonly #owners: Supervisor
  readonly #runs: RunBook
  readonly #old: RecoveredLog
  readonly states = new Map<number, RunState>()

  constructor(owners: Supervisor, runs: RunBook, old: RecoveredLog) {
    this.#owners = owners
    this.#runs = runs
    this.#old = old
  }

  stateOf(run: RecoveredRun): RunState {
    const state = this.reopened(run)
    if (state.log.adopted === 0) for (const entry of run.entries) state.log.adopt(entry)
    return state
  }

  #reopen({ index, launched }: RecoveredRun): RunState {
    return this.#owners.runs.reopen(index, launched, (hash) => this.#owners.parts.get(hash))
  }

  reopened(run: RecoveredRun): RunState {
    const state = this.states.get(run.index) ?? this.#reopen(run)
    for (const hash of this.#old.index.get(run.index)?.parts ?? []) {
      const bytes = this.#owners.parts.get(hash)
      if (bytes) this.#owners.parts.hold(state, hash, bytes)
    }
    this.states.set(run.index, state)
    takeNames(run, state)
    return state
  }

  /** Adds a run that has ended. `goesOn`: false if messages of it are under way, and are left there for now. */
  end(run: RecoveredRun, goesOn = true): void {
    const state = this.stateOf(run)
    end(this.#runs, run, { state, goesOn, fill: (entries) => fill(this.#owners, state, entries) })
  }

  /** Returns what takes the answer to the caller of the run. */
  restore(run: RecoveredRun): OpenRequest['settle'] {
    const { launched, finished } = run
    const state = this.stateOf(run)
    if (finished) {
      this.end(run)
      return undefined
    }
    tally(run.entries, state)
    const { times } = this.#old
    const leftMs = Math.max(1, launched.timeoutMs - times.since(launched) + times.askedMs(run.index))
    if (launched.own) {
      this.#runs.ended.restore(state, leftMs)
      return undefined
    }
    return this.#runs.restore(state, launched, leftMs, this.begins(run), run.before)
  }

  /** Checks for a run whose target was not asked yet. */
  begins({ index, launched, answer, finished }: RecoveredRun): boolean {
    if (launched.own || answer || finished) return false
    for (const { caller, message } of this.#old.work.waits)
      if (caller === USER_INDEX && message.run === index) return false
    return true
  }

  /** Settles a run whose answer stands in the log, and whose end does not. */
  answer({ answer, finished, launched }: RecoveredRun, settle: OpenRequest['settle']): void {
    if (answer && !finished && !launched.own) settle?.(answer.memory, answer.at)
  }

  windDown(run: RecoveredRun): void {
    const error = run.finished && errorIn(run)
    if (error) this.#runs.endings.fail(this.stateOf(run), error)
  }

  fold(run: RecoveredRun): void {
    new RunFold(this.#owners, this.#old, this.stateOf(run)).read(run)
  }
}

/** Notes the names of the agents that the run had for itself: its log has their indices. */
function takeNames({ agents }: RecoveredRun, state: RunState): void {
  for (const [name, index] of agents) state.agents.set(name, index)
}

/** Adds a run that has ended, and that only the log has, to those that the team has in memory. */
export function restoreEnded(owners: Supervisor, book: RunBook, run: RecoveredRun): void {
  const { parts, runs: table } = owners
  const state = table.reopen(run.index, run.launched, (hash) => run.stored.get(hash))
  takeNames(run, state)
  for (const [hash, bytes] of run.stored) parts.hold(state, hash, bytes)
  for (const entry of run.entries) state.log.adopt(entry)
  const states = new RecoveredStates()
  end(book, run, {
    state,
    goesOn: true,
    fill: (entries) => {
      fill(owners, state, entries)
      for (const [memory, at] of framesIn(entries)) states.frame(memory, at, run.index, undefined)
      for (const [agent, value] of states.ofRun(run.index)) state.states.set(agent, value)
    },
  })
}

interface Ended {
  readonly state: RunState
  readonly goesOn: boolean
  /** Puts in place what entries say. */
  readonly fill: (entries: readonly LogEntry[]) => void
}

/** Adds a run with its result, which has nothing of what came behind its end. */
function end(book: RunBook, run: RecoveredRun, { state, goesOn, fill }: Ended): void {
  const { entries, finished, aborted } = run
  if (!finished) return
  const isNew = !state.over
  const behindEnd = entries.indexOf(finished) + 1
  if (isNew) fill(entries.slice(0, behindEnd))
  state.boardRevision = finished.boardRevision
  state.structured = structuredOf(run)
  const ending = endingOf(run)
  const status = 'error' in ending ? (aborted ? 'aborted' : 'failed') : 'finished'
  book.takeEnded(state, ending, finished.at, status, goesOn)
  if (isNew) fill(entries.slice(behindEnd))
}

function fill({ boards }: Supervisor, state: RunState, entries: readonly LogEntry[]): void {
  tally(entries, state)
  for (const entry of entries) if (entry.kind === 'blackboard') boards.restore(state, entry.entry)
}

export function endingOf(run: RecoveredRun): RunEnding<unknown> {
  const error = errorIn(run)
  if (error) return { error }
  const { output, data } = run.finished ?? {}
  return {
    finalOutput: output ?? bodyOf(run)?.content ?? '',
    data: data ? data.value : structuredOf(run), // older logs do not say whether a schema was asked for
  }
}

/** Returns the structured data of the answer as its agent gave them; undefined if a guardrail has changed it. */
function structuredOf(run: RecoveredRun): unknown {
  const data = run.finished?.output === undefined ? bodyOf(run)?.data : undefined
  return data === undefined ? undefined : jsonIn(data)
}

function bodyOf({ answer }: RecoveredRun) {
  return answer && !isFailure(answer.memory, answer.at) ? frame.readBody(answer.memory, answer.at) : undefined
}

function errorIn({ finished, answer }: RecoveredRun): DramatisError | null {
  if (finished?.output !== undefined) return null // also where its agent was asked again, and failed
  return finished?.error ?? (answer && isFailure(answer.memory, answer.at) ? errorOf(answer.memory, answer.at) : null)
}

function tally(entries: readonly LogEntry[], state: RunState): void {
  for (const entry of entries) {
    if (entry.kind === 'model.called') {
      state.spent.add(entry)
      state.rehearsed ||= entry.rehearsed
    } else if (entry.kind === 'model.switched') state.speaking.set(entry.entry, entry.to)
    else if (entry.kind === 'steer' || entry.kind.startsWith('steer.')) state.steered(entry)
    else if (entry.kind === 'task') {
      const { task, error } = entry
      state.tasks.set(task.id, task)
      if (error) state.failures.push({ agent: task.assignedTo ?? '', taskId: task.id, error })
    }
  }
}
