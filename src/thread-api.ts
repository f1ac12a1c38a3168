/**
 * The exports of `dramatis` inside an agent's thread: the same classes and functions as in the thread's own entry, so
 * that `instanceof` works and nothing is loaded twice. Functions that belong to the host throw. A test compares the
 * names with those of the entry: an ES module must list them.
 */

import type * as Dramatis from './index.ts'

const api = (globalThis as { [key: symbol]: unknown })[Symbol.for('dramatis.thread')] as typeof Dramatis

export const { agentRef, defineAgent, defineProtocol, defineTool, toolParts } = api
export const {
  DramatisError,
  ConfigurationError,
  MessageRejectedError,
  UnknownAgentError,
  AgentTerminatedError,
  StartFailedError,
  AgentFailedError,
  AgentCrashedError,
  OutcomeUnknownError,
  RequestTimeoutError,
  MailboxFullError,
  DeadlockError,
  StallError,
  GuardrailError,
  LivelockError,
  SyncPointTimeoutError,
  TapeMissError,
  BudgetExceededError,
  DelegationRefusedError,
  DependencyFailedError,
  TaskRefusedError,
  ToolTimeoutError,
  ToolInputError,
  ToolFailedError,
  ModelError,
  ConsensusError,
  ConversationStoreError,
  PartLostError,
  TurnEndedError,
  TurnTimeoutError,
  MessageExpiredError,
  ReplyInvalidError,
  ChainDepthError,
  StepMismatchError,
  CancelledError,
  RunAbortedError,
  RunEndedError,
  RunTimeoutError,
  LogCorruptError,
  LogHeldError,
  LogLostError,
  LogVersionError,
  ClusterUnreachableError,
  ClusterShardsDifferError,
  ClusterVersionError,
  PastLostError,
  TeamOverloadedError,
  TeamClosedError,
  UnknownRunError,
  AnswerRefusedError,
} = api

const hostOnly = (name: string) => () => {
  throw new api.ConfigurationError(
    `${name} belongs to the host; this is an agent's thread. Keep the team in a module that the agent does not import.`,
    { path: name },
  )
}

export const createTeam = hostOnly('createTeam')
export const defineTeam = hostOnly('defineTeam')
export const jsonOutput = hostOnly('jsonOutput')
export const loadTeam = hostOnly('loadTeam')
export const sequenceDiagram = hostOnly('sequenceDiagram')
export class MultiAgentPattern {
  constructor() {
    hostOnly('MultiAgentPattern')()
  }
}
