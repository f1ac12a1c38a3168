/** Ends waits at a sync point for an agent that is gone permanently. */
import type { Reader } from '../state/reader.ts'
import type { SyncPoints } from './sync-points.ts'

export const syncPointExits = ({ syncPoints }: { syncPoints: SyncPoints }): Reader => ({
  kinds: ['agent.status'],
  next(batch) {
    for (const record of batch)
      if (record.kind === 'agent.status' && (record.status === 'failed' || record.status === 'stopped'))
        syncPoints.left(record.agent)
  },
})
