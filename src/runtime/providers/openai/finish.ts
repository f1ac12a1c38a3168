/**
 * Reasons for the end of an answer, by the words that servers have for them. Sources: the API references of OpenAI,
 * Mistral, Cohere, Google, Anthropic, OpenRouter and DeepSeek; vLLM, llama.cpp, Text Generation Inference.
 */
import type { FinishReason } from '../../../actors/definition/model.ts'

/** 'error': the provider failed, and the same call can succeed later. */
const WORDS: Readonly<Record<FinishReason | 'error', string>> = {
  stop: 'stop eos eos_token end_turn stop_sequence stop_token complete completed end done finished',
  length: 'length max_tokens max_length max_output_tokens model_length token_limit model_context_window_exceeded',
  tool_calls: 'tool_calls tool_call tool_use function_call',
  content_filter:
    'content_filter content_filtered safety refusal recitation blocklist prohibited_content spii language image_safety guardrail_intervened error_toxic',
  error: 'error malformed_function_call insufficient_system_resource',
}

const REASONS = new Map(
  Object.entries(WORDS).flatMap(([reason, words]) =>
    words.split(' ').map((word) => [word, reason as keyof typeof WORDS]),
  ),
)

/** Returns the reason that a server's word means; undefined if no server is known to use it. */
export const finishOf = (word: string): FinishReason | 'error' | undefined => REASONS.get(word.toLowerCase())
