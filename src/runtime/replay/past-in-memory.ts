/** The past of a run that is in memory alone. */
import { UnknownRunError } from '../../errors.ts'
import type { Directory } from '../../mailbox/codec.ts'
import { allocate } from '../../mailbox/memory.ts'
import type { LogEntry } from '../log/records.ts'
import type { IndexOf } from '../state/open-work.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import type { Past } from './run-replay.ts'

interface Names {
  readonly names: Directory
  readonly indexOf: IndexOf
}

/**
 * Copies the entries of a run: the memory of a log that is full is used again.
 *
 * @throws UnknownRunError if its oldest entries were discarded.
 */
export function pastInMemory(run: RunState, { names, indexOf }: Names): Past {
  const { forgotten } = run.log
  if (forgotten > 0) {
    const text = `The oldest ${forgotten} entries of run "${run.id}" are no longer in memory, so its past cannot be told. With stateManagement: { path } the log keeps them.`
    throw new UnknownRunError(text, { runId: run.id, forgotten })
  }
  const entries = Array.from(run.log.entries(), copied)
  return { before: [], entries, directory: directoryOf(run, names), indexOf }
}

function copied(entry: LogEntry): LogEntry {
  if (entry.kind !== 'frames') return entry
  const bytes = entry.to - entry.from
  const memory = allocate(bytes)
  memory.u8.set(entry.memory.u8.subarray(entry.from, entry.to))
  return { ...entry, memory, from: 0, to: bytes }
}
