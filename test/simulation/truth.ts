/**
 * What is really going on in a simulated team, as its agents themselves know it: who is at which message, and what each waits
 * for. What the supervisor says of waits is held against this: it shares nothing with the graph that the supervisor reads
 * from its books.
 */
import type { Agent } from '../../src/runtime/host/agent.ts'
import type { Incarnation } from '../../src/runtime/host/incarnation.ts'

/** What a handler waits for. */
export type Wait =
  /** So many of these messages are to be answered. */
  | { kind: 'answers'; need: number; of: readonly Asked[] }
  | { kind: 'room'; of: readonly [Asked] }
  /** Agents are to come to a sync point. */
  | { kind: 'meeting'; of: readonly string[] }
  /** The host is to do it, or its time is to pass. */
  | { kind: 'host' }

/** One message to one agent. */
export interface Asked {
  readonly path: string
  readonly agent: string
}

/** One handler at its message. */
export interface Work {
  readonly name: string
  readonly runId: string
  readonly path: string
  /** Its log has no answers: it is at that message for the first time, or was and failed. */
  readonly again: boolean
  readonly agent: Agent
  readonly incarnation: Incarnation
  readonly signal: AbortSignal
  readonly concurrency: number
  /** undefined: it does not wait for others. */
  wait: Wait | undefined
  /** It waits for another one to take its duty on. */
  handsOff: boolean
}

const keyOf = ({ path, agent }: Asked) => `${path} to ${agent}`

export class Truth {
  /** Those that are at work now; what an agent whose life has ended still does is none. */
  readonly works = new Set<Work>()
  /** Lives that have been ended, and perhaps are not told so yet. */
  readonly killed = new Set<Incarnation>()
  /** Messages that have been begun with, and how far they came. */
  readonly #begun = new Map<string, 'open' | 'done' | 'failed'>()
  /** Messages that perhaps nobody has begun with. */
  readonly #waiting = new Map<string, { readonly agent: string; readonly from: string; readonly runId: string }>()
  /** Of a message whose recipient has handed its duty off: the message that carries it now. */
  readonly #movedTo = new Map<string, Asked>()
  /** The instances of an agent. */
  readonly #instances: (agent: string) => readonly Agent[]

  constructor(instances: (agent: string) => readonly Agent[]) {
    this.#instances = instances
  }

  alive({ agent, incarnation }: Pick<Work, 'agent' | 'incarnation'>): boolean {
    return agent.incarnation === incarnation && !this.killed.has(incarnation)
  }

  get living(): Work[] {
    return [...this.works].filter((work) => this.alive(work))
  }

  tells({ name, runId }: Work, asked: Asked): void {
    this.#waiting.set(keyOf(asked), { agent: asked.agent, from: name, runId })
  }

  begin(work: Work): void {
    this.works.add(work)
    this.#waiting.delete(keyOf({ path: work.path, agent: work.name }))
    this.#begun.set(keyOf({ path: work.path, agent: work.name }), 'open')
  }

  end(work: Work, well: boolean): void {
    this.works.delete(work)
    if (this.alive(work)) this.#begun.set(keyOf({ path: work.path, agent: work.name }), well ? 'done' : 'failed')
  }

  /** Its last attempt at that message has failed: what it asked then it asks again. */
  hasFailed(asked: Asked): boolean {
    return this.#begun.get(keyOf(asked)) === 'failed'
  }

  /** That plan is played once more, or what it has led to stands: nobody here knows of which message that is. */
  again(path: string): void {
    for (const key of this.#begun.keys())
      if (key.startsWith(`${path} `) || key.startsWith(`${path}.`)) this.#begun.set(key, 'failed')
  }

  moved(from: Asked, to: Asked): void {
    this.#movedTo.set(keyOf(from), to)
  }

  /** What is wrong with the claim that those of the cycle, in that order, wait for each other in vain. */
  refute(cycle: readonly string[]): string | undefined {
    const stuck = this.#stuck()
    for (const [i, name] of cycle.entries()) {
      const next = cycle[(i + 1) % cycle.length]!
      const own = [...stuck].filter((work) => work.name === name)
      if (own.length === 0) return `no turn of ${name} waits in vain`
      if (!own.some((work) => this.#whom(work).includes(next))) return `${name} does not wait for ${next}`
    }
    return undefined
  }

  /** Handlers that wait, and that nobody who does not can free. */
  #stuck(): Set<Work> {
    const stuck = new Set(this.living.filter(({ wait, signal }) => wait !== undefined && !signal.aborted))
    for (let before = -1; before !== stuck.size; ) {
      before = stuck.size
      for (const work of stuck) if (this.#isFree(work, stuck)) stuck.delete(work)
    }
    return stuck
  }

  #isFree({ wait, runId }: Work, stuck: ReadonlySet<Work>): boolean {
    if (!wait || wait.kind === 'host') return true
    if (wait.kind === 'meeting') return wait.of.every((agent) => this.#mayCome(agent, runId, stuck))
    if (wait.kind === 'room') return this.#mayTake(wait.of[0].agent, undefined, stuck)
    return wait.of.filter((asked) => this.#mayBeAnswered(asked, runId, stuck)).length >= wait.need
  }

  #mayBeAnswered(asked: Asked, runId: string, stuck: ReadonlySet<Work>): boolean {
    const { path, agent } = this.#holder(asked)
    const at = this.living.filter((work) => work.name === agent && work.path === path)
    if (at.length > 0) return at.some((work) => !stuck.has(work))
    const begun = this.#begun.get(keyOf({ path, agent }))
    // Of one that has failed or was cut off nobody here knows whether it comes again: what is claimed of it may be true.
    return begun ? begun === 'done' : this.#mayTake(agent, runId, stuck, { path, agent })
  }

  /** Whoever has the duty to answer it now. */
  #holder(asked: Asked): Asked {
    const moved = this.#movedTo.get(keyOf(asked))
    return moved ? this.#holder(moved) : asked
  }

  /** Whether the agent may yet begin with a message of that run, or of any. */
  #mayTake(agent: string, runId: string | undefined, stuck: ReadonlySet<Work>, asked?: Asked): boolean {
    const instances = this.#instances(agent)
    const own = this.living.filter(({ name }) => name === agent)
    // A message keeps its room until it is done with; of those that wait nobody here knows which have some.
    const waiting = [...this.#waiting.values()].filter((other) => other.agent === agent).length
    const isFull = own.length > 0 && own.length + waiting >= instances[0]!.settings.mailbox.capacity
    if (isFull && own.every((work) => stuck.has(work))) return false
    return instances.some(({ incarnation, settings }) => {
      if (!incarnation?.ready || this.killed.has(incarnation)) return true // it is to begin anew
      const at = this.living.filter((work) => work.incarnation === incarnation)
      const ofRun = at.filter((work) => work.runId === runId)
      const runs = new Set(at.map((work) => work.runId)).size
      if (runId !== undefined && ofRun.length === 0 && runs < settings.concurrency)
        return at.length === 0 || (asked !== undefined && !this.#mayBeBehind(asked, runId))
      return at.length === 0 || (ofRun.length > 0 ? ofRun : at).some((work) => !stuck.has(work))
    })
  }

  /** Whether another one may stand before it that it does not pass: of its run, or of its sender. */
  #mayBeBehind(asked: Asked, runId: string): boolean {
    const own = this.#waiting.get(keyOf(asked))
    for (const [key, other] of this.#waiting)
      if (key !== keyOf(asked) && other.agent === asked.agent && (other.runId === runId || other.from === own?.from))
        return true
    return false
  }

  /** Whether it has, or may yet get, a turn of that run in which it comes to the meeting. */
  #mayCome(agent: string, runId: string, stuck: ReadonlySet<Work>): boolean {
    const own = this.living.filter((work) => work.name === agent && work.runId === runId)
    if (own.length > 0) return own.some((work) => !stuck.has(work))
    const waits = [...this.#waiting.values()].some((other) => other.agent === agent && other.runId === runId)
    const cutOff = [...this.works].some((work) => work.name === agent && work.runId === runId) // it may wait to come again
    return !(waits || cutOff) || this.#mayTake(agent, runId, stuck)
  }

  /** The agents that it waits for. */
  #whom({ wait }: Work): string[] {
    if (!wait || wait.kind === 'host') return []
    if (wait.kind === 'meeting') return [...wait.of]
    return wait.of.flatMap((asked) => {
      const { path, agent } = this.#holder(asked)
      // Who is at a handoff may not know yet that it is done; or never will, being dead.
      const by = [...this.works].filter((work) => work.name === agent && work.path === path && work.handsOff)
      return [asked.agent, agent, ...by.flatMap((work) => this.#whom(work))]
    })
  }
}
