/** What a team says of turns that wait in vain, and agents that come to that. */
import type { RuntimeEvent } from '../../src/index.ts'
import type { OpenTeam, Receive } from './teams.ts'

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
