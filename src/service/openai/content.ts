/** Contents in OpenAI's formats: texts, images, sounds and files, as parts of a message. */
import { z } from 'zod'
import { type Content, contentFault, type MediaPart, type MessagePart } from '../../actors/definition/content.ts'
import { shown } from '../../errors.ts'
import { storedIn } from '../../mailbox/stored-parts.ts'
import { HttpError } from '../http/problem.ts'

/** A part as a client gives it. What else it needs depends on its type. */
export const givenPart = z.looseObject({ type: z.string(), text: z.string().optional() })

type GivenPart = z.infer<typeof givenPart>
type Given = string | readonly GivenPart[] | null | undefined

const TEXTS = ['text', 'input_text', 'output_text', 'refusal']

/**
 * Returns a content that may have media: a text where it has none.
 *
 * @throws HttpError for a part that is not taken, or is not whole.
 */
export function contentIn(given: Given, path: string): Content {
  if (typeof given === 'string' || !given?.some(({ type }) => !TEXTS.includes(type))) return textIn(given, path)
  return given.map((part, at) => partIn(part, `${path}[${at}]`))
}

/**
 * Returns a content of texts alone.
 *
 * @throws HttpError for a part that is none.
 */
export function textIn(given: Given, path: string): string {
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
  const media = mediaIn(part, path)
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
