/**
 * A map of the rooms, then the public names.
 *
 *   shared/         errors, one class per failure; time and randomness as an interface; checks of options; texts
 *   mailbox/        messages and how they cross threads
 *   blackboard/     shared knowledge: entries, versions, patterns
 *   actors/         what defines an agent, and all that runs inside its thread
 *   json-schema/    checks by JSON schemas that strangers wrote, in bounds
 *   tools/          the built-in tools, a subpath of its own
 *   mcp/            tools of MCP servers, a subpath of its own
 *   runtime/        the host side: supervisor, runs, log, folds
 *   postgres/       a cluster on PostgreSQL, a subpath of its own
 *   jetstream/      a cluster on NATS JetStream, a subpath of its own
 *   bundling/       a plugin of esbuild that makes one file of a service, a subpath of its own
 *   protocols/      one orchestration strategy per file
 *   registry/       teams written as YAML
 *   store           the contracts of logs and clusters, and their tests: a subpath
 *   models, protocols, telemetry   types and schemas for clients, scripts and telemetry of one's own: subpaths
 *   team            the composition root: runtime and protocols joined
 *   rehearsal       the same for rehearsals
 *   testing         the test kit: a subpath
 *   opentelemetry   spans of all that, for who asks for them
 *   thread-api      the exports of the package inside an agent's thread
 *   service/        how people and programs reach a team: the command line, and HTTP, a subpath of its own
 */

// Teams, agents, tools and protocols: what a program defines and starts.
export type {
  ClusterEvent,
  ClusterEventOptions,
  ClusterOptions,
  ClusterPart,
  ClusterResult,
  ClusterRun,
  ClusterRunOptions,
  ClusterTeam,
} from './runtime/cluster/cluster-team.ts'
export type { ClusterLooks, ClusterRuns } from './runtime/cluster/looks.ts'
export type { StoredPart } from './mailbox/stored-parts.ts'
export type { ToldMessage, ToldPart } from './runtime/runs/told-events.ts'
export {
  type ClusterTeamOptions,
  createTeam,
  defineTeam,
  loadTeam,
  MultiAgentPattern,
  type MultiAgentPatternOptions,
  type Team,
} from './team.ts'
export {
  type AgentDefinition,
  type AgentHandlers,
  agentRef,
  defineAgent,
  type Reply,
} from './actors/definition/definition.ts'
export {
  defineTool,
  type ModelSchema,
  type Schema,
  type Tool,
  type ToolAskOptions,
  type ToolContext,
  type ToolOptions,
} from './actors/definition/tool.ts'
export { type ToolParts, toolParts } from './actors/definition/content.ts'
export { defineProtocol } from './actors/definition/protocol.ts'
export type { OrchestrationConfig } from './protocols/index.ts'

// Options of a team and of its roles.
export type { AgentRole, Capability, ContextStrategy, RoleInfo, ToolReference } from './actors/definition/role.ts'
export type {
  A2aAgent,
  AcpAgent,
  CommunicationConfig,
  RemoteAgent,
  RemotePermission,
  SlowMs,
  SupervisionConfig,
} from './actors/definition/role-config.ts'
export type {
  AgentRegistry,
  BudgetConfig,
  ConversationStore,
  LogPlace,
  Period,
  StateManagement,
  StateOptions,
  StoredConversation,
  SyncPoint,
  TenantsConfig,
  ThreadsConfig,
  TokenLimit,
} from './runtime/settings/options.ts'
export type { ModelPrice, Money, PriceList } from './runtime/settings/money.ts'
export type {
  Block,
  Checkpoint,
  LogState,
  LogStore,
  OpenedLog,
  Position,
  ReadOptions,
  StoredBlock,
} from './runtime/store/log-files.ts'
export type { ModelsConfig } from './runtime/providers/provider.ts'
export type { Clock } from './shared/clock.ts'
export type { Logger } from './actors/definition/tool.ts'

// Messages, contexts, tasks and the blackboard, for handlers and scripts.
export type { AgentMessage, MessageInput, MessageOf, MessageType, TypedMessage } from './mailbox/message.ts'
export type {
  AgentContext,
  AgentRef,
  AgentType,
  AskOptions,
  EscalationOutcome,
  OrchestratorContext,
  Outcome,
  RequestOptions,
  SharedScope,
  SharedState,
  SpawnRole,
  SyncResult,
} from './actors/definition/context.ts'
export type { AgentProgress, AgentStatus, AgentTask, SubtaskProgress } from './actors/definition/task.ts'
export type { TaskInput, TaskStatus } from './actors/definition/task.ts'
export type { Blackboard, BlackboardEntry, QueryFilter, WriteOptions } from './blackboard/entry.ts'
export type { BlackboardView } from './blackboard/views.ts'

// Models; the rest of what a client of one's own needs is in dramatis/models.
export type {
  Completion,
  CompletionRequest,
  ModelClient,
  ModelMessage,
  TokenUsage,
} from './actors/definition/model.ts'

export { jsonOutput } from './runtime/settings/role-shape.ts'

// Runs, and what a team says of itself.
export type {
  EventOptions,
  ResumeOptions,
  Run,
  RunOptions,
  RunOwner,
  SteerInfo,
  SteerReceipt,
  TextOptions,
  ThreadView,
} from './runtime/runs/run.ts'
export type { RunFilter, RunStatus, RunSummary } from './runtime/runs/run.ts'
export type { ApprovalAnswer, ApprovedCall } from './actors/definition/approval.ts'
export type { ApprovalPolicy, ApprovalRule, Approvers } from './actors/definition/tool.ts'
export type { Answerer, AnswerOptions } from './runtime/verbs/approvals.ts'
export type { OpenQuestionInfo } from './runtime/verbs/questions.ts'
export type { SteerOptions } from './runtime/verbs/steering.ts'
export type { Contribution, ContributionReport, MultiAgentResult } from './runtime/runs/result.ts'
export type { Agreed, NamedWait, QuestionVoted, Steered, SteerRead } from './runtime/log/records.ts'
export type { AgentView, MailboxView, MessageView, RunMoment, RunReplay, RunView } from './runtime/views/team-fold.ts'
export type { RuntimeEvent } from './runtime/runs/events.ts'
export type {
  Digest,
  DigestApproval,
  DigestFact,
  DigestProcess,
  DigestQuestion,
  DigestRun,
  DigestSnapshot,
  Wait,
} from './runtime/views/digest-line.ts'
export type {
  GuardedCall,
  Guardrail,
  GuardrailContext,
  Guardrails,
  GuardrailVerdict,
} from './actors/definition/role.ts'
export type { MediaPart, MessagePart, TextPart } from './mailbox/parts.ts'
export type { DeepPartial, StreamPart, SupersededReason } from './runtime/runs/stream-parts.ts'
export { type OrchestrationTrace, sequenceDiagram } from './runtime/runs/trace.ts'
export type { DeadLetter, DeadLetterReason } from './mailbox/dead-letters.ts'
export type { AgentConfig, AgentInstance, ContextInfo } from './runtime/team/agent-instance.ts'
export type { Reloaded } from './runtime/team/roster.ts'
export type { CloseOptions } from './runtime/team/start-stop.ts'
export type { ReloadOptions } from './runtime/supervision/reloads.ts'
export type { Health } from './runtime/views/operator-log.ts'
export type { BudgetUse } from './runtime/verbs/budgets.ts'
export type { OpenTurn, TeamJudgement } from './runtime/views/slow.ts'
export type { WaitCycle } from './runtime/team/digest-state.ts'
export type { Metric } from './runtime/views/prometheus.ts'

// The errors: a class for each failure.
export {
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
  type ErrorCode,
} from './shared/errors.ts'
