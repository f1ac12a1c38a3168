/**
 * Makes the owners of all host state and work of a team, in order. Each takes the core and what it uses of those before
 * it. Calls go down this list; a call upwards is a method of the core.
 *
 *   outboxes -> Router (journal, admission, mailboxes) -> dispatcher (channels, wakeups) life cycle, exits (redelivery)
 *                        \-> records$ of the journal -> the readers: restarts, timeouts, watchdog, tasks, events
 */

import type { AgentCode, AssignedTools, RosterEntry } from '../../actors/definition/assignment.ts'
import type { HandoffFilter } from '../../actors/definition/protocol.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { DramatisError } from '../../shared/errors.ts'
import { Admission, HostMessages } from '../host/admission.ts'
import type { Agent } from '../host/agent.ts'
import { Cancellation } from '../host/cancellation.ts'
import { Commits, Recalls, Redelivery } from '../host/commits.ts'
import { Core, type CoreOptions } from '../host/core.ts'
import { Delegations } from '../host/delegation.ts'
import { Dispatcher } from '../host/dispatcher.ts'
import { KeptLimits } from '../host/limit-waits.ts'
import { Mailboxes, Requests } from '../host/mailboxes.ts'
import { Outbox } from '../host/outbox.ts'
import { Permits, Suspension } from '../host/permits.ts'
import { ReplyQueue } from '../host/replies.ts'
import type { RunState } from '../host/run.ts'
import { StagedStart } from '../host/staged-start.ts'
import { DELEGATION_BOUND, type DelegationBound } from '../settings/agent-settings.ts'
import { type ThreadSettings, threadSettings } from '../settings/settings.ts'
import type { Thread } from '../threads/thread.ts'
import { type BoardSettings, Boards } from '../verbs/boards.ts'
import { decisionVerbs, HostCalls, watchVerbs } from '../verbs/calls.ts'
import { ChangedTurns, DeadlinePauses, type SetAside } from '../verbs/deadline-pauses.ts'
import { Guards } from '../verbs/guards.ts'
import { Escalations, escalationVerbs, Handoffs } from '../verbs/handoffs.ts'
import { HostTools } from '../verbs/host-tools.ts'
import { ToolPools } from '../verbs/isolated-tools.ts'
import { asksPerson, personVerbs } from '../verbs/questions.ts'
import { Remotes } from '../verbs/remote.ts'
import { SharedStates } from '../verbs/shared-state.ts'
import { Steers } from '../verbs/steering.ts'
import { SyncPoints } from '../verbs/sync-points.ts'

/** Source of the code, the tools and the threads of agents. */
export interface Provisioning {
  codeOf(agent: Agent): Promise<AgentCode>
  toolsOf(agent: Agent): Promise<AssignedTools>
  /** Resolves when a thread may be made for the agent; undefined: it may be made now. */
  roomFor(agent: Agent): Promise<void> | undefined
  threadFor(agent: Agent): Thread
  /** Lets a thread boot for the first of these agents that needs one, while their code is looked for. */
  expect(agents: readonly Agent[]): void
  /** Returns the agents as a protocol script sees them. */
  roster(run: RunState | undefined): RosterEntry[]
}

export interface OwnersOptions extends CoreOptions {
  provisioning: Provisioning
  /** Bounds of the agents' threads. Default: there are none. */
  threads?: Pick<ThreadSettings, 'max' | 'idleMs' | 'tools'>
  /** Threads of isolated tools, if several teams share them. */
  pools?: ToolPools
  /** Number of agents that may have a turn of one run at the same time. Default: no limit. */
  maxConcurrentAgents?: number
  delegationBound?: DelegationBound
  /** Default: no limit. */
  maxHandoffs?: number
  handoffFilter?: HandoffFilter | undefined
  /**
   * Checks whether a caller can have a handle of that run, and so answer the questions of its agents. Default: always.
   */
  hasHandle?: (run: RunState) => boolean
  /** Called when a run is interrupted because the code of a turn has changed. */
  interrupted?: (run: RunState, error: DramatisError, turn: SetAside) => void
  blackboard?: BoardSettings
  persistentFile?: string
}

const NO_BLACKBOARD: BoardSettings = { scope: false, waitTimeoutMs: 600_000 }

export abstract class Owners<Options extends OwnersOptions = OwnersOptions> extends Core<Options> {
  readonly provisioning = this.options.provisioning
  readonly threads = this.options.threads ?? threadSettings()

  // From the mailboxes to the threads, and what waits for answers.
  readonly replies = new ReplyQueue(this)
  readonly requests = new Requests(this, this.replies)
  readonly permits = new Permits(this, this.options.maxConcurrentAgents)
  readonly suspension = new Suspension(this, this.permits, this.replies, this.requests)
  readonly stagedStart = new StagedStart(this, this.replies)
  readonly dispatcher = new Dispatcher(this, this.stagedStart, this.permits, this.replies, this.suspension)
  readonly mailboxes = new Mailboxes(this, this.requests)
  readonly keptLimits = new KeptLimits(this.directory, this.limits)

  // Ends of turns.
  readonly cancellation = new Cancellation(this, this.dispatcher, this.mailboxes, this.requests)
  readonly #recalls = new Recalls(this, this.cancellation)
  readonly redelivery = new Redelivery(this, this.cancellation, this.dispatcher, this.permits, this.requests)
  readonly commits = new Commits(this, this.cancellation, this.permits, this.mailboxes, this.redelivery, this.requests)

  // Admission of messages.
  readonly delegations = new Delegations(
    this,
    this.requests,
    this.options.delegationBound ?? DELEGATION_BOUND,
    this.options.maxHandoffs ?? Number.POSITIVE_INFINITY,
  )
  readonly admission = new Admission(this, this.cancellation, this.delegations, this.mailboxes, this.requests)
  readonly hostMessages = new HostMessages(this, this.admission, this.requests)
  readonly escalations = new Escalations(this, this.hostMessages)

  // Work that the host does for the agents.
  readonly calls = new HostCalls(this, this.replies)
  readonly pauses = new DeadlinePauses(this, this.requests)
  readonly syncPoints = new SyncPoints(this)
  readonly boards = new Boards(this, this.admission, this.options.blackboard ?? NO_BLACKBOARD)
  readonly sharedStates = new SharedStates(this, this.options.persistentFile)
  readonly outbox = new Outbox(this.journal)
  readonly guards = new Guards(this)
  readonly steers = new Steers(this, this.guards, this.hostMessages)
  readonly #ask = asksPerson(this, this.pauses, this.suspension, this.options.hasHandle ?? (() => true))
  readonly pools = this.options.pools ?? new ToolPools(this.threads.tools)
  readonly tools = new HostTools(this, this.guards, this.pools, this.#ask)
  readonly remotes = new Remotes(this, this.tools, this.#ask, this.pauses)
  readonly #changedTurns = new ChangedTurns(this, this.permits, this.mailboxes, this.pauses, this.redelivery)

  constructor(options: Options) {
    super(options)
    const { cancellation, delegations, hostMessages, requests } = this
    const { handoffFilter } = this.options
    for (const { verbs } of [this.boards, this.sharedStates, this.syncPoints, this.tools, this.guards])
      this.calls.register(verbs)
    this.calls.register([
      ...new Handoffs(this, { cancellation, delegations, hostMessages, requests, filter: handoffFilter }).verbs,
      ...personVerbs(this.#ask),
      ...watchVerbs(this, hostMessages),
      ...decisionVerbs(this),
      ...escalationVerbs(this),
    ])
  }

  recalls(agent: Agent, envelope: Envelope<RunState>): boolean {
    return this.#recalls.holds(agent, envelope)
  }

  abandon(agent: Agent, envelope: Envelope<RunState>): void {
    this.cancellation.abandon(agent, envelope)
  }

  turnFailed(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): void {
    this.escalations.failed(agent, envelope, error)
  }

  turnChanged(agent: Agent, envelope: Envelope<RunState>, error: DramatisError): void {
    const turn = this.#changedTurns.setAside(agent, envelope, error)
    this.options.interrupted?.(envelope.run, error, turn)
  }

  unrepeatableTool(agent: Agent, turn: number): string | undefined {
    return this.tools.unrepeatableIn(agent, turn)
  }

  roster(run: RunState): RosterEntry[] {
    return this.provisioning.roster(run)
  }
}
