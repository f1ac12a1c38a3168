/** Requests of chats: those of the AI SDK's `useChat`. Fields that no team has a use for are passed over. */
import { z } from 'zod'
import type { Content, MediaPart } from '../../actors/definition/content.ts'
import { assertTaken, refused } from './openai-request.ts'
import { answerRequest } from './schemas.ts'

const MOST_ID = 200
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
  answers: z.array(answerRequest).optional().describe('to questions of the team, with its message as the last one'),
})

export type ChatMessage = z.infer<typeof chatMessage>
type ChatPart = z.infer<typeof chatPart>

/**
 * Returns what a user says in a message: a text, or parts if it has files.
 *
 * @throws HttpError for a message without words and files, and for a file that is not whole.
 */
export function saidIn({ parts }: ChatMessage, path: string): string | Content {
  const said = parts.flatMap((part, at) => {
    if (part.type === 'text') return { type: 'text' as const, text: String(part.text ?? '') }
    return part.type === 'file' ? fileIn(part, `${path}.parts[${at}]`) : []
  })
  const text = said.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
  if (text.trim() === '' && said.every(({ type }) => type === 'text'))
    throw refused(path, 'It has no words. Give it a part of type text or file.')
  return said.every(({ type }) => type === 'text') ? text : said
}

/** Source: `FileUIPart` of the AI SDK. */
function fileIn({ url, mediaType, filename }: ChatPart, path: string): MediaPart {
  if (typeof url !== 'string') throw refused(`${path}.url`, 'A data URL, or a URL, is needed.')
  const [kind] = String(mediaType).split('/')
  const type = kind === 'image' || kind === 'audio' ? kind : 'file'
  const named = typeof filename === 'string' && type === 'file' && { name: filename }
  return assertTaken(
    { type, data: url, ...(mediaType ? { mediaType: String(mediaType) } : {}), ...named } as MediaPart,
    path,
  )
}
