/** Where a team writes when it is given no logger: one line an event, on stderr. stdout is the answer's. */
import type { Logger, LogLevel } from '../../actors/definition/logger.ts'
import { fieldText } from './field-text.ts'

/**
 * A logger of plain lines, `level agent text: error key=value ...`, from info up. Values are cut after 200 characters, all of
 * them together after 1,000. Of `prompt`, `content` and other fields that hold what agents say, only the length is shown; of an
 * error its message.
 */
export function lineLogger(write: (line: string) => void): Logger {
  const at = (level: LogLevel) => (fields: object, text: string) => write(`${line(level, fields, text)}\n`)
  return { debug() {}, info: at('info'), warn: at('warn'), error: at('error') }
}

/** The logger of a team without one. */
export const defaultLogger: Logger = lineLogger((line) => process.stderr.write(line))

/** They stand before the other fields; the text says what an event's type says. */
const SHOWN: ReadonlySet<string> = new Set(['agent', 'error', 'event'])

function line(level: LogLevel, fields: object, text: string): string {
  const agent = 'agent' in fields && typeof fields.agent === 'string' ? `${fields.agent} ` : ''
  const error = 'error' in fields ? messageOf(fields.error) : undefined
  const whole = `${level} ${agent}${text}${error === undefined ? '' : `: ${error}`}${fieldText(fields, SHOWN)}`
  return whole.replaceAll(/\p{Cc}+/gu, ' ') // an agent's text must not forge a second line, nor steer a terminal
}

function messageOf(error: unknown): string | undefined {
  if (typeof error === 'string') return error
  if (typeof error !== 'object' || error === null || !('message' in error)) return undefined
  return typeof error.message === 'string' ? error.message : undefined
}
