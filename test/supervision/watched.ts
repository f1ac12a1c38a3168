/** What the detector of deadlocks says from now on. */
import type { RuntimeEvent } from '../../src/index.ts'

type Found = Extract<RuntimeEvent, { type: 'deadlock' }> | Extract<RuntimeEvent, { type: 'livelock' | 'stall' }>

export function watched(team: { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }): Found[] {
  const found: Found[] = []
  team.events.subscribe((event) => {
    if (event.type === 'deadlock' || event.type === 'stall') found.push(event)
  })
  return found
}
