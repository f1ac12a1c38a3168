/**
 * Facts of the team, each as a record with its full value: what a log needs to have of the team when its older records
 * are dropped. Facts of runs are in the entries of the runs.
 */

import type { Logger } from '../../actors/definition/tool.ts'
import { idOf } from '../../mailbox/frame.ts'
import type { TeamMemory } from '../../mailbox/team-memory.ts'
import type { Scheduler } from '../../shared/clock.ts'
import type { HostMessages } from '../host/admission.ts'
import type { Cell } from '../host/agent.ts'
import type { Cancellation } from '../host/cancellation.ts'
import type { Redelivery } from '../host/commits.ts'
import type { HostLoop } from '../host/core.ts'
import type { AgentDirectory } from '../host/directory.ts'
import type { Journal } from '../host/journal.ts'
import type { BlockedTasks, Mailboxes, Receipts, Requests } from '../host/mailboxes.ts'
import type { AgentStates, PartStore } from '../host/parts.ts'
import type { RunState, RunTable } from '../host/run.ts'
import type { CautiousStart } from '../host/staged-start.ts'
import { EntryEncoder } from '../log/entry-codec.ts'
import { type GivenTurn, type HostRecord, type JoinedAgent, SEQ_STEP, type Unrecorded } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Block } from '../store/log-files.ts'
import type { Lifecycle } from '../supervision/lifecycle.ts'
import type { Boards } from '../verbs/boards.ts'
import type { Budgets } from '../verbs/budgets.ts'
import type { HostCalls } from '../verbs/calls.ts'
import type { DeadlinePauses } from '../verbs/deadline-pauses.ts'
import type { HostTools } from '../verbs/host-tools.ts'
import type { SharedStates } from '../verbs/shared-state.ts'
import type { SyncPoints } from '../verbs/sync-points.ts'

/** Records that are written together. */
const MOST_RECORDS = 256

export class RecordWriter {
  readonly #append: (block: Block) => Promise<void>
  readonly #encoder = new EntryEncoder()
  readonly #at: number
  #seq: number
  #records: HostRecord[] = []
  #last: Promise<void> = Promise.resolve()

  /**
   * `seq`: number of the first record. `at`: time of all records, in epoch ms. The first one has to be `log.opened`, so
   * that no time passes for the team meanwhile.
   */
  constructor(append: (block: Block) => Promise<void>, seq: number, at: number) {
    this.#append = append
    this.#seq = seq
    this.#at = at
  }

  get next(): number {
    return this.#seq
  }

  log(fact: Fact): void {
    this.#records.push(Object.assign({ ...fact }, { seq: this.#seq, at: this.#at, run: 0 }) as HostRecord)
    this.#seq += SEQ_STEP
    if (this.#records.length >= MOST_RECORDS) this.#write()
  }

  /** Resolves when all records are written. */
  written(): Promise<void> {
    if (this.#records.length > 0) this.#write()
    return this.#last
  }

  #write(): void {
    const records = this.#records
    this.#records = []
    const block = {
      firstSeq: records[0]!.seq,
      lastSeq: lastSeq(records.at(-1)!),
      carried: false,
      runs: [0],
      entries: this.#encoder.encode(records),
    }
    this.#last = this.#last.then(() => this.#append(block))
    this.#last.catch(() => {}) // told to who waits for it
  }
}

/** Agents that agents have made while the team ran. */
export interface MadeAgents {
  /** Puts one of an earlier process in its place, without a thread. Throws if the team as it is cannot have it. */
  rejoin(run: RunState | undefined, agent: JoinedAgent): Cell | undefined
  /** Throws if the team as it is cannot have an agent of an earlier process. */
  assertFits(run: RunState | undefined, agent: JoinedAgent): void
  /** Yields those that stay when their run ends, as the durable log has them. */
  facts(): Iterable<Extract<Unrecorded, { kind: 'agent.joined' }>>
}

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
