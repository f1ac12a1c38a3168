/** Draws frames over each other on a terminal. */
import { createLogUpdate } from 'log-update'
import type { Screen } from './screen.ts'

export interface Redraw {
  (frame: string): void
  /** Takes the last frame off the screen. */
  clear(): void
  /** Leaves the last frame where it is. */
  done(): void
}

/**
 * Returns what draws on that screen. log-update writes the lines that differ from those of the last frame. Where a
 * frame has more or fewer lines it leaves some out and others behind, so such a frame is drawn anew.
 */
export function redrawOn(screen: Screen): Redraw {
  const update = createLogUpdate(screen)
  let count = 0
  const draw = (frame: string) => {
    const lines = frame.split('\n').length
    if (lines !== count) update.clear()
    count = lines
    update(frame)
  }
  return Object.assign(draw, { clear: update.clear, done: update.done })
}
