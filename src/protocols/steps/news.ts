/** What of a blackboard each agent has yet to be told, by what interests it. */
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { compilePattern } from '../../blackboard/pattern.ts'

/** Patterns of keys, by the agent's name. Who is not there wants everything but what it wrote itself. */
export type Interests = Partial<Record<string, readonly string[]>>

type Wants = (key: string, author: string) => boolean

export class News {
  /** How many entries and new versions there were. */
  count = 0
  readonly #desks: ReadonlyMap<string, Desk>
  readonly #versions = new Map<string, number>()

  constructor(agents: readonly string[], interests: Interests) {
    const desk = (agent: string) => ({ wants: wantsOf(agent, interests[agent]), begins: false, untold: new Map() })
    this.#desks = new Map(agents.map((agent) => [agent, desk(agent)]))
  }

  /** Takes an entry, if it is not known yet. Agents are told its newest version, and nothing of it once it is superseded. */
  add(entry: BlackboardEntry): boolean {
    const { key, version, author, supersedes } = entry
    if (version <= (this.#versions.get(key) ?? 0)) return false
    this.#versions.set(key, version)
    this.count += 1
    for (const { wants, untold } of this.#desks.values()) {
      untold.delete(key) // a new version is news: it goes to the end
      if (supersedes !== null) untold.delete(supersedes)
      if (wants(key, author)) untold.set(key, entry)
    }
    return true
  }

  /** Those whose interests take that key begin, without news; all do if nobody's take it. False: it was all. */
  begin(key: string): boolean {
    const desks = [...this.#desks.values()]
    const interested = desks.filter(({ wants }) => wants(key, ''))
    for (const desk of interested.length > 0 ? interested : desks) desk.begins = true
    return interested.length > 0
  }

  /** Who has to be told something, in the order of the agents. */
  get waiting(): string[] {
    return [...this.#desks].filter(([, { begins, untold }]) => begins || untold.size > 0).map(([agent]) => agent)
  }

  /** What that agent is to be told now; it counts as told. */
  take(agent: string): BlackboardEntry[] {
    const desk = this.#desks.get(agent)
    if (!desk) return []
    const entries = [...desk.untold.values()]
    desk.untold.clear()
    desk.begins = false
    return entries
  }
}

interface Desk {
  wants: Wants
  begins: boolean
  untold: Map<string, BlackboardEntry>
}

function wantsOf(agent: string, patterns: readonly string[] | undefined): Wants {
  if (!patterns) return (_key, author) => author !== agent
  const tests = patterns.map(compilePattern)
  return (key) => tests.some((fits) => fits(key))
}
