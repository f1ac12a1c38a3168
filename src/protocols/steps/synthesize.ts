/** One text of the results of several sub-tasks: joined, or made by an agent that is told who found what. */
import type { ScriptResult } from '../../actors/definition/protocol.ts'
import { IN_WORDS } from '../../actors/model/in-words.ts'
import { AgentFailedError } from '../../errors.ts'
import { type LastWords, lastWord } from './last-word.ts'
import { resultOf } from './outputs.ts'
import type { Finished } from './task-plan.ts'

/** One line a result, in the order of the plan; in the place of one that failed, why. Source: document 000. */
export const joined = (finished: readonly Finished[]): string => finished.map(lineOf).join('\n')

/** The word of an agent that is given `content`, in which the results are. It gets them as `structuredData: { query, results }`, too. */
export async function synthesized(
  orchestrator: LastWords,
  agent: string,
  content: string,
  query: string,
  finished: readonly Finished[],
): Promise<ScriptResult> {
  const results = finished.map(({ task, result }) => ({ task: task.description, ...result }))
  const message = await lastWord(orchestrator, agent, content, {
    structuredData: { query, results },
    metadata: IN_WORDS,
  })
  return resultOf({ agent, message })
}

/** Each under a heading that says whose it is. */
export function resultsAsText(finished: readonly Finished[]): string {
  const sections = finished.map((each) => {
    const { task, result } = each
    return `## ${task.number}. ${task.description} (by ${result.workerAgentRole})\n\n${lineOf(each)}`
  })
  return sections.join('\n\n')
}

function lineOf({ task, result, words }: Finished): string {
  return result.status === 'COMPLETED' ? words : `(sub-task ${task.number} failed: ${result.errorDetails.message})`
}

/** `text` as the error of a run of whose sub-tasks none came to a result. */
export function nothingDone(text: string, finished: readonly Finished[]): AgentFailedError {
  return new AgentFailedError(text, { results: finished.map(({ result }) => result) })
}
