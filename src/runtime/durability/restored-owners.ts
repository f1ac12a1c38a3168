/** Parts of a supervisor that get what an earlier process has left. */
import type { Logger } from '../../actors/definition/logger.ts'
import type { Scheduler } from '../../clock.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { Budgets } from '../budgets/budgets.ts'
import type { CautiousStart } from '../dispatch/cautious-start.ts'
import type { JoinedAgent, Unrecorded } from '../log/records.ts'
import type { BlockedTasks } from '../mailboxes/blocked-tasks.ts'
import type { Mailboxes } from '../mailboxes/mailboxes.ts'
import type { Receipts } from '../mailboxes/receipts.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { AgentStates } from '../state/agent-states.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { PartStore } from '../state/part-store.ts'
import type { RunState } from '../state/run-state.ts'
import type { RunTable } from '../state/run-table.ts'
import type { Lifecycle } from '../supervision/lifecycle.ts'
import type { HostTools } from '../tools/host-tools.ts'
import type { Cancellation } from '../turns/cancellation.ts'
import type { Redelivery } from '../turns/redelivery.ts'
import type { Boards } from '../verbs/boards.ts'
import type { HostCalls } from '../verbs/calls.ts'
import type { DeadlinePauses } from '../verbs/deadline-pauses.ts'
import type { SharedStates } from '../verbs/shared-state.ts'
import type { SyncPoints } from '../verbs/sync-points.ts'

/** Agents that agents have made while the team ran. */
export interface MadeAgents {
  /** Puts one of an earlier process in its place, without a thread. Throws if the team as it is cannot have it. */
  rejoin(run: RunState | undefined, agent: JoinedAgent): Cell | undefined
  /** Throws if the team as it is cannot have an agent of an earlier process. */
  assertFits(run: RunState | undefined, agent: JoinedAgent): void
  /** Yields those that stay when their run ends, as the durable log has them. */
  facts(): Iterable<Extract<Unrecorded, { kind: 'agent.joined' }>>
}

/** Parts of a team that are not in the supervisor. */
export interface TeamParts {
  readonly budgets: Budgets
  readonly madeAgents: MadeAgents
}

/** Owners of the state that is put in place. */
export interface RestoredOwners {
  readonly agentStates: AgentStates
  readonly blocked: BlockedTasks
  readonly boards: Boards
  readonly calls: HostCalls
  readonly cancellation: Cancellation
  readonly caution: CautiousStart
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly journal: Journal
  readonly lifecycle: Lifecycle
  readonly logger: Logger
  readonly loop: HostLoop
  readonly mailboxes: Mailboxes
  readonly parts: PartStore
  readonly pauses: DeadlinePauses
  readonly receipts: Receipts
  readonly redelivery: Redelivery
  readonly requests: Requests
  readonly runs: RunTable
  readonly sharedStates: SharedStates
  readonly syncPoints: SyncPoints
  readonly team: TeamMemory
  readonly tools: HostTools
  /** Notifies the readers of the journal that all of these runs is in its place. */
  readersRestored(runs: ReadonlySet<RunState>): void
}
