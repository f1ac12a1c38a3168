/**
 * Open messages, waits and calls of an earlier process. A turn that was open comes again, with what the log has of it.
 */
import { AgentTerminatedError, CancelledError, errorData } from '../../errors.ts'
import type { OnMismatch } from '../../mailbox/envelope.ts'
import {
  answerMsOf,
  flagsOf,
  isWallClockLimit,
  kindOf,
  limitOf,
  MOST_GROUPS,
  policyOf,
  REQUEST,
  SIGNALLED,
  STREAMS,
  senderOf,
  stepOf,
  waitingOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import { type Envelope, envelopeOf } from '../../mailbox/mailbox.ts'
import { turnWithin } from '../admission/chain.ts'
import { hasDependencies } from '../mailboxes/blocked-tasks.ts'
import { type Cell, NO_TURN, type OpenRequest } from '../state/cell.ts'
import type { OpenMessage, OpenWait } from '../state/open-work.ts'
import type { RunState } from '../state/run-state.ts'
import { isDone } from '../tasks/task-board.ts'
import { poisonIn, stagesOf, type TakenUp } from './crash-loops.ts'
import type { OldLog } from './old-log.ts'
import type { RestoredOwners } from './restored-owners.ts'

export class MessageRecovery {
  readonly #owners: RestoredOwners
  readonly #old: OldLog
  readonly #states: ReadonlyMap<number, RunState>
  readonly #onMismatch: OnMismatch
  readonly #envelopes = new Map<OpenMessage, Envelope<RunState>>()

  /**
   * `states`: the runs that there are, by index. `onMismatch`: what becomes of them if code of theirs has changed.
   */
  constructor(owners: RestoredOwners, old: OldLog, states: ReadonlyMap<number, RunState>, onMismatch: OnMismatch) {
    this.#owners = owners
    this.#old = old
    this.#states = states
    this.#onMismatch = onMismatch
  }

  /** Makes the envelope of an open message. */
  message(message: OpenMessage): void {
    const { work, times } = this.#old
    const run = this.#states.get(message.run)
    const callee = this.#owners.directory.present(message.recipient)
    if (!run || !callee) return
    const { memory, at, turn, attempt, handedOff, retried } = message
    const envelope = envelopeOf(run, memory, at)
    envelope.handedOff = handedOff
    if (retried > 0) envelope.retries = { count: retried, late: undefined, instance: undefined }
    this.#envelopes.set(message, envelope)
    const { clock, pauses } = this.#owners
    const now = clock.monotonic()
    const turnTimes = turn === 0 ? undefined : times.ofTurn(message, work)
    if (turn === 0 || (!turnTimes && attempt === 1)) {
      if (callee.settings.queueTimeoutMs !== false) envelope.waitsSince = now - times.since(message.entry)
      return
    }
    envelope.handedSeq = message.entry.seq
    Object.assign(envelope, { turn, attempt, ...(!run.over && { onMismatch: this.#onMismatch }) })
    const { sinceMs, pausedMs, attemptMs } = turnTimes ?? { sinceMs: 0, pausedMs: 0, attemptMs: 0 }
    envelope.begunAt = now - sinceMs
    pauses.takeUp(envelope, pausedMs, Math.min(pausedMs, times.askedMs(message.run)), attemptMs)
  }

  /** Adds a wait for an answer. `settle`: takes the answer for a caller in the host. */
  wait({ caller: index, correlation, turn, message }: OpenWait, settle: OpenRequest['settle']): void {
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
      group: caller.first.groups.restore(turn, waiting & MOST_GROUPS),
      signalled: (waiting & SIGNALLED) !== 0,
      tried: 1,
      grantedMs: grantedMs(message, cells[message.recipient]!),
      replaced: 0,
      offers: isOffer,
    })
  }

  /** Returns the turn that waits for a call; `NO_TURN` if none does any more. */
  #turnOfCall(caller: number, call: number): number {
    for (const open of this.#old.work.calls) if (open.caller === caller && open.correlation === call) return open.turn
    return NO_TURN
  }

  /** Puts an open message into its mailbox. */
  deliver(message: OpenMessage): void {
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

  /**
   * Decides about turns that may not come again, or that nobody waits for any more. After the death of a process the
   * others begin with care.
   */
  judge(): void {
    const { cancellation, directory, redelivery } = this.#owners
    const taken: TakenUp[] = []
    const awaited = new Set(Array.from(this.#old.work.waits, ({ message }) => message))
    for (const [message, envelope] of this.#envelopes) {
      const { memory, at, handedOff, recipient } = message
      const callee = directory.cells[recipient]!
      const each = { message, cell: callee, envelope }
      const poison = envelope.cancelled ? undefined : poisonIn(each, this.#old)
      if (poison) {
        envelope.deaths = [{ error: errorData(poison), epoch: callee.epoch, alone: true, fingerprint: null }]
        cancellation.bury(callee, envelope, 'poison', poison)
      } else if (kindOf(memory, at) === REQUEST && !handedOff && !awaited.has(message)) {
        const text = `The request to "${callee.name}" had been withdrawn when its process ended.`
        cancellation.withdraw(callee, envelope, new CancelledError(text, { agent: callee.name }))
      } else if (envelope.attempt === 1 || redelivery.judgeTakenUp(callee, envelope)) taken.push(each)
    }
    this.#beginCarefully(taken.filter(({ envelope }) => !envelope.cancelled))
  }

  #beginCarefully(taken: readonly TakenUp[]): void {
    const { caution, directory, logger, pauses } = this.#owners
    if (!this.#old.deaths.hasDied) return
    caution.watch(directory.actors)
    const stages = stagesOf(taken, this.#old)
    caution.hold(stages)
    if (stages.length === 0) return
    const suspects = stages.flatMap((stage) => stage.suspects)
    const text =
      'processes with this log died again and again, and some turns got no further meanwhile: these begin first, one by one, and nothing else until it is known which one it is'
    logger.warn({ turns: suspects.length, agents: [...new Set(suspects.map(({ cell }) => cell.name))] }, text)
    for (const { cell, envelope } of taken) {
      const { run, turn } = envelope
      const begins = turn === 0 ? undefined : caution.until(envelope)
      if (begins) void pauses.during({ cell, turn, correlation: 0, run }, () => begins)
    }
  }

  #waitsForTasks({ tasks }: RunState, id: string): boolean {
    const dependencies = tasks.get(id)?.dependencies ?? []
    return dependencies.some((each) => !isDone(tasks.get(each)?.status ?? 'completed'))
  }

  /** Tells senders that their messages are accepted: those waited for room, or for all recipients. */
  giveReceipts(): void {
    const { directory, receipts } = this.#owners
    for (const { run: index, memory, at } of this.#old.asking.values()) {
      const run = this.#states.get(index)
      const sender = directory.cells[senderOf(memory, at)]
      if (run && sender && !sender.removed) receipts.give(sender, run, memory, at, undefined)
    }
  }

  /**
   * Serves the calls again that have no result. A tool waits for its agent, which loads it, and for the begin of its
   * turn: tools run code that may end the process. A call of a turn that does not come again is withdrawn.
   */
  serveCalls(): void {
    const { calls, cancellation, caution, lifecycle } = this.#owners
    for (const { caller, correlation, turn, run: index, memory, at, entry } of [...this.#old.work.calls]) {
      const run = this.#states.get(index)
      const cell = this.#owners.directory.present(caller)
      if (!run || !cell) continue
      const envelope = cell.messageOf(turn)
      if (!envelope) {
        cancellation.logCancel({ caller: cell, correlation, run, turn })
        continue
      }
      const isTool = readBody(memory, at).content === 'tool'
      const loaded = isTool && [...cell.instances.map((each) => lifecycle.ready(each)), caution.until(envelope)]
      const ready = loaded && Promise.all(loaded).then(noMatter, noMatter)
      const passedMs = this.#old.times.since(entry)
      calls.serve(cell, run, memory, at, { passedMs, ...(ready && { ready }) })
    }
  }
}

/** Returns the time that the tries of a turn have added to the wait for its answer. */
function grantedMs({ memory, at, retried }: OpenMessage, { settings }: Cell): number {
  const limit = limitOf(memory, at)
  if (retried === 0 || isWallClockLimit(limit)) return 0
  return retried * (answerMsOf(limit) ?? settings.responseTimeoutMs)
}

const noMatter = () => {}
