/** A message as the HTTP API shows it: long contents are cut, and say so. */
import type { z } from 'zod'
import type { AgentMessage } from '../../index.ts'
import { toldMessage } from '../told-parts.ts'
import { isoTime } from './iso-time.ts'
import type { message } from './schemas.ts'

export type ShownMessage = z.infer<typeof message>

/** Characters of a content that are shown in a list. */
const MOST_SHOWN = 65_536

/** `most`: characters of the content that are shown. */
export function shownMessage(message: AgentMessage, most = MOST_SHOWN): ShownMessage {
  const shown = { ...toldMessage(message), ...entryIn(message), sentAt: isoTime(message.sentAt) }
  const told = shown as ShownMessage
  const { content } = told
  return content.length <= most ? told : { ...told, content: content.slice(0, most), cut: content.length }
}

/** Returns the entry of the blackboard that a message publishes, with its time as the API writes times. */
function entryIn({ type, structuredData }: AgentMessage): { structuredData?: unknown } {
  const { timestamp } = Object(structuredData) as { timestamp?: unknown }
  if (type !== 'publish' || typeof timestamp !== 'number') return {}
  return { structuredData: { ...Object(structuredData), timestamp: isoTime(timestamp) } }
}
