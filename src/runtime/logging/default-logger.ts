/** Logger of a team that is given none: one line for each event, on stderr. stdout is for the answer. */
import type { Logger, LogLevel } from '../../actors/definition/logger.ts'
import { fieldText } from './field-text.ts'

/**
 * Makes a logger that writes plain lines, `level agent text: error key=value ...`, from level info up. A value is cut
 * after 200 characters, all values together after 1,000. Of `prompt`, `content` and other fields with the words of
 * agents, only the length is shown; of an error only its message.
 */
export function lineLogger(write: (line: string) => void): Logger {
  const at = (level: LogLevel) => (fields: object, text: string) => write(`${line(level, fields, text)}\n`)
  return { debug() {}, info: at('info'), warn: at('warn'), error: at('error') }
}

/** Logger of a team without one. */
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
