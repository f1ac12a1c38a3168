/** The agents of a team that is served: their contexts, and how far they are, asked for again while somebody looks. */
import type { AgentProgress, ContextInfo } from '../../index.ts'

interface Seen {
  name: string
  context?: ContextInfo | null
  progress?: AgentProgress | null
}

/** Age of what is shown, in ms, from which on it is asked for again. */
const STALE_MS = 1_000
/** Time that an answer may take, in ms. */
const ANSWER_MS = 10_000

export class RemoteAgents {
  readonly #fetch: (signal: AbortSignal) => Promise<Response>
  readonly #over = new AbortController()
  #seen: ReadonlyMap<string, Seen> = new Map()
  #isAsking = false
  #askedAt = Number.NEGATIVE_INFINITY

  /** `fetch`: asks the service for the list of its agents. */
  constructor(fetch: (signal: AbortSignal) => Promise<Response>) {
    this.#fetch = fetch
  }

  /** Returns what the service said last of an agent. */
  get(name: string): Seen | undefined {
    if (!this.#isAsking && performance.now() - this.#askedAt >= STALE_MS) void this.#ask()
    return this.#seen.get(name)
  }

  close(): void {
    this.#over.abort()
  }

  async #ask(): Promise<void> {
    this.#isAsking = true
    try {
      const signal = AbortSignal.any([this.#over.signal, AbortSignal.timeout(ANSWER_MS)])
      const { agents } = (await (await this.#fetch(signal)).json()) as { agents: Seen[] }
      this.#seen = new Map(agents.map((agent) => [agent.name, agent]))
    } catch {
      this.#seen = new Map() // what is wrong there, the lines of the digest say
    } finally {
      this.#isAsking = false
      this.#askedAt = performance.now()
    }
  }
}
