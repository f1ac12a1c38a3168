/**
 * Lifecycle of agents: starts threads, and stops agents permanently, in order. How a thread ends by itself, or is
 * ended, is in exits.ts. The restart policy decides whether and when a new thread starts
 * (runtime/supervision/restarts.ts).
 */

import type { Started } from '../../actors/definition/assignment.ts'
import { mostFrames } from '../../mailbox/channel.ts'
import { kindOf, SEND } from '../../mailbox/frame.ts'
import { systemClock } from '../../shared/clock.ts'
import {
  AgentTerminatedError,
  CancelledError,
  ConfigurationError,
  DramatisError,
  describe,
  StartFailedError,
  TeamClosedError,
} from '../../shared/errors.ts'
import type { Cell } from '../host/agent.ts'
import type { Life } from '../host/life.ts'
import { FENCE_MS } from '../threads/thread.ts'
import type { Exits } from './exits.ts'
import type { Owners } from './owners.ts'
import { PendingLife, type ThreadPlaces } from './pending-life.ts'
import type { Router } from './router.ts'

type Began = Extract<Started, { ok: true }>

export class Lifecycle {
  /** Threads with new code that replace the life of their agent, or follow it if it ends before that. */
  readonly #successors = new Map<Cell, PendingLife>()
  readonly #host: Owners
  readonly #exits: Exits
  readonly #places: ThreadPlaces
  readonly #router: Router
  readonly #endings = new WeakMap<Cell, Promise<void>>()
  readonly #waiting = new Map<Cell, { resolve(): void; reject(error: DramatisError): void }[]>()

  constructor(host: Owners, exits: Exits, places: ThreadPlaces, router: Router) {
    this.#host = host
    this.#exits = exits
    this.#places = places
    this.#router = router
  }

  // ---- start

  /**
   * Starts a thread for the agent. A failure to start is handled like a crash. If there is no place for the thread
   * (`threads.max`), an agent with messages waits for one, and one without is passivated.
   */
  async begin(cell: Cell): Promise<void> {
    const began = this.#host.clock.monotonic()
    const beginning = ++cell.beginnings
    if (cell.dormant) cell.dormant = 'waking'
    else this.become(cell, beginning === 1 ? 'starting' : 'restarting')
    const isWanted = () => !this.#host.loop.closed && !cell.life && !cell.stopped && cell.beginnings === beginning
    const waiting = this.#successors.get(cell)
    const successor = waiting?.isLost ? undefined : waiting
    let pending: PendingLife | undefined
    try {
      pending = successor ?? (await PendingLife.make(this.#host, this.#exits, this.#places, cell, isWanted))
    } catch (error) {
      if (cell.beginnings !== beginning) return
      return this.cannotStart(cell, noThread(cell, error))
    }
    if (!isWanted()) {
      if (pending && pending !== successor) pending.drop(unwanted(cell))
      return
    }
    if (!pending) return this.#rest(cell)
    if (cell.dormant) this.become(cell, 'starting')
    this.#adopt(cell, pending)
    const started = await pending.start()
    if (cell.life !== pending.life) return // the thread died meanwhile, and that was handled
    if (!started.ok) return this.#failedStart(cell, pending.life, pending.errorOf(started))
    this.#begun(cell, pending, started, began, successor !== undefined)
  }

  #adopt(cell: Cell, pending: PendingLife): void {
    const { life, newcomers } = pending
    this.#successors.delete(cell)
    pending.adopted = true
    pending.takePlace()
    cell.epoch = life.epoch
    this.#host.directory.setLife(cell, life)
    for (const newcomer of newcomers) life.backlog.push(this.#host.frames.teamNotice(0, { newcomer }))
  }

  // ---- reload

  /**
   * Makes a thread that is to replace the life of the agent, or to follow it if it ends before that. Resolves and
   * rejects like `PendingLife.make`.
   */
  async succeed(cell: Cell, isWanted: () => boolean): Promise<PendingLife | undefined> {
    const successor = await PendingLife.make(this.#host, this.#exits, this.#places, cell, isWanted, 'beside')
    if (successor) this.#successors.set(cell, successor)
    return successor
  }

  /** Checks whether a thread with new code waits to take over. */
  isReloading(cell: Cell): boolean {
    return this.#successors.has(cell)
  }

  /** Ends a thread that is not to replace the agent's life after all. */
  dropSuccessor(cell: Cell, successor: PendingLife): void {
    if (this.#successors.get(cell) === successor) this.#successors.delete(cell)
    successor.drop(new CancelledError(`Agent "${cell.name}" keeps its old code.`, { agent: cell.name }))
  }

  /**
   * Ends the life that an agent has, in order, and puts its successor, which has started, in its place. That life has
   * no open turn. Resolves when its thread is gone.
   */
  async replace(cell: Cell, successor: PendingLife, started: Began): Promise<void> {
    const life = cell.life!
    const began = this.#host.clock.monotonic()
    life.retired = 'reloaded'
    const gone = endOf(life)
    await this.#askToStop(cell, life, gone)
    if (cell.stopped) return successor.lost // the agent, or the team, is ended meanwhile
    this.#exits.retire(cell, life, 'reloaded')
    if (successor.isLost) {
      void this.begin(cell) // the old code has stopped already: the new one begins again
      return this.ready(cell)
    }
    if (!successor.adopted) {
      this.#adopt(cell, successor)
      this.#begun(cell, successor, started, began, true)
    }
    await this.#untilGone(gone)
  }

  // ---- passivation

  /**
   * Ends the life of an agent that has nothing to do, in order. Resolves when its thread is gone. A message that comes
   * meanwhile begins the next life when the stop hook of this one has run.
   */
  async passivate(cell: Cell, life: Life): Promise<void> {
    const { beginnings } = cell
    life.retired = 'passivated'
    const gone = endOf(life)
    await this.#askToStop(cell, life, gone)
    if (cell.stopped) return // the agent, or the team, is ended meanwhile
    this.#exits.retire(cell, life, 'passivated')
    if (cell.beginnings === beginnings) this.#rest(cell) // else another agent's end is the reason for its next life
    await this.#untilGone(gone)
  }

  /** Lets an agent begin with its first message. Its code is looked for now. */
  async register(cell: Cell): Promise<void> {
    try {
      await Promise.all([this.#host.provisioning.codeOf(cell), this.#host.provisioning.toolsOf(cell)])
    } catch (error) {
      const failed = noThread(cell, error)
      if (!cell.stopped) this.stopForGood(cell, failed)
      throw failed
    }
    if (!cell.stopped && cell.beginnings === 0) this.#rest(cell)
  }

  /** Leaves an agent without a thread until it has a message. */
  #rest(cell: Cell): void {
    cell.dormant = 'asleep'
    this.become(cell, 'passivated')
    this.#endWaits(cell)
    this.#host.ready.touchInstance(cell)
    this.#host.loop.wake()
  }

  #begun(cell: Cell, pending: PendingLife, started: Began, began: number, reloaded: boolean): void {
    const { journal } = this.#host
    const { life } = pending
    if (started.state !== undefined) {
      cell.state = JSON.parse(started.state) as object
      journal.keep(undefined, { kind: 'state', index: cell.index, value: cell.state })
    }
    cell.first.tools = started.tools
    cell.first.harmful = started.harmful ?? []
    life.ready = true
    cell.lastEndAt = this.#host.clock.monotonic()
    cell.startFailures = 0
    cell.status = 'idle'
    const woken = cell.dormant !== false
    cell.dormant = false
    if (reloaded) journal.record(cell.run, { kind: 'agent.reloaded', ...cell.whose, epoch: life.epoch })
    journal.record(cell.run, {
      kind: 'agent.ready',
      ...cell.whose,
      epoch: life.epoch,
      warm: life.thread.warm,
      tookMs: this.#host.clock.monotonic() - began,
      ...(woken && { woken }),
    })
    this.#endWaits(cell)
    this.#host.ready.touch(cell)
    this.#host.loop.kick()
  }

  become(cell: Cell, status: 'starting' | 'restarting' | 'passivated' | 'stopped' | 'failed'): void {
    if (cell.status === status && status !== 'starting') return
    cell.status = status
    const { dormant, epoch, whose } = cell
    const woken = dormant === 'waking' && status === 'starting'
    this.#host.journal.record(cell.run, { kind: 'agent.status', ...whose, status, epoch, ...(woken && { woken }) })
  }

  /** Resolves when the agent is ready; rejects when it is stopped. */
  ready(cell: Cell): Promise<void> {
    if (cell.stopped) return Promise.reject(cell.stopped)
    if (cell.life?.ready || cell.dormant === 'asleep') return Promise.resolve()
    return new Promise((resolve, reject) => {
      this.#waiting.set(cell, [...(this.#waiting.get(cell) ?? []), { resolve, reject }])
    })
  }

  /** Ends the waits of `ready`; with an error they are rejected. */
  #endWaits(cell: Cell, error?: DramatisError): void {
    for (const { reject, resolve } of this.#waiting.get(cell) ?? []) {
      if (error) reject(error)
      else resolve()
    }
    this.#waiting.delete(cell)
  }

  async #failedStart(cell: Cell, life: Life, error: Promise<DramatisError>): Promise<void> {
    this.#host.directory.setLife(cell, undefined)
    life.thread.terminate()
    const { beginnings } = cell
    const known = await error
    if (!cell.stopped && cell.beginnings === beginnings) this.cannotStart(cell, known) // else the team was closed
  }

  /**
   * Rule 11: an error in the code is final at once, any other error at the second time. `blameless`: another agent has
   * ended the thread, or somebody from outside, which does not count.
   */
  cannotStart(cell: Cell, error: DramatisError, blameless = false): void {
    if (!blameless) cell.startFailures += 1
    if (!(error instanceof ConfigurationError) && cell.startFailures < 2) {
      void this.begin(cell)
      return
    }
    const final =
      error instanceof ConfigurationError
        ? error
        : new StartFailedError(
            `Agent "${cell.name}" failed twice while it started: ${error.message}`,
            { agent: cell.name },
            error.cause ?? error,
          )
    this.stopForGood(cell, final)
  }

  // ---- stop

  /**
   * Rule 8: the agent gets no thread any more. Its queued messages become dead letters, and callers that wait are
   * notified. With several instances the last one does this for all: the mailbox stays while another instance is there.
   */
  stopForGood(cell: Cell, error: DramatisError, status: 'stopped' | 'failed' = 'failed'): void {
    cell.stopped = error
    this.#turnAway(cell, error)
    if (cell.gone) this.#host.team.close(cell.index)
    const gone = new AgentTerminatedError(
      `Agent "${cell.name}" is stopped: ${error.message}`,
      { agent: cell.name },
      error.cause ?? error,
    )
    this.#buryAll(cell, gone)
    this.become(cell, status)
    this.#host.loop.kick()
  }

  /** Rejects those that wait for the agent to be ready, or to be reloaded. */
  #turnAway(cell: Cell, error: DramatisError): void {
    cell.dormant = false
    this.#places.leave(cell)
    this.#successors.get(cell)?.drop(error)
    this.#endWaits(cell, error)
  }

  #buryAll(cell: Cell, gone: DramatisError): void {
    for (const envelope of [...cell.mailbox.handed.all()]) this.#host.cancellation.bury(cell, envelope, 'stopped', gone)
    if (cell.gone) this.#buryQueue(cell, gone)
  }

  #buryQueue(cell: Cell, gone: DramatisError): void {
    const { parked } = cell.mailbox
    this.#host.cancellation.buryBlocked(cell, gone)
    for (const envelope of [...cell.mailbox.queued()]) this.#host.cancellation.bury(cell, envelope, 'stopped', gone)
    for (let envelope = parked.shift(); envelope; envelope = parked.shift()) {
      this.#host.mailboxes.markDead(envelope, 'stopped', [gone], gone)
      if (kindOf(envelope.memory, envelope.at) === SEND) this.#host.requests.refuseParked(envelope, gone)
    }
  }

  async revive(cell: Cell): Promise<void> {
    if (!cell.stopped || this.#host.loop.closed) return
    const { gone } = cell
    cell.stopped = undefined
    cell.startFailures = 0
    cell.restartTimes = []
    const { capacity, bytes, maxMessageBytes } = cell.settings.mailbox
    if (gone) this.#host.team.open(cell.index, capacity, bytes, maxMessageBytes)
    await this.begin(cell)
  }

  async remove(cell: Cell, reason: AgentTerminatedError): Promise<void> {
    for (const each of cell.instances) each.removed = true
    await this.endAll(cell, reason)
  }

  async endAll(cell: Cell, reason?: AgentTerminatedError): Promise<void> {
    await Promise.all(cell.instances.map((each) => this.end(each, reason)))
  }

  /**
   * Rule 12: abort signal, grace, then terminate. Messages in the mailbox become dead letters. Without a reason the
   * team is closed.
   */
  end(cell: Cell, reason?: AgentTerminatedError): Promise<void> {
    const ending = this.#endings.get(cell) ?? this.#end(cell, reason)
    this.#endings.set(cell, ending)
    return ending
  }

  async #end(cell: Cell, reason: AgentTerminatedError | undefined): Promise<void> {
    cell.stopped = reason ?? new AgentTerminatedError('The team is closed.', { agent: cell.name })
    const successor = this.#successors.get(cell)
    this.#turnAway(cell, reason ?? new TeamClosedError('The team was closed before its agents were ready.', {}))
    if (cell.gone) {
      this.#host.team.close(cell.index)
      this.#buryQueue(cell, cell.stopped)
    }
    if (cell.life) await this.#endLife(cell, cell.life)
    if (successor) await this.#untilGone(successor.gone)
    this.become(cell, 'stopped')
    this.#buryAll(cell, cell.stopped)
    this.#exits.releaseAll(cell)
    this.#host.loop.kick()
  }

  async #endLife(cell: Cell, life: Life): Promise<void> {
    const gone = endOf(life)
    await this.#askToStop(cell, life, gone)
    this.#router.drain(cell, life, mostFrames(life.window.outbox))
    this.#host.directory.setLife(cell, undefined)
    life.end()
    await this.#untilGone(gone)
  }

  /** Aborts what is open in a life and runs its stop hook, for as long as `stopGraceMs` allows. */
  async #askToStop(cell: Cell, life: Life, gone: Promise<void>): Promise<void> {
    const grace = new AbortController()
    const { stopGraceMs } = cell.settings.supervision
    life.stopping ??= (life.ready ? life.thread.stop() : Promise.resolve()).catch((error) =>
      this.#host.logger.error({ agent: cell.name, error: describe(error) }, 'the stop hook of the agent threw'),
    )
    await Promise.race([life.stopping, gone, this.#elapsed(stopGraceMs, grace.signal)])
    grace.abort()
  }

  /** Resolves when a thread that was told to end is gone, or fenced off. */
  async #untilGone(gone: Promise<void>): Promise<void> {
    const fence = new AbortController()
    await Promise.race([gone, this.#elapsed(FENCE_MS, fence.signal)])
    fence.abort()
  }

  /**
   * Waits for the team's clock or for real time, whichever is first. The caller that awaits `close` may be the one that
   * would have moved the team's clock.
   */
  async #elapsed(ms: number, signal: AbortSignal): Promise<void> {
    await Promise.race([this.#host.clock, systemClock].map((clock) => clock.sleep(ms, signal).catch(() => {})))
  }
}

function noThread({ name: agent }: Cell, error: unknown): DramatisError {
  if (error instanceof DramatisError) return error
  return new StartFailedError(`Agent "${agent}" got no thread: ${describe(error)}`, { agent }, error)
}

const unwanted = ({ name: agent }: Cell) =>
  new CancelledError(`The new thread of agent "${agent}" is not needed.`, { agent })

const endOf = (life: Life) => new Promise<void>((resolve) => life.thread.onExit(() => resolve()))
