/** Ends turns: in a commit, or in an error. Withdrawn turns are in cancellation.ts. */

import type { PatchNotice } from '../../actors/definition/assignment.ts'
import { errorOf, jsonIn } from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  BEGINS_AGAIN,
  CORRELATION,
  FAILED,
  HAS_METADATA,
  ID,
  idOf,
  KIND,
  type Memory,
  NOTHING,
  REQUEST,
  readBody,
  STARTED,
  senderOf,
  setCorrelation,
  setFlag,
  setKind,
  TIME,
  turnOf,
  WHO,
} from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET, type TurnRetries } from '../../mailbox/mailbox.ts'
import {
  AgentCrashedError,
  CancelledError,
  DramatisError,
  describe,
  type ErrorCode,
  errorData,
  type ModelFailureCode,
  modelFailureIn,
  OutcomeUnknownError,
  StepMismatchError,
} from '../../shared/errors.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Agent } from './agent.ts'
import type { Cancellation } from './cancellation.ts'
import type { Core } from './core.ts'
import { USER_INDEX } from './directory.ts'
import type { Dispatcher } from './dispatcher.ts'
import { rememberHandedAnswers } from './handed-answers.ts'
import type { Incarnation } from './incarnation.ts'
import { isForgotten, isReadAlready, unknownStep } from './journal.ts'
import type { Mailboxes, Requests } from './mailboxes.ts'
import type { Permits } from './permits.ts'
import { type RunState, TurnFrames } from './run.ts'

// The estimated duration of an agent's turns adapts quickly to short turns, since a long one may be the machine's
// fault. For an agent whose turns are truly long, a sixteenth of the difference per turn is enough.
const TURNS_TO_SPEED = 2
const TURNS_TO_SLOW = 16
/** Limit on the patches of one turn: one of its agent's state, and one of its run's. */
const MOST_PATCHES = 2

export class Commits {
  readonly #core: Core
  readonly #cancellation: Cancellation
  readonly #permits: Permits
  readonly #mailboxes: Mailboxes
  readonly #redelivery: Redelivery
  readonly #requests: Requests

  constructor(
    core: Core,
    cancellation: Cancellation,
    permits: Permits,
    mailboxes: Mailboxes,
    redelivery: Redelivery,
    requests: Requests,
  ) {
    this.#core = core
    this.#cancellation = cancellation
    this.#permits = permits
    this.#mailboxes = mailboxes
    this.#redelivery = redelivery
    this.#requests = requests
  }

  end(agent: Agent, incarnation: Incarnation, envelope: Envelope<RunState>, memory: Memory, at: number): void {
    const { run, turn } = envelope
    const { i32, f64 } = memory
    const flags = (i32[(at >> 2) + KIND]! >>> 8) & 0xff
    const failed = (flags & FAILED) !== 0
    if (incarnation.quiet.any) incarnation.quiet.goesOn(turn)
    if (failed && envelope.onMismatch === 'refuse' && !run.over && !envelope.cancelled) {
      const error = errorOf(memory, at)
      if (error.code === 'STEP_MISMATCH') {
        incarnation.patches.delete(turn)
        setKind(memory, at, NOTHING) // the turn has no end
        return this.#core.turnChanged(agent, envelope, error)
      }
    }
    const { caller, correlation } = addressEnd(envelope, memory, at)
    if (envelope.attempt > 1) this.#cancellation.withdrawRequests(agent, envelope) // what only earlier attempts asked
    if (envelope.announced) i32[(at >> 2) + KIND]! |= ANNOUNCED << 8
    if (failed && this.#redelivery.tryAgain(agent, envelope, memory, at)) {
      incarnation.patches.delete(turn)
      setFlag(memory, at, BEGINS_AGAIN)
      return setCorrelation(memory, at, 0) // a turn that is retried has not answered
    }
    if (failed && envelope.retries && !envelope.cancelled) this.#core.turnFailed(agent, envelope, errorOf(memory, at))
    if (failed && correlation === 0) agent.mailbox.discard(envelope)
    else agent.mailbox.ended(envelope)
    run.messageEnded(envelope)
    agent.turns += 1
    if (agent.suspects.size > 0) agent.suspects.delete(envelope)
    if (!envelope.within) agent.lastEndAt = this.#core.clock.monotonic() // the outer turn of a nested one continues
    const off = Math.max(0, f64[(at >> 3) + TIME]! - f64[(at >> 3) + STARTED]!) - agent.turnMs
    agent.turnMs += off > 0 ? off / TURNS_TO_SLOW : off / TURNS_TO_SPEED
    if (agent.groups.any) agent.groups.forget(turn)
    if (incarnation.patches.size > 0) {
      if (!failed) this.#applyPatches(agent, incarnation, run, turn)
      incarnation.patches.delete(turn)
    }
    if (run.over && run.handoffs > 0) rememberHandedAnswers(this.#core, run) // at the end of the run there was no answer
    this.#mailboxes.freed(agent, envelope.bytes)
    if (agent.isDoneWith(run)) this.#permits.release(run, agent)
    if (!agent.isBare(incarnation)) this.#core.ready.touch(agent)
    if (!failed && (flags & HAS_METADATA) !== 0) {
      const { missed, heard } = readMetadata(memory, at)
      if (missed.length > 0) this.#mismatch(agent, run, memory, at, missed)
      if (heard) this.#heard(agent, envelope)
    }
    if (correlation === 0) {
      if (failed)
        this.#core.journal.deadLetter(run, envelope.memory, envelope.at, envelope.cancelled ? 'cancelled' : 'failed', [
          errorOf(memory, at),
        ])
      return
    }
    const request = this.#core.directory.byIndex[caller]?.open.get(correlation)
    if (request?.envelope === envelope) this.#requests.settle(request, memory, at)
    else this.#settleOther(run, envelope, memory, at, failed)
  }

  /** Settles the end of a turn whose message is not what its sender waits for under that number. */
  #settleOther(run: RunState, envelope: Envelope<RunState>, memory: Memory, at: number, failed: boolean): void {
    const duty = this.#requests.of(envelope)
    if (duty) return this.#requests.conclude(duty, memory, at)
    if (!failed || !envelope.cancelled) this.#core.journal.deadLetter(run, memory, at, 'late', [])
    setCorrelation(memory, at, 0) // the caller has had its one answer
  }

  /** Notes that an agent with code has observed words that a person has said to the run. */
  #heard({ name: agent }: Agent, { run, memory, at }: Envelope<RunState>): void {
    const { steerId } = Object(jsonIn(readBody(memory, at).metadata)) as { steerId?: unknown }
    if (senderOf(memory, at) !== USER_INDEX || typeof steerId !== 'string' || run.over) return
    run.steered(this.#core.journal.record(run, { kind: 'steer.read', steerId, agent, messageId: idOf(memory, at) }))
  }

  #mismatch(agent: Agent, run: RunState, memory: Memory, at: number, missed: string[]): void {
    const error = new StepMismatchError(
      `Agent "${agent.name}" took another way when its turn was tried again: it did not ask again for ${missed.join(', ')}. What the earlier attempt did stands beside it. Decide by the message and by steps alone.`,
      { agent: agent.name, missed },
    )
    this.#core.journal.record(run, { kind: 'step.mismatch', agent: agent.name, messageId: idOf(memory, at), error })
  }

  patch(incarnation: Incarnation, memory: Memory, at: number): void {
    const turn = turnOf(memory, at)
    const notices = incarnation.patches.get(turn) ?? []
    if (notices.length === MOST_PATCHES) throw new Error(`a turn has up to ${MOST_PATCHES} patches`)
    notices.push(Object(jsonIn(readBody(memory, at).data)) as PatchNotice)
    incarnation.patches.set(turn, notices)
  }

  #applyPatches(agent: Agent, incarnation: Incarnation, run: RunState, turn: number): void {
    try {
      for (const notice of incarnation.patches.get(turn) ?? []) this.#core.agentStates.applyPatch(agent, run, notice)
    } catch (error) {
      const text = 'the state that a turn of the agent left cannot be read; it stays what it was'
      this.#core.logger.error({ agent: agent.name, turn, error: describe(error) }, text)
    }
  }
}

/**
 * Sets the recipient and the number of an END frame. The writer has no say in it: the answer goes to the caller, under
 * its number, or to nobody.
 */
function addressEnd(
  { memory: asked, at: from, handedOff }: Envelope<RunState>,
  { i32 }: Memory,
  at: number,
): { caller: number; correlation: number } {
  const source = asked.i32
  const i = from >> 2
  const j = at >> 2
  const isAsked = (source[i + KIND]! & 0xff) === REQUEST && !handedOff
  const correlation = isAsked ? source[i + CORRELATION]! : 0
  const caller = source[i + WHO]! & 0xffff
  i32[j + CORRELATION] = correlation
  i32[j + WHO] = (i32[j + WHO]! & 0xffff) | (caller << 16)
  for (let word = ID; word < ID + 4; word++) i32[j + word] = source[i + word]!
  return { caller, correlation }
}

function readMetadata(memory: Memory, at: number): { missed: string[]; heard: boolean } {
  const { missed, heard } = Object(jsonIn(readBody(memory, at).metadata)) as { missed?: unknown; heard?: unknown }
  return { missed: Array.isArray(missed) ? missed.map(String) : [], heard: heard === true }
}

/**
 * Turns that are tried again, and have done things that the log in memory has given up since: that is read from the
 * durable log first. Until then their messages wait in the mailbox.
 */
export class Recalls {
  readonly #core: Core
  readonly #cancellation: Cancellation
  readonly #reading = new Set<Envelope<RunState>>()

  constructor(core: Core, cancellation: Cancellation) {
    this.#core = core
    this.#cancellation = cancellation
  }

  /** Checks whether a message that is tried again has to wait for the durable log, and begins to read there. */
  holds(agent: Agent, envelope: Envelope<RunState>): boolean {
    if (!isForgotten(envelope)) return false
    if (!this.#reading.has(envelope)) void this.#recall(agent.first, envelope)
    return true
  }

  async #recall(agent: Agent, envelope: Envelope<RunState>): Promise<void> {
    this.#reading.add(envelope)
    const error = await this.#read(agent, envelope).then(
      () => unknownIn(agent, envelope),
      (reason: unknown) => unreadable(agent, reason),
    )
    this.#reading.delete(envelope)
    if (this.#core.loop.closed) return
    if (error) this.#cancellation.bury(agent, envelope, 'failed', error)
    this.#core.ready.touch(agent)
    this.#core.loop.wake()
  }

  async #read(agent: Agent, envelope: Envelope<RunState>): Promise<void> {
    const { run, turn } = envelope
    const to = run.log.forgottenTo
    await this.#core.journal.reread(run, async (entries) => {
      const frames = new TurnFrames(agent.index, turn)
      for await (const entry of entries) {
        if (lastSeq(entry) > to) break
        frames.see(entry)
      }
      frames.to = to
      run.reread.set(envelope, frames)
    })
  }
}

function unknownIn(agent: Agent, envelope: Envelope<RunState>): OutcomeUnknownError | undefined {
  const step = unknownStep(agent, envelope)
  return step && outcomeUnknown(agent, step)
}

/** Makes the error for a turn whose step had begun when it was cut off, and may not run twice. */
function outcomeUnknown(
  { name: agent }: Agent,
  { kind, name }: { kind: 'step' | 'tool'; name: string },
  cause?: DramatisError,
): OutcomeUnknownError {
  const how = cause?.code.endsWith('_TIMEOUT') ? 'was late' : 'died'
  const text = `Agent "${agent}" ${how} while its ${kind} "${name}" was under way: it may have happened, or not, so it is not run again. Mark the ${kind} { idempotent: true } if it may.`
  return new OutcomeUnknownError(text, { agent, [kind]: name }, cause)
}

function unreadable({ name: agent }: Agent, reason: unknown): OutcomeUnknownError {
  const text = `What an earlier attempt of a turn of agent "${agent}" had done cannot be read from the durable log, so the turn is not run again: ${describe(reason)}`
  return new OutcomeUnknownError(text, { agent }, reason instanceof DramatisError ? reason : undefined)
}

/** Codes of failures that stay the same however often the turn is tried. */
const FINAL_CODES: ReadonlySet<unknown> = new Set<ErrorCode>([
  'CONFIGURATION',
  'MESSAGE_REJECTED',
  'UNKNOWN_AGENT',
  'AGENT_TERMINATED',
  'OUTCOME_UNKNOWN',
  'LIVELOCK',
  'BUDGET_EXCEEDED',
  'DELEGATION_REFUSED',
  'DEPENDENCY_FAILED',
  'TASK_REFUSED',
  'TOOL_INPUT',
  'CONSENSUS',
  'TURN_ENDED',
  'REPLY_INVALID',
  'CHAIN_DEPTH',
  'STEP_MISMATCH',
  'CANCELLED',
  'RUN_ABORTED',
  'RUN_TIMEOUT',
  'PART_LOST',
  'GUARDRAIL',
  'TEAM_CLOSED',
  'ANSWER_REFUSED',
])

/**
 * Failures of models that stay the same: the provider refuses, speaks another API or says too much, or the answer
 * stands in the log and so is the same in the next try.
 */
const FINAL_FAILURES: ReadonlySet<unknown> = new Set<ModelFailureCode>([
  'quota',
  'auth',
  'not_found',
  'too_long',
  'rejected',
  'filtered',
  'half_part',
  'foreign_part',
  'unknown_end',
  'too_many_calls',
  'too_many_values',
  'too_large',
  'unknown_tool',
  'no_json',
  'unclosed_json',
  'schema_missed',
  'part_not_taken',
])

/** Number of errors that are looked at, each the cause of the one before. */
const DEEPEST = 32

/** Checks whether nothing would be different the next time. */
function isFinal(error: DramatisError): boolean {
  const failure = modelFailureIn(error)
  if (FINAL_FAILURES.has(failure?.reason) || FINAL_FAILURES.has(failure?.code)) return true
  let data: unknown = errorData(error)
  for (let depth = 0; depth < DEEPEST && typeof data === 'object' && data !== null; depth++) {
    const { code, details } = data as { readonly code?: unknown; readonly details?: unknown }
    const { cause, final } = Object(details) as { readonly cause?: unknown; readonly final?: unknown }
    if (FINAL_CODES.has(code) || final === true) return true
    data = cause
  }
  return false
}

/*
 * Decides on the messages of a dead thread: rules 6 and 7. Each message may be retried, with what the log has of its
 * earlier attempts, unless something forbids it: then its sender is notified.
 */

interface Fate {
  reason: 'cancelled' | 'poison' | 'failed'
  error: DramatisError
}

const NO_RETRIES: Readonly<TurnRetries> = { count: 0, late: undefined, instance: undefined }

export class Redelivery {
  readonly #core: Core
  readonly #cancellation: Cancellation
  readonly #dispatcher: Dispatcher
  readonly #permits: Permits
  readonly #requests: Requests

  constructor(core: Core, cancellation: Cancellation, dispatcher: Dispatcher, permits: Permits, requests: Requests) {
    this.#core = core
    this.#cancellation = cancellation
    this.#dispatcher = dispatcher
    this.#permits = permits
    this.#requests = requests
  }

  /**
   * Rules 6 and 7: redelivers what was under way, at the front of the queue, unless something forbids it. True: a
   * message was poison.
   */
  giveBack(agent: Agent, incarnation: Incarnation, error: DramatisError, print: string | null): boolean {
    const handed = [...agent.mailbox.handed.all()]
    const begun = handed.filter((envelope) => incarnation.begun(envelope))
    const untouched = handed.filter((envelope) => !incarnation.begun(envelope))
    const alone = incarnation.atWork(begun)
    let poisoned = false
    const again = begun.filter((envelope) => {
      const fate =
        this.#hindrance(agent, envelope, error) ??
        this.#charge(agent, incarnation, envelope, error, print, envelope === alone)
      if (!fate) return true
      this.#cancellation.bury(agent, envelope, fate.reason, fate.error)
      if (fate.reason === 'poison') poisoned = true
      return false
    })
    if (!alone) for (const envelope of again) agent.suspects.add(envelope)
    this.#queueAgain(agent, again, untouched, error)
    return poisoned
  }

  /**
   * Takes up a message whose turn was open when an earlier process died. Its next attempt gets what the log has of the
   * earlier ones.
   */
  restore(agent: Agent, envelope: Envelope<RunState>): void {
    envelope.attempt += 1
    envelope.uncharged += 1
    agent.mailbox.restore(envelope, true)
    this.#core.ready.touch(agent)
  }

  /** Buries a message that was taken up if something forbids another attempt of its turn. True: nothing does. */
  judgeTakenUp(agent: Agent, envelope: Envelope<RunState>): boolean {
    const error = new AgentCrashedError(`The process of agent "${agent.name}" ended.`, { agent: agent.name })
    const fate = this.#hindrance(agent, envelope, error)
    if (fate) this.#cancellation.bury(agent, envelope, fate.reason, fate.error)
    return !fate
  }

  /**
   * Rule 1: redelivers what was under way in a thread that was ended because of other agents. No message is charged.
   */
  giveBackUncharged(agent: Agent, incarnation: Incarnation, error: DramatisError): void {
    const handed = [...agent.mailbox.handed.all()]
    const untouched = handed.filter((envelope) => !incarnation.begun(envelope))
    const again = handed.filter((envelope) => {
      if (!incarnation.begun(envelope)) return false
      const fate = this.#hindrance(agent, envelope, error)
      if (fate) this.#cancellation.bury(agent, envelope, fate.reason, fate.error)
      return !fate
    })
    for (const envelope of again) envelope.uncharged += 1
    this.#queueAgain(agent, again, untouched, error)
  }

  #queueAgain(agent: Agent, again: Envelope<RunState>[], untouched: Envelope<RunState>[], error: DramatisError): void {
    for (const envelope of again) {
      if (envelope.retries?.late) this.#countRetry(agent, envelope, error)
      envelope.attempt += 1
      envelope.wasSuspended = false
      envelope.announced = false
      envelope.startedAt = NOT_YET
    }
    for (const envelope of untouched) {
      envelope.announced = false
      envelope.startedAt = NOT_YET
      if (envelope.attempt === 1) envelope.begunAt = NOT_YET
    }
    const dead = untouched.filter((envelope) => envelope.cancelled)
    for (const envelope of dead) this.#cancellation.bury(agent, envelope, 'cancelled', error)
    agent.mailbox.giveBack(
      again,
      untouched.filter((envelope) => !envelope.cancelled),
    )
    this.#core.ready.touch(agent) // another instance may be free
  }

  /** Returns why an interrupted turn may not run again, whatever interrupted it. */
  #hindrance(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): Fate | undefined {
    if (envelope.cancelled || envelope.run.ending) return { reason: 'cancelled', error }
    // A nested turn cannot be redelivered within its outer turn: that one waits for the target of the handoff now.
    if (envelope.within && envelope.handedOff)
      return { reason: 'cancelled', error: cutOffAfterHandoff(agent.name, error) }
    if (isForgotten(envelope)) {
      if (this.#core.journal.isKept) return undefined // what it had done is read, and judged, before it begins again
      const text = `Agent "${agent.name}" died in a turn so long that the log in memory had to forget how it began, so it is not run again. Use shorter turns, or a durable log (stateManagement).`
      return { reason: 'failed', error: new OutcomeUnknownError(text, { agent: agent.name }, error) }
    }
    const step = unknownStep(agent, envelope)
    return step && { reason: 'failed', error: outcomeUnknown(agent, step, error) }
  }

  /**
   * Rule 7: charges a message that was under way when its agent died. A message is not charged if the thread may only
   * have lacked a processor. That often happens to the same few messages, so each is released from a charge only as
   * often as a message may cost a thread (`poisonAttempts`).
   */
  #charge(
    agent: Agent,
    incarnation: Incarnation,
    envelope: Envelope<RunState>,
    error: DramatisError,
    print: string | null,
    alone: boolean,
  ): Fate | undefined {
    if (incarnation.starved && envelope.uncharged < agent.settings.supervision.poisonAttempts) {
      envelope.uncharged += 1
      return undefined
    }
    envelope.deaths ??= []
    const { deaths } = envelope
    const data = errorData(error)
    data.details.epoch = incarnation.epoch
    deaths.push({ error: data, epoch: incarnation.epoch, alone, fingerprint: print })
    const charged = deaths.filter((death) => death.alone)
    const same = print !== null && charged.filter((death) => death.fingerprint === print).length >= 2
    if (charged.length < agent.settings.supervision.poisonAttempts && !same) return undefined
    const epochs = new Set(deaths.map((death) => death.epoch))
    for (const each of agent.instances) each.restartTimes = each.restartTimes.filter(({ epoch }) => !epochs.has(epoch))
    const poison = new AgentCrashedError(
      `Agent "${agent.name}" died ${charged.length} times on this message, ${same ? 'in the same way' : 'which is as often as it may'}; it is not tried again. The last time: ${error.message}`,
      {
        agent: agent.name,
        attempts: envelope.attempt,
        deaths: deaths.map((death) => ({ epoch: death.epoch, message: death.error.message })),
      },
      error.cause ?? error,
    )
    return { reason: 'poison', error: poison }
  }

  // ---- the next attempt

  /** Checks whether a turn that threw has a try left that may end differently. */
  #mayFailAgain({ settings }: Agent, envelope: Envelope<RunState>, error: DramatisError): boolean {
    const { onHandlerError, poisonAttempts } = settings.supervision
    if (error.code !== 'AGENT_FAILED') return false
    if (onHandlerError !== 'fail') return envelope.attempt - envelope.uncharged < poisonAttempts
    const { count } = envelope.retries ?? NO_RETRIES
    if (count >= settings.turnRetries || envelope.handedOff || isFinal(error)) return false
    // A model that hangs may not take the time of the whole run.
    return error.modelFailure?.reason !== 'timeout' || envelope.run.leftMs > settings.modelTimeoutMs
  }

  /**
   * Tells a late turn to stop, so that it begins again when it has: at the latest when the end of its thread has ended
   * it. Returns the error that it ends with if it may not.
   */
  retryLate(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): DramatisError | undefined {
    const { count } = envelope.retries ?? NO_RETRIES
    if (count >= agent.settings.turnRetries || envelope.cancelled || envelope.run.ending || envelope.handedOff)
      return error
    if (!agent.mailbox.holds(envelope) || !agent.incarnation?.begun(envelope)) return error
    if (isForgotten(envelope) || isReadAlready(agent, envelope)) return error
    const step = this.#unknown(agent, envelope)
    if (step) return outcomeUnknown(agent, step, error)
    envelope.retries ??= { ...NO_RETRIES }
    envelope.retries.late = error
    this.#dispatcher.stop(agent, envelope, error)
    return undefined
  }

  #countRetry(agent: Agent, envelope: Envelope<RunState>, thrown: DramatisError): void {
    const { count, late } = envelope.retries ?? NO_RETRIES
    const { memory, at, run } = envelope
    envelope.retries = { count: count + 1, late: undefined, instance: agent.instance }
    const messageId = idOf(memory, at)
    const error = late ?? thrown
    this.#core.journal.record(run, { kind: 'turn.retried', ...agent.whose, messageId, tried: count + 2, error })
  }

  /**
   * Restarts a turn after its caller has retried an idempotent request: the turn is asked to stop, and begins again
   * when it has. It does not restart if a crash has ended it already. Nor does it if a step was under way that may not
   * run twice, or if a part of a model's answer was read.
   */
  beginAgain(agent: Agent, envelope: Envelope<RunState>, reason: DramatisError): void {
    if (!agent.mailbox.holds(envelope) || !agent.incarnation?.begun(envelope)) return
    if (!this.#mayRepeat(agent, envelope)) return
    this.#dispatcher.stop(agent, envelope, reason)
  }

  /** Checks that nothing is known of the turn that may not be done twice. */
  #mayRepeat(agent: Agent, envelope: Envelope<RunState>): boolean {
    if (isForgotten(envelope)) return this.#core.journal.isKept && !agent.settings.playedByModel
    return !this.#unknown(agent, envelope) && !isReadAlready(agent, envelope)
  }

  /** Finds a step of the turn that is under way, in its thread or in the host, and may not run twice. */
  #unknown(agent: Agent, envelope: Envelope<RunState>): ReturnType<typeof unknownStep> {
    const tool = this.#core.unrepeatableTool(agent, envelope.turn)
    return tool === undefined ? unknownStep(agent, envelope) : { kind: 'tool', name: tool }
  }

  /**
   * Rule 0: a handler that threw has failed. By option its turn is retried, in this thread or in a new one. A turn that
   * was told to stop because it was late, or because its request was retried, is retried as well.
   */
  tryAgain(agent: Agent, envelope: Envelope<RunState>, memory: Memory, at: number): boolean {
    const { onHandlerError } = agent.settings.supervision
    const mayBeginAgain = this.#requests.of(envelope)?.idempotent === true
    const mayRetry = onHandlerError !== 'fail' || agent.settings.turnRetries > 0
    if (envelope.cancelled || envelope.run.ending || !(mayRetry || mayBeginAgain)) return false
    const error = errorOf(memory, at)
    const isLate = envelope.retries?.late !== undefined
    const isAskedAgain = !isLate && mayBeginAgain && error.code === 'REQUEST_TIMEOUT'
    if (!isLate && !isAskedAgain && !this.#mayFailAgain(agent, envelope, error)) return false
    if (!this.#mayRepeat(agent, envelope)) return false
    if (!isAskedAgain) this.#countRetry(agent, envelope, error)
    if (!isLate && !isAskedAgain && onHandlerError === 'restart') {
      agent.incarnation?.kill(error)
      // The turn has ended, but not in a commit: the exit of the thread gives it back like any other.
      return true
    }
    envelope.attempt += 1
    envelope.announced = false
    envelope.startedAt = NOT_YET
    agent.mailbox.giveBack([envelope], [])
    if (agent.isDoneWith(envelope.run)) this.#permits.release(envelope.run, agent)
    this.#core.ready.touch(agent)
    return true
  }
}

/** Makes the error for a nested turn that was interrupted after its handoff: nobody waits for the rest of it. */
export const cutOffAfterHandoff = (agent: string, cause?: DramatisError): CancelledError =>
  new CancelledError(
    `A turn of "${agent}" was cut off when it had handed its duty off; what was left of it is not tried again.`,
    { agent },
    cause,
  )
