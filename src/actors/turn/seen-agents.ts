/**
 * Agents that a protocol script sees, in a team with a durable log. Agents come and go, so each look is logged: a
 * script that goes on in a later process sees at each place those that it saw there before.
 */
import { NOW } from '../../mailbox/frame.ts'
import type { Outbox } from '../transport/outbox.ts'
import { SEES } from './replay.ts'
import type { TurnStart } from './turn-start.ts'

interface LookingTurn {
  readonly start: TurnStart
  nextStep(): number
}

export class SeenAgents {
  readonly #outbox: Outbox
  readonly #turn: LookingTurn
  /** Names that were seen last. */
  #names: readonly string[] = []

  constructor(outbox: Outbox, turn: LookingTurn) {
    this.#outbox = outbox
    this.#turn = turn
  }

  /** Returns those that the script sees now. */
  among<T extends { readonly name: string }>(agents: readonly T[]): readonly T[] {
    const logged = this.#turn.start.replay?.matchAgents()
    if (!logged) {
      this.#log(agents.map(({ name }) => name))
      return agents
    }
    if (logged.names) this.#names = logged.names
    const byName = new Map(agents.map((agent) => [agent.name, agent]))
    return this.#names.flatMap((name) => byName.get(name) ?? [])
  }

  /** The log has the names again only where they have changed. */
  #log(names: readonly string[]): void {
    const isSame = names.length === this.#names.length && names.every((name, at) => name === this.#names[at])
    this.#names = names
    const { run, turn } = this.#turn.start
    this.#outbox.begin(NOW, run, turn, this.#turn.nextStep(), SEES, isSame ? undefined : JSON.stringify(names))
    this.#outbox.write(this.#outbox.size(), 'soon')
  }
}
