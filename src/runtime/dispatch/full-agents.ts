/**
 * Messages whose turn cannot begin because their agent has its maximum of open turns. An agent has one turn of a run at
 * a time in each of its instances, and turns of up to `concurrency` runs.
 */
import { timeOf } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

/** Yields the first message of each run that waits for such an agent. */
export function* waitsForTurns({ cells }: AgentDirectory): IterableIterator<LimitWait> {
  for (const cell of cells) {
    if (cell.mailbox.waiting === 0 || cell.gone || !cell.settings.isAgent) continue
    const seen = new Set<RunState>()
    for (const { run, memory, at, within } of cell.mailbox.queued()) {
      if (within || seen.has(run)) continue
      seen.add(run)
      const full = limitOf(cell, run)
      if (full)
        yield { ...full, runId: run.id, agent: cell.name, messageId: idOf(memory, at), since: timeOf(memory, at) }
    }
  }
}

/** Returns the limit that keeps an agent from a turn of that run; undefined if it has a place, or no thread yet. */
function limitOf({ instances, name, settings }: Cell, run: RunState): Pick<LimitWait, 'option' | 'limit'> | undefined {
  const { concurrency } = settings
  const ready = instances.filter(({ life, stopped }) => !stopped && life?.ready)
  const busy = ready.filter((each) => each.isAt(run) || each.openRuns >= concurrency)
  if (ready.length === 0 || busy.length < ready.length) return undefined
  if (ready.every((each) => each.isAt(run))) return { option: `instances of "${name}"`, limit: settings.instances }
  return { option: `concurrency of "${name}"`, limit: concurrency }
}
