/**
 * Enforces time limits: of responses (from the start of the callee's turn), of turns, and of messages that wait in a
 * mailbox or for room in one. There is one timer for all, set for the earliest limit; a turn that starts after the
 * timer was set costs nothing. Time that a model or a person takes does not count for responses and turns
 * (verbs/deadline-pauses.ts).
 */

import { answerMsOf, idOf, isWallClockLimit, limitOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Timer } from '../../shared/clock.ts'
import { type DramatisError, MessageExpiredError, RequestTimeoutError, TurnTimeoutError } from '../../shared/errors.ts'
import type { Agent, OpenRequest } from '../host/agent.ts'
import type { Reader } from '../host/journal.ts'
import type { RunState } from '../host/run.ts'
import type { Supervisor } from './host.ts'

/*
 * Requests without an answer by their deadline: rules 32 and 33. They are retried, then escalated, then they fail.
 *
 * The host has both the request and its turn, so a retry needs no second message. The same request, with its id, waits
 * again: for the message in its place in the mailbox, for the turn under way, or for the next attempt after an exit.
 * The reply is what that turn commits, and it commits once.
 */

function askAgain({ journal, logger }: Supervisor, request: OpenRequest): boolean {
  if (request.tried > request.retries) return false
  request.tried += 1
  const { caller, callee, envelope, run, tried } = request
  const { name: agent, index } = callee
  const messageId = idOf(envelope.memory, envelope.at)
  journal.record(run, { kind: 'request.retried', agent, index, caller: caller.name, messageId, tried })
  logger.warn(
    { agent, caller: caller.name, runId: run.id, messageId, tried },
    'a request without an answer by its deadline is asked again',
  )
  return true
}

/** Fails a request. The caller learns it after its manager does. */
function failLate(host: Supervisor, request: OpenRequest, error: DramatisError): void {
  host.overdue(request.run)
  host.escalations.unanswered(request, error)
  host.requests.answerWithError(request, error)
}

/** Interval for checks of a turn whose deadline would have passed, but that waits for work in a queue. */
const QUEUED_LOOK_MS = 1_000

export const timeouts = (host: Supervisor): Reader => {
  const { cancellation, clock, directory, escalations, loop, pauses, redelivery, requests } = host
  let timer: Timer | undefined
  let due = Number.POSITIVE_INFINITY

  const sweep = (now: number): number => {
    let earliest = Number.POSITIVE_INFINITY
    for (const agent of directory.byIndex) {
      if (agent.mailbox.empty && agent.mailbox.pending.length === 0) continue
      for (const each of agent.instances) earliest = Math.min(earliest, enforceOpenTurns(each, now))
      for (const envelope of cutOff(agent)) earliest = Math.min(earliest, enforceResponseLimit(agent, envelope, now))
      if (agent.settings.queueTimeoutMs !== false)
        earliest = Math.min(earliest, enforceQueueLimit(agent, agent.settings.queueTimeoutMs, now))
    }
    return earliest
  }

  /** Enforces the limits of an agent's open turns and of their responses, and returns the time of the next. */
  const enforceOpenTurns = (agent: Agent, now: number): number => {
    let earliest = Number.POSITIVE_INFINITY
    for (const envelope of [...agent.underWay])
      if (envelope.startedAt !== NOT_YET) earliest = Math.min(earliest, enforceTurnLimit(agent, envelope, now))
    return earliest
  }

  const turnEndsBy = ({ settings }: Agent, envelope: Envelope<RunState>, now: number): number =>
    settings.turnTimeoutMs === false
      ? Number.POSITIVE_INFINITY
      : envelope.startedAt + settings.turnTimeoutMs + pauses.pausedMsOfAttempt(envelope, now)

  const responseMsOf = ({ settings }: Agent, { memory, at }: Envelope<RunState>): number => {
    return answerMsOf(limitOf(memory, at)) ?? settings.responseTimeoutMs
  }

  const isWallClock = ({ memory, at }: Envelope<RunState>): boolean => isWallClockLimit(limitOf(memory, at))

  const answerDueBy = (agent: Agent, envelope: Envelope<RunState>, { grantedMs }: OpenRequest, now: number): number =>
    envelope.begunAt + responseMsOf(agent, envelope) + grantedMs + pauses.pausedMs(envelope, now, isWallClock(envelope))

  /**
   * Returns the deadline. If it would have passed, it is put off by the time that the work the turn waits for has
   * queued behind models and people.
   */
  const extendWhileQueued = (agent: Agent, envelope: Envelope<RunState>, dueBy: number, now: number): number => {
    if (dueBy > now) return dueBy
    const later = dueBy + pauses.inLineMs(agent, envelope, now)
    return later > now ? Math.max(later, now + QUEUED_LOOK_MS) : later
  }

  /** Ends a turn that is late, else enforces the limit of its response. Returns the time of the next limit. */
  const enforceTurnLimit = (agent: Agent, envelope: Envelope<RunState>, now: number): number => {
    const dueBy = turnEndsBy(agent, envelope, now) // notes the begin of the attempt, also if it is paused from there on
    if (envelope.cancelled || envelope.retries?.late) return Number.POSITIVE_INFINITY
    if (pauses.isPaused(envelope)) return enforceResponseLimit(agent, envelope, now)
    const { turnTimeoutMs } = agent.settings
    const endBy = extendWhileQueued(agent, envelope, dueBy, now)
    if (endBy > now) return Math.min(endBy, enforceResponseLimit(agent, envelope, now))
    const error = new TurnTimeoutError(
      `A turn of agent "${agent.name}" did not end within ${turnTimeoutMs} ms${uncounted(pauses.pausedMsOfAttempt(envelope, now))}. Raise limits.turnTimeoutMs, or look at what its handler waits for.`,
      { agent: agent.name, turnTimeoutMs },
    )
    const final = redelivery.retryLate(agent, envelope, error)
    if (final) fail(agent, envelope, final)
    else grantAgain(agent, envelope)
    return Number.POSITIVE_INFINITY
  }

  const fail = (agent: Agent, envelope: Envelope<RunState>, error: DramatisError) => {
    escalations.failed(agent, envelope, error)
    cancellation.fail(agent, envelope, error)
  }

  const grantAgain = (agent: Agent, envelope: Envelope<RunState>) => {
    const request = requests.of(envelope)
    if (request && !isWallClock(envelope)) request.grantedMs += responseMsOf(agent, envelope)
  }

  /**
   * Retries or fails a request without a response in time, and returns its next deadline. The caller's wait counts from
   * the start of the first attempt, also while the agent is not running.
   */
  const enforceResponseLimit = (agent: Agent, envelope: Envelope<RunState>, now: number): number => {
    const request = requests.of(envelope)
    const byWallClock = isWallClock(envelope)
    if (!request || pauses.isPaused(envelope, byWallClock)) return Number.POSITIVE_INFINITY
    const dueBy = answerDueBy(agent, envelope, request, now)
    const respondBy = byWallClock ? dueBy : extendWhileQueued(agent, envelope, dueBy, now)
    if (respondBy > now) return respondBy
    const responseMs = responseMsOf(agent, envelope)
    const times = request.tried === 1 ? '' : `, though it was asked ${request.tried} times`
    const restarted =
      agent.restarts > 0 ? `; it has restarted ${agent.restarts === 1 ? 'once' : `${agent.restarts} times`}` : ''
    // A caller that set its own time would not be helped by another default.
    const setBy = byWallClock
      ? "timeoutPerAgentMs of the strategy, or timeoutMs of the request (models and tools count, people's answers do not)"
      : answerMsOf(limitOf(envelope.memory, envelope.at)) === undefined
        ? 'timeoutMs (communication.responseTimeoutMs)'
        : 'timeoutMs (it was asked with that)'
    const error = new RequestTimeoutError(
      `Agent "${agent.name}" did not answer within ${responseMs + request.grantedMs} ms of the start of its turn${uncounted(pauses.pausedMs(envelope, now, byWallClock), byWallClock)}${times}${restarted}. Raise ${setBy}, or look at what it waits for.`,
      {
        agent: agent.name,
        waitedMs: responseMs + request.grantedMs,
        restarts: agent.restarts,
        tried: request.tried,
      },
    )
    if (!byWallClock && askAgain(host, request)) {
      request.grantedMs += responseMs
      if (request.idempotent) redelivery.beginAgain(agent, envelope, error)
      return enforceResponseLimit(agent, envelope, now)
    }
    const final = byWallClock ? error : redelivery.retryLate(agent, envelope, error)
    if (!final) {
      grantAgain(agent, envelope)
      return enforceResponseLimit(agent, envelope, now)
    }
    failLate(host, request, final)
    if (request.caller.settings.info.escalateTo !== agent.settings.info.escalateTo)
      escalations.failed(agent, envelope, final)
    cancellation.withdraw(agent, envelope, final)
    return Number.POSITIVE_INFINITY
  }

  /** Retries or dead-letters messages that have waited too long for the agent. Returns the time of the next limit. */
  const enforceQueueLimit = (agent: Agent, limitMs: number, now: number): number => {
    let earliest = Number.POSITIVE_INFINITY
    for (const envelope of [...agent.mailbox.queued(), ...agent.mailbox.pending, ...agent.notBegun()]) {
      if (envelope.attempt > 1) continue // its turn has begun
      const request = requests.of(envelope)
      const isLate = envelope.waitsSince + limitMs <= now
      if (isLate && request && askAgain(host, request)) envelope.waitsSince = now
      if (envelope.waitsSince + limitMs > now) {
        earliest = Math.min(earliest, envelope.waitsSince + limitMs)
        continue
      }
      const error = new MessageExpiredError(
        `A message waited for agent "${agent.name}" for longer than ${limitMs} ms (communication.queueTimeoutMs). Raise that, or give the agent more instances.`,
        { agent: agent.name, queueTimeoutMs: limitMs, ...(request && { tried: request.tried }) },
      )
      if (request) failLate(host, request, error)
      cancellation.withdraw(agent, envelope, error, 'expired')
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
    const agent = directory.byIndex[index]
    if (!agent || attempt > 1 || agent.instances.length > 1 || agent.interleaves) return false
    const { first, nested } = agent.mailbox.handed
    if (first?.turn !== turn || nested > 0 || pauses.isKnown(first)) return false
    const { settings } = agent
    if (first.startedAt + responseMsOf(agent, first) < due) return false
    return settings.turnTimeoutMs === false || first.startedAt + settings.turnTimeoutMs >= due
  }

  /** Sets a timer instead of enforcing the deadline at once: no turn may be ended in this callback. */
  pauses.onResume((agent, envelope) => {
    const now = clock.monotonic()
    if (envelope.startedAt !== NOT_YET) arm(turnEndsBy(agent, envelope, now))
    const request = requests.of(envelope)
    if (request) arm(answerDueBy(agent, envelope, request, now))
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
          for (const each of directory.byIndex[record.index]?.instances ?? [])
            arm(enforceOpenTurns(each, clock.monotonic()))
        } else if (record.kind === 'frames' && queueMs !== undefined) arm(clock.monotonic() + queueMs)
      }
    },
  }
}

const uncounted = (pausedMs: number, isOfPeople = false) =>
  pausedMs > 0
    ? `, not counting ${Math.round(pausedMs)} ms in which ${isOfPeople ? 'a person' : 'a model or a person'} was waited for`
    : ''

/** Returns the messages whose turn an exit has interrupted and that has not begun again. */
const cutOff = (agent: Agent) => [
  ...agent.mailbox.cutOff(),
  ...[...agent.notBegun()].filter(({ attempt }) => attempt > 1),
]
