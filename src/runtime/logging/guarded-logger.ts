/**
 * Logger that cannot harm its team. Errors that the user's logger throws are lost, because there is nobody left to
 * notify. The team's keys are redacted before the user's logger gets anything.
 */
import type { Logger, LogLevel } from '../../actors/definition/logger.ts'
import type { Redactor } from './redactor.ts'

export function guardedLogger(logger: Logger, redactor: Redactor): Logger {
  const guard = (level: LogLevel) => (fields: object, text: string) => {
    try {
      logger[level](redactor.fields(fields), redactor.text(text))
    } catch {}
  }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}
