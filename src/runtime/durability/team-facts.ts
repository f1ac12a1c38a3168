/**
 * Facts of the team, each as a record with its full value: what a log needs to have of the team when its older records
 * are dropped. Facts of runs are in the entries of the runs.
 */
import type { Unrecorded } from '../log/records.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Journal } from '../state/journal.ts'
import type { Boards } from '../verbs/boards.ts'
import type { SharedStates } from '../verbs/shared-state.ts'

interface Owners {
  readonly boards: Boards
  readonly directory: AgentDirectory
  readonly journal: Journal
  readonly sharedStates: SharedStates
}

/** Yields the facts in the order in which they must stand in the log. */
export function* teamFacts({ boards, directory, journal, sharedStates }: Owners): Iterable<Unrecorded> {
  for (const { index, name, removed, run } of directory.cells) if (!removed && !run) yield { kind: 'name', index, name }
  for (const { index, removed, run, state } of directory.cells)
    if (!removed && !run && state !== undefined) yield { kind: 'state', index, value: state }
  yield* sharedStates.facts()
  yield* boards.facts()
  for (const { letter, bytes } of journal.deadLetters.entries) yield { kind: 'letter', letter, bytes }
}
