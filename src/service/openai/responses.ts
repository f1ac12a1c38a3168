/** `/v1/responses`: answers and events. */
import type { MultiAgentResult, Run } from '../../index.ts'
import { knownEndOf } from '../http/run-ends.ts'
import type { ServedTeam } from '../http/task-view.ts'
import { type AnswerPiece, answerOf } from './answer-pieces.ts'
import type { OpenAiError } from './error.ts'
import { responsesUsage } from './usage.ts'

/** The parts of a request that its response repeats. */
export interface ResponseAsked {
  readonly model: string
  readonly previous: string | null
  /** false: the response is given once, and cannot be retrieved. */
  readonly store: boolean
  /** true: the request does not wait for the end. */
  readonly background: boolean
}

interface Named extends ResponseAsked {
  readonly run: Run<unknown>
}

/** Field of the metadata of a run that was begun as a response: what it was asked with. */
export const RESPONSE = 'openaiResponse'

/** Returns what the response of a task was asked with. Any other task is shown as a response of its team. */
export function askedWith({ name }: ServedTeam, { metadata }: Run<unknown>): ResponseAsked {
  const noted = Object.hasOwn(metadata, RESPONSE) ? metadata[RESPONSE] : undefined
  return noted === undefined
    ? { model: name, previous: null, store: true, background: false }
    : (JSON.parse(noted) as ResponseAsked)
}

const PREFIX = 'resp_'

const idOf = (run: Run<unknown>): string => `${PREFIX}${run.id}`

/** Returns the id of the task of a response. */
export const taskIdOf = (responseId: string): string | undefined =>
  responseId.startsWith(PREFIX) ? responseId.slice(PREFIX.length) : undefined

type Status = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled'

function bodyOf({ run, model, previous, store, background }: Named, status: Status, more: object = {}): object {
  return {
    id: idOf(run),
    object: 'response',
    created_at: Math.floor(run.startedAt / 1_000),
    status,
    background,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: previous,
    store,
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

/** Returns a response as it is now. A task that a later process may go on with is in progress. */
export async function responseNow(named: Named, failed: (error: unknown) => OpenAiError): Promise<object> {
  const { run } = named
  const end = await knownEndOf(run)
  if (run.status === 'queued') return bodyOf(named, 'queued')
  if (!end || run.status === 'interrupted') return bodyOf(named, 'in_progress')
  if (run.status === 'aborted') return bodyOf(named, 'cancelled')
  if ('runId' in end && !end.error) return responseOf(named, end)
  const { code, message } = failed(end.error).error
  return bodyOf(named, 'failed', { error: { code, message } })
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
