/** Adds up what models have cost: of each run, of each agent in it, and of each agent over all runs. */
import { addUsage } from '../../actors/definition/model.ts'
import type { Part } from '../state/core.ts'

export const usage: Part = (core) => ({
  next(batch) {
    for (const entry of batch) {
      if (entry.kind !== 'model.called') continue
      core.runs.get(entry.run)?.spent.add(entry)
      const cell = core.cells[entry.index]
      if (cell?.name === entry.agent) cell.spent = addUsage(cell.spent, entry.usage)
    }
  },
})
