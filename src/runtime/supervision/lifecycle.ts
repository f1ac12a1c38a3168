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
import type { Agent } from '../host/agent.ts'
import type { Incarnation } from '../host/incarnation.ts'
import { FENCE_MS } from '../threads/thread.ts'
import type { Exits } from './exits.ts'
import type { Owners } from './owners.ts'
import { PendingIncarnation, type ThreadPlaces } from './pending-incarnation.ts'
import type { Router } from './router.ts'

type Began = Extract<Started, { ok: true }>

export class Lifecycle {
  /** Threads with new code that replace the incarnation of their agent, or follow it if it ends before that. */
  readonly #successors = new Map<Agent, PendingIncarnation>()
  readonly #host: Owners
  readonly #exits: Exits
  readonly #places: ThreadPlaces
  readonly #router: Router
  readonly #endings = new WeakMap<Agent, Promise<void>>()
  readonly #waiting = new Map<Agent, { resolve(): void; reject(error: DramatisError): void }[]>()

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
  async begin(agent: Agent): Promise<void> {
    const began = this.#host.clock.monotonic()
    const beginning = ++agent.beginnings
    if (agent.passivated) agent.passivated = 'waking'
    else this.become(agent, beginning === 1 ? 'starting' : 'restarting')
    const isWanted = () =>
      !this.#host.loop.closed && !agent.incarnation && !agent.stopped && agent.beginnings === beginning
    const waiting = this.#successors.get(agent)
    const successor = waiting?.isLost ? undefined : waiting
    let pending: PendingIncarnation | undefined
    try {
      pending = successor ?? (await PendingIncarnation.make(this.#host, this.#exits, this.#places, agent, isWanted))
    } catch (error) {
      if (agent.beginnings !== beginning) return
      return this.cannotStart(agent, noThread(agent, error))
    }
    if (!isWanted()) {
      if (pending && pending !== successor) pending.drop(unwanted(agent))
      return
    }
    if (!pending) return this.#rest(agent)
    if (agent.passivated) this.become(agent, 'starting')
    this.#adopt(agent, pending)
    const started = await pending.start()
    if (agent.incarnation !== pending.incarnation) return // the thread died meanwhile, and that was handled
    if (!started.ok) return this.#failedStart(agent, pending.incarnation, pending.errorOf(started))
    this.#begun(agent, pending, started, began, successor !== undefined)
  }

  #adopt(agent: Agent, pending: PendingIncarnation): void {
    const { incarnation, newcomers } = pending
    this.#successors.delete(agent)
    pending.adopted = true
    pending.takePlace()
    agent.epoch = incarnation.epoch
    this.#host.directory.setIncarnation(agent, incarnation)
    for (const newcomer of newcomers) incarnation.backlog.push(this.#host.frames.teamNotice(0, { newcomer }))
  }

  // ---- reload

  /**
   * Makes a thread that is to replace the incarnation of the agent, or to follow it if it ends before that. Resolves
   * and rejects like `PendingLife.make`.
   */
  async succeed(agent: Agent, isWanted: () => boolean): Promise<PendingIncarnation | undefined> {
    const successor = await PendingIncarnation.make(this.#host, this.#exits, this.#places, agent, isWanted, 'beside')
    if (successor) this.#successors.set(agent, successor)
    return successor
  }

  /** Checks whether a thread with new code waits to take over. */
  isReloading(agent: Agent): boolean {
    return this.#successors.has(agent)
  }

  /** Ends a thread that is not to replace the agent's incarnation after all. */
  dropSuccessor(agent: Agent, successor: PendingIncarnation): void {
    if (this.#successors.get(agent) === successor) this.#successors.delete(agent)
    successor.drop(new CancelledError(`Agent "${agent.name}" keeps its old code.`, { agent: agent.name }))
  }

  /**
   * Ends the incarnation that an agent has, in order, and puts its successor, which has started, in its place. That
   * incarnation has no open turn. Resolves when its thread is gone.
   */
  async replace(agent: Agent, successor: PendingIncarnation, started: Began): Promise<void> {
    const incarnation = agent.incarnation!
    const began = this.#host.clock.monotonic()
    incarnation.retired = 'reloaded'
    const gone = endOf(incarnation)
    await this.#askToStop(agent, incarnation, gone)
    if (agent.stopped) return successor.lost // the agent, or the team, is ended meanwhile
    this.#exits.retire(agent, incarnation, 'reloaded')
    if (successor.isLost) {
      void this.begin(agent) // the old code has stopped already: the new one begins again
      return this.ready(agent)
    }
    if (!successor.adopted) {
      this.#adopt(agent, successor)
      this.#begun(agent, successor, started, began, true)
    }
    await this.#untilGone(gone)
  }

  // ---- passivation

  /**
   * Ends the incarnation of an agent that has nothing to do, in order. Resolves when its thread is gone. A message that
   * comes meanwhile begins the next incarnation when the stop hook of this one has run.
   */
  async passivate(agent: Agent, incarnation: Incarnation): Promise<void> {
    const { beginnings } = agent
    incarnation.retired = 'passivated'
    const gone = endOf(incarnation)
    await this.#askToStop(agent, incarnation, gone)
    if (agent.stopped) return // the agent, or the team, is ended meanwhile
    this.#exits.retire(agent, incarnation, 'passivated')
    if (agent.beginnings === beginnings) this.#rest(agent) // else another agent's end is the reason for its next incarnation
    await this.#untilGone(gone)
  }

  /** Lets an agent begin with its first message. Its code is looked for now. */
  async register(agent: Agent): Promise<void> {
    try {
      await Promise.all([this.#host.provisioning.codeOf(agent), this.#host.provisioning.toolsOf(agent)])
    } catch (error) {
      const failed = noThread(agent, error)
      if (!agent.stopped) this.stopForGood(agent, failed)
      throw failed
    }
    if (!agent.stopped && agent.beginnings === 0) this.#rest(agent)
  }

  /** Leaves an agent without a thread until it has a message. */
  #rest(agent: Agent): void {
    agent.passivated = 'asleep'
    this.become(agent, 'passivated')
    this.#endWaits(agent)
    this.#host.ready.touchInstance(agent)
    this.#host.loop.wake()
  }

  #begun(agent: Agent, pending: PendingIncarnation, started: Began, began: number, reloaded: boolean): void {
    const { journal } = this.#host
    const { incarnation } = pending
    if (started.state !== undefined) {
      agent.state = JSON.parse(started.state) as object
      journal.keep(undefined, { kind: 'state', index: agent.index, value: agent.state })
    }
    agent.first.tools = started.tools
    agent.first.harmful = started.harmful ?? []
    incarnation.ready = true
    agent.lastEndAt = this.#host.clock.monotonic()
    agent.startFailures = 0
    agent.status = 'idle'
    const woken = agent.passivated !== false
    agent.passivated = false
    if (reloaded) journal.record(agent.run, { kind: 'agent.reloaded', ...agent.whose, epoch: incarnation.epoch })
    journal.record(agent.run, {
      kind: 'agent.ready',
      ...agent.whose,
      epoch: incarnation.epoch,
      warm: incarnation.thread.warm,
      tookMs: this.#host.clock.monotonic() - began,
      ...(woken && { woken }),
    })
    this.#endWaits(agent)
    this.#host.ready.touch(agent)
    this.#host.loop.kick()
  }

  become(agent: Agent, status: 'starting' | 'restarting' | 'passivated' | 'stopped' | 'failed'): void {
    if (agent.status === status && status !== 'starting') return
    agent.status = status
    const { passivated, epoch, whose } = agent
    const woken = passivated === 'waking' && status === 'starting'
    this.#host.journal.record(agent.run, { kind: 'agent.status', ...whose, status, epoch, ...(woken && { woken }) })
  }

  /** Resolves when the agent is ready; rejects when it is stopped. */
  ready(agent: Agent): Promise<void> {
    if (agent.stopped) return Promise.reject(agent.stopped)
    if (agent.incarnation?.ready || agent.passivated === 'asleep') return Promise.resolve()
    return new Promise((resolve, reject) => {
      this.#waiting.set(agent, [...(this.#waiting.get(agent) ?? []), { resolve, reject }])
    })
  }

  /** Ends the waits of `ready`; with an error they are rejected. */
  #endWaits(agent: Agent, error?: DramatisError): void {
    for (const { reject, resolve } of this.#waiting.get(agent) ?? []) {
      if (error) reject(error)
      else resolve()
    }
    this.#waiting.delete(agent)
  }

  async #failedStart(agent: Agent, incarnation: Incarnation, error: Promise<DramatisError>): Promise<void> {
    this.#host.directory.setIncarnation(agent, undefined)
    incarnation.thread.terminate()
    const { beginnings } = agent
    const known = await error
    if (!agent.stopped && agent.beginnings === beginnings) this.cannotStart(agent, known) // else the team was closed
  }

  /**
   * Rule 11: an error in the code is final at once, any other error at the second time. `blameless`: another agent has
   * ended the thread, or somebody from outside, which does not count.
   */
  cannotStart(agent: Agent, error: DramatisError, blameless = false): void {
    if (!blameless) agent.startFailures += 1
    if (!(error instanceof ConfigurationError) && agent.startFailures < 2) {
      void this.begin(agent)
      return
    }
    const final =
      error instanceof ConfigurationError
        ? error
        : new StartFailedError(
            `Agent "${agent.name}" failed twice while it started: ${error.message}`,
            { agent: agent.name },
            error.cause ?? error,
          )
    this.stopForGood(agent, final)
  }

  // ---- stop

  /**
   * Rule 8: the agent gets no thread any more. Its queued messages become dead letters, and callers that wait are
   * notified. With several instances the last one does this for all: the mailbox stays while another instance is there.
   */
  stopForGood(agent: Agent, error: DramatisError, status: 'stopped' | 'failed' = 'failed'): void {
    agent.stopped = error
    this.#turnAway(agent, error)
    if (agent.gone) this.#host.team.close(agent.index)
    const gone = new AgentTerminatedError(
      `Agent "${agent.name}" is stopped: ${error.message}`,
      { agent: agent.name },
      error.cause ?? error,
    )
    this.#buryAll(agent, gone)
    this.become(agent, status)
    this.#host.loop.kick()
  }

  /** Rejects those that wait for the agent to be ready, or to be reloaded. */
  #turnAway(agent: Agent, error: DramatisError): void {
    agent.passivated = false
    this.#places.leave(agent)
    this.#successors.get(agent)?.drop(error)
    this.#endWaits(agent, error)
  }

  #buryAll(agent: Agent, gone: DramatisError): void {
    for (const envelope of [...agent.mailbox.handed.all()])
      this.#host.cancellation.bury(agent, envelope, 'stopped', gone)
    if (agent.gone) this.#buryQueue(agent, gone)
  }

  #buryQueue(agent: Agent, gone: DramatisError): void {
    const { pending } = agent.mailbox
    this.#host.cancellation.buryBlocked(agent, gone)
    for (const envelope of [...agent.mailbox.queued()]) this.#host.cancellation.bury(agent, envelope, 'stopped', gone)
    for (let envelope = pending.shift(); envelope; envelope = pending.shift()) {
      this.#host.mailboxes.markDead(envelope, 'stopped', [gone], gone)
      if (kindOf(envelope.memory, envelope.at) === SEND) this.#host.requests.refusePending(envelope, gone)
    }
  }

  async revive(agent: Agent): Promise<void> {
    if (!agent.stopped || this.#host.loop.closed) return
    const { gone } = agent
    agent.stopped = undefined
    agent.startFailures = 0
    agent.restartTimes = []
    const { capacity, bytes, maxMessageBytes } = agent.settings.mailbox
    if (gone) this.#host.team.open(agent.index, capacity, bytes, maxMessageBytes)
    await this.begin(agent)
  }

  async remove(agent: Agent, reason: AgentTerminatedError): Promise<void> {
    for (const each of agent.instances) each.removed = true
    await this.endAll(agent, reason)
  }

  async endAll(agent: Agent, reason?: AgentTerminatedError): Promise<void> {
    await Promise.all(agent.instances.map((each) => this.end(each, reason)))
  }

  /**
   * Rule 12: abort signal, grace, then terminate. Messages in the mailbox become dead letters. Without a reason the
   * team is closed.
   */
  end(agent: Agent, reason?: AgentTerminatedError): Promise<void> {
    const ending = this.#endings.get(agent) ?? this.#end(agent, reason)
    this.#endings.set(agent, ending)
    return ending
  }

  async #end(agent: Agent, reason: AgentTerminatedError | undefined): Promise<void> {
    agent.stopped = reason ?? new AgentTerminatedError('The team is closed.', { agent: agent.name })
    const successor = this.#successors.get(agent)
    this.#turnAway(agent, reason ?? new TeamClosedError('The team was closed before its agents were ready.', {}))
    if (agent.gone) {
      this.#host.team.close(agent.index)
      this.#buryQueue(agent, agent.stopped)
    }
    if (agent.incarnation) await this.#endIncarnation(agent, agent.incarnation)
    if (successor) await this.#untilGone(successor.gone)
    this.become(agent, 'stopped')
    this.#buryAll(agent, agent.stopped)
    this.#exits.releaseAll(agent)
    this.#host.loop.kick()
  }

  async #endIncarnation(agent: Agent, incarnation: Incarnation): Promise<void> {
    const gone = endOf(incarnation)
    await this.#askToStop(agent, incarnation, gone)
    this.#router.drain(agent, incarnation, mostFrames(incarnation.channel.outbox))
    this.#host.directory.setIncarnation(agent, undefined)
    incarnation.end()
    await this.#untilGone(gone)
  }

  /** Aborts what is open in an incarnation and runs its stop hook, for as long as `stopGraceMs` allows. */
  async #askToStop(agent: Agent, incarnation: Incarnation, gone: Promise<void>): Promise<void> {
    const grace = new AbortController()
    const { stopGraceMs } = agent.settings.supervision
    incarnation.stopping ??= (incarnation.ready ? incarnation.thread.stop() : Promise.resolve()).catch((error) =>
      this.#host.logger.error({ agent: agent.name, error: describe(error) }, 'the stop hook of the agent threw'),
    )
    await Promise.race([incarnation.stopping, gone, this.#elapsed(stopGraceMs, grace.signal)])
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

function noThread({ name: agent }: Agent, error: unknown): DramatisError {
  if (error instanceof DramatisError) return error
  return new StartFailedError(`Agent "${agent}" got no thread: ${describe(error)}`, { agent }, error)
}

const unwanted = ({ name: agent }: Agent) =>
  new CancelledError(`The new thread of agent "${agent}" is not needed.`, { agent })

const endOf = (incarnation: Incarnation) => new Promise<void>((resolve) => incarnation.thread.onExit(() => resolve()))
