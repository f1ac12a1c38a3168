/** What a model is shown of a conversation. */
import type { ModelMessage } from './model.ts'
import type { ThinkingTurn } from './thinking-turn.ts'

/** Everything, in its order: the model's own window is the limit. */
export const contextFor = (_turn: ThinkingTurn, messages: readonly ModelMessage[]): readonly ModelMessage[] => messages
