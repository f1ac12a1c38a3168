/** Tells who watches an agent when it is gone for good. */
import type { Part } from '../state/core.ts'
import { tellWatchers } from './death-watch.ts'

export const watchers: Part = (core) => ({
  next(batch) {
    for (const record of batch) {
      if (record.kind !== 'agent.status' || (record.status !== 'failed' && record.status !== 'stopped')) continue
      const cell = core.cell(record.agent, core.runs.get(record.run))
      if (cell) tellWatchers(core, cell)
    }
  },
})
