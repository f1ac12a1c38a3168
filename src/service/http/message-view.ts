/** A message as the HTTP API shows it: long contents are cut, and say so. */
import type { z } from 'zod'
import type { AgentMessage } from '../../index.ts'
import type { message } from './schemas.ts'

export type ShownMessage = z.infer<typeof message>

/** Characters of a content that are shown in a list. */
const MOST_SHOWN = 65_536

/** `most`: characters of the content that are shown. */
export function shownMessage({ parts: _parts, ...message }: AgentMessage, most = MOST_SHOWN): ShownMessage {
  const { content } = message
  return content.length <= most ? message : { ...message, content: content.slice(0, most), cut: content.length }
}
