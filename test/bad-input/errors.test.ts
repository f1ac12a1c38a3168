/** The errors themselves: one exported class for each code, the same class and fields on every side of a thread. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import t from 'tap'
import * as dramatis from '../../src/index.ts'
import { DramatisError, type ErrorCode } from '../../src/index.ts'
import { errorData, errorFrom } from '../../src/shared/errors.ts'

/** The compiler sees to it that no code is missing. */
const classes: Record<ErrorCode, string> = {
  CONFIGURATION: 'ConfigurationError',
  MESSAGE_REJECTED: 'MessageRejectedError',
  UNKNOWN_AGENT: 'UnknownAgentError',
  AGENT_TERMINATED: 'AgentTerminatedError',
  START_FAILED: 'StartFailedError',
  AGENT_FAILED: 'AgentFailedError',
  AGENT_CRASHED: 'AgentCrashedError',
  OUTCOME_UNKNOWN: 'OutcomeUnknownError',
  REQUEST_TIMEOUT: 'RequestTimeoutError',
  MAILBOX_FULL: 'MailboxFullError',
  DEADLOCK: 'DeadlockError',
  STALL: 'StallError',
  LIVELOCK: 'LivelockError',
  SYNC_POINT_TIMEOUT: 'SyncPointTimeoutError',
  BUDGET_EXCEEDED: 'BudgetExceededError',
  DELEGATION_REFUSED: 'DelegationRefusedError',
  DEPENDENCY_FAILED: 'DependencyFailedError',
  TASK_REFUSED: 'TaskRefusedError',
  TOOL_TIMEOUT: 'ToolTimeoutError',
  TOOL_INPUT: 'ToolInputError',
  TOOL_FAILED: 'ToolFailedError',
  MODEL: 'ModelError',
  CONSENSUS: 'ConsensusError',
  TURN_ENDED: 'TurnEndedError',
  TURN_TIMEOUT: 'TurnTimeoutError',
  MESSAGE_EXPIRED: 'MessageExpiredError',
  REPLY_INVALID: 'ReplyInvalidError',
  CHAIN_DEPTH: 'ChainDepthError',
  STEP_MISMATCH: 'StepMismatchError',
  CANCELLED: 'CancelledError',
  RUN_ABORTED: 'RunAbortedError',
  RUN_TIMEOUT: 'RunTimeoutError',
  LOG_CORRUPT: 'LogCorruptError',
  LOG_HELD: 'LogHeldError',
  LOG_LOST: 'LogLostError',
  LOG_VERSION: 'LogVersionError',
  CLUSTER_UNREACHABLE: 'ClusterUnreachableError',
  CLUSTER_SHARDS_DIFFER: 'ClusterShardsDifferError',
  CLUSTER_VERSION: 'ClusterVersionError',
  PAST_LOST: 'PastLostError',
  CONVERSATION_STORE: 'ConversationStoreError',
  PART_LOST: 'PartLostError',
  GUARDRAIL: 'GuardrailError',
  TEAM_OVERLOADED: 'TeamOverloadedError',
  TEAM_CLOSED: 'TeamClosedError',
  UNKNOWN_RUN: 'UnknownRunError',
  RUN_ENDED: 'RunEndedError',
  ANSWER_REFUSED: 'AnswerRefusedError',
  TAPE_MISS: 'TapeMissError',
}

type AnyError = new (message: string, details?: Record<string, unknown>, cause?: unknown) => DramatisError
const values: [name: string, value: unknown][] = Object.entries(dramatis)
const isErrorClass = (value: unknown): value is AnyError =>
  typeof value === 'function' && value.prototype instanceof DramatisError
const exported = values.flatMap(([name, value]) => (isErrorClass(value) ? [{ name, Class: value }] : []))

t.test('there is one exported class for each code, and no other', async (t) => {
  const found = exported.map(({ name, Class }) => [new Class('m').code, name])
  t.same(found.sort(), Object.entries(classes).sort())
})

t.test('each has its name, its code, its details and its cause, and is an Error', async (t) => {
  const cause = new Error('why')
  for (const { name, Class } of exported) {
    const error = new Class('what happened', { agent: 'ann' }, cause)
    t.ok(error instanceof Error && error instanceof DramatisError && error instanceof Class)
    t.match(error, { name, message: 'what happened', details: { agent: 'ann' }, cause })
    t.match(error.stack, new RegExp(`^${name}: what happened`))
  }
})

t.test('toJSON has code, message and details; JSON never fails', async (t) => {
  const error = new dramatis.UnknownAgentError('Nobody is called so.', { agent: 'x', agents: ['ann'] })
  const data = { code: 'UNKNOWN_AGENT', message: 'Nobody is called so.', details: { agent: 'x', agents: ['ann'] } }
  t.same(error.toJSON(), data)
  t.same(JSON.parse(JSON.stringify({ error })), { error: data })
  const cycle: Record<string, unknown> = { n: 1n }
  cycle.itself = cycle
  t.same(new dramatis.AgentFailedError('odd', cycle).toJSON().details, { n: '1n', itself: '[object Object]' })
})

t.test('an error made again from its data is of its class, with the stack of its cause', async (t) => {
  const cause = new TypeError('no paper')
  for (const { name, Class } of exported) {
    const error = errorFrom(JSON.parse(JSON.stringify(errorData(new Class('m', { a: 1 }, cause)))))
    t.ok(error instanceof Class, name)
    t.match(error, { name, message: 'm', details: { a: 1 } })
    t.equal((error.cause as Error).stack, cause.stack)
  }
})

t.test('data with a code that nobody knows is an AgentFailedError that shows it', async (t) => {
  const error = errorFrom({ code: 'NO_SUCH' as ErrorCode, message: 'm', details: { a: 1 } })
  t.match(error, { code: 'AGENT_FAILED', message: 'm', details: { a: 1 } })
})

t.test('an error of another copy of the library is an instance of the same class, and of no other', async (t) => {
  const file = join(t.testdir(), 'another.mjs')
  await build({ entryPoints: ['src/shared/errors.ts'], outfile: file, bundle: true, format: 'esm', logLevel: 'silent' })
  const other: typeof dramatis = await import(pathToFileURL(file).href)
  const error = new other.ToolFailedError('broken', { tool: 'saw' })
  t.not(other.ToolFailedError, dramatis.ToolFailedError)
  t.ok(error instanceof dramatis.ToolFailedError && error instanceof DramatisError)
  t.notOk(error instanceof dramatis.ToolInputError)
  t.ok(new dramatis.ToolFailedError('broken') instanceof other.DramatisError)
  t.strictSame(errorFrom(errorData(error)).details, { tool: 'saw' })

  class Own extends dramatis.ToolFailedError {}
  t.ok(new Own('broken') instanceof Own && new Own('broken') instanceof other.ToolFailedError)
  t.notOk(error instanceof Own, 'a class of somebody else has its own instances alone')
  for (const stranger of [undefined, null, 'TOOL_FAILED', { code: 'TOOL_FAILED' }, Object.create(null)])
    t.notOk(stranger instanceof dramatis.ToolFailedError)
})
