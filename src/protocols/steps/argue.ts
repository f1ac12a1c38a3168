/** One argument of a debater: its words, and what they rest on where that is wanted. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { DramatisError, ReplyInvalidError } from '../../errors.ts'
import { askFor } from './ask-for.ts'
import { resultOf } from './outputs.ts'

/** `evidence` is null where nobody asked for any. */
export interface Argument {
  round: number
  agent: string
  position: string
  argument: string
  evidence: string[] | null
}

type Said = Pick<Argument, 'argument' | 'evidence'>
type Asking = Pick<OrchestratorContext, 'agents' | 'request' | 'signal'>

/** Its words as they are. */
export async function argue(
  orchestrator: Asking,
  debater: string,
  content: string,
  options: RequestOptions,
): Promise<Said> {
  const message = await orchestrator.request(debater, content, options)
  return { argument: resultOf({ agent: debater, message }).content, evidence: null }
}

/**
 * Its words and what they rest on. An argument without evidence is sent back once, with `reminder`; then it stands as it
 * was. So do words that are no such answer.
 */
export async function argueWithEvidence(
  orchestrator: Asking,
  debater: string,
  content: string,
  reminder: string,
  options: RequestOptions,
): Promise<{ argument: string; evidence: string[] }> {
  const { said: first, sentBack } = await attempt(orchestrator, debater, content, options)
  if (first.evidence.length > 0 || sentBack) return first
  try {
    const { said: second } = await attempt(orchestrator, debater, `${content}\n\n${reminder}`, options)
    return second.evidence.length > 0 ? second : first
  } catch (error) {
    orchestrator.signal.throwIfAborted() // the end of the run is no failure of its agents
    if (error instanceof DramatisError) return first
    throw error
  }
}

async function attempt(orchestrator: Asking, debater: string, content: string, options: RequestOptions) {
  const { citedArgument } = await import('./answer-forms.ts')
  try {
    const { value } = await askFor(orchestrator, debater, content, citedArgument, options)
    const evidence = value.evidence.filter((one) => one.trim() !== '')
    return { said: { argument: value.argument, evidence }, sentBack: false }
  } catch (error) {
    const words = error instanceof ReplyInvalidError ? error.details.content : undefined
    if (typeof words !== 'string' || words.trim() === '') throw error
    return { said: { argument: words, evidence: [] }, sentBack: true }
  }
}
