/** Formats of texts that are checked. Others are notes, as JSON Schema has it. */
import { regexes, z } from 'zod'

const LONGEST = 2_048

const byPattern = (pattern: RegExp) => (text: string) => pattern.test(text)
const isUrl = (text: string) => URL.canParse(text)

const FORMATS: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['email', byPattern(regexes.email)],
  ['uri', isUrl],
  ['uuid', byPattern(regexes.uuid())],
  ['date', byPattern(regexes.date)],
  ['date-time', byPattern(regexes.datetime({ offset: true }))],
  ['time', byPattern(/^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/)],
  ['duration', byPattern(regexes.duration)],
  ['hostname', byPattern(regexes.hostname)],
  ['ipv4', byPattern(regexes.ipv4)],
  ['ipv6', (text) => z.ipv6().safeParse(text).success],
])

/** Returns the check of a format; undefined: there is none. A text that is too long has no format. */
export function formatOf(name: string): ((text: string) => boolean) | undefined {
  const check = FORMATS.get(name)
  return check && ((text) => text.length <= LONGEST && check(text))
}
