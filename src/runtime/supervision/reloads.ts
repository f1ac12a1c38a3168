/**
 * Reloads agents: a thread with the new code replaces the one that an agent has.
 *
 *   load the code in a new thread -> no new message for the old one -> its open turns end
 *     -> start hook of the new code -> stop hook of the old code -> the new thread takes the messages
 *
 * Until the new code has started, the old thread can go on as if nothing had been. If it dies before that, the new one
 * takes its place at once, and redelivery does the rest. Instances of an agent are reloaded one after the other, so
 * that the others take its messages meanwhile.
 */

import { idOf, senderOf } from '../../mailbox/frame.ts'
import { rule, shape, wait } from '../../shared/checks.ts'
import {
  AgentTerminatedError,
  CancelledError,
  ConfigurationError,
  DramatisError,
  describe,
  StartFailedError,
  TeamClosedError,
  TurnTimeoutError,
} from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { Agent } from '../host/agent.ts'
import type { Incarnation } from '../host/incarnation.ts'
import type { Reader } from '../host/journal.ts'
import type { Supervisor } from './host.ts'
import type { PendingIncarnation } from './pending-incarnation.ts'

/** Options of `team.reloadAgent`. */
export interface ReloadOptions {
  /** Withdraws the reload, as long as the new code has not started. */
  signal?: AbortSignal
  /**
   * Time that the open turns of the old code may take to end, in ms. Default: 300,000, as long as a turn may take by
   * default. false: no limit.
   */
  timeoutMs?: number | false
}

const TIMEOUT_MS = 300_000

/** Throws `ConfigurationError` for options that are none. */
export const reloadOptions = shape<ReloadOptions>({
  signal: rule('an AbortSignal', (value) => value instanceof AbortSignal),
  timeoutMs: wait('off'),
})

interface Limits {
  readonly timeoutMs: number | false
  /** Rejects when the caller withdraws the reload. */
  readonly withdrawn: Promise<never>
}

export class Reloads {
  readonly #host: Supervisor
  /** Reloads under way, by agent: the next one of that agent waits for them. */
  readonly #lines = new Map<Agent, Promise<unknown>>()
  /** Callbacks that look whether an incarnation has ended its open turns. */
  readonly #draining = new Set<() => void>()

  constructor(host: Supervisor) {
    this.#host = host
  }

  readonly #reader: Reader = {
    kinds: ['frames', 'agent.exited', 'message.dead'],
    isIdle: true,
    next: () => {
      for (const poll of this.#draining) poll()
    },
  }
  readonly part = (): Reader => this.#reader

  /** Reloads all instances of an agent, once earlier reloads of it are over. */
  async reload(agent: Agent, { signal, timeoutMs = TIMEOUT_MS }: ReloadOptions): Promise<void> {
    let stop = () => {}
    const withdrawn = new Promise<never>((_resolve, reject) => {
      if (!signal) return
      const abort = () => reject(withdrawal(agent, signal.reason))
      if (signal.aborted) abort()
      else stop = onAbort(signal, abort)
    })
    withdrawn.catch(() => {})
    const before = this.#lines.get(agent)
    const own = Promise.race([before, withdrawn]).then(() => this.#all(agent, { timeoutMs, withdrawn }))
    const line = Promise.allSettled([before, own])
    this.#lines.set(agent, line)
    try {
      await own
    } finally {
      stop()
      void line.then(() => this.#lines.get(agent) === line && this.#lines.delete(agent))
    }
  }

  async #all(agent: Agent, limits: Limits): Promise<void> {
    if (agent.gone) throw stoppedError(agent)
    for (const each of agent.instances) if (!each.stopped) await this.#one(each, limits)
  }

  async #one(agent: Agent, limits: Limits): Promise<void> {
    let successor: PendingIncarnation | undefined
    try {
      successor = await this.#made(agent, limits)
      const reply = await Promise.race([successor.load(), successor.lost, limits.withdrawn])
      if (!reply.ok) throw await successor.errorOf(reply)
      await this.#takeOver(agent, successor, limits)
    } catch (error) {
      throw notReloaded(agent, successor, error)
    } finally {
      if (successor) this.#drop(agent, successor)
    }
  }

  async #made(agent: Agent, { withdrawn }: Limits): Promise<PendingIncarnation> {
    const isWanted = () => !this.#host.loop.closed && !agent.stopped
    const making = this.#host.lifecycle.succeed(agent, isWanted)
    const successor = await Promise.race([making, withdrawn]).catch((error) => {
      void making.then((late) => late && this.#drop(agent, late)).catch(() => {})
      throw error
    })
    if (!successor) throw agent.stopped ?? new TeamClosedError('The team was closed meanwhile.', {})
    return successor
  }

  #drop(agent: Agent, successor: PendingIncarnation): void {
    this.#host.lifecycle.dropSuccessor(agent, successor)
  }

  /** Resolves when the new thread has taken over: from an incarnation without open turns, or from one that has died. */
  async #takeOver(agent: Agent, successor: PendingIncarnation, limits: Limits): Promise<void> {
    const { lifecycle } = this.#host
    for (;;) {
      const { incarnation } = agent
      if (agent.stopped) throw agent.stopped
      if (!incarnation) void lifecycle.begin(agent) // its restart would have come later
      if (!incarnation || successor.adopted) return lifecycle.ready(agent)
      const { lost } = successor
      if (!incarnation.ready) await Promise.race([lifecycle.ready(agent), lost, limits.withdrawn])
      else if (await this.#replaced(agent, incarnation, successor, limits)) return
    }
  }

  /** Returns false if the incarnation ended by itself before it could be replaced. */
  async #replaced(
    agent: Agent,
    incarnation: Incarnation,
    successor: PendingIncarnation,
    limits: Limits,
  ): Promise<boolean> {
    const { lost } = successor
    const { withdrawn } = limits
    incarnation.draining = true
    try {
      await Promise.race([this.#drained(agent, incarnation, limits), lost, withdrawn])
      if (agent.incarnation !== incarnation) return false
      const started = await Promise.race([successor.start(), lost, withdrawn])
      if (agent.incarnation !== incarnation) return false
      if (!started.ok) throw await successor.errorOf(started)
      if (agent.incarnation !== incarnation) return false
      await this.#host.lifecycle.replace(agent, successor, started)
      return true
    } finally {
      incarnation.draining = false
      this.#host.ready.touch(agent)
      this.#host.loop.wake()
    }
  }

  /** Resolves when no turn of that incarnation is open any more, or it has ended. Rejects when that takes too long. */
  async #drained(agent: Agent, incarnation: Incarnation, { timeoutMs, withdrawn }: Limits): Promise<void> {
    const isOver = () => agent.incarnation !== incarnation || (agent.mailbox.handed.size === 0 && !incarnation.sending)
    let poll = () => {}
    const over = new Promise<void>((resolve) => {
      poll = () => isOver() && resolve()
    })
    poll()
    this.#draining.add(poll)
    this.#reader.isIdle = false
    this.#host.ready.touchInstance(agent) // it gives back permits for messages that it does not get now
    this.#host.loop.wake()
    let reject = (_error: DramatisError) => {}
    const late = new Promise<never>((_resolve, fail) => {
      reject = fail
    })
    const timer =
      timeoutMs === false
        ? undefined
        : this.#host.clock.timer(timeoutMs, () => reject(this.#lateError(agent, timeoutMs)), true)
    try {
      await Promise.race([over, late, withdrawn])
    } finally {
      timer?.cancel()
      this.#draining.delete(poll)
      this.#reader.isIdle = this.#draining.size === 0
    }
  }

  #lateError(agent: Agent, timeoutMs: number): TurnTimeoutError {
    const open = [...agent.mailbox.handed.values()]
    const messages = open.map(({ memory, at }) => idOf(memory, at))
    const [first] = open
    const sender = first ? this.#host.directory.name(senderOf(first.memory, first.at)) : ''
    const more = open.length > 1 ? ` (and ${open.length - 1} more)` : ''
    return new TurnTimeoutError(
      `its turn on message ${messages[0]} from "${sender}"${more} did not end within ${timeoutMs} ms. Raise timeoutMs, or look at what the turn waits for.`,
      { agent: agent.name, timeoutMs, messageId: messages[0], messages },
    )
  }
}

function withdrawal({ name: agent }: Agent, reason: unknown): CancelledError {
  const why = reason instanceof Error ? reason.message : describe(reason)
  return new CancelledError(`its caller has withdrawn the reload: ${why}`, { agent }, reason)
}

function stoppedError({ name: agent, gone }: Agent): AgentTerminatedError {
  const text = `Agent "${agent}" is stopped, so it cannot be reloaded: ${gone?.message} Use restartAgent, which loads its code as well.`
  return new AgentTerminatedError(text, { agent }, gone)
}

/** Returns the error of a reload that failed: of the same class, with the agent, its module and its instance. */
function notReloaded(agent: Agent, successor: PendingIncarnation | undefined, thrown: unknown): DramatisError {
  const { name, instance, instances } = agent
  const module = successor?.module // else the error names the file that was not found, or does not compile
  const one = instances.length === 1 ? '' : `Instance ${instance} of `
  const from = module === undefined ? '' : ` from ${module}`
  const after = agent.stopped ? '' : ' and keeps its old code'
  const text = `${one}${one ? 'agent' : 'Agent'} "${name}" was not reloaded${from}${after}: ${thrown instanceof Error ? thrown.message : describe(thrown)}`
  const done = instances.slice(0, instance).filter(({ stopped }) => !stopped)
  const place = { ...(one && { instance, reloaded: done.map((each) => each.instance) }) }
  const error = thrown instanceof DramatisError ? thrown : undefined
  const details = { ...error?.details, agent: name, ...(module !== undefined && { module }), ...place }
  const Class = classOf(error)
  return new Class(text, details, error?.cause ?? thrown)
}

/** Classes that a failed reload has; anything else is a start that failed. */
function classOf(error: DramatisError | undefined) {
  const classes = [AgentTerminatedError, CancelledError, ConfigurationError, TeamClosedError, TurnTimeoutError]
  return classes.find((each) => error instanceof each) ?? StartFailedError
}
