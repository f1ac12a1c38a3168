/** A logger that cannot hurt its team: what the user's own throws is lost, since there is nobody left to tell. */
import type { Logger, LogLevel } from '../actors/logger.ts'

export function guardedLogger(logger: Logger): Logger {
  const guard = (level: LogLevel) => (fields: object, text: string) => {
    try {
      logger[level](fields, text)
    } catch {}
  }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}
