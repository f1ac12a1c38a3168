/**
 * A logger that cannot hurt its team: what the user's own throws is lost, since there is nobody left to tell. Before it is
 * told anything, the team's keys are taken out.
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
