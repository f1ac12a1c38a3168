/** Progress as plain lines, for pipes and files: one for each event that a reader of the log would want to know. */
import { eventLines } from './event-lines.ts'
import type { Progress, Screen } from './screen.ts'

export function plainProgress(screen: Screen): Progress {
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
