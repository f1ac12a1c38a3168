/** Questions with known answers: sums, each with the right result and a wrong one. */
import { Dice } from '../../src/shared/random.ts'

export type Side = 'A' | 'B'

export interface Question {
  text: string
  truth: Side
}

/** The n-th question, from 1 on: always the same one. */
export function questionOf(number: number): Question {
  const dice = new Dice(number, 'question')
  const [a, b, c] = [10 + dice.upTo(90), 10 + dice.upTo(90), dice.upTo(100)]
  const right = a * b + c
  const wrong = right + (dice.chance(0.5) ? 10 : -10)
  const truth: Side = dice.chance(0.5) ? 'A' : 'B'
  const [first, second] = truth === 'A' ? [right, wrong] : [wrong, right]
  const text = `Question ${number}. Which is ${a} * ${b} + ${c}: A) ${first} or B) ${second}? Answer with one letter, A or B, and nothing else.`
  return { text, truth }
}

/** The number of the question that a text is about. */
export function numberIn(text: string): number {
  const number = Number(/Question (\d+)\./.exec(text)?.[1])
  if (Number.isInteger(number)) return number
  throw new Error(`The noisy model knows no question in: ${text.slice(0, 200)}`)
}

export const other = (side: Side): Side => (side === 'A' ? 'B' : 'A')

/** The letter of an answer; undefined: it says neither, or both. */
export function sideIn(answer: string): Side | undefined {
  const sides = new Set(answer.match(/\b[AB]\b/g))
  const [side] = sides
  return sides.size === 1 ? (side as Side) : undefined
}
