/**
 * The errors: a class for each failure that a caller can act on. Every message says what happened, to whom, and what to
 * do; `details` has the same as fields. Class and fields survive threads: `toJSON` on one side, `errorFrom` on the
 * other.
 */

import { BRAND, describe, errorOf, type ThrownData, thrownData } from './thrown.ts'
import { own } from './values.ts'

/** Why a model gave no answer, as data that a caller can switch on. It lies in the details of errors, at any depth. */

const REASONS = [
  'rate_limit',
  'quota',
  'auth',
  'not_found',
  'too_long',
  'rejected',
  'filtered',
  'timeout',
  'unreachable',
  'server',
  'invalid_answer',
  'other',
] as const

/** Faults of answers, where the reason alone does not say what was wrong. */
const FAULTS = [
  'half_part',
  'foreign_part',
  'unreadable',
  'no_parts',
  'broken_off',
  'unknown_end',
  'stream_stalled',
  'too_many_calls',
  'too_many_values',
  'too_large',
  'unknown_tool',
  'no_json',
  'unclosed_json',
  'schema_missed',
  'part_not_taken',
] as const

/**
 * Why a model gave no answer.
 *
 * - `rate_limit`: the provider is asked too often; `quota`: the account has nothing left.
 * - `auth`: no key, a wrong one, or one without the right to this model.
 * - `not_found`: no such model, or a wrong address; `too_long`: the conversation does not fit into the model.
 * - `rejected`: the provider refuses the request; `filtered`: it withholds the answer.
 * - `timeout`: no answer in time; `unreachable`: no connection, or one that broke; `server`: a failure of the
 *   provider's own.
 * - `invalid_answer`: the answer is empty, misses the output schema or is not what its API promises.
 * - `other`: the provider, or a client of your own, does not say why.
 */
export type ModelFailureReason = (typeof REASONS)[number]

/**
 * Says exactly why a model gave no answer: the reason, or one of these.
 *
 * - `half_part`: a part of the answer lacks a field, such as its words or the name of the tool that it calls;
 *   `foreign_part`: it is not what the API has there.
 * - `unreadable`: the answer is no JSON, or broken events; `no_parts`: there is nothing in it.
 * - `broken_off`: the answer ends before its end; `unknown_end`: it ends for a reason that the API does not have.
 * - `stream_stalled`: the stream began, and then nothing came until the call's time was up.
 * - `too_many_calls`, `too_many_values`, `too_large`: the answer is beyond a bound.
 * - `unknown_tool`: the model calls only tools that there are not.
 * - `no_json`, `unclosed_json`, `schema_missed`: the answer in a schema is none.
 * - `part_not_taken`: the model or its API takes no part of that kind, such as an image.
 */
export type ModelFailureCode = ModelFailureReason | (typeof FAULTS)[number]

/** Reason why a model gave no answer, for callers. */
export interface ModelFailure {
  readonly reason: ModelFailureReason
  readonly code: ModelFailureCode
  /** The agent whose model it is. */
  readonly agent?: string
  /** The provider's host, or the name of the entry in `models`. */
  readonly provider?: string
  readonly model?: string
  /** HTTP status, if there was an answer. */
  readonly status?: number
  /** True if the same call can succeed a little later. */
  readonly retryable: boolean
  /** How long the provider wants to be left alone, in ms. */
  readonly retryAfterMs?: number
}

const DEEPEST = 32

/**
 * The failure of a model that lies under an error, be it an instance or data: its own, that of its cause, or the first
 * among the failures that it lists.
 */
export function modelFailureIn(error: unknown, depth = 0): ModelFailure | undefined {
  const { code, details } = Object(error) as { code?: unknown; details?: unknown }
  const fields = Object(details) as Record<string, unknown>
  if (code === 'MODEL' && fields.reason !== undefined) return failureFrom(fields)
  if (depth === DEEPEST) return undefined
  const { cause, failures } = fields
  for (const inner of Array.isArray(failures) ? [cause, ...failures] : [cause]) {
    const found = modelFailureIn(inner, depth + 1)
    if (found) return found
  }
  return undefined
}

function failureFrom({
  reason: given,
  code,
  agent,
  provider,
  model,
  status,
  retryable,
  retryAfterMs,
}: Record<string, unknown>) {
  const reason = REASONS.find((known) => known === given) ?? 'other'
  return {
    reason,
    code: FAULTS.find((known) => known === code) ?? reason,
    ...(typeof agent === 'string' && { agent }),
    ...(typeof provider === 'string' && { provider }),
    ...(typeof model === 'string' && { model }),
    ...(typeof status === 'number' && { status }),
    retryable: retryable === true,
    ...(typeof retryAfterMs === 'number' && { retryAfterMs }),
  }
}

export { describe }

/** The code of each failure, as `error.code`. There is one exported class for each. */
export type ErrorCode =
  | 'CONFIGURATION'
  | 'MESSAGE_REJECTED'
  | 'UNKNOWN_AGENT'
  | 'AGENT_TERMINATED'
  | 'START_FAILED'
  | 'AGENT_FAILED'
  | 'AGENT_CRASHED'
  | 'OUTCOME_UNKNOWN'
  | 'REQUEST_TIMEOUT'
  | 'MAILBOX_FULL'
  | 'DEADLOCK'
  | 'STALL'
  | 'LIVELOCK'
  | 'SYNC_POINT_TIMEOUT'
  | 'BUDGET_EXCEEDED'
  | 'DELEGATION_REFUSED'
  | 'DEPENDENCY_FAILED'
  | 'TASK_REFUSED'
  | 'TOOL_TIMEOUT'
  | 'TOOL_INPUT'
  | 'TOOL_FAILED'
  | 'MODEL'
  | 'CONSENSUS'
  | 'TURN_ENDED'
  | 'TURN_TIMEOUT'
  | 'MESSAGE_EXPIRED'
  | 'REPLY_INVALID'
  | 'CHAIN_DEPTH'
  | 'STEP_MISMATCH'
  | 'CANCELLED'
  | 'RUN_ABORTED'
  | 'RUN_TIMEOUT'
  | 'LOG_CORRUPT'
  | 'LOG_HELD'
  | 'LOG_LOST'
  | 'LOG_VERSION'
  | 'CLUSTER_UNREACHABLE'
  | 'CLUSTER_SHARDS_DIFFER'
  | 'CLUSTER_VERSION'
  | 'PAST_LOST'
  | 'CONVERSATION_STORE'
  | 'PART_LOST'
  | 'GUARDRAIL'
  | 'TEAM_OVERLOADED'
  | 'TEAM_CLOSED'
  | 'UNKNOWN_RUN'
  | 'RUN_ENDED'
  | 'ANSWER_REFUSED'
  | 'TAPE_MISS'

/** An error as data: in a log, in a reply over HTTP, between two threads. */
export interface ErrorData {
  code: ErrorCode
  message: string
  details: Record<string, unknown>
  /** The error that was thrown; its stack points into the user's source. */
  cause?: ThrownData
}

/**
 * The base of all errors of this library. `message` says what happened, to whom, and what to do; `details` has the same
 * as fields; `cause` is what was thrown, if anything was.
 *
 * @example
 * try {
 *   await context.request('critic', draft)
 * } catch (error) {
 *   if (error instanceof RequestTimeoutError) return draft
 *   throw error
 * }
 */
export class DramatisError extends Error {
  declare readonly code: ErrorCode
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    Object.defineProperty(this, 'code', { value: code, enumerable: true })
    this.details = details
    this.name = new.target.name
  }

  /**
   * Why a model gave no answer, where that is what led to this error, however deep it lies: an agent that a model plays
   * fails with `AGENT_FAILED`, and a script with what its agents failed with. Of several failures it is the first.
   *
   * @example
   * const { error } = await team.execute('Should we migrate?')
   * if (error?.modelFailure?.reason === 'rate_limit') await sleep(error.modelFailure.retryAfterMs ?? 60_000)
   */
  get modelFailure(): ModelFailure | undefined {
    return modelFailureIn(this)
  }

  /** As data, also for JSON: with `modelFailure` where there is one. */
  toJSON(): { code: ErrorCode; message: string; details: object; modelFailure?: ModelFailure } {
    const { code, message, modelFailure } = this
    return { code, message, details: plainDetails(this.details), ...(modelFailure && { modelFailure }) }
  }
}

Object.defineProperty(DramatisError.prototype, BRAND, { value: true })

// A program can have two copies of this library: one within a bundle of an agent, or one that Bun and Deno give a
// thread, since they know no conditions there. `instanceof` holds for the errors of both. Defined here, it leaves the
// narrowing of types as it is.
Object.defineProperty(DramatisError, Symbol.hasInstance, {
  value(this: unknown, error: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, error)) return true
    if (typeof error !== 'object' || error === null || !(BRAND in error) || !Object.hasOwn(error, 'code')) return false
    return this === DramatisError || own<unknown>(classes, String(Reflect.get(error, 'code'))) === this
  },
})

type Coded<Code extends ErrorCode> = new (
  message: string,
  details?: Record<string, unknown>,
  cause?: unknown,
) => DramatisError & { readonly code: Code }

/** The base of one error class: it fixes the code, the class gives the name. */
function coded<Code extends ErrorCode>(code: Code): Coded<Code> {
  return class extends DramatisError {
    declare readonly code: Code
    constructor(message: string, details?: Record<string, unknown>, cause?: unknown) {
      super(code, message, details, cause)
    }
  }
}

/** An option that cannot work, found before any message is handled. `details.path` names it. */
export class ConfigurationError extends coded('CONFIGURATION') {}
/**
 * A message or a value that is no message or no JSON, is larger than `maxMessageBytes`, or is not taken: a part that
 * the role does not accept (`accepts`), a write over a newer version (`ifVersion`), a message of an untrusted agent.
 */
export class MessageRejectedError extends coded('MESSAGE_REJECTED') {}
/** No agent of the team has that name. */
export class UnknownAgentError extends coded('UNKNOWN_AGENT') {}
/** The agent is stopped for good; what it had queued is in the dead letters. */
export class AgentTerminatedError extends coded('AGENT_TERMINATED') {}
/** The agent failed twice while it started. */
export class StartFailedError extends coded('START_FAILED') {}
/**
 * The handler threw, or the model that plays the agent gave no answer (`modelFailure`). `cause` has the stack of what
 * was thrown.
 */
export class AgentFailedError extends coded('AGENT_FAILED') {}
/** The agent's thread died while it handled the message, more often than the message may be tried. */
export class AgentCrashedError extends coded('AGENT_CRASHED') {}
/** A step that may not run twice was under way when its thread died: it may have happened, or not. */
export class OutcomeUnknownError extends coded('OUTCOME_UNKNOWN') {}
/**
 * No response within `responseTimeoutMs` of the start of the callee's turn; `details.tried` is how often it was asked.
 */
export class RequestTimeoutError extends coded('REQUEST_TIMEOUT') {}
/**
 * The recipient's mailbox is full, and its overflow policy has refused or dropped the message; `details.overflow` says
 * which.
 */
export class MailboxFullError extends coded('MAILBOX_FULL') {}
/** Agents wait for each other in a circle. */
export class DeadlockError extends coded('DEADLOCK') {}
/** A run waits although nothing is left that could go on. */
export class StallError extends coded('STALL') {}
/** Agents are busy without progress. */
export class LivelockError extends coded('LIVELOCK') {}
/**
 * Not every required agent arrived at the sync point in time (`details.missing`), or this one arrived after it had
 * ended without it.
 */
export class SyncPointTimeoutError extends coded('SYNC_POINT_TIMEOUT') {}
/** A token budget is used up, or a call does not fit into what is left of it. */
export class BudgetExceededError extends coded('BUDGET_EXCEEDED') {}
/**
 * The delegation graph does not allow that delegation, it is nested too deeply (`details.bound` names the bound), or
 * the task can never be done as it is: its deadline is over, its agent lacks a capability, it depends on a task that
 * there is not, or that waits for it.
 */
export class DelegationRefusedError extends coded('DELEGATION_REFUSED') {}
/**
 * A task that this one depends on was not completed: `details.dependency` is its id, `details.status` what became of
 * it.
 */
export class DependencyFailedError extends coded('DEPENDENCY_FAILED') {}
/** The agent refused the task with `context.refuse(reason)`. */
export class TaskRefusedError extends coded('TASK_REFUSED') {}
/** A tool did not finish within its time limit. */
export class ToolTimeoutError extends coded('TOOL_TIMEOUT') {}
/** The arguments of a tool call miss its schema. */
export class ToolInputError extends coded('TOOL_INPUT') {}
/** A tool threw, its output is no JSON, or a person did not approve the call. */
export class ToolFailedError extends coded('TOOL_FAILED') {}
/** A model's provider answered wrongly or not at all; `modelFailure.reason` says why. */
export class ModelError extends coded('MODEL') {}
/** The agents did not agree: nobody won, and there is nobody to break the tie. */
export class ConsensusError extends coded('CONSENSUS') {}
/** A verb was used after its turn had ended. */
export class TurnEndedError extends coded('TURN_ENDED') {}
/** The handler did not settle within `turnTimeoutMs`, or not within the `timeoutMs` of a reload that waits for it. */
export class TurnTimeoutError extends coded('TURN_TIMEOUT') {}
/** The message waited in a mailbox for longer than `queueTimeoutMs`. */
export class MessageExpiredError extends coded('MESSAGE_EXPIRED') {}
/** The reply is nothing that a reply can be, or misses the agent's output schema. */
export class ReplyInvalidError extends coded('REPLY_INVALID') {}
/**
 * A request came back to an agent that waits for it (`reentrancy: 'chain'`), once more than a chain may;
 * `details.limit` is the bound.
 */
export class ChainDepthError extends coded('CHAIN_DEPTH') {}
/**
 * The code of a turn has changed: it did not ask again for a step that its earlier attempt had done, and in a run of an
 * earlier process it came to another step, which was not done.
 */
export class StepMismatchError extends coded('STEP_MISMATCH') {}
/** The caller withdrew the request. */
export class CancelledError extends coded('CANCELLED') {}
/** The run was aborted by its caller or by `close()`. */
export class RunAbortedError extends coded('RUN_ABORTED') {}
/** The run took longer than `globalTimeoutMs` or its own `timeoutMs`. */
export class RunTimeoutError extends coded('RUN_TIMEOUT') {}
/** A durable log holds something that no version of this library wrote: `details` has segment, offset and runs. */
export class LogCorruptError extends coded('LOG_CORRUPT') {}
/** Another process has the durable log: `details` has its pid and host, unless the log was only read. */
export class LogHeldError extends coded('LOG_HELD') {}
/** A durable log cannot be opened or written any more: the disk failed, or another process has taken the log. */
export class LogLostError extends coded('LOG_LOST') {}
/** A later version of this library wrote the durable log, in a format that this one cannot read. */
export class LogVersionError extends coded('LOG_VERSION') {}
/** The engine of a cluster cannot be reached. */
export class ClusterUnreachableError extends coded('CLUSTER_UNREACHABLE') {}
/** The cluster was begun with another number of shards than this process says. */
export class ClusterShardsDifferError extends coded('CLUSTER_SHARDS_DIFFER') {}
/** A later version of this library made the tables of the cluster. */
export class ClusterVersionError extends coded('CLUSTER_VERSION') {}
/** A failover of a cluster's database has lost its last moments, and this run with them: it may be done in part. */
export class PastLostError extends coded('PAST_LOST') {}
/** A guardrail refuses an input, an output or a call of a tool. */
export class GuardrailError extends coded('GUARDRAIL') {}
/** The store of conversations (`conversations`) has failed, is late, or gives what is no conversation. */
export class ConversationStoreError extends coded('CONVERSATION_STORE') {}
/** The bytes of a stored part are gone, or the team had no room for them. */
export class PartLostError extends coded('PART_LOST') {}
/**
 * `maxConcurrentRuns` run and `maxQueuedRuns` wait: `execute` resolves with it, `launch` throws it. Or a run has made
 * `maxSpawnedAgents` agents: `spawn` and `defineAgent` reject with it.
 */
export class TeamOverloadedError extends coded('TEAM_OVERLOADED') {}
/** The team was closed. */
export class TeamClosedError extends coded('TEAM_CLOSED') {}
/** No run has that id, or it has left the log. */
export class UnknownRunError extends coded('UNKNOWN_RUN') {}
/** The run has ended, or does not go on here: words for it (`run.steer`) are the query of another run. */
export class RunEndedError extends coded('RUN_ENDED') {}
/** Somebody answered an approval that is for others, or has changed: `details` has runId, questionId, by and how. */
export class AnswerRefusedError extends coded('ANSWER_REFUSED') {}
/**
 * A team under playback asks a model or a tool what its tape has no answer to: `details` has agent, kind, name, and
 * path, at, before and now of the first difference from the nearest ask that the tape has.
 */
export class TapeMissError extends coded('TAPE_MISS') {}

const classes: { readonly [Code in ErrorCode]: Coded<Code> } = {
  CONFIGURATION: ConfigurationError,
  MESSAGE_REJECTED: MessageRejectedError,
  UNKNOWN_AGENT: UnknownAgentError,
  AGENT_TERMINATED: AgentTerminatedError,
  START_FAILED: StartFailedError,
  AGENT_FAILED: AgentFailedError,
  AGENT_CRASHED: AgentCrashedError,
  OUTCOME_UNKNOWN: OutcomeUnknownError,
  REQUEST_TIMEOUT: RequestTimeoutError,
  MAILBOX_FULL: MailboxFullError,
  DEADLOCK: DeadlockError,
  STALL: StallError,
  LIVELOCK: LivelockError,
  SYNC_POINT_TIMEOUT: SyncPointTimeoutError,
  BUDGET_EXCEEDED: BudgetExceededError,
  DELEGATION_REFUSED: DelegationRefusedError,
  DEPENDENCY_FAILED: DependencyFailedError,
  TASK_REFUSED: TaskRefusedError,
  TOOL_TIMEOUT: ToolTimeoutError,
  TOOL_INPUT: ToolInputError,
  TOOL_FAILED: ToolFailedError,
  MODEL: ModelError,
  CONSENSUS: ConsensusError,
  TURN_ENDED: TurnEndedError,
  TURN_TIMEOUT: TurnTimeoutError,
  MESSAGE_EXPIRED: MessageExpiredError,
  REPLY_INVALID: ReplyInvalidError,
  CHAIN_DEPTH: ChainDepthError,
  STEP_MISMATCH: StepMismatchError,
  CANCELLED: CancelledError,
  RUN_ABORTED: RunAbortedError,
  RUN_TIMEOUT: RunTimeoutError,
  LOG_CORRUPT: LogCorruptError,
  LOG_HELD: LogHeldError,
  LOG_LOST: LogLostError,
  LOG_VERSION: LogVersionError,
  CLUSTER_UNREACHABLE: ClusterUnreachableError,
  CLUSTER_SHARDS_DIFFER: ClusterShardsDifferError,
  CLUSTER_VERSION: ClusterVersionError,
  PAST_LOST: PastLostError,
  CONVERSATION_STORE: ConversationStoreError,
  PART_LOST: PartLostError,
  GUARDRAIL: GuardrailError,
  TEAM_OVERLOADED: TeamOverloadedError,
  TEAM_CLOSED: TeamClosedError,
  UNKNOWN_RUN: UnknownRunError,
  RUN_ENDED: RunEndedError,
  ANSWER_REFUSED: AnswerRefusedError,
  TAPE_MISS: TapeMissError,
}

/**
 * Makes an error again from its data, which somebody else wrote. What is no error data becomes an `AgentFailedError`
 * that shows what there is.
 */
export function errorFrom(data: ErrorData): DramatisError {
  const { code, message, details, stack, cause }: Partial<ErrorData> & { stack?: unknown } = Object(data)
  const Class: Coded<ErrorCode> = code !== undefined && Object.hasOwn(classes, code) ? classes[code] : AgentFailedError
  const text = typeof message === 'string' ? message : 'It failed with an error that cannot be read.'
  const fields = typeof details === 'object' && details !== null && !Array.isArray(details) ? details : {}
  // Earlier versions wrote the stack of the cause alone.
  const thrown = typeof stack === 'string' ? { message: stack.split('\n', 1)[0], stack } : cause
  return new Class(text, fields, thrown === undefined ? undefined : errorOf(thrown))
}

/** An error as data, with its cause, whose stack points into the source on the other side too. */
export function errorData(error: DramatisError): ErrorData {
  const data: ErrorData = { code: error.code, message: String(error.message), details: plainDetails(error.details) }
  if (error.cause !== undefined) data.cause = thrownData(error.cause)
  return data
}

/** An error has to arrive, whatever its thrower has put into it: what JSON has no word for is described. */
function plainDetails(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(details ?? {}).map(([key, value]) => [key, isWritable(value) ? value : describe(value)]),
  )
}

function isWritable(value: unknown): boolean {
  try {
    return value === undefined || JSON.stringify(value) !== undefined
  } catch {
    return false // a cycle, a bigint
  }
}

/**
 * A value in a few words, for a message about it. What is inside of objects stays there: it can be a key or a prompt.
 */
export function shown(value: unknown): string {
  try {
    return shownAs(value)
  } catch {
    return 'what throws when it is looked at'
  }
}

function shownAs(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value)
    case 'object': {
      const name = value.constructor?.name ?? 'Object'
      if (name === 'Object' || name === '') return 'an object'
      return `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`
    }
    case 'function':
      return 'a function'
    case 'symbol':
      return 'a symbol'
    default:
      return String(value)
  }
}
