/** `dramatis/models`: what a model client of one's own needs (`models: { default: client }`). */
export type {
  Content,
  ContentPart,
  MediaPart,
  ProviderData,
  ReasoningPart,
  TextPart,
} from './actors/definition/content.ts'
export { textOf } from './actors/definition/content.ts'
export type {
  AnswerFunction,
  Completion,
  CompletionRequest,
  EmbedRequest,
  FinishReason,
  ModelClient,
  ModelMessage,
  ModelPiece,
  ModelRequest,
  TokenUsage,
  ToolCall,
  ToolSpec,
} from './actors/definition/model.ts'
export { type ModelMiddleware, wrapModel } from './actors/definition/model-middleware.ts'
export type { ModelOptions, ToolChoice } from './actors/definition/model-options.ts'
export type { FailoverEntry, SwitchReason } from './runtime/providers/failover.ts'
export type { AddressEntry, CallLimits, ClientEntry } from './runtime/providers/provider.ts'
export type { ModelFailure, ModelFailureCode, ModelFailureReason } from './shared/errors.ts'
