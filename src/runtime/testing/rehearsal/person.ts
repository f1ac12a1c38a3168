/**
 * Simulated person of a rehearsal, who answers the questions of agents after a delay: with one of the choices, or with
 * a text that is marked as a rehearsal answer.
 */
import type { Scheduler, Timer } from '../../../clock.ts'
import { Dice } from '../../providers/seeded-random.ts'
import type { RuntimeEvent } from '../../runs/events.ts'

type Question = Extract<RuntimeEvent, { type: 'question' }>

const LONGEST_THOUGHT_MS = 10_000

export class Person {
  readonly #clock: Scheduler
  readonly #dice: Dice
  readonly #answer: (questionId: string, answer: string) => Promise<void>
  readonly #open = new Set<Timer>()

  constructor(seed: number, clock: Scheduler, answer: (questionId: string, answer: string) => Promise<void>) {
    this.#clock = clock
    this.#dice = new Dice(seed, 'person')
    this.#answer = answer
  }

  asked({ questionId, text, choices }: Question): void {
    const answer = choices ? this.#dice.pick(choices) : `[rehearsal] an answer to: ${text}`
    const timer = this.#clock.timer(this.#dice.upTo(LONGEST_THOUGHT_MS), () => {
      this.#open.delete(timer)
      this.#answer(questionId, answer).catch(() => {}) // the question was withdrawn meanwhile
    })
    this.#open.add(timer)
  }

  leave(): void {
    for (const timer of this.#open) timer.cancel()
  }
}
