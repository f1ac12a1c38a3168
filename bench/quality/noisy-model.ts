/**
 * A model that is right now and then. What it says follows from who is asked and from the question, so roles err independently
 * of each other, which is what the theory of votes assumes.
 */
import type { ModelClient, ModelMessage } from 'dramatis'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'
import { textOf } from '../../src/models.ts'
import { Dice } from '../../src/shared/random.ts'
import { numberIn, other, questionOf, type Side } from './questions.ts'

/** How often an answer is right. */
export const RIGHT = 0.7
/** How often an argument comes with evidence: for what is right, and for what is wrong. */
export const EVIDENCE = { right: 0.7, wrong: 0.3 }
/** Two debaters on each side speak twice. */
export const DEBATE = { positions: ['The answer is A', 'The answer is B'], rounds: 2, argumentsPerSide: 4 }

export const noisyModel: ModelClient = {
  rehearsal: true,
  async *complete(request) {
    const text = answer(request.messages, request.agent ?? '')
    const [inputTokens, outputTokens] = [countPrompt(request), countTokens(text)]
    yield { text }
    yield {
      usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 },
      finishReason: 'stop',
    }
  },
}

function answer(messages: readonly ModelMessage[], agent: string): string {
  const asked = textOf(messages.findLast(({ role }) => role === 'user')?.content ?? '')
  const number = numberIn(asked)
  const { truth } = questionOf(number)
  const guess = new Dice(number, `guess of ${agent}`).chance(RIGHT) ? truth : other(truth)
  const position = /Your position: The answer is ([AB])/.exec(asked)?.[1] as Side | undefined
  if (position) return JSON.stringify(argument(number, agent, position, asked))
  const won = /has won the debate \(The answer is ([AB])\)/.exec(asked)?.[1]
  if (won) return won
  if (asked.startsWith('You judge this debate')) return JSON.stringify(verdict(asked, guess))
  return guess
}

/** Who is sent back for evidence has no more than before. */
function argument(number: number, agent: string, position: Side, asked: string): object {
  const round = /in round (\d+)/.exec(asked)?.[1]
  const isRight = position === questionOf(number).truth
  const finds = new Dice(number, `round ${round} of ${agent}`).chance(isRight ? EVIDENCE.right : EVIDENCE.wrong)
  return { argument: `It is ${position}.`, evidence: finds ? ['I worked it out step by step.'] : [] }
}

/** The side with more evidence; of two with as much its own guess. */
function verdict(debate: string, guess: Side): object {
  const sections = debate.split(/^## /m).slice(1)
  const said = sections.flatMap((section) => {
    const [, name = '', side] = /^(\S+), round \d+ \(The answer is ([AB])\)/.exec(section) ?? []
    return side ? [{ name, side: side as Side, isBorneOut: section.includes('Evidence:') }] : []
  })
  const count = (side: Side) => said.filter((each) => each.side === side && each.isBorneOut).length
  const [a, b] = [count('A'), count('B')]
  const side = a === b ? guess : a > b ? 'A' : 'B'
  return {
    winner: said.find((each) => each.side === side)?.name ?? '',
    reasons: `${a} to ${b} arguments with evidence`,
  }
}
