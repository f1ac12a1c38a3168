/** Runs of an earlier process: their results, and all of those that go on but their messages and calls. */
import type { DramatisError } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  END,
  kindOf,
  PATCH,
  REQUEST,
  RESULT,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { HostRecord } from '../log/records.ts'
import { framesOf } from '../log/run-log.ts'
import type { RunEnding } from '../runs/result.ts'
import type { RunBook } from '../runs/runs.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import { isDone } from '../tasks/task-board.ts'
import { watch } from '../verbs/death-watch.ts'
import type { OldLog } from './old-log.ts'
import type { OldRun } from './old-run.ts'
import { OldStates } from './old-states.ts'
import type { RestoredOwners } from './restored-owners.ts'

/** Verbs after which the host does something for the rest of the run. */
const KEEPS: ReadonlySet<string> = new Set(['subscribe', 'watch'])

/** Verbs that make agents. */
const MAKES: ReadonlySet<string> = new Set(['spawn', 'define'])

export class RunRecovery {
  readonly #owners: RestoredOwners
  readonly #runs: RunBook
  readonly #old: OldLog
  /** Runs that go on. */
  readonly states = new Map<number, RunState>()

  constructor(owners: RestoredOwners, runs: RunBook, old: OldLog) {
    this.#owners = owners
    this.#runs = runs
    this.#old = old
  }

  /** Returns the state of a run, with its log. */
  stateOf(run: OldRun): RunState {
    const state = this.reopened(run)
    if (state.log.adopted === 0) for (const entry of run.entries) state.log.adopt(entry)
    return state
  }

  /** Returns the state of a run. */
  reopened(run: OldRun): RunState {
    const state = this.states.get(run.index) ?? this.#owners.runs.reopen(run.index, run.launched)
    this.states.set(run.index, state)
    takeNames(run, state)
    return state
  }

  /** Adds a run that has ended. `goesOn`: false if messages of it are under way, and are left there for now. */
  end(run: OldRun, goesOn = true): void {
    const state = this.stateOf(run)
    if (!state.over) this.#fill(run, state)
    end(this.#runs, run, state, goesOn)
  }

  #fill(run: OldRun, state: RunState): void {
    tally(run, state)
    for (const entry of run.entries) if (entry.kind === 'blackboard') this.#owners.boards.restore(state, entry.entry)
  }

  /** Returns what takes the answer to the caller of the run. */
  takeUp(run: OldRun): OpenRequest['settle'] {
    const { launched, finished } = run
    const state = this.stateOf(run)
    if (finished) {
      this.end(run)
      return undefined
    }
    tally(run, state)
    const leftMs = Math.max(1, launched.timeoutMs - this.#old.times.since(launched))
    if (launched.own) {
      this.#runs.takeUpOwn(state, leftMs)
      return undefined
    }
    return this.#runs.takeUp(state, launched, leftMs, this.begins(run))
  }

  /** Checks for a run whose target was not asked yet. */
  begins({ index, launched, answer, finished }: OldRun): boolean {
    if (launched.own || answer || finished) return false
    for (const { caller, message } of this.#old.work.waits)
      if (caller === USER_INDEX && message.run === index) return false
    return true
  }

  /** Settles a run whose answer stands in the log, and whose end does not. */
  answer({ answer, finished, launched }: OldRun, settle: OpenRequest['settle']): void {
    if (answer && !finished && !launched.own) settle?.(answer.memory, answer.at)
  }

  /** Stops what is left of a run that has failed or was cancelled. */
  windDown(run: OldRun): void {
    const error = run.finished && errorIn(run)
    if (error) this.#runs.fail(this.stateOf(run), error)
  }

  /** Puts boards, sync points, tasks, subscriptions and watches of a run in place. */
  fold(run: OldRun): void {
    const state = this.stateOf(run)
    for (const entry of run.entries) {
      const isThere = run.finished && entry.kind === 'blackboard' // put there with its end
      if (entry.kind !== 'frames' && !isThere) this.#record(state, entry)
    }
    const calls = new Map<string, [name: string, args: object]>()
    for (const [memory, at] of framesOf(state.log)) {
      const kind = kindOf(memory, at)
      if (kind === REQUEST) this.#task(state, senderOf(memory, at), correlationOf(memory, at), idOf(memory, at))
      if (kind === CALL) {
        const { content, data } = readBody(memory, at)
        const isOfFormer = turnOf(memory, at) <= (this.#old.left.get(senderOf(memory, at))?.turn ?? 0)
        if ((KEEPS.has(content) && !isOfFormer) || MAKES.has(content))
          calls.set(`${senderOf(memory, at)} ${correlationOf(memory, at)}`, [content, Object(jsonIn(data))])
      } else if (kind === RESULT && !isFailure(memory, at)) {
        const index = recipientOf(memory, at)
        const done = calls.get(`${index} ${correlationOf(memory, at)}`)
        const cell = this.#owners.directory.present(index)
        if (done && MAKES.has(done[0])) state.spawned += 1
        else if (done && cell) this.#repeat(state, cell, done)
      }
    }
  }

  #record(state: RunState, entry: HostRecord): void {
    const { boards, syncPoints } = this.#owners
    if (entry.kind === 'blackboard') boards.restore(state, entry.entry)
    else if (entry.kind === 'sync') syncPoints.restore(state, entry.point, entry.result.generation)
    else if (entry.kind === 'handoff' && entry.step === 'handed_off') {
      state.handoffs += 1
      if (entry.offer !== undefined) state.successors.set(entry.messageId, entry.offer)
    }
  }

  /** Notes the number under which an open task was given. */
  #task(state: RunState, giver: number, correlation: number, id: string): void {
    const task = state.tasks.get(id)
    const isOpen = this.#owners.directory.cells[giver]?.open.has(correlation)
    if (!task || !isOpen || isDone(task.status)) return
    const open = state.openTasks.get(giver) ?? new Map<number, string>()
    if (open.has(correlation)) return
    state.openTasks.set(giver, open.set(correlation, id))
    const parent = state.tasks.get(task.parentTask ?? '')
    if (parent && !isDone(parent.status) && parent.assignedTo === this.#owners.directory.name(giver))
      state.delegated.set(parent.id, (state.delegated.get(parent.id) ?? 0) + 1)
  }

  /** Subscribes and watches again: an agent does not ask for that a second time. */
  #repeat(state: RunState, cell: Cell, [name, args]: [name: string, args: object]): void {
    const { boards, directory, hostMessages, runs } = this.#owners
    if (name === 'subscribe') return boards.subscribe(cell, state, String(Reflect.get(args, 'pattern')))
    const watched = directory.cell(String(Reflect.get(args, 'agent')), state)
    if (watched) watch({ directory, hostMessages, runs }, cell, state, watched)
  }
}

/** Notes the names of the agents that the run had for itself: its log has their indices. */
function takeNames({ agents }: OldRun, state: RunState): void {
  for (const [name, index] of agents) state.agents.set(name, index)
}

/** Adds a run that has ended, and that only the log has, to those that the team has in memory. */
export function restoreEnded({ boards, runs: table }: RestoredOwners, book: RunBook, run: OldRun): void {
  const state = table.reopen(run.index, run.launched)
  takeNames(run, state)
  for (const entry of run.entries) {
    state.log.adopt(entry)
    if (entry.kind === 'blackboard') boards.restore(state, entry.entry)
  }
  const states = new OldStates()
  for (const [memory, at] of framesOf(state.log)) {
    const kind = kindOf(memory, at)
    if (kind === PATCH || kind === END) states.frame(memory, at, run.index, undefined)
  }
  for (const [agent, value] of states.ofRun(run.index)) state.states.set(agent, value)
  tally(run, state)
  end(book, run, state, true)
}

function end(book: RunBook, run: OldRun, state: RunState, goesOn: boolean): void {
  const { finished, aborted } = run
  if (!finished) return
  state.boardRevision = finished.boardRevision
  const ending = endingOf(run)
  const status = 'error' in ending ? (aborted ? 'aborted' : 'failed') : 'finished'
  book.takeEnded(state, ending, finished.at, status, goesOn)
}

/** Returns what a run has ended with. */
function endingOf(run: OldRun): RunEnding<unknown> {
  const error = errorIn(run)
  if (error) return { error }
  const { memory, at } = run.answer ?? {}
  const { content, data } = memory && at !== undefined ? readBody(memory, at) : { content: '', data: undefined }
  return { finalOutput: content, data: data === undefined ? undefined : jsonIn(data) }
}

/** Returns the error that a run has ended with; null for one that has succeeded. */
function errorIn({ finished, answer }: OldRun): DramatisError | null {
  return finished?.error ?? (answer && isFailure(answer.memory, answer.at) ? errorOf(answer.memory, answer.at) : null)
}

/** Counts what a result tells of models and tasks. */
function tally(run: OldRun, state: RunState): void {
  for (const entry of run.entries) {
    if (entry.kind === 'model.called') {
      state.spent.add(entry)
      state.rehearsed ||= entry.rehearsed
    } else if (entry.kind === 'task') {
      const { task, error } = entry
      state.tasks.set(task.id, task)
      if (error) state.failures.push({ agent: task.assignedTo ?? '', taskId: task.id, error })
    }
  }
}
