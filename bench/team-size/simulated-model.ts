/**
 * A model that takes its time as real ones do, and says what can be said without one: a section's first sentence. Its tokens
 * are counted by the real tokenizer, of what a real model would have been sent.
 */
import type { ModelClient, ModelMessage } from 'dramatis'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'
import { textOf } from '../../src/models.ts'

/** A twentieth of what hosted models take (0.5 s to the first token, 15 ms for each), so that a sweep takes seconds. */
export const LATENCY = { firstTokenMs: 25, tokenMs: 0.75 }

export const simulatedModel: ModelClient = {
  rehearsal: true,
  async *complete(request) {
    const text = firstSentence(request.messages)
    const outputTokens = countTokens(text)
    await passed(LATENCY.firstTokenMs + outputTokens * LATENCY.tokenMs, request.signal)
    yield { text }
    const inputTokens = countPrompt(request)
    yield {
      usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 },
      finishReason: 'stop',
    }
  },
}

function firstSentence(messages: readonly ModelMessage[]): string {
  const asked = textOf(messages.findLast(({ role }) => role === 'user')?.content ?? '')
  const section = asked.slice(asked.indexOf('\n')).trim()
  return /^[\s\S]*?[.:](?=\s|$)/.exec(section)?.[0] ?? section
}

function passed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
}
