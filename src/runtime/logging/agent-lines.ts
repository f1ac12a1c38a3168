/** Log lines that a thread writes, prepared for the team's logger: bounded, and with plain fields. */
import { jsonIn } from '../../mailbox/codec.ts'

/** Maximum characters of a log line, and of its fields as JSON. */
const LONGEST_LINE = 65_536

/**
 * Returns the fields of a log line. Only a plain object is accepted: other JSON could be spread into a million fields.
 */
export function fieldsIn(data: string | undefined): object {
  if (data === undefined) return {}
  if (data.length > LONGEST_LINE)
    return { leftOut: `${data.length} characters of fields; at most ${LONGEST_LINE} are kept` }
  const fields = jsonIn(data)
  return typeof fields === 'object' && fields !== null && !Array.isArray(fields) ? fields : {}
}

/** Returns the text of a log line. The rest of a longer text is replaced by its length. */
export function wordsIn(text: string): string {
  return text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)} [${text.length - LONGEST_LINE} more]` : text
}
