/**
 * Passivation: an agent that has nothing to do loses its thread, and gets a new one for its next message. Its mailbox,
 * its state and its conversations are in the host anyway.
 *
 *   idle for idleMs, or idle while others wait for a thread -> its thread is asked whether it may end
 *     -> stop hook -> 'passivated' -> a message: new thread, start hook -> the message
 *
 * An agent is idle if it has no open turn and no message. Its thread may refuse: code of the agent may have timers or
 * connections of its own. A message that comes before the stop hook has begun ends the attempt.
 */

import { idOf } from '../../mailbox/frame.ts'
import type { Timer } from '../../shared/clock.ts'
import type { Agent } from '../host/agent.ts'
import { waitsForOthers } from '../host/directory.ts'
import type { Incarnation } from '../host/incarnation.ts'
import type { Reader } from '../host/journal.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { ThreadSettings } from '../settings/settings.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Owners } from './owners.ts'
import { hasOwnThread, type PlaceTaker, type ThreadPlaces } from './pending-incarnation.ts'

/** Time after which a thread that does not answer, or that has something to do, is asked again at the earliest. */
const RESTLESS_MS = 1_000

export class Passivation implements Reader, PlaceTaker {
  // A turn that comes again waits for what it had asked for before, and writes nothing about that.
  readonly kinds = ['frames', 'agent.ready', 'agent.exited', 'message.dead', 'turn.started'] as const
  /** Number of threads that were ended because their agent had nothing to do. */
  count = 0
  readonly #host: Owners
  readonly #lifecycle: Lifecycle
  readonly #places: ThreadPlaces
  readonly #idleMs: number | false
  #sweepTimer: Timer | undefined
  #roomTimer: Timer | undefined

  constructor(host: Owners, lifecycle: Lifecycle, places: ThreadPlaces, idleMs: ThreadSettings['idleMs']) {
    this.#host = host
    this.#lifecycle = lifecycle
    this.#places = places
    this.#idleMs = idleMs
    host.limits.watch(() => this.#waits())
  }

  next(): void {
    if (this.#idleMs !== false && !this.#sweepTimer) this.#arm(this.#idleMs)
    this.makeRoom()
  }

  // ---- agents that wake

  /** Begins threads for agents without one that have messages. One message is enough work for one instance. */
  awaken(agents: readonly Agent[]): void {
    for (const agent of agents) {
      if (agent.passivated !== 'asleep' || agent.stopped || this.#host.loop.closed) continue
      const { mailbox, instances } = agent
      const coming = instances.filter(({ passivated }) => passivated === 'waking').length
      if (mailbox.waiting - mailbox.nested.length > coming) void this.#lifecycle.begin(agent)
    }
  }

  // ---- agents that have been idle for long

  #sweep(idleMs: number): void {
    const now = this.#host.clock.monotonic()
    let next = now + idleMs
    let some = false
    for (const agent of this.#host.directory.living) {
      if (!agent.settings.isAgent) continue
      some = true
      const due = Math.max(agent.lastEndAt, agent.incarnation?.restlessAt ?? 0) + idleMs
      if (!this.#isIdle(agent)) continue
      if (due <= now) void this.#passivate(agent)
      else next = Math.min(next, due)
    }
    if (some) this.#arm(next - now)
  }

  #arm(ms: number): void {
    const idleMs = this.#idleMs
    if (idleMs === false || !this.#host.directory.living.some(({ settings }) => settings.isAgent)) return
    const expire = () => {
      this.#sweepTimer = undefined
      this.#sweep(idleMs)
    }
    this.#sweepTimer = this.#host.clock.timer(ms, expire, true)
  }

  #isIdle(agent: Agent): boolean {
    const { incarnation, mailbox, settings, stopped } = agent
    if (!incarnation?.ready || !settings.isAgent || stopped) return false
    if (!mailbox.handed.isEmpty || mailbox.waiting > 0 || incarnation.sending) return false
    const isEnding = incarnation.stopping || incarnation.retired || incarnation.verdict || incarnation.recalled
    return (
      !isEnding &&
      !incarnation.draining &&
      !this.#places.leaving.has(incarnation) &&
      !this.#lifecycle.isReloading(agent)
    )
  }

  // ---- room for agents that wait for a thread

  /** Gives free threads to those that wait, and else ends threads of idle agents, the least recently used first. */
  makeRoom(): void {
    this.#places.serve()
    const [waits] = this.#waits()
    if (waits)
      this.#host.limits.reached(waits, 'agents with messages wait for a thread', { waiting: this.#places.waiting })
    const missing = this.#places.taken - this.#places.leaving.size + this.#places.waiting - this.#places.max
    if (missing <= 0) return
    const now = this.#host.clock.monotonic()
    const idle = this.#host.directory.living.filter((agent) => hasOwnThread(agent) && this.#isIdle(agent))
    const calm = idle.filter((agent) => !isRestless(agent, now))
    calm.sort((a, b) => a.lastEndAt - b.lastEndAt)
    for (const agent of calm.slice(0, missing)) void this.#passivate(agent)
    if (calm.length < missing) this.#askAgain(idle, now)
    if (this.#places.waiting > 0 && this.#places.leaving.size === 0 && this.#isStuck(now)) this.#exceed()
  }

  *#waits(): IterableIterator<LimitWait> {
    for (const { agent, since } of this.#places.lineOf(this.#host)) {
      const first = agent.mailbox.peek()
      const messageId = first && idOf(first.memory, first.at)
      const limit = this.#places.max
      yield { option: 'threads.max', limit, runId: first?.run.id, agent: agent.name, messageId, since }
    }
  }

  /** Sets the timer after which the first of the restless threads is asked again. */
  #askAgain(idle: readonly Agent[], now: number): void {
    const since = Math.min(
      ...idle.filter((agent) => isRestless(agent, now)).map(({ incarnation }) => incarnation!.restlessAt),
    )
    if (!Number.isFinite(since) || this.#roomTimer) return
    const expire = () => {
      this.#roomTimer = undefined
      this.makeRoom()
    }
    this.#roomTimer = this.#host.clock.timer(Math.ceil(since + RESTLESS_MS - now), expire, true)
  }

  /** Checks whether no thread of an agent will come free by itself, of this team or another that shares the places. */
  #isStuck(now: number): boolean {
    let stuck = 0
    for (const team of this.#places.teams) {
      const its = team.stuckAt(now)
      if (its === undefined) return false
      stuck += its
    }
    return stuck >= this.#places.taken // else a thread is being made, or ends
  }

  stuckAt(now: number): number | undefined {
    const holders = this.#host.directory.living.filter(hasOwnThread)
    const full = new Set(
      this.#places.lineOf(this.#host).flatMap(({ agent: { mailbox } }) => [...mailbox.pending.senders()]),
    )
    const isStuck = (agent: Agent): boolean => {
      if (!agent.incarnation?.ready) return false
      if (agent.mailbox.handed.isEmpty) return isRestless(agent, now)
      return full.has(agent.index) || waitsForOthers(agent)
    }
    return holders.every(isStuck) ? holders.length : undefined
  }

  /** Makes one thread more than there should be: else the turns that wait would wait for ever. */
  #exceed(): void {
    const why = 'the turns of all agents that have a thread wait for others, so another agent gets one'
    this.#host.limits.exceeded('threads.max', this.#places.max, why, { threads: this.#places.taken + 1 })
    this.#places.grant()
  }

  // ---- one agent

  async #passivate(agent: Agent): Promise<void> {
    const incarnation = agent.incarnation!
    const { turns } = agent
    this.#places.leaving.add(incarnation)
    const mayEnd = await this.#mayEnd(incarnation)
    if (!mayEnd) incarnation.restlessAt = this.#host.clock.monotonic()
    this.#places.leaving.delete(incarnation)
    if (mayEnd && agent.turns === turns && agent.incarnation === incarnation && this.#isIdle(agent)) {
      this.#places.leaving.add(incarnation)
      this.count += 1
      await this.#lifecycle.passivate(agent, incarnation)
      this.#places.leaving.delete(incarnation)
    }
    if (this.#host.loop.closed) return
    this.#host.ready.touchInstance(agent)
    this.#host.loop.wake()
    this.makeRoom()
  }

  async #mayEnd({ thread }: Incarnation): Promise<boolean> {
    const answered = new AbortController()
    const late = this.#host.clock.sleep(RESTLESS_MS, answered.signal).then(
      () => false,
      () => false,
    )
    try {
      return await Promise.race([thread.isIdle(), late])
    } finally {
      answered.abort()
    }
  }
}

const isRestless = ({ incarnation }: Agent, now: number): boolean =>
  incarnation !== undefined && now - incarnation.restlessAt < RESTLESS_MS
