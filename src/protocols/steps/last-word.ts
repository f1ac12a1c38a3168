/** The request whose answer the run ends with, word for word. */
import type { OrchestratorContext, RequestOptions } from '../../actors/context.ts'
import { LAST_SPEAKER } from '../../actors/last-speaker.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** Asks one agent for what will be the run's answer as it says it. Ask several, or take only a part: use `request`. */
export function lastWord(
  orchestrator: Pick<OrchestratorContext, 'request'>,
  agent: string,
  content: string,
  options: RequestOptions = {},
): Promise<AgentMessage> {
  return orchestrator.request(agent, content, { ...options, metadata: { ...options.metadata, ...LAST_SPEAKER } })
}
