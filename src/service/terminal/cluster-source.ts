/**
 * A cluster that is watched from outside. Its engine tells of processes, shards and takeovers; what the agents do is
 * told by whichever process can be reached.
 */
import type { AgentProgress, ContextInfo, Digest, DigestQuestion } from '../../index.ts'
import type { ClusterMember, SeenCluster } from '../../runtime/cluster/cluster-store.ts'
import type { DigestProcess } from '../../runtime/views/digest-line.ts'
import { systemClock } from '../../shared/clock.ts'
import { anyAborted } from '../../shared/on-abort.ts'
import { seenCluster } from '../shared/cluster-url.ts'
import { failureWords, oneLine } from '../shared/failure.ts'
import { type ClusterSight, type Move, remoteSources, type Talk, type TeamSource } from './source.ts'

/** Time between two looks at the engine, which are a connection each, and between two tries to reach a process. */
const AGAIN_MS = 2_000
/** Time that a process has to say what teams it has. */
const REACH_MS = 3_000
const MOST_MOVES = 100

export class ClusterSource implements TeamSource {
  readonly #url: string
  readonly #name: string
  readonly #token: string | undefined
  readonly #moves: Move[] = []
  readonly #whys = new Map<string, string>()
  readonly #over = new AbortController()
  #seen: SeenCluster
  #failure: string | undefined
  #current: { readonly id: string; readonly source: TeamSource; readonly left: AbortController } | undefined

  /** @throws ConfigurationError for an unknown cluster, ClusterUnreachableError */
  static async open(url: string, name: string | undefined, token: string | undefined): Promise<ClusterSource> {
    const seen = await seenCluster(url, name)
    return new ClusterSource(url, seen, token)
  }

  private constructor(url: string, seen: SeenCluster & { name: string }, token: string | undefined) {
    this.#url = url
    this.#name = seen.name
    this.#seen = seen
    this.#token = token
    void this.#look(this.#over.signal)
  }

  cluster(): ClusterSight {
    return { ...this.#seen, moves: this.#moves, failure: this.#failure }
  }

  /** Yields the digest of a process; where none can be reached, what is not in view, and why. */
  async *watch(signal: AbortSignal): AsyncGenerator<Digest> {
    while (!signal.aborted) {
      for (const member of this.#seen.members) {
        const left = new AbortController()
        const both = anyAborted([signal, left.signal])
        try {
          const source = await this.#reach(member, both.signal)
          this.#current = { id: member.id, source, left }
          yield* source.watch(both.signal)
          this.#whys.delete(member.id)
        } catch (error) {
          this.#whys.set(member.id, oneLine(failureWords(error)))
        } finally {
          both.forget()
          await this.#current?.source.close()
          this.#current = undefined
        }
        if (signal.aborted) return
      }
      yield { seq: 0, at: systemClock.now(), n: 0, processes: this.#processes() }
      await systemClock.sleep(AGAIN_MS, signal).catch(() => {})
    }
  }

  async #reach({ address }: ClusterMember, signal: AbortSignal): Promise<TeamSource> {
    if (address === undefined) throw new Error('it has no cluster.address')
    const late = anyAborted([signal, AbortSignal.timeout(REACH_MS)])
    try {
      const sources = await remoteSources(address, this.#token, late.signal)
      const source = sources.length === 1 ? sources[0] : sources.find(({ team }) => team === this.#name)
      if (source) return source
      throw new Error(`it serves several teams, and none is called "${this.#name}"`)
    } finally {
      late.forget()
    }
  }

  /** Looks at the engine again and again, and leaves a process that is not there any more. */
  async #look(signal: AbortSignal): Promise<void> {
    for (;;) {
      await systemClock.sleep(AGAIN_MS, signal).catch(() => {})
      if (signal.aborted) return
      try {
        const seen = await seenCluster(this.#url, this.#name)
        this.#note(seen)
        this.#seen = seen
        this.#failure = undefined
      } catch (error) {
        this.#failure = oneLine(failureWords(error))
        continue
      }
      const { id, left } = this.#current ?? {}
      if (id !== undefined && !this.#seen.members.some((member) => member.id === id)) left?.abort()
    }
  }

  #note(now: SeenCluster): void {
    const before = this.#seen
    for (const { shard, owner, incarnation } of now.shards) {
      const was = before.shards.find((each) => each.shard === shard)
      if (!was || was.incarnation === incarnation) continue
      const [from, to] = [nameIn(before, was.owner), nameIn(now, owner)]
      this.#moves.unshift({ at: systemClock.now(), shard, from, to, taken: incarnation })
    }
    this.#moves.splice(MOST_MOVES)
  }

  #processes(): DigestProcess[] {
    const { members, shards } = this.#seen
    const free = shards.flatMap(({ shard, owner }) => (owner === null ? [shard] : []))
    return [
      ...members.map(({ id, shards: held, ...member }) => {
        const why = this.#whys.get(id)
        return { name: nameOf(member), shards: [...held], missing: [...held], ...(why !== undefined && { why }) }
      }),
      ...(free.length > 0 ? [{ name: '', shards: free, missing: free, why: 'no process has them' }] : []),
    ]
  }

  get #reached(): TeamSource {
    if (this.#current) return this.#current.source
    throw new Error('No process of the cluster can be reached from here.')
  }

  restart = (agent: string): Promise<void> => this.#reached.restart(agent)
  say = (query: string, threadId: string): Talk => this.#reached.say(query, threadId)
  answer = (question: DigestQuestion, answer: string): Promise<void> => this.#reached.answer(question, answer)
  context = (agent: string): ContextInfo | undefined => this.#current?.source.context(agent)
  progress = (agent: string): AgentProgress | undefined => this.#current?.source.progress(agent)

  async close(): Promise<void> {
    this.#over.abort()
    await this.#current?.source.close()
  }
}

const nameOf = ({ host, pid }: Pick<ClusterMember, 'host' | 'pid'>): string => `${host}:${pid}`

function nameIn({ members }: SeenCluster, id: string | null): string {
  const member = members.find((each) => each.id === id)
  return member ? nameOf(member) : ''
}
