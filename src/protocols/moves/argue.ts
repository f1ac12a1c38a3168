/** Asks a debater for one argument, with its evidence if required. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { DramatisError, ReplyInvalidError } from '../../errors.ts'
import { askFor } from './ask-for.ts'
import { resultOf } from './outputs.ts'

/** Argument of a debater. `evidence` is null if no evidence was asked for. */
export interface Argument {
  round: number
  agent: string
  position: string
  argument: string
  evidence: string[] | null
}

type Said = Pick<Argument, 'argument' | 'evidence'>
type Asking = Pick<OrchestratorContext, 'agents' | 'request' | 'signal'>

/** Asks for an argument without evidence, and returns the content as it is. */
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
 * Asks for an argument with its evidence. An argument without evidence is sent back once, with `reminder`; then it
 * counts as it is. An answer that does not match the schema is treated in the same way.
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
    orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
    if (error instanceof DramatisError) return first
    throw error
  }
}

async function attempt(orchestrator: Asking, debater: string, content: string, options: RequestOptions) {
  const { citedArgument } = await import('./answer-forms.ts')
  try {
    const { value } = await askFor(orchestrator, debater, content, citedArgument, {
      ...options,
      contentField: 'argument',
    })
    const evidence = value.evidence.filter((one) => one.trim() !== '')
    return { said: { argument: value.argument, evidence }, sentBack: false }
  } catch (error) {
    const words = error instanceof ReplyInvalidError ? error.details.content : undefined
    if (typeof words !== 'string' || words.trim() === '') throw error
    return { said: { argument: words, evidence: [] }, sentBack: true }
  }
}
