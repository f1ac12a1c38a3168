/** Questions of tasks that a chat has not begun. Each has a number, by which `/answer` means it. */
import type { DigestQuestion } from '../../runtime/digest/digest-line.ts'

export class OtherQuestions {
  /** Numbers by the ids of questions: each keeps its number, so that none is answered in place of another. */
  readonly #numbers = new Map<string, number>()
  #last = 0

  /** Returns those questions by their numbers. Forgets the numbers of all others. */
  byNumber(questions: readonly DigestQuestion[]): Map<number, DigestQuestion> {
    const open = new Set(questions.map(({ questionId }) => questionId))
    for (const id of this.#numbers.keys()) if (!open.has(id)) this.#numbers.delete(id)
    return new Map(questions.map((question) => [this.#numberOf(question), question]))
  }

  #numberOf({ questionId }: DigestQuestion): number {
    const number = this.#numbers.get(questionId) ?? ++this.#last
    this.#numbers.set(questionId, number)
    return number
  }
}
