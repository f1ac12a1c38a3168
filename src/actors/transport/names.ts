/**
 * Agent names known to one thread. Frames carry indices only. A team agent keeps its index permanently. An agent of a
 * single run has its index until the run ends, and is known by name in that run only.
 */
import { FIXED_NAMES } from '../../mailbox/message.ts'
import type { RunView } from './run-views.ts'

export class Names {
  readonly #text: string
  #list: string[] | undefined
  /** Indices of the agents that this thread has written to by name, or has learned of. */
  readonly #indices = new Map<string, number>()
  /** Names of agents of a single run, by index. Each entry is the last agent that had the index. */
  readonly #ofRuns: string[] = []
  /** Names learned after the start. Messages addressed to them by name may still be in transit. */
  readonly #late = new Set<string>()

  /** `text`: `names` of the assignment. */
  constructor(text: string) {
    this.#text = text
  }

  /** Names of the team by index. Many threads need none of them, and a team can have thousands. */
  get #ofTeam(): string[] {
    this.#list ??= this.#text.split('\n')
    return this.#list
  }

  /** Checks whether the index belongs permanently to one agent whose name is known. */
  isKnown(index: number): boolean {
    return index < FIXED_NAMES.length || ((this.#list ?? this.#ofTeam)[index] ?? '') !== ''
  }

  name(index: number): string {
    const list = this.#list ?? this.#ofTeam
    return FIXED_NAMES[index] ?? (list[index] || (this.#ofRuns[index] ?? `#${index}`))
  }

  indexOf(name: string, run: RunView): number | undefined {
    return run.agents?.get(name) ?? this.#indices.get(name) ?? this.#find(name)
  }

  /**
   * Names that start with "$" belong to the runtime and have no mailbox: the host decides about messages to them. An
   * empty name stands for an agent of a single run.
   */
  #find(name: string): number | undefined {
    if (name === '' || name.startsWith('$')) return undefined
    const index = this.#ofTeam.indexOf(name)
    if (index < 0) return undefined
    this.#indices.set(name, index)
    return index
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
