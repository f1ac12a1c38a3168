/** Formats the fields of a log entry for people: `key=value`, short, on one line. */

const LONGEST_VALUE = 200 // characters
const LONGEST = 1_000 // all fields together
const MOST_ITEMS = 20
const DEEPEST = 3

const NONE: ReadonlySet<string> = new Set()

/** Fields that hold what agents and people say: only their length or number is shown. */
const WORDS: ReadonlySet<string> = new Set(['prompt', 'systemPrompt', 'query', 'content', 'messages', 'structuredData'])

/** Returns all fields, each with a space before it, except those in `left` and those without a value. */
export function fieldText(fields: object, left: ReadonlySet<string> = NONE, depth = 0): string {
  let text = ''
  for (const [key, value] of Object.entries(fields)) {
    if (left.has(key) || isNothing(value)) continue
    const field = ` ${key}=${WORDS.has(key) ? sizeOf(value) : valueText(value, depth)}`
    if (text.length + field.length > LONGEST) return `${text} ...`
    text += field
  }
  return text
}

const isNothing = (value: unknown) =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0)

function sizeOf(value: unknown): string {
  if (typeof value === 'string') return `(${value.length} characters)`
  if (typeof value === 'number') return `${value}`
  return Array.isArray(value) ? `(${value.length} items)` : '(not shown)'
}

function valueText(value: unknown, depth: number): string {
  if (typeof value === 'string') return wordText(value)
  if (typeof value !== 'object' || value === null) return cut(String(value))
  if (value instanceof Error) return wordText(value.message)
  if (depth === DEEPEST) return Array.isArray(value) ? '[...]' : '{...}'
  if (Array.isArray(value)) return listText(value, depth)
  return `{${fieldText(value, NONE, depth + 1).trim()}}`
}

function listText(list: readonly unknown[], depth: number): string {
  const items = list.slice(0, MOST_ITEMS).map((item) => valueText(item, depth + 1))
  const more = list.length > MOST_ITEMS ? [`... ${list.length - MOST_ITEMS} more`] : []
  return `[${[...items, ...more].join(', ')}]`
}

/** Puts a text into quotes if it could be confused with what stands beside it. */
function wordText(text: string): string {
  const short = cut(text)
  return /^[\p{L}\p{N}_$.:@/+-]+$/u.test(short) ? short : JSON.stringify(short)
}

const cut = (text: string) => (text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}...` : text)
