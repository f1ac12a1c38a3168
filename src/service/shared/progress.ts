/** How a run is shown while it goes on: a table on a terminal, plain lines anywhere else. Both on stderr. */

import type { Logger } from '../../index.ts'
import { eventLines } from './event-lines.ts'
import { isTerminal, type Progress, type Screen } from './screen.ts'

function plainProgress(screen: Screen): Progress {
  const lineOf = eventLines()
  let stop = () => {}
  return {
    watch(team) {
      const subscription = team.events.subscribe((event) => {
        const line = lineOf(event)
        if (line !== undefined) screen.write(`${line}\n`)
      })
      stop = () => subscription.unsubscribe()
    },
    print: (text) => void screen.write(text),
    end: () => stop(),
  }
}

/** The right one for a stream. A terminal that cannot move its cursor (`TERM=dumb`), or has no size, gets lines. */
export async function progressOn(screen: Screen, env: NodeJS.ProcessEnv = process.env): Promise<Progress> {
  if (!isTerminal(screen, env)) return plainProgress(screen)
  const { liveProgress } = await import('./live-progress.ts') // late: to load what draws takes as long as Node's own start
  return liveProgress(screen)
}

/** A logger that leaves out what progress shows as an event. */
export function withoutEvents(logger: Logger): Logger {
  const at = (level: keyof Logger) => (fields: object, text: string) => {
    if (!('event' in fields)) logger[level](fields, text)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
