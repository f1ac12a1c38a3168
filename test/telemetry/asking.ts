/** Agents that ask others. */
import type { AgentContext, AgentMessage } from '../../src/index.ts'

/** Asks the agents named, one after the other. */
export const asking =
  (...agents: string[]) =>
  async (message: AgentMessage, context: AgentContext): Promise<string> => {
    for (const agent of agents) await context.request(agent, `${message.content} please`)
    return 'asked'
  }
