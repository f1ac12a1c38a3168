/** Answers made of several by one agent. A file by itself: who only asks (`askFor`) loads nothing of a turn. */
import type { OrchestratorContext, RequestOptions } from '../actors/definition/context.ts'
import { turnBehind } from '../actors/turn/context.ts'
import { NO_SUB_TASK } from '../mailbox/sub-task.ts'
import { lastWord, madeUpFor } from './asking.ts'
import { resultOf } from './positions.ts'

/**
 * Asks one agent for an answer made of others, as `lastWord` does. If it fails, those answers are the run's answer as
 * they are, `joined`, and the trace says so. It rejects if there are none, and if the run has an output: no joined
 * answers fit a schema.
 */
export async function combinedBy(
  orchestrator: OrchestratorContext,
  agent: string,
  content: string,
  options: RequestOptions,
  joined: string,
): Promise<ReturnType<typeof resultOf>> {
  const asked = { ...options, metadata: { ...options.metadata, ...NO_SUB_TASK } }
  try {
    return resultOf({ agent, message: await lastWord(orchestrator, agent, content, asked) })
  } catch (thrown) {
    const error = madeUpFor(orchestrator, thrown)
    if (joined === '' || turnBehind(orchestrator)?.start.view.output !== undefined) throw error
    const reason = `"${agent}" failed, and the results are joined: ${error.code}: ${error.message}`
    orchestrator.decide('Who makes one answer of the results?', 'nobody', reason)
    return { content: joined, structuredData: undefined }
  }
}
