/** Notifies the host of what a turn holds back because of a limit that the turn's own thread keeps. */
import { LIMIT_WAIT } from '../../mailbox/frame.ts'
import type { KeptLimit, KeptLimitData, NoteWaiting } from '../definition/kept-limits.ts'
import type { Outbox } from '../transport/outbox.ts'
import type { TurnStart } from './turn-start.ts'

export interface LimitedTurn {
  readonly ended: boolean
  readonly start: TurnStart
}

export class LimitWaits {
  readonly #outbox: Outbox
  readonly #turn: LimitedTurn
  /** Number of waits of the turn so far. */
  #count = 0

  constructor(outbox: Outbox, turn: LimitedTurn) {
    this.#outbox = outbox
    this.#turn = turn
  }

  /** Returns a function that notes how many things wait for that limit; nothing is written until some do. */
  begin(option: KeptLimit, data: KeptLimitData): NoteWaiting {
    let known = 0
    let number = 0
    return (waiting) => {
      if (waiting === known || this.#turn.ended) return
      known = waiting
      const isFirst = number === 0
      if (isFirst) number = ++this.#count
      const { run, turn } = this.#turn.start
      const [content, text] = isFirst ? [option, JSON.stringify(data)] : ['', undefined]
      const fields = this.#outbox.begin(LIMIT_WAIT, run, turn, 0, content, text)
      fields.correlation = number
      fields.limit = waiting
      this.#outbox.write(this.#outbox.size(), 'soon')
    }
  }
}
