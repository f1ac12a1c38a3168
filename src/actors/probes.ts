/**
 * The host asks whether a turn does nothing but wait for others, before it says that it waits in vain. Only the thread knows:
 * a timer or a socket of the handler's own may be what it waits for. The answer is given when the loop is idle, behind all
 * that the thread has written before.
 */
import { QUIET } from '../mailbox/frame.ts'
import type { ThreadPort } from './link.ts'
import type { Turn } from './turn.ts'
import type { TurnHost } from './turn-host.ts'

/** A look costs as much as a short turn does: so many in a row, then one in a millisecond. */
const LOOKS_IN_A_ROW = 64
/** They come and go by themselves; the loop's own immediates are among them. */
const PASSING: ReadonlySet<string> = new Set(['CloseReq', 'Immediate'])

export class Probes {
  readonly #port: ThreadPort
  /** What the thread has open while it has nothing to do, by kind. */
  #atRest: ReadonlyMap<string, number> = new Map()
  /** The first look: it is quiet then. Later ones, amid messages, may miss what comes and goes with these. */
  #atStart: ReadonlyMap<string, number> | undefined
  /** How many looks it may take, and when that was counted. */
  #looks = LOOKS_IN_A_ROW
  #countedAt = 0
  #asked: { turn: number; number: number }[] = []

  constructor(port: ThreadPort) {
    this.#port = port
  }

  /**
   * No turn is open: what the thread has open now, a connection perhaps, is of its start or of a turn that has ended, and no
   * turn from now on waits for it.
   */
  rest(now: number): void {
    if (!this.#port.resources) return
    this.#looks = Math.min(LOOKS_IN_A_ROW, this.#looks + now - this.#countedAt)
    this.#countedAt = now
    if (this.#looks < 1) return
    this.#looks -= 1
    const open = this.#open()
    this.#atStart ??= new Map(open)
    for (const [kind, count] of this.#atStart) open.set(kind, Math.max(count, open.get(kind) ?? 0))
    this.#atRest = open
  }

  /** The thread has nothing to do of its own; false also where it cannot tell. */
  get quiet(): boolean {
    return this.#port.resources !== undefined && !this.#isBusy()
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
