/** How a run is shown while it goes on: a table on a terminal, plain lines anywhere else. Both on stderr. */
import type { Logger } from '../index.ts'
import { liveProgress } from './live-progress.ts'
import { plainProgress } from './plain-progress.ts'
import { isTerminal, type Progress, type Screen } from './screen.ts'

/** The right one for a stream. A terminal that cannot move its cursor (`TERM=dumb`), or has no size, gets lines. */
export function progressOn(screen: Screen, env: NodeJS.ProcessEnv = process.env): Progress {
  return isTerminal(screen, env) ? liveProgress(screen) : plainProgress(screen)
}

/** A logger that leaves out what progress shows as an event. */
export function withoutEvents(logger: Logger): Logger {
  const at = (level: keyof Logger) => (fields: object, text: string) => {
    if (!('event' in fields)) logger[level](fields, text)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
