/** Notifies the watchers of an agent when it is gone permanently. */
import type { Reader } from '../state/reader.ts'
import { tellWatchers, type WatchNeeds } from './death-watch.ts'

export const watchers = (needs: WatchNeeds): Reader => ({
  kinds: ['agent.status'],
  next(batch) {
    for (const record of batch) {
      if (record.kind !== 'agent.status' || (record.status !== 'failed' && record.status !== 'stopped')) continue
      const cell = needs.directory.cell(record.agent, needs.runs.get(record.run))
      if (cell) tellWatchers(needs, cell)
    }
  },
})
