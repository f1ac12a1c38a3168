/**
 * Enforces time limits: of responses (from the start of the callee's turn), of turns, and of messages that wait in a
 * mailbox or for room in one. There is one timer for all, set for the earliest limit; a turn that starts after the
 * timer was set costs nothing. Time that a model or a person takes does not count for responses and turns
 * (verbs/deadline-pauses.ts).
 */

import type { Logger } from '../../actors/definition/tool.ts'
import { ASKS, answerMsOf, idOf, isWallClockLimit, limitOf, SEND, senderOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Scheduler, Timer } from '../../shared/clock.ts'
import { type DramatisError, MessageExpiredError, RequestTimeoutError, TurnTimeoutError } from '../../shared/errors.ts'
import type { HostMessages } from '../host/admission.ts'
import type { Cell, OpenRequest } from '../host/agent.ts'
import type { Cancellation } from '../host/cancellation.ts'
import type { Redelivery } from '../host/commits.ts'
import type { HostLoop } from '../host/core.ts'
import type { AgentDirectory } from '../host/directory.ts'
import type { Journal, Reader } from '../host/journal.ts'
import type { Requests } from '../host/mailboxes.ts'
import type { RunState } from '../host/run.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { DeadlinePauses } from '../verbs/deadline-pauses.ts'

/*
 * Reports failures to managers (`escalateTo` of a role): rule 32. A request without an answer goes to the manager of
 * who asked, a turn that failed after all of its tries to the manager of its agent. Who asked gets the error anyway.
 */

interface EscalationsNeeds {
  readonly hostMessages: HostMessages
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
}

/** Failure that is reported. `sender`: the agent in whose name the report is. */
interface Report {
  readonly sender: Cell
  readonly event: 'unanswered' | 'failed'
  /** Agent that failed, or did not answer. */
  readonly agent: Cell
  readonly envelope: Envelope<RunState>
  /** Number of tries that there were. */
  readonly tried: number
  readonly error: DramatisError
}

export class Escalations {
  readonly #needs: EscalationsNeeds

  constructor(needs: EscalationsNeeds) {
    this.#needs = needs
  }

  /** Reports a request that had no answer in time, unless the manager is the agent that does not answer. */
  unanswered({ caller, callee, envelope, tried }: OpenRequest, error: DramatisError): void {
    const superior = this.#superiorOf(caller, envelope.run)
    if (superior === callee) return
    this.#report(superior, { sender: caller, event: 'unanswered', agent: callee, envelope, tried, error })
  }

  /** Reports a turn that failed after it was tried again, unless the manager is who asked. */
  failed({ first: agent }: Cell, envelope: Envelope<RunState>, error: DramatisError): void {
    const { retries, run, memory, at } = envelope
    if (!retries?.count || run.ending || run.over) return
    const superior = this.#superiorOf(agent, run)
    if (superior?.index === senderOf(memory, at)) return
    this.#report(superior, { sender: agent, event: 'failed', agent, envelope, tried: retries.count + 1, error })
  }

  #superiorOf(agent: Cell, run: RunState): Cell | undefined {
    const { escalateTo } = agent.settings.info
    const superior = escalateTo === undefined ? undefined : this.#needs.directory.cell(escalateTo, run)
    return superior === agent ? undefined : superior
  }

  #report(superior: Cell | undefined, { sender, event, agent, envelope, tried, error }: Report): void {
    if (!superior) return
    const { frames, hostMessages, journal } = this.#needs
    const { run, memory, at } = envelope
    const messageId = idOf(memory, at)
    const { code, message } = error
    journal.record(run, { kind: 'escalated', agent: agent.name, to: superior.name, messageId, tried, error })
    const frame = frames.make({
      kind: SEND,
      type: 'report',
      flags: ASKS,
      sender: sender.index,
      recipient: superior.index,
      run: run.index,
      content: message,
      data: JSON.stringify({ event, agent: agent.name, code, messageId, tried }),
    })
    hostMessages.put(sender, run, frame)
  }
}

/*
 * Requests without an answer by their deadline: rules 32 and 33. They are retried, then escalated, then they fail.
 *
 * The host has both the request and its turn, so a retry needs no second message. The same request, with its id, waits
 * again: for the message in its place in the mailbox, for the turn under way, or for the next attempt after an exit.
 * The reply is what that turn commits, and it commits once.
 */

export interface LateNeeds {
  readonly directory: AgentDirectory
  readonly escalations: Escalations
  readonly journal: Journal
  readonly logger: Logger
  readonly requests: Requests
  /** Called when a wait in that run has ended only because its time was up. */
  overdue(run: RunState): void
}

class LateRequests {
  readonly #needs: LateNeeds

  constructor(needs: LateNeeds) {
    this.#needs = needs
  }

  /** Retries the request. Returns false if it has no retries left. */
  askAgain(request: OpenRequest): boolean {
    if (request.tried > request.retries) return false
    request.tried += 1
    const { caller, callee, envelope, run, tried } = request
    const { journal, logger } = this.#needs
    const { name: agent, index } = callee
    const messageId = idOf(envelope.memory, envelope.at)
    journal.record(run, { kind: 'request.retried', agent, index, caller: caller.name, messageId, tried })
    logger.warn(
      { agent, caller: caller.name, runId: run.id, messageId, tried },
      'a request without an answer by its deadline is asked again',
    )
    return true
  }

  /** Fails the request. The caller learns it after its manager does. */
  fail(request: OpenRequest, error: DramatisError): void {
    const { escalations, requests } = this.#needs
    this.#needs.overdue(request.run)
    escalations.unanswered(request, error)
    requests.answerWithError(request, error)
  }
}

interface TimeoutsNeeds extends LateNeeds {
  readonly cancellation: Cancellation
  readonly clock: Scheduler
  readonly loop: HostLoop
  readonly pauses: DeadlinePauses
  readonly redelivery: Redelivery
}

/** Interval for checks of a turn whose deadline would have passed, but that waits for work in a queue. */
const QUEUED_LOOK_MS = 1_000

export const timeouts = (needs: TimeoutsNeeds): Reader => {
  const { cancellation, clock, directory, escalations, loop, pauses, redelivery, requests } = needs
  const late = new LateRequests(needs)
  let timer: Timer | undefined
  let due = Number.POSITIVE_INFINITY

  /** Enforces the limits of all agents that are due, and returns the time of the next. */
  const sweep = (now: number): number => {
    let earliest = Number.POSITIVE_INFINITY
    for (const cell of directory.cells) {
      if (cell.mailbox.empty && cell.mailbox.parked.length === 0) continue
      for (const each of cell.instances) earliest = Math.min(earliest, enforceOpenTurns(each, now))
      for (const envelope of cutOff(cell)) earliest = Math.min(earliest, enforceResponseLimit(cell, envelope, now))
      if (cell.settings.queueTimeoutMs !== false)
        earliest = Math.min(earliest, enforceQueueLimit(cell, cell.settings.queueTimeoutMs, now))
    }
    return earliest
  }

  /** Enforces the limits of an agent's open turns and of their responses, and returns the time of the next. */
  const enforceOpenTurns = (cell: Cell, now: number): number => {
    let earliest = Number.POSITIVE_INFINITY
    for (const envelope of [...cell.underWay])
      if (envelope.startedAt !== NOT_YET) earliest = Math.min(earliest, enforceTurnLimit(cell, envelope, now))
    return earliest
  }

  const turnEndsBy = ({ settings }: Cell, envelope: Envelope<RunState>, now: number): number =>
    settings.turnTimeoutMs === false
      ? Number.POSITIVE_INFINITY
      : envelope.startedAt + settings.turnTimeoutMs + pauses.pausedMsOfAttempt(envelope, now)

  const responseMsOf = ({ settings }: Cell, { memory, at }: Envelope<RunState>): number => {
    return answerMsOf(limitOf(memory, at)) ?? settings.responseTimeoutMs
  }

  const isWallClock = ({ memory, at }: Envelope<RunState>): boolean => isWallClockLimit(limitOf(memory, at))

  const answerDueBy = (cell: Cell, envelope: Envelope<RunState>, { grantedMs }: OpenRequest, now: number): number =>
    envelope.begunAt + responseMsOf(cell, envelope) + grantedMs + pauses.pausedMs(envelope, now, isWallClock(envelope))

  /**
   * Returns the deadline. If it would have passed, it is put off by the time that the work the turn waits for has
   * queued behind models and people.
   */
  const extendWhileQueued = (cell: Cell, envelope: Envelope<RunState>, dueBy: number, now: number): number => {
    if (dueBy > now) return dueBy
    const later = dueBy + pauses.inLineMs(cell, envelope, now)
    return later > now ? Math.max(later, now + QUEUED_LOOK_MS) : later
  }

  /** Ends a turn that is late, else enforces the limit of its response. Returns the time of the next limit. */
  const enforceTurnLimit = (cell: Cell, envelope: Envelope<RunState>, now: number): number => {
    const dueBy = turnEndsBy(cell, envelope, now) // notes the begin of the attempt, also if it is paused from there on
    if (envelope.cancelled || envelope.retries?.late) return Number.POSITIVE_INFINITY
    if (pauses.isPaused(envelope)) return enforceResponseLimit(cell, envelope, now)
    const { turnTimeoutMs } = cell.settings
    const endBy = extendWhileQueued(cell, envelope, dueBy, now)
    if (endBy > now) return Math.min(endBy, enforceResponseLimit(cell, envelope, now))
    const error = new TurnTimeoutError(
      `A turn of agent "${cell.name}" did not end within ${turnTimeoutMs} ms${uncounted(pauses.pausedMsOfAttempt(envelope, now))}. Raise limits.turnTimeoutMs, or look at what its handler waits for.`,
      { agent: cell.name, turnTimeoutMs },
    )
    const final = redelivery.retryLate(cell, envelope, error)
    if (final) fail(cell, envelope, final)
    else grantAgain(cell, envelope)
    return Number.POSITIVE_INFINITY
  }

  /** Ends a late turn. Its manager, and whoever asked, are told. */
  const fail = (cell: Cell, envelope: Envelope<RunState>, error: DramatisError) => {
    escalations.failed(cell, envelope, error)
    cancellation.fail(cell, envelope, error)
  }

  /** Gives the answer of a turn that is tried again as much time as it had. */
  const grantAgain = (cell: Cell, envelope: Envelope<RunState>) => {
    const request = requests.of(envelope)
    if (request && !isWallClock(envelope)) request.grantedMs += responseMsOf(cell, envelope)
  }

  /**
   * Retries or fails a request without a response in time, and returns its next deadline. The caller's wait counts from
   * the start of the first attempt, also while the agent is not running.
   */
  const enforceResponseLimit = (cell: Cell, envelope: Envelope<RunState>, now: number): number => {
    const request = requests.of(envelope)
    const byWallClock = isWallClock(envelope)
    if (!request || pauses.isPaused(envelope, byWallClock)) return Number.POSITIVE_INFINITY
    const dueBy = answerDueBy(cell, envelope, request, now)
    const respondBy = byWallClock ? dueBy : extendWhileQueued(cell, envelope, dueBy, now)
    if (respondBy > now) return respondBy
    const responseMs = responseMsOf(cell, envelope)
    const times = request.tried === 1 ? '' : `, though it was asked ${request.tried} times`
    const restarted =
      cell.restarts > 0 ? `; it has restarted ${cell.restarts === 1 ? 'once' : `${cell.restarts} times`}` : ''
    // A caller that set its own time would not be helped by another default.
    const setBy = byWallClock
      ? "timeoutPerAgentMs of the strategy, or timeoutMs of the request (models and tools count, people's answers do not)"
      : answerMsOf(limitOf(envelope.memory, envelope.at)) === undefined
        ? 'timeoutMs (communication.responseTimeoutMs)'
        : 'timeoutMs (it was asked with that)'
    const error = new RequestTimeoutError(
      `Agent "${cell.name}" did not answer within ${responseMs + request.grantedMs} ms of the start of its turn${uncounted(pauses.pausedMs(envelope, now, byWallClock), byWallClock)}${times}${restarted}. Raise ${setBy}, or look at what it waits for.`,
      {
        agent: cell.name,
        waitedMs: responseMs + request.grantedMs,
        restarts: cell.restarts,
        tried: request.tried,
      },
    )
    if (!byWallClock && late.askAgain(request)) {
      request.grantedMs += responseMs
      if (request.idempotent) redelivery.beginAgain(cell, envelope, error)
      return enforceResponseLimit(cell, envelope, now)
    }
    const final = byWallClock ? error : redelivery.retryLate(cell, envelope, error)
    if (!final) {
      grantAgain(cell, envelope)
      return enforceResponseLimit(cell, envelope, now)
    }
    late.fail(request, final)
    if (request.caller.settings.info.escalateTo !== cell.settings.info.escalateTo)
      escalations.failed(cell, envelope, final)
    cancellation.withdraw(cell, envelope, final)
    return Number.POSITIVE_INFINITY
  }

  /** Retries or dead-letters messages that have waited too long for the agent. Returns the time of the next limit. */
  const enforceQueueLimit = (cell: Cell, limitMs: number, now: number): number => {
    let earliest = Number.POSITIVE_INFINITY
    for (const envelope of [...cell.mailbox.queued(), ...cell.mailbox.parked, ...cell.notBegun()]) {
      if (envelope.attempt > 1) continue // its turn has begun
      const request = requests.of(envelope)
      const isLate = envelope.waitsSince + limitMs <= now
      if (isLate && request && late.askAgain(request)) envelope.waitsSince = now
      if (envelope.waitsSince + limitMs > now) {
        earliest = Math.min(earliest, envelope.waitsSince + limitMs)
        continue
      }
      const error = new MessageExpiredError(
        `A message waited for agent "${cell.name}" for longer than ${limitMs} ms (communication.queueTimeoutMs). Raise that, or give the agent more instances.`,
        { agent: cell.name, queueTimeoutMs: limitMs, ...(request && { tried: request.tried }) },
      )
      if (request) late.fail(request, error)
      cancellation.withdraw(cell, envelope, error, 'expired')
    }
    return earliest
  }

  const arm = (at: number) => {
    if (at >= due) return
    timer?.cancel()
    due = at
    const expire = () => {
      due = Number.POSITIVE_INFINITY
      arm(sweep(clock.monotonic()))
      loop.wake()
    }
    timer = clock.timer(Math.max(0, at - clock.monotonic()), expire, true)
  }

  /** Checks for a turn whose limits the timer is early enough for: mostly it is set for turns that began before. */
  const isEarly = ({ attempt, index, turn }: { attempt: number; index: number; turn: number }): boolean => {
    const cell = directory.cells[index]
    if (!cell || attempt > 1 || cell.instances.length > 1 || cell.interleaves) return false
    const { first, nested } = cell.mailbox.handed
    if (first?.turn !== turn || nested > 0 || pauses.isKnown(first)) return false
    const { settings } = cell
    if (first.startedAt + responseMsOf(cell, first) < due) return false
    return settings.turnTimeoutMs === false || first.startedAt + settings.turnTimeoutMs >= due
  }

  /** Sets a timer instead of enforcing the deadline at once: no turn may be ended in this callback. */
  pauses.onResume((cell, envelope) => {
    const now = clock.monotonic()
    if (envelope.startedAt !== NOT_YET) arm(turnEndsBy(cell, envelope, now))
    const request = requests.of(envelope)
    if (request) arm(answerDueBy(cell, envelope, request, now))
  })

  return {
    kinds: ['frames', 'turn.started'],
    restored: () => arm(clock.monotonic()),
    next: (batch) => {
      // Turns begin and messages wait only after something was logged; for most batches the timer is early enough
      // already. Each record checks its own agent alone: checking all agents for every turn would cost a large team too
      // much time.
      const queueMs = directory.shortestQueueMs
      for (const record of batch) {
        if (record.kind === 'turn.started') {
          if (isEarly(record)) continue
          for (const each of directory.cells[record.index]?.instances ?? [])
            arm(enforceOpenTurns(each, clock.monotonic()))
        } else if (record.kind === 'frames' && queueMs !== undefined) arm(clock.monotonic() + queueMs)
      }
    },
  }
}

/** Text for a time limit that does not count what models and people take. */
const uncounted = (pausedMs: number, isOfPeople = false) =>
  pausedMs > 0
    ? `, not counting ${Math.round(pausedMs)} ms in which ${isOfPeople ? 'a person' : 'a model or a person'} was waited for`
    : ''

/** Returns the messages whose turn an exit has interrupted and that has not begun again. */
const cutOff = (cell: Cell) => [...cell.mailbox.cutOff(), ...[...cell.notBegun()].filter(({ attempt }) => attempt > 1)]
