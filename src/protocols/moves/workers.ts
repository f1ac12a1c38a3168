/** Agents that work in parallel: each has one request at a time, and a limited number of requests in all. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../../actors/definition/context/context.ts'
import { CancelledError } from '../../errors.ts'
import { outcomeOf } from './ask-enough.ts'

interface Worker {
  /** Number of requests that it may still get. */
  rounds: number
  readonly outcomes: Outcome[]
  now: { turn: Promise<void>; stop: AbortController } | undefined
}

export class Workers {
  readonly #orchestrator: Pick<OrchestratorContext, 'request' | 'signal'>
  readonly #answered: () => Promise<void>
  readonly #workers: ReadonlyMap<string, Worker>

  /**
   * Each agent is asked at most `rounds` times. It is busy until `answered`, which is called after each answer, has
   * resolved.
   */
  constructor(
    orchestrator: Pick<OrchestratorContext, 'request' | 'signal'>,
    agents: readonly string[],
    rounds: number,
    answered: () => Promise<void>,
  ) {
    this.#orchestrator = orchestrator
    this.#answered = answered
    this.#workers = new Map(agents.map((agent) => [agent, { rounds, outcomes: [], now: undefined }]))
  }

  /** Turns that are open now. A turn does not reject if its request fails. */
  get turns(): Promise<void>[] {
    return [...this.#workers.values()].flatMap(({ now }) => now?.turn ?? [])
  }

  /** Outcomes of the requests that were not cancelled, agent by agent. */
  get outcomes(): Outcome[] {
    return [...this.#workers.values()].flatMap(({ outcomes }) => outcomes)
  }

  /** Checks whether an agent can be asked now. */
  isFree(agent: string): boolean {
    const worker = this.#workers.get(agent)
    return worker !== undefined && !worker.now && worker.rounds > 0
  }

  ask(agent: string, content: string, options: RequestOptions): void {
    const worker = this.#workers.get(agent)
    if (!worker) return
    const stop = new AbortController()
    worker.rounds -= 1
    worker.now = { stop, turn: this.#turn(agent, worker, content, { ...options, signal: stop.signal }) }
  }

  async #turn(agent: string, worker: Worker, content: string, options: RequestOptions): Promise<void> {
    const outcome = await outcomeOf(agent, () => this.#orchestrator.request(agent, content, options))
    if (!options.signal?.aborted && !this.#orchestrator.signal.aborted) {
      worker.outcomes.push(outcome)
      await this.#answered()
    }
    worker.now = undefined
  }

  /** Lets some agents finish their turns, cancels the others, and returns the names of the cancelled ones. */
  async stopAllBut(some: ReadonlySet<string>, reason: string): Promise<string[]> {
    const others = [...this.#workers].filter(([agent, { now }]) => now && !some.has(agent))
    for (const [, { now }] of others) now?.stop.abort(new CancelledError(reason))
    await Promise.all(this.turns)
    return others.map(([agent]) => agent)
  }
}
