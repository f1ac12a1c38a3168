/** Has one agent do a sub-task. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { IN_WORDS } from '../../actors/model/in-words.ts'
import { outcomeOf } from './ask-enough.ts'
import { subTaskOf } from './run-tasks.ts'
import type { Finished, PlannedTask } from './task-plan.ts'
import { resultFrom, wordsOf } from './worker-result.ts'

/** What came of it; it rejects for the end of the run alone. `context`: what came of those that it builds on. */
export async function askWorker(
  orchestrator: Pick<OrchestratorContext, 'request' | 'runId' | 'signal'>,
  agent: string,
  task: PlannedTask,
  context: string | undefined,
  options: Pick<RequestOptions, 'timeoutMs'> = {},
): Promise<Finished> {
  const subTask = subTaskOf(orchestrator, task, agent, context)
  const saysAll = task.tool === undefined && task.input === undefined && context === undefined
  const asked = { ...options, structuredData: subTask, ...(saysAll && { metadata: IN_WORDS }) }
  const outcome = await outcomeOf(agent, () => orchestrator.request(agent, task.description, asked))
  orchestrator.signal.throwIfAborted() // the end of the run is no failure of its agents
  const result = await resultFrom(subTask, outcome)
  return { task, result, words: outcome.ok && result.status === 'COMPLETED' ? wordsOf(outcome.message) : '' }
}
