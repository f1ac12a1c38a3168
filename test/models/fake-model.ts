/** A client that answers as a test says, and keeps what it was asked. */
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelClient, ModelPiece, ModelRequest, ToolCall } from '../../src/actors/definition/model.ts'

/** A text, or an answer in pieces; an error is thrown in the place where it stands. */
export type Answer = string | readonly (ModelPiece | Error)[]

/** How it answers: one after the other, or as a function of what it is asked and how often it was asked before. */
export type Answers = readonly Answer[] | ((request: ModelRequest, nth: number) => Answer | Promise<Answer>)

export const USAGE = { inputTokens: 10, outputTokens: 5, totalTokens: 15, calls: 1 }

export class FakeModel implements ModelClient {
  readonly requests: ModelRequest[] = []
  readonly #answers: Answers

  constructor(answers: Answers) {
    this.#answers = answers
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const nth = this.requests.push(request) - 1
    const answer = typeof this.#answers === 'function' ? await this.#answers(request, nth) : this.#answers[nth]
    if (answer === undefined) throw new Error(`the test has no answer number ${nth + 1}`)
    for (const piece of typeof answer === 'string' ? [{ text: answer }] : answer) {
      if (piece instanceof Error) throw piece
      yield piece
    }
    yield { usage: USAGE }
  }

  /** What was said to it last. */
  get lastPrompt(): string {
    return textOf(this.requests.at(-1)?.messages.at(-1)?.content ?? '')
  }
}

/** An answer that calls tools. */
export const calls = (...toolCalls: [name: string, input: object | string][]): Answer =>
  toolCalls.map(([name, input], at) => ({ toolCall: toolCall(name, input, `call-${at}`) }))

const toolCall = (name: string, input: object | string, id: string): ToolCall => ({
  id,
  name,
  input: typeof input === 'string' ? input : JSON.stringify(input),
})
