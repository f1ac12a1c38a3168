/**
 * Facts of the team, each as a record with its full value: what a log needs to have of the team when its older records
 * are dropped. Facts of runs are in the entries of the runs.
 */

import { idOf } from '../../mailbox/frame.ts'
import type { Agent } from '../host/agent.ts'
import type { AgentDirectory } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import { EntryEncoder } from '../log/entry-codec.ts'
import { type GivenTurn, type HostRecord, type JoinedAgent, SEQ_STEP, type Unrecorded } from '../log/records.ts'
import { lastSeq } from '../log/run-log.ts'
import type { Block } from '../store/log-files.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { Budgets } from '../verbs/budgets.ts'

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

export interface MadeAgents {
  /** Puts one of an earlier process in its place, without a thread. Throws if the team as it is cannot have it. */
  rejoin(run: RunState | undefined, agent: JoinedAgent): Agent | undefined
  /** Throws if the team as it is cannot have an agent of an earlier process. */
  assertFits(run: RunState | undefined, agent: JoinedAgent): void
  /** Yields those that stay when their run ends, as the durable log has them. */
  facts(): Iterable<Extract<Unrecorded, { kind: 'agent.joined' }>>
}

export interface TeamParts {
  readonly budgets: Budgets
  readonly madeAgents: MadeAgents
}

/** Record of the team: what it says replaces what earlier records of its kind and its agent or key have said. */
export type Fact = Unrecorded

/**
 * Yields all facts of the team. Each has the value of the moment in which it is asked for, so it is logged before
 * anything else happens.
 */
export function* teamFacts(owners: Supervisor, parts: TeamParts): Generator<Fact> {
  const { agentStates, boards, directory, hostMessages, journal, runs, sharedStates } = owners
  const agents = directory.byIndex.map(({ index, numbers }) => ({ index, ...numbers }))
  yield { kind: 'numbers', agents, lastHostNumber: hostMessages.last, lastRun: runs.last }
  for (const { index, name, run } of directory.byIndex) if (!run && name !== '') yield { kind: 'name', index, name }
  yield { kind: 'turns', turns: [...openTurns(directory)], again: true }
  yield* parts.madeAgents.facts()
  for (const { index, state } of directory.byIndex)
    if (state !== undefined) yield { kind: 'state', index, value: state }
  for (const fact of agentStates.conversations.owners.all()) yield { kind: 'thread', ...fact }
  for (const { agent: index, threadId, conversation } of agentStates.conversations.all())
    yield { kind: 'conversation', index, threadId, conversation }
  yield* sharedStates.facts()
  yield* owners.outbox.facts()
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
