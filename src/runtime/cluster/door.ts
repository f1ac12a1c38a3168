/** Questions of a service in one process of a cluster: who has a run, what its owner says, what it is to do. */
import { randomUUID } from 'node:crypto'
import { ConfigurationError, type ErrorData, errorFrom } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { TeamRuntime } from '../team/team.ts'
import { isLoopback, MOVED, PEER_HEADER, PEER_PATH } from './address.ts'
import type { ClusterMember, ClusterView, TaskOutcome, TaskState } from './cluster-store.ts'
import type { PeerRequest, Peers } from './peers.ts'
import type { ClusterProcess } from './process.ts'
import type { SentAsk } from './team-shard.ts'

/** Answers a request that was kept for the owner of a shard. */
export type Serves = (shard: number, kept: unknown) => Promise<unknown>

interface DoorOptions<Team> {
  readonly peers: Peers
  /** False: only addresses of this machine are sent to. */
  readonly hasSecret: boolean
  readonly id: string
  readonly held: ReadonlyMap<number, Team>
  process(): Promise<ClusterProcess>
}

export class ClusterDoor<Team extends TeamRuntime = TeamRuntime> {
  readonly #options: DoorOptions<Team>
  /** Answers to small requests of other processes, and of who operates the cluster, by what they ask for. */
  readonly answers = new Map<string, (value: unknown) => unknown>()
  /** Answers what was kept for this process as the owner of a shard. */
  serves: Serves | undefined

  constructor(options: DoorOptions<Team>) {
    this.#options = options
  }

  /** Shards that this process holds now, each with its team. */
  get held(): ReadonlyMap<number, Team> {
    return this.#options.held
  }

  /** Id of this process. */
  get id(): string {
    return this.#options.id
  }

  /** Members as this process saw them last, less than a second ago. */
  async members(): Promise<readonly ClusterMember[]> {
    return (await this.#options.process()).view.members
  }

  /** Calls back with the cluster as it is, and at each look at it. Resolves to what ends this. */
  async onLook(look: (view: ClusterView) => void): Promise<() => void> {
    const process = await this.#options.process()
    look(process.view)
    return process.onLook(look)
  }

  /** Shard and outcome of a task; undefined for one that nobody knows. */
  async state(id: string, signal?: AbortSignal): Promise<TaskState | undefined> {
    return (await this.#options.process()).state(id, signal)
  }

  /** Resolves to the outcome of a task, when it has one: by a notice, and a look each two seconds. */
  async outcome(id: string, signal: AbortSignal): Promise<TaskOutcome | undefined> {
    return (await this.#options.process()).outcome(id, signal)
  }

  /**
   * Has the owner of a shard do something, whoever it is by then. Resolves to what it says, once that is done; rejects
   * with its error, or with the reason of `signal`: what was asked stays asked for, once `kept` was called.
   */
  async ask(shard: number, ask: SentAsk, signal?: AbortSignal, kept?: () => void): Promise<unknown> {
    const process = await this.#options.process()
    const id = randomUUID()
    await process.submit({ id, shard, hash: id, body: Buffer.from(JSON.stringify(ask)) }, signal)
    kept?.()
    return saidIn(await process.outcome(id, signal))
  }

  /**
   * Sends a request to a member. `said`: what it is to believe, such as who asks. The request ends when the member has
   * no longer what `stays` says.
   */
  async send(
    member: ClusterMember,
    request: PeerRequest & { readonly headers?: Headers },
    said: unknown,
    { stays, signal }: { stays(members: readonly ClusterMember[]): boolean; signal: AbortSignal },
  ): Promise<Response> {
    const { address = '' } = member
    if (address === '' || !(this.#options.hasSecret || isLoopback(new URL(address))))
      throw new ConfigurationError(
        `process ${member.pid} on ${member.host} cannot be reached: it has no cluster.address. Serve the team there, and say under which URL.`,
        { path: 'cluster.address' },
      )
    const process = await this.#options.process()
    const enough = new AbortController()
    const forgetLooks = process.onLook(({ members }) => {
      if (!stays(members)) enough.abort(new Error('the process does not have it any more'))
    })
    const forgetSignal = onAbort(signal, () => enough.abort(signal.reason))
    const forget = () => {
      forgetLooks()
      forgetSignal()
    }
    const headers = new Headers(request.headers)
    headers.set(PEER_HEADER, this.#options.peers.sign(member.id, request, said))
    try {
      const response = await fetch(`${address.replace(/\/$/, '')}${request.path}`, {
        method: request.method,
        headers,
        redirect: 'error',
        signal: enough.signal,
        ...(request.body.length > 0 && { body: Buffer.from(request.body) }),
      })
      if (response.body) return new Response(ending(response.body, forget), response)
      forget()
      return response
    } catch (error) {
      forget()
      throw error
    }
  }

  /**
   * Sends a request to the owner of a shard, in the name of a caller; resolves to nothing if nobody else is known to be
   * that now.
   */
  async toOwner(
    shard: number,
    request: PeerRequest & { readonly headers?: Headers },
    caller: object,
    signal: AbortSignal,
  ): Promise<Response | undefined> {
    const member = (await this.members()).find(({ shards }) => shards.includes(shard))
    if (!member || member.id === this.id) return undefined
    const stays = (members: readonly ClusterMember[]) =>
      members.some((each) => each.id === member.id && each.shards.includes(shard))
    const sent = await this.send(member, request, { caller, shard }, { stays, signal })
    if (!sent.headers.has(MOVED)) return sent
    await sent.body?.cancel()
    return undefined
  }

  /** Asks a member for something small, of its `answers`. */
  async askMember(member: ClusterMember, what: string, value: unknown, signal: AbortSignal): Promise<unknown> {
    const body = Buffer.from(JSON.stringify(value))
    const response = await this.send(
      member,
      { method: 'POST', path: `${PEER_PATH}${what}`, body },
      {},
      { stays: () => true, signal },
    )
    if (response.ok) return response.json()
    await response.body?.cancel()
    throw new Error(`process ${member.pid} on ${member.host} answers with ${response.status}`)
  }

  /** False: only processes of this machine are believed. */
  get hasSecret(): boolean {
    return this.#options.hasSecret
  }

  /** Returns what a process of the cluster says with a request, or why that is not believed: see `Peers`. */
  read(given: string, request: Omit<PeerRequest, 'body'>): ReturnType<Peers['read']> {
    return this.#options.peers.read(this.id, given, request)
  }
}

/** Calls back once, when the body was read, has failed or is not wanted any more. */
function ending(body: ReadableStream<Uint8Array>, ended: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        controller.close()
      } catch (error) {
        controller.error(error)
      }
      ended()
    },
    async cancel(reason) {
      ended()
      await reader.cancel(reason)
    },
  })
}

function saidIn(outcome: TaskOutcome | undefined): unknown {
  if (!outcome) return undefined
  const said = JSON.parse(Buffer.from(outcome.body).toString()) as { error?: ErrorData; value?: unknown }
  if (said.error) throw errorFrom(said.error)
  return said.value
}
