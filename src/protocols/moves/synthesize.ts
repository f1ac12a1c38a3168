/**
 * Makes one text of the results of several sub-tasks: joined, or written by an agent that is told which agent found
 * what.
 */
import type { ScriptResult } from '../../actors/definition/protocol.ts'
import { IN_WORDS } from '../../actors/model/in-words.ts'
import { AgentFailedError } from '../../errors.ts'
import { type Conflict, conflictsAsData } from './conflicts.ts'
import type { Statement } from './contradictions.ts'
import { type LastWords, lastWord } from './last-word.ts'
import { resultOf } from './outputs.ts'
import { type Finished, isDone } from './task-plan.ts'
import { isLate } from './worker-result.ts'

/**
 * Returns one line per result, in the order of the plan. A sub-task that failed or was skipped is replaced by its
 * reason. Source: document 000.
 */
export const joined = (finished: readonly Finished[]): string => finished.map(lineOf).join('\n')

/**
 * Returns the answer of an agent that gets `content`, which contains the results. It also gets them as
 * `structuredData: { query, results }`, with `contradictions` if there are any.
 */
export async function synthesized(
  orchestrator: LastWords,
  agent: string,
  content: string,
  query: string,
  finished: readonly Finished[],
  conflicts: readonly Conflict[],
): Promise<ScriptResult> {
  const results = finished.map(({ task, result }) => ({ task: task.description, ...result }))
  const message = await lastWord(orchestrator, agent, content, {
    structuredData: { query, results, ...conflictsAsData(conflicts) },
    metadata: IN_WORDS,
  })
  return resultOf({ agent, message })
}

/** Returns what the agents of finished sub-tasks have said. */
export const statementsOf = (finished: readonly Finished[]): Statement[] =>
  finished
    .filter(isDone)
    .map(({ result, words }) => ({ agent: result.workerAgentRole, value: result.resultData, text: words }))

/** Returns each result under a heading with its task and its agent. */
export function resultsAsText(finished: readonly Finished[]): string {
  const sections = finished.map((each) => {
    const { task, result } = each
    return `## ${task.number}. ${task.description} (by ${result.workerAgentRole})\n\n${lineOf(each)}`
  })
  return sections.join('\n\n')
}

function lineOf({ task, result, words }: Finished): string {
  if (result.status === 'COMPLETED') return words
  if (result.status === 'SKIPPED')
    return `(sub-task ${task.number} was skipped as planned: ${result.errorDetails.message})`
  return `(sub-task ${task.number} ${isLate(result) ? 'was late' : 'failed'}: ${result.errorDetails.message})`
}

/** Returns `text` as the error of a run in which no sub-task has a result. */
export function nothingDone(text: string, finished: readonly Finished[]): AgentFailedError {
  return new AgentFailedError(text, { results: finished.map(({ result }) => result) })
}
