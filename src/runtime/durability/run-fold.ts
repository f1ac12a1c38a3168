/**
 * Puts in place what the entries of a run of an earlier process say: its board, sync points, tasks, subscriptions,
 * watches, and the number of agents that it has made. The entries are read in their order.
 */
import { isFailure, jsonIn } from '../../mailbox/codec.ts'
import {
  CALL,
  CANCEL,
  correlationOf,
  kindOf,
  lengthOf,
  REQUEST,
  RESULT,
  recipientOf,
  SEND,
  senderOf,
  turnOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { HostRecord } from '../log/records.ts'
import type { RunState } from '../state/run-state.ts'
import { isDone } from '../tasks/task-board.ts'
import { noteTold, watch } from '../verbs/death-watch.ts'
import type { OldLog } from './old-log.ts'
import type { OldRun } from './old-run.ts'
import type { RestoredOwners } from './restored-owners.ts'

/** Call of a verb whose effect lasts longer than its answer. */
interface LastingCall {
  readonly verb: string
  readonly args: { readonly pattern?: unknown; readonly agent?: unknown; readonly point?: unknown }
  /** True if another agent has the name of its caller by now. */
  readonly isOfFormer: boolean
}

const LASTING: ReadonlySet<string> = new Set(['subscribe', 'watch', 'spawn', 'define', 'sync', 'synced'])

export class RunFold {
  readonly #owners: RestoredOwners
  readonly #old: OldLog
  readonly #state: RunState
  readonly #calls = new Map<string, LastingCall>()

  constructor(owners: RestoredOwners, old: OldLog, state: RunState) {
    this.#owners = owners
    this.#old = old
    this.#state = state
  }

  /** Reads the entries of a run. The board of a run that has ended is in its place already. */
  read({ entries, finished, subscribed }: OldRun): void {
    for (const entry of entries) {
      if (entry.kind === 'frames')
        for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) this.#frame(entry.memory, at)
      else if (entry.kind !== 'blackboard' || !finished) this.#record(entry)
    }
    const { boards, directory } = this.#owners
    for (const { index, pattern, seq } of subscribed) {
      const cell = directory.present(index)
      if (cell && seq > (this.#old.left.get(index)?.seq ?? -1)) boards.subscribeAgain(cell, this.#state, pattern)
    }
  }

  #record(entry: HostRecord): void {
    const { boards, syncPoints } = this.#owners
    const state = this.#state
    if (entry.kind === 'blackboard') boards.restore(state, entry.entry)
    else if (entry.kind === 'sync') {
      const { at, error, point, result } = entry
      syncPoints.restore(state, point, { result, at, error }, this.#isWatched(point))
    } else if (entry.kind === 'handoff' && entry.step === 'handed_off') {
      state.handoffs += 1
      if (entry.offer !== undefined) state.successors.set(entry.messageId, entry.offer)
    }
  }

  /** Checks whether the script waits for the result of a sync point. */
  #isWatched(point: string): boolean {
    for (const { verb, args } of this.#calls.values()) if (verb === 'synced' && args.point === point) return true
    return false
  }

  #frame(memory: Memory, at: number): void {
    const sender = senderOf(memory, at)
    switch (kindOf(memory, at)) {
      case REQUEST:
        return this.#task(sender, correlationOf(memory, at), idOf(memory, at))
      case SEND:
        if (sender === 0 && typeOf(memory, at) === 'report') noteTold(this.#state, memory, at)
        return
      case CALL: {
        const { content: verb, data } = readBody(memory, at)
        if (!LASTING.has(verb)) return
        const isOfFormer = turnOf(memory, at) <= (this.#old.left.get(sender)?.turn ?? 0)
        this.#calls.set(keyOf(sender, correlationOf(memory, at)), { verb, args: Object(jsonIn(data)), isOfFormer })
        return
      }
      case CANCEL:
        this.#calls.delete(keyOf(sender, correlationOf(memory, at)))
        return
      case RESULT: {
        const key = keyOf(recipientOf(memory, at), correlationOf(memory, at))
        const call = this.#calls.get(key)
        this.#calls.delete(key)
        if (call) this.#answered(call, recipientOf(memory, at), isFailure(memory, at))
      }
    }
  }

  #answered({ verb, args, isOfFormer }: LastingCall, index: number, failed: boolean): void {
    const { boards, directory, hostMessages, runs, syncPoints } = this.#owners
    const state = this.#state
    const cell = directory.present(index)
    if (verb === 'synced') syncPoints.heard(state, String(args.point))
    else if (verb === 'sync' && cell && !isOfFormer) syncPoints.came(state, String(args.point), cell)
    if (failed) return
    if (verb === 'spawn' || verb === 'define') state.spawned += 1
    if (!cell || isOfFormer) return
    if (verb === 'subscribe') boards.subscribeAgain(cell, state, String(args.pattern))
    const watched = verb === 'watch' ? directory.cell(String(args.agent), state) : undefined
    if (watched) watch({ directory, hostMessages, runs }, cell, state, watched)
  }

  /** Notes the number under which an open task was given. */
  #task(giver: number, correlation: number, id: string): void {
    const { directory } = this.#owners
    const state = this.#state
    const task = state.tasks.get(id)
    const isOpen = directory.cells[giver]?.open.has(correlation)
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
