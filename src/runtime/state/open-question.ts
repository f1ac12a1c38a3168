/** Question of an agent to a person, as its run keeps it while it is open. */
import type { ApprovedCall, GivenAnswer } from '../../actors/definition/approval.ts'

/** How a question was closed. 'withdrawn': nobody waits for its answer any more; 'late': its time was up. */
export type QuestionEnd = 'answered' | 'withdrawn' | 'late'

/** Question of an agent to a person, not answered yet. */
export interface OpenQuestion {
  readonly agent: string
  readonly kind: 'ask' | 'approval'
  readonly text: string
  readonly choices: readonly string[] | undefined
  /** Call that an approval is about. */
  readonly call: ApprovedCall | undefined
  /** Epoch ms. */
  readonly askedAt: number
  /** Epoch ms; null: as long as the run. */
  readonly answerBy: number | null
  /** Rejects with `ConfigurationError` for an input that the tool would refuse. */
  checkInput(input: unknown): Promise<void>
  /** `by`: id of who answers; undefined for the program. */
  settle(answer: GivenAnswer, by: string | undefined): void
}
