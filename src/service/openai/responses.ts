/** `/v1/responses`: answers and events. */
import { NO_TOKENS } from '../../actors/definition/model.ts'
import type { MultiAgentResult, Run, RuntimeEvent, TokenUsage } from '../../index.ts'
import { SpokenWords } from '../../runtime/runs/stream-parts.ts'
import type { ChatRequest, ResponsesRequest } from '../http/openai-request.ts'
import type { HttpError } from '../http/problem.ts'
import { knownEndOf, type ServedTeam } from '../http/task-view.ts'
import { approvalWords } from '../pictures/run-words.ts'

/** A task that was begun for an answer, in this process or elsewhere. */
export interface Begun {
  readonly run: Pick<Run<unknown>, 'id' | 'startedAt'>
  /** Yields its events of these types, until it is over. */
  events(types: RuntimeEvent['type'][], signal: AbortSignal): AsyncIterable<RuntimeEvent<unknown>>
  result(): Promise<Answer>
  /** Resolves when it has ended. Rejects if its client leaves before, or the service is being closed. */
  untilEnd(): Promise<void>
  /** Resolves when it stands in a durable log. */
  written(): Promise<unknown>
  /** Says that its client has left. */
  left(): void
  /** Returns it as a response, as it is now. */
  now(named: Named): object | Promise<object>
}

export type Answer = Pick<MultiAgentResult<unknown>, 'success' | 'finalOutput' | 'data' | 'error' | 'totalTokenUsage'>

export type AnswerPiece =
  | { readonly kind: 'progress'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly result: Answer }

export type Asking = Extract<RuntimeEvent, { type: 'question' }>

/** Says what a task waits for, and where a person answers it. `api`: path of the API. */
export function askingWords(
  { agent, runId, text, kind, choices = [], questionId, digest, ...more }: Asking,
  api: string,
) {
  const { by, groups = [], quorum = 1 } = more
  const policy = kind === 'approval' && by ? ` (${approvalWords({ by, groups, quorum, agreed: [] }, undefined)})` : ''
  const among = choices.length > 0 ? ` (${choices.join(', ')})` : ''
  const given = JSON.stringify({ questionId, ...(digest !== undefined && { digest }), answer: '...' })
  return `${agent} asks a person: ${text}${among}${policy}. It is answered at POST ${api}/tasks/${runId}/answers with ${given}.`
}

/**
 * Yields the words of who speaks as they come: joined they end with the answer. What waits for a person is told between
 * them. An answer that is data comes as a whole, and alone: clients parse what they join. Rejects with what kept the
 * run from beginning.
 */
export async function* answerPieces(
  begun: Pick<Begun, 'events' | 'result'>,
  signal: AbortSignal,
  { api, isData }: { api: string; isData: boolean },
): AsyncGenerator<AnswerPiece> {
  const words = new SpokenWords()
  let working: string | undefined
  for await (const event of begun.events(['turn.started', 'question', ...PIECES], signal)) {
    if (event.type === 'question') {
      const asked = askingWords(event, api)
      if (isData) yield { kind: 'progress', text: `${asked}\n` }
      else for (const text of words.aside(asked)) yield { kind: 'text', text }
    } else if (event.type !== 'turn.started') for (const text of words.of(event)) yield { kind: 'text', text }
    else if (event.agent !== working && !event.agent.startsWith('$')) {
      working = event.agent
      yield { kind: 'progress', text: `${working} works\n` }
    }
  }
  if (signal.aborted) return
  const result = await begun.result()
  if (result.success) for (const text of words.rest(answerOf(result))) yield { kind: 'text', text }
  yield { kind: 'end', result }
}

const PIECES = ['model.delta', 'model.superseded', 'output.delta'] as const

/** The text of an answer; of one that fits a schema its data as JSON. */
function answerOf({ finalOutput, data }: Answer): string {
  return data === undefined || data === null ? (finalOutput ?? '') : JSON.stringify(data)
}

const chatUsage = (usage: TokenUsage) => ({
  prompt_tokens: usage.inputTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: usage.totalTokens,
  prompt_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
})

const responsesUsage = (usage: TokenUsage) => ({
  input_tokens: usage.inputTokens,
  input_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
  total_tokens: usage.totalTokens,
})

interface NamedChat {
  readonly run: Begun['run']
  readonly model: string
}

const headOf = ({ run, model }: NamedChat, object: string) => ({
  id: `chatcmpl-${run.id}`,
  object,
  created: Math.floor(run.startedAt / 1_000),
  model,
})

export const completionOf = (named: NamedChat, result: Answer): object =>
  completionSaying(named, answerOf(result), result.totalTokenUsage)

export function completionSaying(named: NamedChat, content: string, usage: TokenUsage = NO_TOKENS): object {
  return {
    ...headOf(named, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content, refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: chatUsage(usage),
  }
}

/**
 * Yields the frames of a streamed completion. Progress comes as `reasoning_content`, which clients show apart from the
 * answer, or not at all.
 */
export async function* chatFrames(
  named: NamedChat,
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

export interface OpenAiError {
  error: { message: string; type: string; param: string | null; code: string }
}

/** Kinds of errors by status. Clients tell apart by the status; the kind is for people. */
const TYPES: Record<number, string> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

export function openAiError({ code, status, message, details }: HttpError): OpenAiError {
  const type = TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  const { path } = details
  return { error: { message, type, param: typeof path === 'string' && path !== '' ? path : null, code } }
}

/** Fields that a team takes, or that say nothing but themselves. */
const CHAT = ['model', 'messages', 'stream', 'stream_options', 'response_format', 'n', 'tool_choice'] as const
const RESPONSES = [
  'model',
  'input',
  'instructions',
  'previous_response_id',
  'store',
  'background',
  'stream',
  'text',
  'tool_choice',
] as const
const MESSAGE = ['role', 'content', 'tool_calls', 'tool_call_id'] as const
const ITEM = ['type', 'id', 'status', 'role', 'content', 'call_id', 'name', 'arguments', 'output'] as const
const PART = ['type', 'text', 'image_url', 'input_audio', 'file', 'file_data', 'file_url', 'filename'] as const
const DATA = { image_url: ['url'], input_audio: ['data', 'format'], file: ['file_data', 'filename'] } as const

/** Names that fit into a header that every client reads. */
const MOST_NAMES = 50
const LONGEST_NAME = 100

export function ignoredChat(request: ChatRequest): string[] {
  const { messages, stream_options: stream, tool_choice: choice } = request
  return namesOf([
    ...others(request, CHAT),
    ...others(stream, ['include_usage'], 'stream_options.'),
    ...choiceOf(choice),
    ...messages.flatMap((message) => [...others(message, MESSAGE, 'messages.'), ...parts(message.content, 'messages')]),
  ])
}

export function ignoredResponses(request: ResponsesRequest): string[] {
  const { input, text, tool_choice: choice } = request
  const items = typeof input === 'string' ? [] : input
  return namesOf([
    ...others(request, RESPONSES),
    ...others(text, ['format'], 'text.'),
    ...choiceOf(choice),
    ...items.flatMap((item) => [...others(item, ITEM, 'input.'), ...parts(item.content, 'input')]),
  ])
}

function others(given: unknown, known: readonly string[], path = ''): string[] {
  return Object.entries(Object(given)).flatMap(([name, value]) => {
    const isEmpty = value === undefined || value === null || (Array.isArray(value) && value.length === 0)
    return known.includes(name) || isEmpty ? [] : [`${path}${name}`]
  })
}

/** A team calls its own tools, whether its client wants that or not. */
const choiceOf = (choice: unknown): string[] => (choice === 'none' ? ['tool_choice'] : [])

function parts(content: unknown, path: string): string[] {
  if (!Array.isArray(content)) return []
  return content.flatMap((part: object) => [
    ...others(part, PART, `${path}.content.`),
    ...Object.entries(DATA).flatMap(([name, known]) =>
      typeof Reflect.get(part, name) === 'object'
        ? others(Reflect.get(part, name), known, `${path}.content.${name}.`)
        : [],
    ),
  ])
}

function namesOf(names: readonly string[]): string[] {
  const all = [...new Set(names.map((name) => name.slice(0, LONGEST_NAME)))]
  return all.length > MOST_NAMES ? [...all.slice(0, MOST_NAMES), `and ${all.length - MOST_NAMES} more`] : all
}

/** The parts of a request that its response repeats. */
export interface ResponseAsked {
  readonly model: string
  readonly previous: string | null
  /** false: the response is given once, and cannot be retrieved. */
  readonly store: boolean
  /** true: the request does not wait for the end. */
  readonly background: boolean
}

export interface Named extends ResponseAsked {
  readonly run: Begun['run']
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

const idOf = (run: Begun['run']): string => `${PREFIX}${run.id}`

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

export function responseOf(named: Named, result: Answer): object {
  const output = [itemOf(named, 'completed', [textPart(answerOf(result))])]
  return bodyOf(named, 'completed', { output, usage: responsesUsage(result.totalTokenUsage) })
}

export const queuedResponse = (named: Named): object => bodyOf(named, 'queued')

/** Returns a response as it is now. A task that a later process may go on with is in progress. */
export async function responseNow(
  named: Named & { readonly run: Run<unknown> },
  failed: (error: unknown) => OpenAiError,
): Promise<object> {
  const { run } = named
  const end = await knownEndOf(run)
  if (run.status === 'queued') return queuedResponse(named)
  if (!end || run.status === 'interrupted') return bodyOf(named, 'in_progress')
  if (run.status === 'aborted') return bodyOf(named, 'cancelled')
  if ('runId' in end && !end.error) return responseOf(named, end)
  const { code, message } = failed(end.error).error
  return bodyOf(named, 'failed', { error: { code, message } })
}

/** Returns a response whose task waits for a person. `words`: what for; undefined where the answer is data. */
export function responseWaiting(named: Named, words: string | undefined): object {
  const output = words === undefined ? [] : [itemOf(named, 'in_progress', [textPart(words)])]
  return bodyOf(named, 'in_progress', { output })
}

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
