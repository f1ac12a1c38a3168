/** Names the fields of a request in OpenAI's formats that a team has no use for: it answers all the same. */
import type { ChatRequest, ResponsesRequest } from './request.ts'

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
/** Fields of the objects that hold the data of a part. */
const DATA = { image_url: ['url'], input_audio: ['data', 'format'], file: ['file_data', 'filename'] } as const

/** Names that fit into a header that every client reads. */
const MOST_NAMES = 50
const LONGEST_NAME = 100

export function ignoredChat(request: ChatRequest): string[] {
  const { messages, stream_options: stream, response_format: format, tool_choice: choice } = request
  return namesOf([
    ...others(request, CHAT),
    ...others(stream, ['include_usage'], 'stream_options.'),
    ...formatOf(format?.type, format?.json_schema?.schema, 'response_format'),
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
    ...formatOf(text?.format?.type, text?.format?.schema, 'text.format'),
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

/** A team answers in a JSON schema, or as it likes: no other format binds it. */
function formatOf(type: string | undefined, schema: object | undefined, path: string): string[] {
  const isTaken = type === undefined || type === 'text' || (type === 'json_schema' && schema !== undefined)
  return isTaken ? [] : [path]
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
