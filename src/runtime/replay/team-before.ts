/**
 * Fold of what a team brings to a run: states of agents, conversations of threads, shared state and the board of the
 * team. What a compaction has carried on is there with its value of then.
 */
import { END, kindOf, lengthOf, PATCH } from '../../mailbox/frame.ts'
import { OldStates } from '../durability/old-states.ts'
import { OldTeam } from '../durability/old-team.ts'
import type { LogEntry, Unrecorded } from '../log/records.ts'
import type { EndingState } from '../settings/ending-state.ts'

export class TeamBefore {
  readonly #states = new OldStates()
  readonly #team = new OldTeam(0)
  readonly #names = new Map<number, string>()
  /** Threads of runs, by run. */
  readonly #threads = new Map<number, string | undefined>()

  see(entry: LogEntry): void {
    if (entry.kind === 'frames') {
      const { memory, run } = entry
      for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
        const kind = kindOf(memory, at)
        if (kind === PATCH || kind === END) this.#states.frame(memory, at, run, this.#threads.get(run))
      }
      return
    }
    this.#team.see(entry)
    switch (entry.kind) {
      case 'name':
        if (entry.run === 0) this.#names.set(entry.index, entry.name)
        return
      case 'state':
        this.#states.ofAgents.set(entry.index, Object(entry.value))
        return
      case 'conversation':
        this.#states.conversations.keep(entry.index, entry.threadId, entry.conversation)
        return
      case 'agent.left':
        this.#names.delete(entry.index)
        this.#states.forgetAgent(entry.index)
        this.#team.forgetAgent(entry.index)
        return
      case 'run.launched':
        this.#threads.set(entry.run, entry.threadId)
        return
      case 'run.finished':
        this.#states.forget(entry.run)
    }
  }

  /** Forgets what ends with a session that was closed in order and has left no open run. */
  endSession(ends: readonly EndingState[]): void {
    this.#states.endSession(ends)
    this.#team.endSession(ends)
  }

  /** Returns what the team has now, as records. Empty if no run has left anything. */
  facts(): Unrecorded[] {
    const facts = [...this.#facts()]
    return facts.length === 0 ? [] : [...this.#nameRecords(), ...facts]
  }

  *#nameRecords(): Generator<Unrecorded> {
    for (const [index, name] of this.#names) yield { kind: 'name', index, name }
  }

  *#facts(): Generator<Unrecorded> {
    const { ofAgents, conversations } = this.#states
    const { joined, shared, board } = this.#team
    for (const agent of joined.values()) yield { ...agent, kind: 'agent.joined' }
    for (const [index, value] of ofAgents) if (this.#names.has(index)) yield { kind: 'state', index, value }
    for (const { agent: index, threadId, conversation } of conversations.all())
      yield { kind: 'conversation', index, threadId, conversation }
    for (const { kind, scope, owner, key, version, value } of shared)
      yield { kind, scope, ...(owner !== undefined && { owner }), key, version, value }
    for (const entry of board) yield { kind: 'blackboard', entry }
  }
}
