/**
 * Live view of all shards of a team, as one digest. A process asks each other one for the lines of its shards, as
 * long as somebody watches; a shard counts as its owner says it, and what cannot be seen now is named.
 */
import type { Digest, Team } from '../../index.ts'
import type { ClusterMember, ClusterView } from '../../runtime/cluster/cluster-store.ts'
import type { ClusterDoor } from '../../runtime/cluster/door.ts'
import { linesOf } from '../../runtime/cluster/run-events.ts'
import { Watcher } from '../../runtime/views/digest-feed.ts'
import type { DigestProcess } from '../../runtime/views/digest-line.ts'
import { systemClock, type Timer } from '../../shared/clock.ts'
import { describe } from '../../shared/errors.ts'
import { onAbort, unlessAborted } from '../../shared/on-abort.ts'
import { own } from '../../shared/values.ts'
import type { Caller } from '../http/options.ts'
import { MergedDigest, ShardDigest } from './merged-digest.ts'
import { loggedLines } from './task-handlers.ts'

/** Line of a shard, as one process tells it to another. */
export interface ShardLine {
  readonly shard: number
  readonly line: Digest
}

type Door = Pick<ClusterDoor<Team>, 'held' | 'id' | 'onLook' | 'send'>

/** Yields what happens in the shards of this process, those among them that it gets later. */
export async function* linesHere(door: Door, signal: AbortSignal): AsyncGenerator<ShardLine> {
  const { held } = door
  const watched = new Map<number, Team>()
  const told: { readonly line: ShardLine; taken(): void }[] = []
  let isOver = false
  let wake = () => {}
  const follow = async (shard: number, team: Team): Promise<void> => {
    for await (const line of loggedLines(team, signal)) {
      if (isOver) return
      await new Promise<void>((taken) => {
        told.push({ line: { shard, line }, taken })
        wake()
      })
    }
  }
  const forgetLooks = await door.onLook(() => {
    for (const shard of watched.keys()) if (!held.has(shard)) watched.delete(shard)
    for (const [shard, team] of held) {
      if (watched.get(shard) === team) continue
      watched.set(shard, team)
      follow(shard, team).catch(() => watched.get(shard) === team && watched.delete(shard)) // the next look begins anew
    }
  })
  const forgetSignal = onAbort(signal, () => wake())
  try {
    while (!signal.aborted) {
      const next = told.shift()
      if (next) {
        yield next.line
        next.taken()
      } else
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    }
  } finally {
    isOver = true
    forgetLooks()
    forgetSignal()
    for (const { taken } of told) taken()
  }
}

/** A process, with what it has told of its shards. */
interface Source {
  readonly name: string
  readonly shards: Map<number, ShardDigest>
  /** Why nothing comes from it. */
  why: string | undefined
  readonly over: AbortController
}

const LINE_MS = 100
/** Time that all have for their first lines, before the others are shown without them. */
const FIRST_MS = 2_000
const AGAIN_MS = 1_000

/** Resolves to the response of another process; rejects if that one does not believe this one. */
type Believed = (response: Response) => Promise<Response>

/** Whoever watches here may; what all get is asked for once, in nobody's name. */
const WATCHER: Caller = { id: '', may: ['watch'] }
const asked = () => ({
  method: 'GET',
  path: '/api/watch',
  body: Buffer.of(),
  headers: new Headers({ accept: 'application/x-ndjson' }),
})

export class ClusterWatch {
  readonly #door: Door
  readonly #shards: number
  readonly #believed: Believed
  readonly #watchers = new Set<Watcher>()
  #looking: Looking | undefined

  constructor(door: Door, shards: number, believed: Believed) {
    this.#door = door
    this.#shards = shards
    this.#believed = believed
  }

  /** Yields a line with the state of all shards, then what happens in them, until `signal` is aborted. */
  async *lines(signal: AbortSignal): AsyncGenerator<Digest> {
    const watcher = new Watcher()
    const forget = onAbort(signal, () => watcher.end())
    this.#looking ??= new Looking(this.#door, this.#shards, this.#believed, this.#watchers)
    this.#watchers.add(watcher)
    const looking = this.#looking
    try {
      await unlessAborted(signal, looking.isComplete).catch(() => {})
      while (!signal.aborted) {
        if (watcher.isBehind) watcher.begin(looking.state())
        yield* await watcher.next()
      }
    } finally {
      forget()
      this.#watchers.delete(watcher)
      if (this.#watchers.size === 0) {
        looking.end()
        this.#looking = undefined
      }
    }
  }
}

/** Look at the cluster for all who watch it, from the first of them to the last. */
class Looking {
  readonly #door: Door
  readonly #all: readonly number[]
  readonly #believed: Believed
  readonly #watchers: ReadonlySet<Watcher>
  readonly #over = new AbortController()
  readonly #sources = new Map<string, Source>()
  readonly #here: Source
  /** Process that has each shard, as far as this one knows. */
  #owners = new Map<number, Source>()
  #members: readonly ClusterMember[] = []
  readonly #merged = new MergedDigest()
  #current = new Map<number, ShardDigest>()
  /** True if what was told until now may be wrong: other processes tell of shards, or from anew. */
  #isAnew = true
  #told = ''
  #timer: Timer | undefined
  /** Resolves when all shards are in view, or are not waited for any more. */
  readonly isComplete: Promise<void>
  #complete!: () => void

  constructor(door: Door, shards: number, believed: Believed, watchers: ReadonlySet<Watcher>) {
    this.#door = door
    this.#all = Array.from({ length: shards }, (_, shard) => shard)
    this.#believed = believed
    this.#watchers = watchers
    this.#here = { name: '', shards: new Map(), why: undefined, over: this.#over }
    this.isComplete = new Promise((resolve) => {
      this.#complete = resolve
    })
    const late = systemClock.timer(FIRST_MS, () => this.#complete())
    onAbort(this.#over.signal, () => late.cancel())
    void this.#begin()
  }

  async #begin(): Promise<void> {
    const { signal } = this.#over
    const forget = await this.#door.onLook((view) => this.#look(view))
    onAbort(signal, forget)
    if (signal.aborted) forget()
    for await (const { shard, line } of linesHere(this.#door, signal)) this.#read(this.#here, shard, line)
  }

  end(): void {
    this.#over.abort()
    this.#timer?.cancel()
    for (const { over } of this.#sources.values()) over.abort()
  }

  /** Returns a line with the state of all shards, behind all that was told. */
  state(): Digest {
    this.#tell()
    return this.#snapshot()
  }

  #look({ members }: ClusterView): void {
    this.#members = members
    const others = members.filter(({ id }) => id !== this.#door.id)
    for (const [id, { over }] of this.#sources) {
      if (others.some((member) => member.id === id)) continue
      over.abort()
      this.#sources.delete(id)
    }
    for (const member of others) {
      if (this.#sources.has(member.id)) continue
      const source = { name: nameOf(member), shards: new Map(), why: undefined, over: new AbortController() }
      this.#sources.set(member.id, source)
      void this.#follow(member, source)
    }
    this.#tell()
  }

  async #follow(member: ClusterMember, source: Source): Promise<void> {
    const { signal } = source.over
    const stays = (members: readonly ClusterMember[]) => members.some(({ id }) => id === member.id)
    while (!signal.aborted) {
      try {
        const response = await this.#believed(
          await this.#door.send(member, asked(), { caller: WATCHER }, { stays, signal }),
        )
        if (!response.ok || !response.body) throw new Error(`it answers with ${response.status}`)
        source.why = undefined
        for await (const text of linesOf(response.body)) {
          const told: unknown = JSON.parse(text)
          const [shard, line] = [own(Object(told), 'shard'), own(Object(told), 'line')]
          if (typeof shard !== 'number') throw new Error('it tells no shards: is it of an earlier version?')
          this.#read(source, shard, line as Digest)
        }
        source.why = 'it has ended its answer'
      } catch (error) {
        source.why = describe(error).replace(/^Error: /, '')
      }
      source.shards.clear()
      this.#soon()
      await systemClock.sleep(AGAIN_MS, signal).catch(() => {})
    }
  }

  #read(source: Source, shard: number, line: Digest): void {
    const known = line.snapshot ? new ShardDigest() : source.shards.get(shard)
    if (!known) return
    known.read(line)
    source.shards.set(shard, known)
    if (this.#current.get(shard) === known) this.#merged.add(shard, line)
    this.#soon()
  }

  #soon(): void {
    if (this.#over.signal.aborted) return
    this.#timer ??= systemClock.timer(LINE_MS, () => this.#tell())
  }

  /** Gives all who watch the line of what has come; then, if other processes tell of shards, the state. */
  #tell(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    const processes = this.#settle()
    const told = JSON.stringify(processes)
    const isOther = told !== this.#told
    this.#told = told
    if (!this.#merged.isEmpty || isOther)
      this.#push({ ...this.#merged.take(systemClock.now()), ...(isOther && { processes }) })
    if (this.#merged.isFull) {
      this.#merged.forgetNames()
      this.#isAnew = true
    }
    if (!this.#isAnew) return
    this.#isAnew = false
    this.#merged.become(this.#current)
    this.#push(this.#snapshot())
  }

  #push(line: Digest): void {
    for (const watcher of this.#watchers) watcher.push(line)
  }

  #snapshot(): Digest {
    return { ...this.#merged.snapshot(systemClock.now()), processes: JSON.parse(this.#told) as DigestProcess[] }
  }

  /** Finds out who tells of which shard now. Returns the processes, and what is missing of them. */
  #settle(): DigestProcess[] {
    const owners = new Map<number, Source>()
    for (const { id, shards } of this.#members) {
      const source = this.#sources.get(id)
      for (const shard of shards) if (source) owners.set(shard, source)
    }
    for (const shard of this.#door.held.keys()) owners.set(shard, this.#here)
    for (const [shard, owner] of owners) {
      const before = this.#owners.get(shard)
      if (before && before !== owner) before.shards.delete(shard) // it tells from anew if it gets it back
    }
    const current = new Map<number, ShardDigest>()
    for (const [shard, { shards }] of owners) {
      const digest = shards.get(shard)
      if (digest) current.set(shard, digest)
    }
    const isSame =
      current.size === this.#current.size && [...current].every(([shard, each]) => this.#current.get(shard) === each)
    if (!isSame) this.#isAnew = true
    this.#current = current
    for (const [shard, owner] of owners) this.#owners.set(shard, owner)
    const missing = this.#all.filter((shard) => !current.has(shard))
    if (missing.length === 0) this.#complete()
    return [
      ...this.#members
        .map((member) => this.#processOf(member, owners, missing))
        .sort((one, other) => (one.name < other.name ? -1 : 1)),
      ...(missing.some((shard) => !owners.has(shard)) ? [nobody(missing.filter((shard) => !owners.has(shard)))] : []),
    ]
  }

  #processOf(member: ClusterMember, owners: ReadonlyMap<number, Source>, missing: readonly number[]): DigestProcess {
    const source = member.id === this.#door.id ? this.#here : this.#sources.get(member.id)
    const shards = this.#all.filter((shard) => owners.get(shard) === source)
    const lacks = missing.filter((shard) => shards.includes(shard))
    return { name: nameOf(member), shards, missing: lacks, ...(source?.why !== undefined && { why: source.why }) }
  }
}

const nameOf = ({ host, pid }: ClusterMember): string => `${host}:${pid}`

const nobody = (shards: number[]): DigestProcess => ({ name: '', shards, missing: shards, why: 'no process has them' })
