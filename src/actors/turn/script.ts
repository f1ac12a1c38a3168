/**
 * The moments of a turn's earlier attempts, in the order in which its thread had them: steps that began, and what
 * settled them. A later attempt is settled in the same order.
 *
 * The log has the frames of a thread in the order of that thread. Answers stand in it where the host has sent them, and
 * the thread may have had them later. So what a thread settles by itself (the end of a step, of a sleep, a withdrawal)
 * names the answer that the thread had got last.
 */
import { type Mark, UNANSWERED } from '../../mailbox/mark.ts'

/** Something that an earlier attempt began, or that settled for it. */
export interface Moment {
  /** Position in the order. Set by the script. */
  index: number
  /** True if the next attempt comes to it too, so that it is waited for. */
  isRequired: boolean
  isOver: boolean
}

export class Script {
  readonly #moments: Moment[] = []
  readonly #answers: Moment[] = []
  /** Number of the answers up to the one with that mark. */
  readonly #counts = new Map<string, number>()
  /** No moment before this one is waited for. */
  #first = 0
  #length = 0
  /** The answer that the turn has got last. */
  last: Mark = UNANSWERED

  /** The moments in their order. */
  get moments(): readonly Moment[] {
    return this.#moments
  }

  /** Position of the first moment that is waited for; Infinity if there is none. */
  get open(): number {
    for (let next = this.#moments[this.#first]; next; next = this.#moments[this.#first]) {
      if (next.isRequired && !next.isOver) return next.index
      this.#first += 1
    }
    return Number.POSITIVE_INFINITY
  }

  /** Adds what the log has next. */
  add(moment: Moment): void {
    this.#moments.push(moment)
  }

  /** Adds an answer, or a piece of one. */
  answer(moment: Moment, mark: Mark): void {
    this.#moments.push(moment)
    this.last = mark
    this.#counts.set(keyOf(mark), this.#answers.push(moment))
  }

  /** Adds what the thread has settled by itself, when `mark` was the last answer that it had got. */
  settle(moment: Moment, mark: Mark): void {
    const late = this.#answers.slice(this.#countOf(mark))
    if (late.length === 0) return this.add(moment)
    const since = this.#moments.splice(this.#moments.lastIndexOf(late[0]!))
    this.#moments.push(...since.filter((each) => !late.includes(each)), moment, ...late)
  }

  /** Returns the number of answers up to the marked one; of all if the log does not tell. */
  #countOf(mark: Mark): number {
    if (mark.piece === UNANSWERED.piece) return 0
    return this.#counts.get(keyOf(mark)) ?? this.#answers.length
  }

  /** Waits for nothing from that moment to the end of what there is so far. */
  release(from: Moment): void {
    for (let at = this.#moments.indexOf(from); at < this.#moments.length; at++) this.#moments[at]!.isRequired = false
  }

  /** Gives the moments their positions, when the log has no more. */
  number(): void {
    for (const moment of this.#moments) moment.index = this.next()
  }

  /** Returns the position of what happens now. */
  next(): number {
    return this.#length++
  }

  /** Waits no longer for what stands before that position. */
  skip(to: number): void {
    while (this.open < to) this.#moments[this.#first]!.isOver = true
  }
}

const keyOf = ({ correlation, piece }: Mark): string => `${correlation} ${piece}`
