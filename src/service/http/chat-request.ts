/** Requests of chats, by the AI SDK's `useChat` and by AG-UI. Fields that no team has a use for are passed over. */
import { z } from 'zod'
import type { Content, MediaPart } from '../../actors/definition/content.ts'
import { assertTaken, refused } from './openai-request.ts'
import { answerRequest } from './schemas.ts'

const MOST_ID = 200
/** Answers in one request: the log of the run is searched for each that is not open. */
export const MOST_ANSWERS = 100
const id = z.string().min(1).max(MOST_ID)

const chatPart = z.looseObject({ type: z.string() })
const chatMessage = z.looseObject({
  id,
  role: z.enum(['system', 'user', 'assistant']),
  parts: z.array(chatPart),
  metadata: z.unknown().optional(),
})

export const chatRequest = z.looseObject({
  id: id.describe('of the chat, which is a thread of its caller'),
  messages: z
    .array(chatMessage)
    .min(1)
    .describe('the last one counts: a message of the user, or that of the team with what its approvals are answered'),
  trigger: z.enum(['submit-message', 'regenerate-message']).default('submit-message'),
  answers: z
    .array(answerRequest)
    .max(MOST_ANSWERS)
    .optional()
    .describe('to questions of the team, with its message as the last one'),
})

const agUiMessage = z.looseObject({ id, role: z.string(), content: z.unknown().optional() })

export const agUiRequest = z.looseObject({
  threadId: id.describe('of the conversation, which is a thread of its caller'),
  runId: z.string().min(1).max(MOST_ID),
  messages: z.array(agUiMessage).describe('the last one of a user counts'),
  resume: z
    .array(
      z.looseObject({
        interruptId: z.string(),
        status: z.enum(['resolved', 'cancelled']),
        payload: z.unknown().optional(),
      }),
    )
    .max(MOST_ANSWERS)
    .nullish()
    .transform((given) => given ?? [])
    .describe('answers to the interrupts of the run before'),
})

export type ChatMessage = z.infer<typeof chatMessage>
type ChatPart = z.infer<typeof chatPart>

/**
 * Returns what a user says in a message: a text, or parts if it has files.
 *
 * @throws HttpError for a message without words and files, and for a file that is not whole.
 */
export function queryIn({ parts }: ChatMessage, path: string): string | Content {
  const said = parts.flatMap((part, at) => {
    if (part.type === 'text') return { type: 'text' as const, text: stringIn(part.text, `${path}.parts[${at}].text`) }
    return part.type === 'file' ? fileIn(part, `${path}.parts[${at}]`) : []
  })
  const text = said.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
  if (text.trim() === '' && said.every(({ type }) => type === 'text'))
    throw refused(path, 'It has no words. Give it a part of type text or file.')
  return said.every(({ type }) => type === 'text') ? text : said
}

function stringIn(given: unknown, path: string): string {
  const value = given ?? ''
  if (typeof value !== 'string') throw refused(path, 'A text is needed.')
  return value
}

/** Source: `FileUIPart` of the AI SDK. */
function fileIn(part: ChatPart, path: string): MediaPart {
  const { url, filename } = part
  if (typeof url !== 'string') throw refused(`${path}.url`, 'A data URL, or a URL, is needed.')
  const mediaType = stringIn(part.mediaType, `${path}.mediaType`)
  const [kind] = mediaType.split('/')
  const type = kind === 'image' || kind === 'audio' ? kind : 'file'
  const named = typeof filename === 'string' && type === 'file' && { name: filename }
  return assertTaken({ type, data: url, ...(mediaType && { mediaType }), ...named } as MediaPart, path)
}

/**
 * Returns the text of a message of AG-UI.
 *
 * @throws HttpError for one without words, and for parts that are no text.
 */
export function textIn({ content }: z.infer<typeof agUiMessage>, path: string): string {
  const parts = Array.isArray(content)
    ? content.map((part) => Object(part) as { type?: unknown; text?: unknown })
    : [{ type: 'text', text: content }]
  const text = parts.map((part, at) => {
    if (part.type === 'text' && typeof part.text === 'string') return part.text
    throw refused(`${path}.content[${at}]`, 'Only text is taken.')
  })
  if (text.join('').trim() === '') throw refused(`${path}.content`, 'It has no words.')
  return text.join('\n')
}
