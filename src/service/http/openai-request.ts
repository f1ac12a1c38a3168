/** Contents in OpenAI's formats: texts, images, sounds and files, as parts of a message. */
import { z } from 'zod'
import { type Content, contentFault, type MediaPart, type MessagePart } from '../../actors/definition/content.ts'
import type { ModelMessage, RunOptions } from '../../index.ts'
import { foreignSchema } from '../../json-schema/foreign-schema.ts'
import { storedIn } from '../../mailbox/stored-parts.ts'
import { shown } from '../../shared/errors.ts'
import { HttpError } from './problem.ts'

/** A part as a client gives it. What else it needs depends on its type. */
const givenPart = z.looseObject({ type: z.string(), text: z.string().optional() })

type GivenPart = z.infer<typeof givenPart>
type Given = string | readonly GivenPart[] | null | undefined

const TEXTS = ['text', 'input_text', 'output_text', 'refusal']

/**
 * Returns a content that may have media: a text where it has none.
 *
 * @throws HttpError for a part that is not taken, or is not whole.
 */
function contentIn(given: Given, path: string): Content {
  if (typeof given === 'string' || !given?.some(({ type }) => !TEXTS.includes(type))) return textIn(given, path)
  return given.map((part, at) => partIn(part, `${path}[${at}]`))
}

/** @throws HttpError for a part that is none. */
function textIn(given: Given, path: string): string {
  if (typeof given === 'string') return given
  return (given ?? [])
    .map(({ type, text = '' }, at) => {
      if (TEXTS.includes(type)) return text
      throw refused(`${path}[${at}].type`, `"${type.slice(0, 100)}": only texts are taken from this role.`)
    })
    .join('')
}

function partIn(part: GivenPart, path: string): MessagePart {
  if (TEXTS.includes(part.type)) return { type: 'text', text: part.text ?? '' }
  return assertTaken(mediaIn(part, path), path)
}

/** @throws HttpError for a part that is not whole, or that names bytes of the service. */
export function assertTaken(media: MediaPart, path: string): MediaPart {
  if (storedIn(media.data)) throw refused(path, 'A reference to stored bytes is not taken: give the bytes, or a URL.')
  const fault = contentFault([media], path)
  if (fault) throw refused(path, `Its data are ${shown(fault.value)}: ${fault.needed}.`)
  return media
}

/** Source: the API reference of OpenAI, Chat Completions (content parts) and Responses (input items). */
function mediaIn(part: GivenPart, path: string): MediaPart {
  switch (part.type) {
    case 'image_url':
    case 'input_image': {
      const { image_url: image } = part
      const url = typeof image === 'string' ? image : Reflect.get(Object(image), 'url')
      return { type: 'image', data: dataIn(part, url, `${path}.image_url`) }
    }
    case 'input_audio': {
      const { data, format } = Object(part.input_audio) as { data?: unknown; format?: unknown }
      const mediaType = format === 'mp3' ? 'audio/mpeg' : `audio/${String(format)}`
      return { type: 'audio', data: dataIn(part, data, `${path}.input_audio.data`), mediaType }
    }
    case 'file':
    case 'input_file': {
      const file = part.type === 'file' ? Object(part.file) : part
      const { file_data: data, file_url: url, filename: name } = file as Record<string, unknown>
      const found = dataIn(file as object, data ?? url, `${path}.${part.type === 'file' ? 'file.' : ''}file_data`)
      return { type: 'file', data: found, ...(typeof name === 'string' && { name }) }
    }
    default: {
      const accepted = 'text, image_url, input_audio, file, input_text, input_image, input_file'
      throw refused(`${path}.type`, `"${part.type.slice(0, 100)}" is no part that a team takes; accepted: ${accepted}.`)
    }
  }
}

function dataIn(part: object, data: unknown, path: string): string {
  if (typeof data === 'string') return data
  const isById = typeof Reflect.get(part, 'file_id') === 'string'
  throw refused(path, `${isById ? 'The id of a file is not taken. ' : ''}A data URL, or a URL, is needed.`)
}

export const refused = (path: string, detail: string): HttpError =>
  new HttpError('CONFIGURATION', `${path}: ${detail}`, { status: 400, details: { path } })

export interface Asked {
  readonly query: string | Content
  readonly messages: ModelMessage[]
}

const toolCall = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
})
const content = z.union([z.string(), z.array(givenPart)]).nullish()

const chatMessage = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content,
  tool_calls: z.array(toolCall).optional(),
  tool_call_id: z.string().optional(),
})

export const chatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(chatMessage).min(1).describe('the last one is the query, and is of a user'),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  response_format: z
    .looseObject({ type: z.string(), json_schema: z.looseObject({ schema: z.looseObject({}).optional() }).optional() })
    .nullish(),
  n: z.number().nullish(),
  tool_choice: z.unknown().optional(),
  functions: z.unknown().optional(),
  modalities: z.unknown().optional(),
  audio: z.unknown().optional(),
})

export const responsesRequest = z.looseObject({
  model: z.string(),
  input: z.union([
    z.string(),
    z.array(
      z.looseObject({
        type: z.string().optional(),
        role: z.enum(['system', 'developer', 'user', 'assistant']).optional(),
        content: z.union([z.string(), z.array(givenPart)]).optional(),
        call_id: z.string().optional(),
        name: z.string().optional(),
        arguments: z.string().optional(),
        output: z.unknown().optional(),
      }),
    ),
  ]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  store: z.boolean().nullish().describe('false: it cannot be retrieved, nor be a previous response'),
  background: z.boolean().nullish().describe('true: the answer is the response as it begins; retrieve it later'),
  stream: z.boolean().nullish(),
  text: z
    .looseObject({ format: z.looseObject({ type: z.string(), schema: z.looseObject({}).optional() }).optional() })
    .nullish(),
  tool_choice: z.unknown().optional(),
})

export type ChatRequest = z.infer<typeof chatRequest>
type ChatMessage = z.infer<typeof chatMessage>
export type ResponsesRequest = z.infer<typeof responsesRequest>

/** @throws HttpError for what a team cannot do. */
export function askedIn(request: ChatRequest): Asked {
  const { messages, n, tool_choice, functions, modalities, audio } = request
  assertNoOwner(request)
  if (n != null && n !== 1) throw refused('n', 'A team gives one answer: n has to be 1.')
  assertToolsAreFree(tool_choice)
  if (functions != null) throw refused('functions', 'A team has functions of its own. Leave them out.')
  if (audio != null || (Array.isArray(modalities) && modalities.includes('audio')))
    throw refused(audio != null ? 'audio' : 'modalities', 'A team answers in text. Leave it out.')
  const words = new ToolWords()
  return askedOf(messages.map((message, at) => modelMessage(message, `messages[${at}]`, words)))
}

export function askedInResponses(request: ResponsesRequest): Asked {
  const { input, instructions, tool_choice } = request
  assertNoOwner(request)
  assertToolsAreFree(tool_choice)
  const items = typeof input === 'string' ? [{ role: 'user' as const, content: input }] : input
  const words = new ToolWords(request.previous_response_id != null)
  const messages = items.map((item, at) => itemMessage(item, `input[${at}]`, words))
  return askedOf([...(instructions ? [{ role: 'user' as const, content: instructions }] : []), ...messages])
}

/** Nobody says for himself whom a task is for. */
function assertNoOwner(request: object): void {
  for (const field of ['caller', 'tenant'])
    if (Object.hasOwn(request, field)) {
      const detail = `${field}: it comes from the service, which knows who asks. Leave it out.`
      throw new HttpError('CONFIGURATION', detail, { details: { path: field } })
    }
}

/** A model that has to call a function of its client cannot be a team: its tools are its own. */
function assertToolsAreFree(choice: unknown): void {
  if (choice === undefined || choice === null || choice === 'auto' || choice === 'none') return
  throw refused('tool_choice', 'A team calls its own tools, not those of a request: use "auto" or "none".')
}

/**
 * Puts calls of the client's own tools, and their results, into words. The agents have no such tools, and providers
 * refuse calls of tools that they are not offered.
 */
class ToolWords {
  readonly #names = new Map<string, string>()
  readonly #goesOn: boolean

  /** `goesOn`: calls may stand in what was said before. */
  constructor(goesOn = false) {
    this.#goesOn = goesOn
  }

  called(id: string, name: string, input: string): string {
    this.#names.set(id, name)
    return `[called the tool "${name}" with ${input || '{}'}]`
  }

  /** @throws HttpError for the result of a call that was not made: it would be nobody's. */
  answered(id: string, content: Content, path: string): ModelMessage {
    const name = this.#names.get(id)
    if (name === undefined && !this.#goesOn)
      throw refused(path, `${JSON.stringify(id.slice(0, 100))} is the id of no call that stands before it.`)
    const head = `[the tool "${name ?? id}" answered]`
    const whole =
      typeof content === 'string' ? `${head}\n${content}` : [{ type: 'text' as const, text: head }, ...content]
    return { role: 'tool', content: whole }
  }
}

function askedOf(given: ModelMessage[]): Asked {
  const last = given.at(-1)
  const messages = given.map((message) => (message.role === 'tool' ? { ...message, role: 'user' as const } : message))
  if (last?.role !== 'user') throw refused('messages', 'The last message has to be one of the user: it is the query.')
  return { query: last.content, messages: messages.slice(0, -1) }
}

/** Instructions of a client come as words of the user: the prompts of the agents are their own. */
function modelMessage(
  { role, content: given, tool_calls = [], tool_call_id = '' }: ChatMessage,
  path: string,
  words: ToolWords,
): ModelMessage {
  const at = `${path}.content`
  if (role === 'tool') return words.answered(tool_call_id, contentIn(given, at), `${path}.tool_call_id`)
  if (role === 'user') return { role, content: contentIn(given, at) }
  const text = textIn(given, at)
  if (role !== 'assistant') return { role: 'user', content: text }
  const calls = tool_calls.map(({ id, function: { name, arguments: input } }) => words.called(id, name, input))
  return { role, content: [text, ...calls].filter((each) => each !== '').join('\n') }
}

type Item = Exclude<ResponsesRequest['input'], string>[number]

function itemMessage({ type = 'message', role = 'user', ...item }: Item, path: string, words: ToolWords): ModelMessage {
  switch (type) {
    case 'message': {
      const at = `${path}.content`
      if (role === 'user') return { role, content: contentIn(item.content, at) }
      return { role: role === 'assistant' ? role : 'user', content: textIn(item.content, at) }
    }
    case 'function_call': {
      const { call_id: id = '', name = '', arguments: input = '' } = item
      return { role: 'assistant', content: words.called(id, name, input) }
    }
    case 'function_call_output': {
      const { call_id = '', output = '' } = item
      return words.answered(call_id, outputIn(output, `${path}.output`), `${path}.call_id`)
    }
    default:
      throw refused(`${path}.type`, `"${type}" is nothing that a team takes; accepted: message, function_call_output.`)
  }
}

/** Returns the result of a function: a text, parts, or any other JSON. */
function outputIn(output: unknown, path: string): Content {
  if (typeof output === 'string') return output
  const parts = z.array(givenPart).safeParse(output)
  return parts.success ? contentIn(parts.data, path) : JSON.stringify(output)
}

/**
 * Returns the schema by which a format binds an answer; undefined: it is a text.
 *
 * @throws HttpError for a format that there is not.
 */
export function schemaIn(type: string | undefined, schema: object | undefined, path: string): object | undefined {
  if (type === undefined || type === 'text') return undefined
  if (type === 'json_object' || type === 'json_schema') return (type === 'json_schema' && schema) || ANY_OBJECT
  throw refused(`${path}.type`, `"${type.slice(0, 100)}" is no format; accepted: text, json_object, json_schema.`)
}

const ANY_OBJECT = { type: 'object', properties: {}, additionalProperties: true }

/** @throws HttpError for what is no JSON Schema. */
export async function outputOf(path: string, schema: object | undefined): Promise<Pick<RunOptions<unknown>, 'output'>> {
  if (!schema) return {}
  try {
    return { output: await foreignSchema(schema) }
  } catch (error) {
    throw refused(path, `It is no JSON Schema that can be used: ${error instanceof Error ? error.message : error}`)
  }
}
