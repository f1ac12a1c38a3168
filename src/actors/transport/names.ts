/**
 * Agent names known to one thread. Frames carry indices only. A team agent keeps its index permanently. An agent of a
 * single run has its index until the run ends, and is known by name in that run only.
 */
import type { RunView } from './run-views.ts'

export class Names {
  readonly #ofTeam: string[]
  readonly #indices: Map<string, number>
  /** Names of agents of a single run, by index. Each entry is the last agent that had the index. */
  readonly #ofRuns: string[] = []
  /** Names learned after the start. Messages addressed to them by name may still be in transit. */
  readonly #late = new Set<string>()

  constructor(names: readonly string[]) {
    this.#ofTeam = [...names]
    // Names that start with "$" belong to the runtime and have no mailbox: the host decides about messages to them. An
    // empty name stands for an agent of a single run.
    const agents = [...names.entries()].filter(([, name]) => name !== '' && !name.startsWith('$'))
    this.#indices = new Map(agents.map(([index, name]) => [name, index]))
  }

  /** Checks whether the index belongs permanently to one agent whose name is known. */
  isKnown(index: number): boolean {
    return (this.#ofTeam[index] ?? '') !== ''
  }

  name(index: number): string {
    return this.#ofTeam[index] || (this.#ofRuns[index] ?? `#${index}`)
  }

  indexOf(name: string, run: RunView): number | undefined {
    return run.agents?.get(name) ?? this.#indices.get(name)
  }

  isLate(name: string): boolean {
    return this.#late.size > 0 && this.#late.has(name)
  }

  /** Adds an agent that has joined: to a run if one is given, otherwise to the team. */
  learn(name: string, index: number, run: RunView | undefined): void {
    this.#late.add(name)
    if (run) {
      run.agents ??= new Map()
      run.agents.set(name, index)
      this.#ofRuns[index] = name
    } else {
      this.#ofTeam[index] = name
      this.#indices.set(name, index)
    }
  }
}
