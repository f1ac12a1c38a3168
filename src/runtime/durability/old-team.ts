/** Fold of what the log has of the team itself: the last value of each fact. */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { DeadLetterList } from '../../mailbox/dead-letters.ts'
import { Payments } from '../budgets/payments.ts'
import type { HostRecord, JoinedAgent } from '../log/records.ts'
import type { EndingState } from '../settings/ending-state.ts'

type OfKind<Kind extends HostRecord['kind']> = Extract<HostRecord, { kind: Kind }>

export class OldTeam {
  /** Dead letters that nobody has sent again or discarded. */
  readonly letters = new DeadLetterList()
  /** Model calls that the window of the team counts. */
  readonly payments: Payments
  /** Agents that were made while the team ran, by their index: those that stay until they are removed. */
  readonly joined = new Map<number, JoinedAgent>()
  readonly #shared = new Map<string, OfKind<'shared'>>()
  /** Entries of the blackboard by their numbers. */
  readonly #board = new Map<number, BlackboardEntry>()

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
    return [...this.#board].sort(([one], [other]) => one - other).map(([, entry]) => entry)
  }

  /** Forgets what an agent has that has left. */
  forgetAgent(index: number): void {
    this.joined.delete(index)
    for (const [key, { owner }] of this.#shared) if (owner === index) this.#shared.delete(key)
  }

  /** Forgets what ends with a session that was closed in order and has left no open run. */
  endSession(ends: readonly EndingState[]): void {
    if (ends.includes('board')) this.#board.clear()
    if (!ends.includes('shared')) return
    for (const [key, { scope }] of this.#shared) if (scope !== 'persistent') this.#shared.delete(key)
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
        if (record.run === 0) this.#board.set(record.nth ?? this.#board.size, record.entry)
    }
  }
}
