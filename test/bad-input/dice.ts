/** What a fuzz test draws from: all of it follows from the seed. */
import { seededRandom } from '../../src/actors/random.ts'

export class Dice {
  readonly #random: () => number
  constructor(seed: number) {
    this.#random = seededRandom([seed, 7, 11, 13])
  }
  below(count: number): number {
    return Math.floor(this.#random() * count)
  }
  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }
  chance(of: number): boolean {
    return this.#random() < of
  }
  int32(): number {
    return Math.floor(this.#random() * 2 ** 32) | 0
  }
}
