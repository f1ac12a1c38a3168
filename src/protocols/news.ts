/** Blackboard entries that each agent has not seen yet and that match its interests. */
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { type BlackboardEntry, compilePattern, entryLine, entryText } from '../blackboard/entry.ts'
import { own } from '../shared/values.ts'

export function entriesAsText(entries: readonly BlackboardEntry[]): string {
  return entries.map((entry) => `- ${entryLine(entry)}`).join('\n')
}

/** Returns the value of an entry: a text as it is, anything else as data with its JSON as content. */
export function resultOfEntry(entry: BlackboardEntry): ScriptResult {
  return typeof entry.value === 'string' ? entry.value : { content: entryText(entry), structuredData: entry.value }
}

/** Returns the first entry with the highest confidence. The list must not be empty. */
export function surest(entries: readonly BlackboardEntry[]): BlackboardEntry {
  return entries.reduce((best, entry) => (entry.confidence > best.confidence ? entry : best))
}

/** Patterns of keys, by the agent's name. An agent that is not in the record wants all entries except its own. */
export type Interests = Partial<Record<string, readonly string[]>>

export class News {
  /** Number of entries and new versions so far. */
  count = 0
  readonly #desks: ReadonlyMap<string, Desk>
  readonly #versions = new Map<string, number>()

  constructor(agents: readonly string[], interests: Interests) {
    const desk = (agent: string) => ({ wants: wantsOf(agent, own(interests, agent)), begins: false, untold: new Map() })
    this.#desks = new Map(agents.map((agent) => [agent, desk(agent)]))
  }

  /** Adds an entry; false: this version is known. Agents get the newest versions, and no superseded entry. */
  add(entry: BlackboardEntry): boolean {
    const { key, version, author, supersedes } = entry
    if (version <= (this.#versions.get(key) ?? 0)) return false
    this.#versions.set(key, version)
    this.count += 1
    for (const { wants, untold } of this.#desks.values()) {
      untold.delete(key) // a new version counts as a new entry: it goes to the end
      if (supersedes !== null) untold.delete(supersedes)
      if (wants(key, author)) untold.set(key, entry)
    }
    return true
  }

  /** Lets the agents that are interested in the key begin. If there is none, lets all, and returns false. */
  begin(key: string): boolean {
    const desks = [...this.#desks.values()]
    const interested = desks.filter(({ wants }) => wants(key, ''))
    for (const desk of interested.length > 0 ? interested : desks) desk.begins = true
    return interested.length > 0
  }

  /** Names of the agents that have something to read or begin, in the order of the agents. */
  get waiting(): string[] {
    return [...this.#desks].filter(([, { begins, untold }]) => begins || untold.size > 0).map(([agent]) => agent)
  }

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
  wants(key: string, author: string): boolean
  begins: boolean
  untold: Map<string, BlackboardEntry>
}

function wantsOf(agent: string, patterns: readonly string[] | undefined): Desk['wants'] {
  if (!patterns) return (_key, author) => author !== agent
  const tests = patterns.map(compilePattern)
  return (key) => tests.some((fits) => fits(key))
}
