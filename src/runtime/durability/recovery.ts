/**
 * Puts what the log of an earlier process has into a supervisor that has no thread yet: numbers, states, runs,
 * messages, waits, tasks, boards. A turn that was open comes again, with what the log has of it, as after the death of
 * its thread.
 */
import { AgentTerminatedError } from '../../errors.ts'
import { errorOf, isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  flagsOf,
  kindOf,
  lengthOf,
  MOST_GROUPS,
  policyOf,
  priorityOf,
  RESULT,
  recipientOf,
  SIGNALLED,
  STREAMS,
  senderOf,
  stepOf,
  waitingOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import { turnWithin } from '../admission/chain.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { HostRecord } from '../log/records.ts'
import { framesOf } from '../log/run-log.ts'
import { type BlockedTasks, hasDependencies } from '../mailboxes/blocked-tasks.ts'
import type { Mailboxes } from '../mailboxes/mailboxes.ts'
import type { Receipts } from '../mailboxes/receipts.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { RunBook } from '../runs/runs.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { AgentStates } from '../state/agent-states.ts'
import { loggedFrames } from '../state/attempt-log.ts'
import { type Cell, NO_TURN, type OpenRequest } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { OpenMessage, OpenWait } from '../state/open-work.ts'
import type { RunState } from '../state/run-state.ts'
import type { RunTable } from '../state/run-table.ts'
import type { Lifecycle } from '../supervision/lifecycle.ts'
import { isDone } from '../tasks/task-board.ts'
import type { HostTools } from '../tools/host-tools.ts'
import type { Redelivery } from '../turns/redelivery.ts'
import type { Boards } from '../verbs/boards.ts'
import type { HostCalls } from '../verbs/calls.ts'
import { watch } from '../verbs/death-watch.ts'
import type { SyncPoints } from '../verbs/sync-points.ts'
import type { OldLog, OldRun } from './old-log.ts'

/** Number of runs whose results are kept, as for a team that has no durable log. */
const KEPT_RUNS = 100

/** Owners of the state that is put in place. */
export interface RestoredOwners {
  readonly agentStates: AgentStates
  readonly blocked: BlockedTasks
  readonly boards: Boards
  readonly calls: HostCalls
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly journal: Journal
  readonly lifecycle: Lifecycle
  readonly mailboxes: Mailboxes
  readonly receipts: Receipts
  readonly redelivery: Redelivery
  readonly requests: Requests
  readonly runs: RunTable
  readonly syncPoints: SyncPoints
  readonly team: TeamMemory
  readonly tools: HostTools
  /** Notifies the readers of the journal that all is in its place. */
  readersRestored(): void
}

export class Recovery {
  readonly #owners: RestoredOwners
  readonly #runs: RunBook
  readonly #old: OldLog
  /** Runs that go on, and those whose result is kept. */
  readonly #states = new Map<number, RunState>()
  readonly #envelopes = new Map<OpenMessage, Envelope<RunState>>()

  constructor(owners: RestoredOwners, runs: RunBook, old: OldLog) {
    this.#owners = owners
    this.#runs = runs
    this.#old = old
  }

  /** Returns the runs that go on. */
  perform(): RunState[] {
    const { directory, hostMessages, redelivery, runs } = this.#owners
    const old = this.#old
    directory.reseat(
      new Map(Array.from(old.names, ([index, { name, run }]) => [run === 0 ? name : `${run} ${name}`, index])),
    )
    for (const [index, counters] of old.counters) for (const cell of this.#present(index)) cell.continueFrom(counters)
    hostMessages.continueFrom(old.lastHostNumber)
    runs.continueFrom(old.lastRun)
    const open = this.#openRuns()
    const ended = [...old.runs.values()].filter((run) => run.finished && !run.launched.own).slice(-KEPT_RUNS)
    this.#restoreStates(new Set([...open, ...ended].map(({ index }) => index)))
    for (const run of ended) if (!open.has(run)) this.#end(run, this.#stateOf(run))
    const states = Array.from(open, (run) => this.#stateOf(run))
    for (const message of old.work.messages()) this.#message(message)
    const settles = new Map(Array.from(open, (run) => [run.index, this.#takeUp(run, this.#stateOf(run))]))
    for (const wait of old.work.waits) this.#wait(wait, settles.get(wait.message.run))
    for (const message of old.work.messages()) this.#deliver(message)
    for (const run of open) this.#fold(run, this.#stateOf(run))
    this.#owners.readersRestored()
    this.#giveReceipts()
    for (const [{ recipient }, envelope] of this.#envelopes)
      if (envelope.attempt > 1) redelivery.judgeTakenUp(directory.cells[recipient]!, envelope)
    this.#serveCalls()
    for (const run of open) this.#answer(run, settles.get(run.index))
    return states
  }

  #present(index: number): readonly Cell[] {
    const cell = this.#owners.directory.cells[index]
    return cell && !cell.removed ? [cell] : []
  }

  /** Runs that have no end yet, or messages that are under way. */
  #openRuns(): Set<OldRun> {
    const { runs, work } = this.#old
    const open = new Set<OldRun>()
    for (const run of runs.values()) if (!run.finished && !run.launched.own) open.add(run)
    for (const { run: index } of work.messages()) {
      const run = runs.get(index)
      if (run) open.add(run)
    }
    return open
  }

  #stateOf(run: OldRun): RunState {
    const state = this.#reopened(run)
    if (state.log.adopted === 0) for (const entry of run.entries) state.log.adopt(entry)
    return state
  }

  #reopened(run: OldRun): RunState {
    const state = this.#states.get(run.index) ?? this.#owners.runs.reopen(run.index, run.launched)
    this.#states.set(run.index, state)
    return state
  }

  // ---- states

  /** Puts the states of agents in place, and those for the runs that are `kept`. */
  #restoreStates(kept: ReadonlySet<number>): void {
    const { agentStates, runs } = this.#owners
    for (const change of this.#old.states) {
      const [cell] = this.#present(change.index)
      if (!cell) continue
      if ('value' in change) cell.state = change.value as object
      else {
        const run = this.#old.runs.get(change.run)
        if (run) agentStates.applyPatch(cell, this.#reopened(run), change.notice)
      }
    }
    for (const [index, state] of this.#states) {
      if (kept.has(index)) continue
      runs.forget(state)
      this.#states.delete(index)
    }
  }

  // ---- runs

  #end(run: OldRun, state: RunState): void {
    const { finished, answer, aborted } = run
    if (!finished) return
    this.#tallies(run, state)
    const error =
      finished.error ?? (answer && isFailure(answer.memory, answer.at) ? errorOf(answer.memory, answer.at) : null)
    if (error) return this.#runs.takeEnded(state, { error }, finished.at, aborted ? 'aborted' : 'failed')
    const { content, data } = answer ? readBody(answer.memory, answer.at) : { content: '', data: undefined }
    const output = data === undefined ? undefined : jsonIn(data)
    this.#runs.takeEnded(state, { finalOutput: content, data: output }, finished.at, 'finished')
  }

  /** Returns what takes the answer to the caller of the run. */
  #takeUp(run: OldRun, state: RunState): OpenRequest['settle'] {
    const { launched, finished, lastAt } = run
    this.#tallies(run, state)
    if (finished || launched.own) {
      this.#runs.takeUpOwn(state)
      return undefined
    }
    const leftMs = Math.max(1, launched.timeoutMs - (lastAt - launched.startedAt))
    const isAsked = [...this.#old.work.waits].some(({ caller, message }) => caller === 1 && message.run === run.index)
    return this.#runs.takeUp(state, launched, leftMs, !isAsked && !run.answer)
  }

  /** Settles a run whose answer stands in the log, and whose end does not. */
  #answer({ answer, finished, launched }: OldRun, settle: OpenRequest['settle']): void {
    if (answer && !finished && !launched.own) settle?.(answer.memory, answer.at)
  }

  /** Counts what a result tells of models and tasks. */
  #tallies(run: OldRun, state: RunState): void {
    for (const entry of run.entries) {
      if (entry.kind === 'model.called') {
        state.spent.add(entry)
        state.rehearsed ||= entry.rehearsed
      } else if (entry.kind === 'task') state.tasks.set(entry.task.id, entry.task)
    }
  }

  // ---- messages

  #message(message: OpenMessage): void {
    const run = this.#states.get(message.run)
    const [callee] = this.#present(message.recipient)
    if (!run || !callee) return
    const { memory, at, turn, attempt, handedOff } = message
    const envelope: Envelope<RunState> = {
      memory,
      at,
      bytes: lengthOf(memory, at),
      run,
      priority: priorityOf(memory, at),
      within: undefined,
      turn: 0,
      attempt: 1,
      lane: 'plain',
      windowAt: 0,
      windowEnd: 0,
      handedSeq: 0,
      waitsSince: NOT_YET,
      startedAt: NOT_YET,
      begunAt: NOT_YET,
      announced: false,
      cancelled: false,
      handedOff,
      uncharged: 0,
      deaths: null,
    }
    if (turn > 0 && (attempt > 1 || loggedFrames(callee, { ...envelope, turn }).length > 0))
      Object.assign(envelope, { turn, attempt })
    this.#envelopes.set(message, envelope)
  }

  #wait({ caller: index, correlation, turn, message }: OpenWait, settle: OpenRequest['settle']): void {
    const envelope = this.#envelopes.get(message)
    const { cells } = this.#owners.directory
    const caller = cells[index]
    if (!envelope || !caller) return
    const { memory, at } = message
    const { retries = caller.settings.retries, idempotent } = policyOf(memory, at)
    const waiting = waitingOf(memory, at)
    const isOffer = correlation < 0 && stepOf(memory, at) !== 0
    this.#owners.requests.takeUp({
      caller,
      correlation,
      run: envelope.run,
      turn: isOffer ? this.#turnOfCall(index, stepOf(memory, at)) : turn,
      callee: cells[message.recipient]!,
      envelope,
      streams: (flagsOf(memory, at) & STREAMS) !== 0,
      settle: index === 1 ? (settle ?? (() => {})) : correlation < 0 ? () => {} : undefined,
      retries,
      idempotent,
      group: undefined,
      // How many answers of its group a wait still needs is not known: it is no evidence of a deadlock.
      signalled: (waiting & (SIGNALLED | MOST_GROUPS)) !== 0,
      tried: 1,
      grantedMs: 0,
      replaced: 0,
      offers: isOffer,
    })
  }

  /** Returns the turn that waits for a call; `NO_TURN` if none does any more. */
  #turnOfCall(caller: number, call: number): number {
    for (const open of this.#old.work.calls) if (open.caller === caller && open.correlation === call) return open.turn
    return NO_TURN
  }

  #deliver(message: OpenMessage): void {
    const { blocked, directory, mailboxes, redelivery, requests, team } = this.#owners
    const envelope = this.#envelopes.get(message)
    const callee = directory.cells[message.recipient]
    if (!envelope || !callee) return this.#refuse(message)
    const { memory, at, run, turn } = envelope
    run.open += 1
    const request = requests.of(envelope)
    if (turn === 0 && hasDependencies(memory, at) && this.#waitsForTasks(run, idOf(memory, at))) {
      blocked.hold(callee, envelope)
      return
    }
    if (request && callee.settings.reentrancy === 'chain') {
      const within = turnWithin(requests, request.caller, request.turn, callee)
      if (within && 'memory' in within) envelope.within = within
    }
    team.force(callee.index, envelope.bytes)
    if (turn > 0) redelivery.takeUp(callee, envelope)
    else mailboxes.takeUp(callee, envelope)
  }

  /** Refuses a message to an agent that the program does not have any more: who waits for it is told. */
  #refuse({ run: index, recipient, memory, at, id }: OpenMessage): void {
    const { directory, journal, requests } = this.#owners
    const run = this.#states.get(index)
    if (!run) return
    const agent = directory.name(recipient)
    const text = `Agent "${agent}" had this message when its process ended, and the program that goes on has no agent of that name. Add it again, or give its work to another one.`
    const error = new AgentTerminatedError(text, { agent })
    journal.deadLetter(run, memory, at, 'unknown_agent', [error])
    for (const { caller: asks, correlation, turn, message } of this.#old.work.waits) {
      const caller = directory.cells[asks]
      if (message.id !== id || !caller || caller.removed) continue
      requests.refuse({ caller, correlation, run, turn, settle: undefined, from: recipient, memory, at }, error)
    }
  }

  #waitsForTasks({ tasks }: RunState, id: string): boolean {
    const dependencies = tasks.get(id)?.dependencies ?? []
    return dependencies.some((each) => !isDone(tasks.get(each)?.status ?? 'completed'))
  }

  // ---- what else a run has

  #fold(run: OldRun, state: RunState): void {
    for (const entry of run.entries) if (entry.kind !== 'frames') this.#record(state, entry)
    const calls = new Map<string, [name: string, args: object]>()
    for (const [memory, at] of framesOf(state.log)) {
      const kind = kindOf(memory, at)
      this.#task(state, senderOf(memory, at), correlationOf(memory, at), idOf(memory, at))
      if (kind === CALL) {
        const { content, data } = readBody(memory, at)
        if (content === 'subscribe' || content === 'watch')
          calls.set(`${senderOf(memory, at)} ${correlationOf(memory, at)}`, [content, Object(jsonIn(data))])
      } else if (kind === RESULT && !isFailure(memory, at)) {
        const index = recipientOf(memory, at)
        const done = calls.get(`${index} ${correlationOf(memory, at)}`)
        for (const cell of done ? this.#present(index) : []) this.#repeat(state, cell, done!)
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

  /** Tells senders that their messages are accepted: those waited for room, or for all recipients. */
  #giveReceipts(): void {
    const { directory, receipts } = this.#owners
    for (const { run: index, memory, at } of this.#old.asking.values()) {
      const run = this.#states.get(index)
      const sender = directory.cells[senderOf(memory, at)]
      if (run && sender && !sender.removed) receipts.give(sender, run, memory, at, undefined)
    }
  }

  /** Serves the calls again that have no result. A tool waits for its agent, which loads it. */
  #serveCalls(): void {
    const { calls, lifecycle, tools } = this.#owners
    for (const callId of this.#old.openTools) tools.interrupted.add(callId)
    for (const { caller, run: index, memory, at } of [...this.#old.work.calls]) {
      const run = this.#states.get(index)
      const [cell] = this.#present(caller)
      if (!run || !cell) continue
      const isTool = readBody(memory, at).content === 'tool'
      const ready = isTool ? Promise.all(cell.instances.map((each) => lifecycle.ready(each))) : undefined
      calls.serve(
        cell,
        run,
        memory,
        at,
        ready?.then(
          () => {},
          () => {},
        ),
      )
    }
  }
}
