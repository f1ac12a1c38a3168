/**
 * The answer to a question that nobody could help with: friendly, in its language, and without a word of how the team
 * is made. The reasons stay in the result (`failures`). Source: document 004.
 */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { IN_WORDS } from '../../actors/model/in-words.ts'
import { DramatisError } from '../../errors.ts'
import { apologyFor } from '../prompts/apologies.ts'
import type { Finished } from './task-plan.ts'
import { isLate } from './worker-result.ts'

/** Returns one line for each sub-task, for a model that is not told the reasons. */
export const failuresAsText = (finished: readonly Finished[]): string =>
  finished
    .map(({ task, result }) => `- ${task.description} (${isLate(result) ? 'it took too long' : 'it failed'})`)
    .join('\n')

/**
 * Returns the words of `agent`, if a model plays it and it answers to `prompt`; else a fixed sentence by the script of
 * the question.
 */
export async function apologize(
  orchestrator: Pick<OrchestratorContext, 'agents' | 'request' | 'signal'>,
  agent: string,
  prompt: string,
  { query, finished }: { query: string; finished: readonly Finished[] },
  limit: Pick<RequestOptions, 'timeoutMs' | 'wallClock'>,
): Promise<string> {
  const isModel = orchestrator.agents.some(({ name, playedByModel }) => name === agent && playedByModel)
  const words = isModel ? await answerOf(orchestrator, agent, prompt, limit) : ''
  return (
    words ||
    apologyFor(
      query,
      finished.every(({ result }) => isLate(result)),
    )
  )
}

/** Returns what the agent says; nothing if it fails as the others did. */
async function answerOf(
  orchestrator: Pick<OrchestratorContext, 'request' | 'signal'>,
  agent: string,
  prompt: string,
  limit: RequestOptions,
): Promise<string> {
  try {
    return (await orchestrator.request(agent, prompt, { ...limit, metadata: IN_WORDS })).content.trim()
  } catch (error) {
    orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
    if (!(error instanceof DramatisError)) throw error
    return ''
  }
}
