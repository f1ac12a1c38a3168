/** `/v1/chat/completions`: answers and chunks. */
import type { MultiAgentResult, Run } from '../../index.ts'
import type { AnswerPiece } from './answer-pieces.ts'
import { answerOf } from './answer-pieces.ts'
import type { OpenAiError } from './error.ts'
import { chatUsage } from './usage.ts'

interface Named {
  readonly run: Run<unknown>
  readonly model: string
}

const headOf = ({ run, model }: Named, object: string) => ({
  id: `chatcmpl-${run.id}`,
  object,
  created: Math.floor(run.startedAt / 1_000),
  model,
})

export function completionOf(named: Named, result: MultiAgentResult<unknown>): object {
  return {
    ...headOf(named, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: answerOf(result), refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: chatUsage(result.totalTokenUsage),
  }
}

/**
 * Yields the frames of a streamed completion. Progress comes as `reasoning_content`, which clients show apart from the
 * answer, or not at all.
 */
export async function* chatFrames(
  named: Named,
  pieces: AsyncIterable<AnswerPiece>,
  includesUsage: boolean,
  failed: (error: unknown) => OpenAiError,
): AsyncGenerator<string> {
  const head = headOf(named, 'chat.completion.chunk')
  const usage = includesUsage ? { usage: null } : {}
  const chunk = (delta: object, finish_reason: 'stop' | null = null) =>
    frame({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...usage })
  yield chunk({ role: 'assistant', content: '' })
  try {
    for await (const piece of pieces) {
      if (piece.kind === 'progress') yield chunk({ reasoning_content: piece.text })
      else if (piece.kind === 'text') yield chunk({ content: piece.text })
      else if (piece.result.error) throw piece.result.error
      else {
        yield chunk({}, 'stop')
        if (includesUsage) yield frame({ ...head, choices: [], usage: chatUsage(piece.result.totalTokenUsage) })
      }
    }
    yield 'data: [DONE]\n\n'
  } catch (error) {
    yield frame(failed(error))
  }
}

const frame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`
