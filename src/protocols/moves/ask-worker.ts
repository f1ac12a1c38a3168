/** Requests one sub-task from one agent. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { IN_WORDS } from '../../actors/model/in-words.ts'
import { outcomeOf } from './ask-enough.ts'
import { type Passing, passedOn } from './pass-on.ts'
import { subTaskOf } from './run-tasks.ts'
import type { Finished, PlannedTask } from './task-plan.ts'
import { resultFrom, wordsOf } from './worker-result.ts'

/**
 * Returns the result of the sub-task. It rejects only if the run ends. `results`: those of the sub-tasks that it builds
 * on; of long ones a model gets a summary.
 */
export async function askWorker(
  orchestrator: Passing & Pick<OrchestratorContext, 'request' | 'runId'>,
  agent: string,
  task: PlannedTask,
  results: string | undefined,
  options: Pick<RequestOptions, 'metadata' | 'timeoutMs' | 'wallClock'> = {},
): Promise<Finished> {
  const context = results && (await passedOn(orchestrator, agent, results))
  const subTask = subTaskOf(orchestrator, task, agent, context)
  const saysAll = task.tool === undefined && task.input === undefined && context === undefined
  const said = saysAll ? { metadata: { ...options.metadata, ...IN_WORDS } } : {}
  const asked = { ...options, structuredData: subTask, ...said }
  const outcome = await outcomeOf(agent, () => orchestrator.request(agent, task.description, asked))
  orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
  const result = resultFrom(subTask, outcome)
  return { task, result, words: outcome.ok && result.status === 'COMPLETED' ? wordsOf(outcome.message, result) : '' }
}
