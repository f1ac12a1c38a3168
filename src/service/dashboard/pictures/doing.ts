/** Activity of the agents of a run at a time that is looked at. */
import type { AgentAt } from '../../digest/moment.ts'
import type { RunStory } from './run-story.ts'

export type Doing = 'waits' | 'works' | 'restarts' | 'crashed' | 'idle'

/** Signs and words: nobody has to tell them apart by colour. */
export const DOING: Readonly<Record<Doing, string>> = {
  waits: '◐ waits',
  works: '● works',
  restarts: '↻ restarts',
  crashed: '✕ crashed',
  idle: '○ idle',
}

/** `isWaiting`: a request of the agent, or a question to a person, was open. */
export function doingAt(story: RunStory, agent: AgentAt, time: number, isWaiting: boolean): Doing {
  const down = downAt(story, agent.name, time)
  if (down !== undefined) return down
  if (isWaiting) return 'waits'
  const isCutOff = story.crashed.some((turn) => turn.agent === agent.name && turn.from <= time && time < turn.to)
  if (agent.turns.length > 0 || isCutOff || (agent.inMailbox > 0 && !story.isOver)) return 'works'
  return 'idle'
}

/** Returns how an agent was without a thread after a crash; undefined if it had one. */
function downAt({ fold }: RunStory, name: string, time: number): 'restarts' | 'crashed' | undefined {
  let down: 'restarts' | 'crashed' | undefined
  for (const { type, at, agent, restartInMs } of fold.facts) {
    if (at > time) break
    if (agent !== name) continue
    if (type === 'agent.crashed') down = restartInMs === null ? 'crashed' : 'restarts'
    if (type === 'agent.ready') down = undefined
  }
  return down
}
