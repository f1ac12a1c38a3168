/**
 * Puts what the log of an earlier process has into a supervisor that has no thread yet: numbers, states, runs,
 * messages, waits, tasks, boards. A turn that was open comes again, with what the log has of it, as after the death of
 * its thread.
 */
import type { RunBook } from '../runs/runs.ts'
import type { RunState } from '../state/run-state.ts'
import { MessageRecovery } from './message-recovery.ts'
import type { OldLog } from './old-log.ts'
import type { RestoredOwners } from './restored-owners.ts'
import { RunRecovery } from './run-recovery.ts'
import { restoreNames, restoreShared, restoreStates } from './team-recovery.ts'

/** Number of runs whose results are kept, as for a team that has no durable log. */
const KEPT_RUNS = 100

/** Returns the runs that go on. */
export function recover(owners: RestoredOwners, book: RunBook, old: OldLog): RunState[] {
  const runs = new RunRecovery(owners, book, old)
  restoreNames(owners, old)
  const open = runs.openRuns()
  const ended = [...old.runs.values()].filter((run) => run.finished && !run.launched.own).slice(-KEPT_RUNS)
  restoreStates(owners, old, (run) => runs.reopened(run))
  restoreShared(owners, old)
  runs.forgetAllBut(new Set([...open, ...ended]))
  for (const run of ended) if (!open.has(run)) runs.end(run)
  const states = Array.from(open, (run) => runs.stateOf(run))
  const messages = new MessageRecovery(owners, old, runs.states)
  for (const message of old.work.messages()) messages.message(message)
  const settles = new Map(Array.from(open, (run) => [run.index, runs.takeUp(run)]))
  for (const wait of old.work.waits) messages.wait(wait, settles.get(wait.message.run))
  for (const message of old.work.messages()) messages.deliver(message)
  for (const run of open) runs.fold(run)
  owners.readersRestored()
  messages.giveReceipts()
  messages.judge()
  messages.serveCalls()
  for (const run of open) runs.answer(run, settles.get(run.index))
  return states
}
