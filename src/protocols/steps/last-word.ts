/** The request whose answer the run ends with, word for word. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import { LAST_SPEAKER } from '../../actors/model/last-speaker.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** What it takes of a script. */
export type LastWords = Pick<OrchestratorContext, 'agents' | 'emit' | 'request' | 'requestStream'>

/**
 * Asks one agent for what will be the run's answer as it says it. What a model says is passed on piece by piece to who
 * reads the run. What code emits may be anything, so that its answer comes as a whole. Where several are asked, a part is
 * taken, or another is asked when this one fails: use `request`.
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
