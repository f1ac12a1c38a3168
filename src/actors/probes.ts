/**
 * The host asks whether a turn does nothing but wait for others, before it says that it waits in vain. Only the thread knows:
 * a timer or a socket of the handler's own may be what it waits for. The answer is given when the loop is idle, behind all
 * that the thread has written before.
 */
import { QUIET } from '../mailbox/frame.ts'
import type { ThreadPort } from './link.ts'
import type { Turn } from './turn.ts'
import type { TurnHost } from './turn-host.ts'

/** They come and go by themselves; the loop's own immediates are among them. */
const PASSING: ReadonlySet<string> = new Set(['CloseReq', 'Immediate'])

export class Probes {
  readonly #port: ThreadPort
  /** What the thread has open while it has nothing to do, by kind. */
  #atRest: ReadonlyMap<string, number> = new Map()
  #asked: { turn: number; number: number }[] = []

  constructor(port: ThreadPort) {
    this.#port = port
  }

  /** The agent has started and has no turn yet: what it has open now, a connection perhaps, it keeps. */
  rest(): void {
    this.#atRest = this.#open()
  }

  add(turn: number, number: number): void {
    this.#asked.push({ turn, number })
  }

  get waiting(): boolean {
    return this.#asked.length > 0
  }

  /** The loop is idle. */
  answer(loop: TurnHost, turns: readonly Turn[]): void {
    const busy = this.#isBusy()
    for (const { turn: asked, number } of this.#asked) {
      const turn = turns.find(({ start }) => start.turn === asked)
      if (turn) loop.writeControl(QUIET, turn.start, number, turn.parked && !busy ? 1 : 0)
    }
    this.#asked = []
    loop.link.flush()
  }

  #isBusy(): boolean {
    for (const [kind, count] of this.#open()) if (count > (this.#atRest.get(kind) ?? 0)) return true
    return false
  }

  #open(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const kind of this.#port.resources?.() ?? [])
      if (!PASSING.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    return counts
  }
}
