/**
 * Processes of a cluster that live. They name themselves and their shards to each other each beat, by messages that are
 * kept nowhere. No clock counts but the listener's, and silence only while one has listened without a stop. A process
 * whose connection has fallen answers no ping any more, and the brokers say so.
 */
import { hostname } from 'node:os'
import type { ClusterMember, ClusterTimes, NewMember } from '../runtime/cluster/cluster-store.ts'
import { systemClock } from '../shared/clock.ts'
import type { Brokers } from './brokers.ts'

/** A shard as its owner tells it: how far its log has come. */
export interface HeldShard {
  readonly shard: number
  readonly incarnation: number
  /** Number of its last message. */
  readonly last: number
  readonly bytes: number
}

/** Owner of a shard, as the messages of its log name it. */
export type Owner = Pick<ClusterMember, 'id' | 'host' | 'pid'>

export interface Beat {
  readonly member: Omit<ClusterMember, 'shards'>
  readonly held: readonly HeldShard[]
  /** True of one that has just come, and asks for the others. */
  readonly asks?: boolean
  readonly leaves?: boolean
}

interface Heard {
  /** Unknown of one that is only named by a log. */
  readonly member: Omit<ClusterMember, 'shards'> | undefined
  readonly held: readonly HeldShard[]
  readonly at: number
}

/** Beats that may be missing before a process is asked whether it is there. */
const MISSED_BEATS = 1.5
const PING_MS = 400
/** Time in ms in which those who live answer one who has come. */
export const ANSWER_MS = 1_000
/** Time in ms in which a message of its own has to come back to a process. */
const SELF_MS = 3_000
/** Times `ttlMs` for which one that is dead stays known. */
const KNOWN = 6

export class Members {
  readonly #brokers: Brokers
  readonly times: ClusterTimes
  readonly #heard = new Map<string, Heard>()
  /** The furthest that each shard's log is known to have come. */
  readonly known = new Map<number, HeldShard>()
  /** Shards whose owner lives, and does not name them: since when, for which last message. */
  readonly #unsaid = new Map<number, { readonly number: number; readonly at: number }>()
  readonly #held: () => readonly HeldShard[]
  #self: Omit<ClusterMember, 'shards'> | undefined
  #since = Number.POSITIVE_INFINITY
  #lastBeat = 0
  #beats: NodeJS.Timeout | undefined

  /** `held`: the shards of this process. */
  constructor(brokers: Brokers, times: ClusterTimes, held: () => readonly HeldShard[]) {
    this.#brokers = brokers
    this.times = times
    this.#held = held
  }

  /** This process, as its logs name it. */
  get self(): Owner {
    const { id, host, pid } = this.#self!
    return { id, host, pid }
  }

  /** @throws ConfigurationError if this user of the brokers may not hear the others */
  async join(self: NewMember): Promise<void> {
    this.#self = { ...self, host: hostname(), pid: process.pid }
    await this.#brokers.hear(this.#brokers.subjectOf('beat'), (message) => this.#hear(message.json()))
    await this.#brokers.hear(this.#brokers.subjectOf('ping', self.id), (message) => void message.respond())
    this.#brokers.onReconnect = () => this.#listen()
    this.#listen()
    this.#lastBeat = systemClock.monotonic()
    this.#beats = setInterval(() => this.beat(), this.times.beatMs).unref()
    this.beat({ asks: true })
  }

  beat(more: Pick<Beat, 'asks' | 'leaves'> = {}): void {
    const now = systemClock.monotonic()
    if (now - this.#lastBeat > 2 * this.times.beatMs) this.#listen() // it was frozen, or too busy to hear
    this.#lastBeat = now
    const held = this.#held()
    for (const each of held) this.#know(each)
    this.#send({ member: this.#self!, held, ...more })
  }

  /** Those who seem to live, this process among them. Who is dead for long is forgotten. Rejects without a broker. */
  async living(): Promise<readonly ClusterMember[]> {
    await this.#ping(this.self.id, SELF_MS) // comes behind what others have said
    const shardsOf = (held: readonly HeldShard[]) => held.map(({ shard }) => shard).sort((one, other) => one - other)
    const all: ClusterMember[] = [{ ...this.#self!, shards: shardsOf(this.#held()) }]
    for (const [id, { member, held, at }] of this.#heard) {
      if (!(await this.isDead(id))) {
        if (member) all.push({ ...member, shards: shardsOf(held) })
      } else if (systemClock.monotonic() - at > KNOWN * this.times.ttlMs) this.#heard.delete(id)
    }
    return all.sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  /** True once those who were asked have had the time to answer. */
  get hasListened(): boolean {
    return systemClock.monotonic() - this.#since > Math.min(this.times.suspectMs, ANSWER_MS)
  }

  /**
   * Tells whether nobody seems to have a shard whose last message, of that number, names an owner: that is gone, or
   * lives on without the shard, and could not tell the brokers.
   */
  async isFree(shard: number, number: number, { id }: Owner): Promise<boolean> {
    if (await this.isDead(id)) return true
    const { member, held, at } = this.#heard.get(id)!
    const isHeld = member === undefined || held.some((each) => each.shard === shard)
    const before = this.#unsaid.get(shard)
    if (isHeld) this.#unsaid.delete(shard)
    else if (before?.number !== number) this.#unsaid.set(shard, { number, at: systemClock.monotonic() })
    return !isHeld && before?.number === number && at - before.at > MISSED_BEATS * this.times.beatMs
  }

  /** Tells whether a process seems to be gone for good: a wrong guess costs time alone. */
  async isDead(id: string): Promise<boolean> {
    if (id === this.#self?.id) return true // by an earlier claim of this very process, which nobody holds any more
    const now = systemClock.monotonic()
    const heard = this.#heard.get(id) ?? { member: undefined, held: [], at: now }
    this.#heard.set(id, heard)
    const silence = now - Math.max(heard.at, this.#since)
    const { beatMs, suspectMs, ttlMs } = this.times
    if (silence > ttlMs) return true
    if (silence < MISSED_BEATS * beatMs) return false
    return this.#ping(id, PING_MS).then(
      () => false,
      (error) => /no responders/i.test(String(error)) && silence > suspectMs,
    )
  }

  #ping(id: string, timeout: number): Promise<unknown> {
    return this.#brokers.connection.request(this.#brokers.subjectOf('ping', id), '', { timeout })
  }

  async leave(): Promise<void> {
    clearInterval(this.#beats)
    if (!this.#self) return
    this.#send({ member: this.#self, held: [], leaves: true })
    await Promise.race([this.#brokers.connection.flush().catch(() => {}), systemClock.sleep(PING_MS)])
  }

  #send(beat: Beat): void {
    try {
      this.#brokers.connection.publish(this.#brokers.subjectOf('beat'), JSON.stringify(beat))
    } catch {
      // without a connection nobody hears it: others will find that silent
    }
  }

  #listen(): void {
    this.#since = systemClock.monotonic()
  }

  #hear({ member, held, asks, leaves }: Beat): void {
    if (member.id === this.#self?.id) return
    if (leaves) this.#heard.delete(member.id)
    else this.#heard.set(member.id, { member, held, at: systemClock.monotonic() })
    for (const each of held) this.#know(each)
    if (asks) this.beat()
  }

  #know(held: HeldShard): void {
    const before = this.known.get(held.shard)
    if (!before || held.incarnation >= before.incarnation) this.known.set(held.shard, held)
  }
}
