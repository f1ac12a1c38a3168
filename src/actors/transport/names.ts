/**
 * The names of agents as one thread knows them. Frames have indices alone. A name of the team keeps its index for ever;
 * an agent of one run has it as long as the run, and is known by name in that run alone.
 */
import type { RunView } from './run-views.ts'

export class Names {
  readonly #ofTeam: string[]
  readonly #indices: Map<string, number>
  /** By index, of agents of one run: the one that had it last. */
  readonly #ofRuns: string[] = []
  /** What was learned after the start: messages to them may still be under way by name. */
  readonly #late = new Set<string>()

  constructor(names: readonly string[]) {
    this.#ofTeam = [...names]
    // The runtime's own names take no room in a mailbox: what is sent to them is the host's to judge. '': of one run.
    const agents = [...names.entries()].filter(([, name]) => name !== '' && !name.startsWith('$'))
    this.#indices = new Map(agents.map(([index, name]) => [name, index]))
  }

  /** Whether the index is the same agent's for ever, and known. */
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

  /** Somebody has come; to a run, where there is one. */
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
