/**
 * Facts of the team, each as a record with its full value: what a log needs to have of the team when its older records
 * are dropped. Facts of runs are in the entries of the runs.
 */
import { idOf } from '../../mailbox/frame-id.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { GivenTurn, Unrecorded } from '../log/records.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { AgentStates } from '../state/agent-states.ts'
import type { Journal } from '../state/journal.ts'
import type { RunTable } from '../state/run-table.ts'
import type { Boards } from '../verbs/boards.ts'
import type { SharedStates } from '../verbs/shared-state.ts'
import type { TeamParts } from './restored-owners.ts'

/** Record of the team: what it says replaces what earlier records of its kind and its agent or key have said. */
export type Fact = Unrecorded

interface Owners {
  readonly agentStates: AgentStates
  readonly boards: Boards
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly journal: Journal
  readonly runs: RunTable
  readonly sharedStates: SharedStates
}

/**
 * Yields all facts of the team. Each has the value of the moment in which it is asked for, so it is logged before
 * anything else happens.
 */
export function* teamFacts(owners: Owners, parts: TeamParts): Generator<Fact> {
  const { agentStates, boards, directory, hostMessages, journal, runs, sharedStates } = owners
  const agents = directory.cells.map(({ index, numbers }) => ({ index, ...numbers }))
  yield { kind: 'numbers', agents, lastHostNumber: hostMessages.last, lastRun: runs.last }
  for (const { index, name, run } of directory.cells) if (!run && name !== '') yield { kind: 'name', index, name }
  yield { kind: 'turns', turns: [...openTurns(directory)], again: true }
  yield* parts.madeAgents.facts()
  for (const { index, state } of directory.cells) if (state !== undefined) yield { kind: 'state', index, value: state }
  for (const [threadId, owner] of agentStates.conversations.owners.all()) yield { kind: 'thread', threadId, owner }
  for (const { agent: index, threadId, conversation } of agentStates.conversations.all())
    yield { kind: 'conversation', index, threadId, conversation }
  yield* sharedStates.facts()
  yield* boards.facts()
  yield* parts.budgets.facts()
  for (const { letter, bytes } of journal.deadLetters.entries) yield { kind: 'letter', letter, bytes }
}

/** Yields the turns that messages were given and that have not ended. */
function* openTurns({ actors }: AgentDirectory): Generator<GivenTurn> {
  for (const { index, mailbox } of actors)
    for (const messages of [mailbox.handed.all(), mailbox.queued()])
      for (const { memory, at, turn, attempt } of messages) if (turn > 0) yield [index, turn, attempt, idOf(memory, at)]
}
