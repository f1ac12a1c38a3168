/** `/v1/responses`: answers and events. */
import type { MultiAgentResult, Run } from '../../index.ts'
import { type AnswerPiece, answerOf } from './answer-pieces.ts'
import type { OpenAiError } from './error.ts'
import { responsesUsage } from './usage.ts'

interface Named {
  readonly run: Run<unknown>
  readonly model: string
  readonly previous: string | null
}

const PREFIX = 'resp_'

const idOf = (run: Run<unknown>): string => `${PREFIX}${run.id}`

/** Returns the id of the task of a response. */
export const taskIdOf = (responseId: string): string | undefined =>
  responseId.startsWith(PREFIX) ? responseId.slice(PREFIX.length) : undefined

type Status = 'in_progress' | 'completed' | 'failed'

function bodyOf({ run, model, previous }: Named, status: Status, more: object = {}): object {
  return {
    id: idOf(run),
    object: 'response',
    created_at: Math.floor(run.startedAt / 1_000),
    status,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: previous,
    temperature: null,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    usage: null,
    ...more,
  }
}

const textPart = (text: string) => ({ type: 'output_text', text, annotations: [], logprobs: [] })

const itemOf = ({ run }: Named, status: 'in_progress' | 'completed', content: object[]) => ({
  type: 'message',
  id: `msg_${run.id}`,
  status,
  role: 'assistant',
  content,
})

export function responseOf(named: Named, result: MultiAgentResult<unknown>): object {
  const output = [itemOf(named, 'completed', [textPart(answerOf(result))])]
  return bodyOf(named, 'completed', { output, usage: responsesUsage(result.totalTokenUsage) })
}

/** Yields the frames of a streamed response. */
export async function* responseFrames(
  named: Named,
  pieces: AsyncIterable<AnswerPiece>,
  failed: (error: unknown) => OpenAiError,
): AsyncGenerator<string> {
  let number = 0
  const frame = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...fields })}\n\n`
  const place = { item_id: `msg_${named.run.id}`, output_index: 0, content_index: 0 }
  yield frame('response.created', { response: bodyOf(named, 'in_progress') })
  yield frame('response.in_progress', { response: bodyOf(named, 'in_progress') })
  yield frame('response.output_item.added', { output_index: 0, item: itemOf(named, 'in_progress', []) })
  yield frame('response.content_part.added', { ...place, part: textPart('') })
  let text = ''
  try {
    for await (const piece of pieces) {
      if (piece.kind === 'text') {
        text += piece.text
        yield frame('response.output_text.delta', { ...place, delta: piece.text, logprobs: [] })
      } else if (piece.kind === 'end') {
        if (piece.result.error) throw piece.result.error
        yield frame('response.output_text.done', { ...place, text, logprobs: [] })
        yield frame('response.content_part.done', { ...place, part: textPart(text) })
        const item = itemOf(named, 'completed', [textPart(text)])
        yield frame('response.output_item.done', { output_index: 0, item })
        const usage = responsesUsage(piece.result.totalTokenUsage)
        yield frame('response.completed', { response: bodyOf(named, 'completed', { output: [item], usage }) })
      }
    }
  } catch (error) {
    const { code, message } = failed(error).error
    yield frame('response.failed', { response: bodyOf(named, 'failed', { error: { code, message } }) })
  }
}
