/** Lines of a log that a thread writes, as they go to the team's logger: within bounds, and with plain fields. */
import { jsonIn } from '../../mailbox/codec.ts'

/** Characters of a line of a log, and of its fields as JSON. */
const LONGEST_LINE = 65_536

/** The fields of a line of a log: a plain object and no other JSON, which could be spread into a million fields. */
export function fieldsIn(data: string | undefined): object {
  if (data === undefined) return {}
  if (data.length > LONGEST_LINE)
    return { leftOut: `${data.length} characters of fields; at most ${LONGEST_LINE} are kept` }
  const fields = jsonIn(data)
  return typeof fields === 'object' && fields !== null && !Array.isArray(fields) ? fields : {}
}

/** The words of a line; the rest of a longer one is left out, and said so. */
export function wordsIn(text: string): string {
  return text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)} [${text.length - LONGEST_LINE} more]` : text
}
