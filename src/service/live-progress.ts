/**
 * Progress on a terminal: a table of the agents that is drawn over itself ten times a second, and above it what should
 * stay to be read: crashes, dead letters, the log.
 */
import { agentTable } from './agent-table.ts'
import { eventLines, isTrouble } from './event-lines.ts'
import { redrawOn } from './redraw.ts'
import type { Progress, Screen, Watched } from './screen.ts'

const FRAME_MS = 100

export function liveProgress(screen: Screen): Progress {
  const update = redrawOn(screen)
  const turns = new Map<string, number>()
  const lineOf = eventLines()
  let watched: Watched | undefined
  let stop = () => {}

  let waiting = ''
  let shownInFrame = false

  const draw = () => {
    if (!watched) return
    // Leaves a column and a row free: a terminal that is full to the last cell scrolls.
    const size = { width: (screen.columns ?? 80) - 1, height: (screen.rows ?? 24) - 1 }
    update(agentTable(watched.health().agents, turns, size).join('\n'))
  }
  // At once, but once a frame: whoever prints in a loop must not keep the host busy with drawing.
  const show = () => {
    if (waiting !== '') {
      shownInFrame = true
      if (watched) update.clear()
      screen.write(waiting.replace(/\n?$/, '\n'))
      waiting = ''
    }
    draw()
  }
  const print = (text: string) => {
    waiting += text
    if (!watched || !shownInFrame) show()
  }
  const frame = () => {
    shownInFrame = false
    show()
  }
  return {
    print,
    watch(team) {
      watched = team
      const subscription = team.events.subscribe((event) => {
        if (event.type === 'turn.finished') turns.set(event.agent, (turns.get(event.agent) ?? 0) + 1)
        const line = lineOf(event)
        if (line !== undefined && isTrouble(event)) print(`${line}\n`)
      })
      const frames = setInterval(frame, FRAME_MS).unref()
      stop = () => {
        clearInterval(frames)
        subscription.unsubscribe()
        show()
        update.done()
        watched = undefined
        stop = () => {}
      }
      draw()
    },
    end: () => stop(),
  }
}
