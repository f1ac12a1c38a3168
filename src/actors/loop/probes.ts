/**
 * Answers the host's questions (PROBE) whether a turn only waits for others. The host asks before it declares that the
 * turn waits in vain. Only the thread knows: the turn may wait for a timer or a socket of its own handler.
 *
 * The answer is sent when the loop is idle, after all frames that the thread has written before. A turn that had other
 * work gets a second answer once that work is done.
 */
import { QUIET } from '../../mailbox/frame.ts'
import type { OwnWork } from '../transport/own-work.ts'
import type { EmitterNeeds } from '../turn/emitter.ts'
import type { Turn } from '../turn/turn.ts'

interface Asked {
  readonly turn: number
  readonly number: number
  /** Progress of the answer. 'twice' checks once more before it answers, because Node reports finished work late. */
  state: 'new' | 'twice' | 'busy'
}

/**
 * Maximum number of pending questions per turn that get a second answer. The host repeats older questions by itself.
 */
const MOST_TOLD = 8

export class Probes {
  readonly #work: OwnWork | undefined
  #asked: Asked[] = []
  /** True if there are questions. To be read only. */
  waiting = false

  constructor(work: OwnWork | undefined) {
    this.#work = work
  }

  /** Tells the work tracker that no turn is open. */
  rest(): void {
    this.#work?.rest()
  }

  /** Tells the work tracker that a turn begins or gets an answer now. */
  stir(): void {
    this.#work?.stir()
  }

  /** Checks that the turn has no open work of its own in this thread. Returns false also if the runtime cannot tell. */
  isQuiet(turn: Turn): boolean {
    return this.#work !== undefined && !this.#work.isBusy(turn)
  }

  /** Adds a question. A turn may have several open questions at a time; each is answered. */
  add(turn: number, number: number): void {
    const told = this.#asked.filter((asked) => asked.turn === turn && asked.state === 'busy')
    if (told.length >= MOST_TOLD) this.#asked.splice(this.#asked.indexOf(told[0]!), 1)
    this.#asked.push({ turn, number, state: 'new' })
    this.waiting = true
  }

  /** Answers the open questions; call it when the loop is idle. Returns true if it must be called once more. */
  answer(
    loop: Pick<EmitterNeeds, 'link' | 'writeControl'>,
    turns: readonly Turn[],
    isComing: (turn: number) => boolean,
  ): boolean {
    let again = false
    this.#asked = this.#asked.filter((asked) => {
      const turn = turns.find(({ start }) => start.turn === asked.turn)
      // The turn has ended: the host reads its end before it would read an answer. Or it is still to begin again.
      if (!turn) return isComing(asked.turn)
      const waits = turn.parked
      const isBusy = this.#work?.isBusy(turn)
      const quiet = waits && !isBusy
      if (quiet) loop.writeControl(QUIET, turn.start, asked.number, 1)
      else if (isBusy && turn.rests && asked.state === 'new') {
        asked.state = 'twice'
        again = true
      } else if (asked.state !== 'busy') {
        asked.state = 'busy'
        loop.writeControl(QUIET, turn.start, asked.number, turn.rests && !isBusy ? 2 : 0)
      }
      return !quiet
    })
    this.waiting = this.#asked.length > 0
    loop.link.flush()
    return again
  }
}
