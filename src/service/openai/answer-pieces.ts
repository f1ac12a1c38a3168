/** The answer of a run in pieces, with who works on it meanwhile. */
import type { MultiAgentResult, Run } from '../../index.ts'

export type AnswerPiece =
  | { readonly kind: 'progress'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly result: MultiAgentResult<unknown> }

/**
 * Yields the pieces of the answer: joined they are `answerOf` the result. An answer that is data comes as a whole,
 * since what a model writes is not yet what the schema makes of it. Rejects with what kept the run from beginning.
 */
export async function* answerPieces(run: Run<unknown>, signal: AbortSignal): AsyncGenerator<AnswerPiece> {
  let said = ''
  let working: string | undefined
  const types = ['turn.started', 'output.delta'] as const
  for await (const event of run.events({ types: [...types], signal })) {
    if (event.type === 'turn.started' && event.agent !== working && !event.agent.startsWith('$')) {
      working = event.agent
      yield { kind: 'progress', text: `${working} works\n` }
    } else if (event.type === 'output.delta' && event.final) {
      said += event.chunk
      yield { kind: 'text', text: event.chunk }
    }
  }
  if (signal.aborted) return
  const result = await run.result
  if (result.success) {
    const answer = answerOf(result)
    const rest = answer.startsWith(said) ? answer.slice(said.length) : `\n${answer}`
    if (rest !== '') yield { kind: 'text', text: rest }
  }
  yield { kind: 'end', result }
}

/** The text of an answer; of one that fits a schema its data as JSON. */
export function answerOf({ finalOutput, data }: MultiAgentResult<unknown>): string {
  return data === undefined || data === null ? (finalOutput ?? '') : JSON.stringify(data)
}
