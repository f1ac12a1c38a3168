/** How far a rehearsal is: one line on a terminal that is drawn over itself, nothing elsewhere. */
import type { Print } from '../answer-stream.ts'
import { isTerminal, type Screen } from '../screen.ts'

const FRAME_MS = 100

export interface Count {
  show(played: number, all: number, failures: number): void
  /** Shows a text that stays. */
  readonly print: Print
  /** Twice is fine. */
  end(): void
}

export async function countOn(screen: Screen, env: NodeJS.ProcessEnv = process.env): Promise<Count> {
  const print: Print = (text) => void screen.write(text)
  if (!isTerminal(screen, env)) return { show() {}, print, end() {} }
  const { redrawOn } = await import('../redraw.ts') // late, as in progress.ts
  const update = redrawOn(screen)
  let drawnAt = Number.NEGATIVE_INFINITY
  return {
    show(played, all, failures) {
      const now = performance.now()
      if (now - drawnAt < FRAME_MS) return
      drawnAt = now
      update(`${played} of ${all} runs, ${failures} of them not done`)
    },
    print(text) {
      update.clear()
      print(text)
    },
    end: () => update.clear(),
  }
}
