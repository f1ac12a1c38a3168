/** Fold of what the log has of the team itself: the last value of each fact. */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { DeadLetterList } from '../../mailbox/dead-letters.ts'
import { Payments } from '../budgets/payments.ts'
import type { HostRecord, JoinedAgent, Unrecorded } from '../log/records.ts'

type OfKind<Kind extends HostRecord['kind']> = Extract<HostRecord, { kind: Kind }>

export class OldTeam {
  /** Dead letters that nobody has sent again or discarded. */
  readonly letters = new DeadLetterList()
  /** Model calls that the window of the team counts. */
  readonly payments: Payments
  /** Agents that were made while the team ran, by their index: those that stay until they are removed. */
  readonly joined = new Map<number, JoinedAgent>()
  readonly #shared = new Map<string, OfKind<'shared'>>()
  readonly #board = new Map<string, BlackboardEntry>()

  /** `windowMs`: time for which the team counts what model calls have cost. */
  constructor(windowMs: number) {
    this.payments = new Payments(windowMs)
  }

  /** Values of shared state. */
  get shared(): Iterable<OfKind<'shared'>> {
    return this.#shared.values()
  }

  /** Entries of the team's blackboard, in the order in which they were written. */
  get board(): Iterable<BlackboardEntry> {
    return this.#board.values()
  }

  /** Yields the last word on each fact, as a record. */
  *facts(): Generator<Unrecorded> {
    for (const { kind, scope, owner, key, version, value } of this.#shared.values())
      yield { kind, scope, ...(owner !== undefined && { owner }), key, version, value }
    for (const entry of this.#board.values()) yield { kind: 'blackboard', entry }
    for (const { letter, bytes } of this.letters.entries) yield { kind: 'letter', letter, bytes }
  }

  /** Forgets what an agent has that has left. */
  forgetAgent(index: number): void {
    this.joined.delete(index)
    for (const [key, { owner }] of this.#shared) if (owner === index) this.#shared.delete(key)
  }

  see(record: HostRecord): void {
    this.payments.see(record)
    switch (record.kind) {
      case 'shared':
        this.#shared.set(JSON.stringify([record.scope, record.owner, record.key]), record)
        return
      case 'message.dead':
      case 'letter':
        this.letters.delete(record.letter.id)
        this.letters.add(record.letter, record.bytes)
        return
      case 'letter.gone':
        this.letters.delete(record.id)
        return
      case 'agent.joined':
        if (record.run === 0) this.joined.set(record.index, record)
        return
      case 'blackboard':
        if (record.run === 0) putLast(this.#board, `${record.entry.version} ${record.entry.key}`, record.entry)
    }
  }
}

/** Puts a value behind the others: facts that were carried on stand in the log a second time, in their order. */
function putLast<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key)
  map.set(key, value)
}
