/** Sends the request whose answer becomes the run's answer, word for word. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { LAST_SPEAKER } from '../../actors/model/last-speaker.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** Part of the script's context that `lastWord` needs. */
export type LastWords = Pick<OrchestratorContext, 'agents' | 'emit' | 'request' | 'requestStream'>

/**
 * Asks one agent for the run's answer, and streams it. A model's output is passed on piece by piece to the reader of
 * the run. Output that code emits may be anything, so its answer comes as a whole. Use `request` if several agents are
 * asked, if only a part of the answer is used, or if another agent is asked after a failure.
 */
export async function lastWord(
  orchestrator: LastWords,
  agent: string,
  content: string,
  options: RequestOptions = {},
): Promise<AgentMessage> {
  const asked = { ...options, metadata: { ...options.metadata, ...LAST_SPEAKER } }
  const isModel = orchestrator.agents.some(({ name, playedByModel }) => name === agent && playedByModel)
  if (!isModel) return orchestrator.request(agent, content, asked)
  const stream = orchestrator.requestStream(agent, content, asked)
  for await (const piece of stream) orchestrator.emit(piece)
  return stream.response
}
