/** Makes one call of a model: builds it from the turn's request, and reads the answer by its schema. */
import { ModelError } from '../../errors.ts'
import type { Completion, CompletionRequest, ModelAnswer } from '../definition/model.ts'
import { callOf, checkCompletion } from './completion-checks.ts'
import { checkedAnswer, noAnswerOf } from './structured-output.ts'
import { type ThinkingTurn, watchedIn } from './thinking-turn.ts'

export async function complete<T>(turn: ThinkingTurn, request: CompletionRequest<T>): Promise<Completion<T>> {
  const refusal = turn.refusal()
  if (refusal) throw refusal
  checkCompletion(request)
  const { output, signal } = request
  const { name } = turn.role
  const watched = watchedIn(turn, 1, 'call')
  const call = { ...callOf(turn.role, request, turn.partKeeper), ...(watched && { watched }) }
  const ask = async (again: typeof call) => withoutTools(await turn.ask(again, signal), name)
  const answer = await ask(call)
  if (!output) return completionOf(answer, undefined as T)
  const checked = await checkedAnswer(output, call, answer, ask, noAnswerOf(name))
  return completionOf(checked.answer, checked.output)
}

export function completionOf<T>(
  { text, parts = [], usage, finishReason, rehearsed }: ModelAnswer,
  output: T,
): Completion<T> {
  const reasoning = parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('')
  return { text, ...(reasoning !== '' && { reasoning }), output, usage, finishReason, rehearsed }
}

/** Throws if the model calls a tool: none was offered to it. */
function withoutTools(answer: ModelAnswer, agent: string): ModelAnswer {
  const [called] = answer.toolCalls
  if (!called) return answer
  const { model } = answer
  throw new ModelError(
    `The model "${model}" called the tool "${called.name}" for "${agent}", which offered it none. Use context.think for a model with tools.`,
    { agent, model, tool: called.name, reason: 'invalid_answer', code: 'unknown_tool' },
  )
}
