/** What a team says of turns that wait in vain, and agents that come to that. */
import type { AgentContext, RuntimeEvent } from '../../src/index.ts'
import type { Cast, OpenTeam, Receive } from '../kit/team.ts'

/** The deadlocks and stalls that it tells of, as they come. */
export function watched(team: Pick<OpenTeam, 'events'>): RuntimeEvent[] {
  const found: RuntimeEvent[] = []
  team.events.subscribe((event) => {
    if (event.type === 'deadlock' || event.type === 'stall') found.push(event)
  })
  return found
}

/** Asks that one before it answers. */
export const after =
  (to: string): Receive =>
  async (_message, context) =>
    (await context.request(to, 'your quote?')).content

export const slow: Receive = async (_message, context) => {
  await context.sleep(1_000)
  return 'slow'
}

/** Asks bob, who asks back before he answers. */
export const bargains: Cast = {
  ann: async (message, context) => {
    if (message.content === 'go') return (await context.request('bob', 'your quote?')).content
    return message.content === 'be slow' ? slow(message, context) : 'mine'
  },
  bob: async (message, context) => {
    await context.sleep(5)
    return after('ann')(message, context)
  },
}

/** Sends more than a mailbox for two holds. */
export const fill = async (context: AgentContext, to: string, signal?: AbortSignal): Promise<void> => {
  for (let i = 0; i < 3; i++) await context.send(to, `${i}`, signal && { signal })
}

/** Does something when it is told to go, and nothing for other messages. */
export const onGo =
  (does: (context: AgentContext) => Promise<unknown>): Receive =>
  async ({ content }, context) => {
    if (content === 'go') await does(context)
  }
