/**
 * The host asks whether a turn does nothing but wait for others, before it says that it waits in vain. Only the thread knows:
 * a timer or a socket of the handler's own may be what it waits for. The answer is given when the loop is idle, behind all
 * that the thread has written before; and once more when a turn that had something else to do has nothing else any more.
 */
import { QUIET } from '../../mailbox/frame.ts'
import type { OwnWork } from '../transport/own-work.ts'
import type { Turn } from '../turn/turn.ts'
import type { TurnHost } from '../turn/turn-host.ts'

interface Asked {
  readonly turn: number
  readonly number: number
  /** How far the answer has come: 'twice' looks again first, because Node says late of what is done with that it is. */
  state: 'new' | 'twice' | 'busy'
}

/** So many questions about one turn get a second answer; whoever asked the ones before them asks again by himself. */
const MOST_TOLD = 8

export class Probes {
  readonly #work: OwnWork | undefined
  #asked: Asked[] = []

  constructor(work: OwnWork | undefined) {
    this.#work = work
  }

  /** No turn is open. */
  rest(): void {
    this.#work?.rest()
  }

  /** A turn begins or gets an answer now. */
  stir(): void {
    this.#work?.stir()
  }

  /** The turn has nothing of its own open in the thread; false also where that cannot be told. */
  isQuiet(turn: Turn): boolean {
    return this.#work !== undefined && !this.#work.isBusy(turn)
  }

  /** A turn may be in question more than once at a time: each question is answered. */
  add(turn: number, number: number): void {
    const told = this.#asked.filter((asked) => asked.turn === turn && asked.state === 'busy')
    if (told.length >= MOST_TOLD) this.#asked.splice(this.#asked.indexOf(told[0]!), 1)
    this.#asked.push({ turn, number, state: 'new' })
  }

  get waiting(): boolean {
    return this.#asked.length > 0
  }

  /** The loop is idle. True: it is to be looked at once more. */
  answer(loop: TurnHost, turns: readonly Turn[]): boolean {
    let again = false
    this.#asked = this.#asked.filter((asked) => {
      const turn = turns.find(({ start }) => start.turn === asked.turn)
      if (!turn) return false // it has ended, which the host reads before it could read an answer
      const waits = turn.parked
      const quiet = waits && !this.#work?.isBusy(turn)
      if (quiet) loop.writeControl(QUIET, turn.start, asked.number, 1)
      else if (waits && asked.state === 'new') {
        asked.state = 'twice'
        again = true
      } else if (asked.state !== 'busy') {
        asked.state = 'busy'
        loop.writeControl(QUIET, turn.start, asked.number, 0)
      }
      return !quiet
    })
    loop.link.flush()
    return again
  }
}
