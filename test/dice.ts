/** What a random test draws from: all of it follows from the seed. */
import { seededRandom } from '../src/shared/random.ts'

export class Dice {
  readonly random: () => number

  constructor(seed: number) {
    this.random = seededRandom([seed, 77, seed >>> 3, 5])
  }

  /** An integer from 0 up to `below`. */
  upTo(below: number): number {
    return Math.floor(this.random() * below)
  }
  chance(odds: number): boolean {
    return this.random() < odds
  }
  pick<T>(list: readonly T[]): T {
    return list[this.upTo(list.length)]!
  }
  int32(): number {
    return this.upTo(2 ** 32) | 0
  }
}
