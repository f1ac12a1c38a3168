import type { Logger, LogLevel } from '../../actors/definition/tool.ts'
import type { Redactor } from './redactor.ts'

/** Formats the fields of a log entry for people: `key=value`, short, on one line. */

const LONGEST_VALUE = 200 // characters
const LONGEST = 1_000 // all fields together
const MOST_ITEMS = 20
const DEEPEST = 3

const NONE: ReadonlySet<string> = new Set()

/** Fields that hold what agents and people say: only their length or number is shown. */
const WORDS: ReadonlySet<string> = new Set(['prompt', 'systemPrompt', 'query', 'content', 'messages', 'structuredData'])

function fieldText(fields: object, left: ReadonlySet<string> = NONE, depth = 0): string {
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

/**
 * Makes a logger that writes plain lines, `level agent text: error key=value ...`, from level info up. A value is cut
 * after 200 characters, all values together after 1,000. Of `prompt`, `content` and other fields with the words of
 * agents, only the length is shown; of an error only its message.
 */
export function lineLogger(write: (line: string) => void): Logger {
  const at = (level: LogLevel) => (fields: object, text: string) => write(`${line(level, fields, text)}\n`)
  return { debug() {}, info: at('info'), warn: at('warn'), error: at('error') }
}

export const defaultLogger: Logger = lineLogger((line) => process.stderr.write(line))

/**
 * Fields that are not shown with the others: `agent` and `error` stand before them, and the text says what `event`
 * says.
 */
const SHOWN: ReadonlySet<string> = new Set(['agent', 'error', 'event'])

function line(level: LogLevel, fields: object, text: string): string {
  const agent = 'agent' in fields && typeof fields.agent === 'string' ? `${fields.agent} ` : ''
  const error = 'error' in fields ? messageOf(fields.error) : undefined
  const whole = `${level} ${agent}${text}${error === undefined ? '' : `: ${error}`}${fieldText(fields, SHOWN)}`
  return whole.replaceAll(/\p{Cc}+/gu, ' ') // agents' texts must not forge lines or control a terminal
}

function messageOf(error: unknown): string | undefined {
  if (typeof error === 'string') return error
  if (typeof error !== 'object' || error === null || !('message' in error)) return undefined
  return typeof error.message === 'string' ? error.message : undefined
}

/*
 * Logger that cannot harm its team. Errors that the user's logger throws are lost, because there is nobody left to
 * notify. The team's keys are redacted before the user's logger gets anything.
 */

export function guardedLogger(logger: Logger, redactor: Redactor): Logger {
  const guard = (level: LogLevel) => (fields: object, text: string) => {
    try {
      logger[level](redactor.fields(fields), redactor.text(text))
    } catch {}
  }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}
