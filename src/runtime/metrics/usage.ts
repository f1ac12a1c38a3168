/** Adds up the token usage of model calls: for each run, for each agent in it, and for each agent over all runs. */
import { addUsage } from '../../actors/definition/model.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Reader } from '../state/reader.ts'
import type { RunTable } from '../state/run-table.ts'

interface Needs {
  readonly directory: AgentDirectory
  readonly runs: RunTable
}

export const usage = ({ directory, runs }: Needs): Reader => ({
  kinds: ['model.called'],
  next(batch) {
    for (const entry of batch) {
      if (entry.kind !== 'model.called') continue
      runs.get(entry.run)?.spent.add(entry)
      const cell = directory.cells[entry.index]
      if (cell?.name === entry.agent) cell.spent = addUsage(cell.spent, entry.usage)
    }
  },
})
