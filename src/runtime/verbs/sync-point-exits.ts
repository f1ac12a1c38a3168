/** Ends what waits at a sync point for an agent that is gone for good. */
import type { Part } from '../state/core.ts'

export const syncPoints: Part = (core) => ({
  next(batch) {
    for (const record of batch)
      if (record.kind === 'agent.status' && (record.status === 'failed' || record.status === 'stopped'))
        core.syncPoints.left(record.agent)
  },
})
