/**
 * Limits how many agents of one run execute turns at the same time (rule 19). An agent holds its permit as long as
 * anything of the run is in its channel, so successive turns cost nothing until another agent waits. A turn that only
 * waits for others is parked. Its permit is taken when another agent wants it, and it gets one back before its answer
 * is delivered. An agent that waits for a permit goes on with other runs meanwhile, but only once: if it was busy when
 * its permit was free, it then waits for that permit alone.
 */

import { idOf, RESUME, SUSPEND } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import { PERMITS_WANTED } from '../../mailbox/team-memory.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { Agent } from './agent.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import type { Requests } from './mailboxes.ts'
import type { ReplyQueue } from './replies.ts'
import type { RunState } from './run.ts'

interface Ledger {
  readonly holders: Set<Agent>
  /** Agents in the order of their priority, then of their asking. */
  readonly waiting: Agent[]
  /** Epoch ms at which each of them asked. */
  readonly since: WeakMap<Agent, number>
}

/**
 * Time in which an agent goes on from message to message while others wait: a wake-up costs as much as dozens of short
 * turns.
 */
const SLICE_MS = 1
const OPTION = 'maxConcurrentAgents'
const LARGEST_SLICE = 64

/** Decides which agents of a run may execute at the same time (maxConcurrentAgents). */
export class Permits {
  readonly #core: Core
  readonly #limit: number
  readonly #isOpen: boolean
  readonly #ledgers = new Map<RunState, Ledger>()
  /** Runs with agents that wait for a permit. */
  readonly contended = new Map<RunState, Ledger>()
  /** Runs whose permit was free while the agent was busy with another run. */
  readonly #overdue = new Map<Agent, RunState>()
  #isAnnounced = false

  /** `limit`: number of agents of one run that may execute at a time. Without one, each has its permit. */
  constructor(core: Core, limit = Number.POSITIVE_INFINITY) {
    this.#core = core
    this.#limit = limit
    this.#isOpen = limit === Number.POSITIVE_INFINITY
    core.limits.watch(() => this.#waits())
  }

  take(run: RunState, agent: Agent): boolean {
    if (this.#isOpen) return true
    const ledger = this.#ledger(run)
    const { holders, waiting } = ledger
    if (holders.has(agent))
      return agent.interleaves || waiting.length === 0 || agent.mailbox.handed.size === 0 || --agent.slice > 0
    if (!agent.interleaves && agent.withoutPermit.size > 0) return false // its open turn goes on first
    // The permit is for a message that another one has come before. It is kept while that one waits for a permit of its
    // own: until then it may be of use.
    if (agent.permit && holders.size < this.#limit) this.release(agent.permit, agent)
    if (waiting.length === 0 && holders.size < this.#limit) {
      this.#grant(run, ledger, agent)
      return true
    }
    this.#ask(run, ledger, agent)
    return holders.has(agent)
  }

  /**
   * Checks whether messages of other runs may go before the one that waits. They may not if its permit was free while
   * the agent was busy.
   */
  mayPass(agent: Agent): boolean {
    const run = this.#overdue.get(agent)
    if (!run) return true
    if (agent.mailbox.has(run)) return false
    this.#overdue.delete(agent)
    return true
  }

  /** Releases the permit of an agent that has nothing of the run any more. */
  release(run: RunState, agent: Agent): void {
    if (this.#isOpen) return
    agent.withoutPermit.delete(run.index)
    const ledger = this.#ledgers.get(run)
    if (!ledger) return
    if (ledger.holders.delete(agent)) {
      agent.permit = undefined
      agent.promised.delete(run)
    }
    this.#serve(run, ledger)
  }

  #grant(run: RunState, { holders }: Ledger, agent: Agent): void {
    holders.add(agent)
    if (!agent.interleaves) {
      agent.permit = run
      agent.slice = Math.min(Math.ceil(SLICE_MS / agent.turnMs), LARGEST_SLICE)
    } else if (!agent.withoutPermit.has(run.index)) agent.promised.add(run)
    if (this.#overdue.get(agent) === run) this.#overdue.delete(agent)
  }

  /** Gets a permit for a turn of that run that gave up its own and is to go on. Returns false if there is none. */
  resume(run: RunState, agent: Agent): boolean {
    if (this.#isOpen) return true
    const ledger = this.#ledger(run)
    if (!run.ending && !ledger.holders.has(agent)) this.#ask(run, ledger, agent)
    if (!run.ending && !ledger.holders.has(agent)) return false
    if (agent.withoutPermit.delete(run.index)) agent.incarnation?.returnPermit(run)
    return true
  }

  /** Gets a permit for a suspended turn of that run that is to go on. Returns false if there is none. */
  regain(run: RunState, agent: Agent): boolean {
    if (this.#isOpen || run.ending) return true
    const ledger = this.#ledger(run)
    if (ledger.holders.has(agent)) return true
    // The permit of another run is given up only for this one: else two agents would pass it to each other for ever,
    // since each gives it up before it comes to the message that the permit is for.
    if (agent.permit && (ledger.holders.size < this.#limit || this.#takeFromParked(run, ledger)))
      this.release(agent.permit, agent)
    this.#ask(run, ledger, agent)
    return ledger.holders.has(agent)
  }

  /** Gives out permits again, because a turn may have parked. Only where some agent waits for one. */
  reconsider(): void {
    if (this.contended.size === 0) return
    if (Atomics.load(this.#core.team.words, PERMITS_WANTED) !== 1) this.#announceAgain()
    for (const [run, ledger] of this.contended) this.#serve(run, ledger)
  }

  *#waits(): IterableIterator<LimitWait> {
    for (const [run, { holders, waiting, since }] of this.contended) {
      if (holders.size < this.#limit) continue // those that wait are busy with other runs
      for (const agent of waiting) {
        const messageId = messageOf(agent, run)
        if (messageId !== undefined)
          yield {
            option: OPTION,
            limit: this.#limit,
            runId: run.id,
            agent: agent.name,
            messageId,
            since: since.get(agent)!,
          }
      }
    }
  }

  #ask(run: RunState, ledger: Ledger, agent: Agent): void {
    const { waiting } = ledger
    const isFirst = waiting.length === 0
    if (!waiting.includes(agent)) {
      const priority = agent.settings.info.priority ?? 0
      const at = waiting.findIndex((other) => (other.settings.info.priority ?? 0) < priority)
      waiting.splice(at < 0 ? waiting.length : at, 0, agent)
      ledger.since.set(agent, this.#core.clock.now())
      this.contended.set(run, ledger)
    }
    this.#announce() // before the wake-ups: a turn that comes to wait later finds it, and wakes the host
    if (isFirst) for (const { incarnation } of ledger.holders) incarnation?.thread.wake()
    this.#serve(run, ledger)
    if (waiting.includes(agent) && ledger.holders.size >= this.#limit) {
      const reached = { option: OPTION, limit: this.#limit, runId: run.id, agent: agent.name }
      this.#core.limits.reached(reached, 'agents of a run wait for their turn')
    }
  }

  /** Gives out free permits in order. An agent that is busy with another run keeps its place. */
  #serve(run: RunState, ledger: Ledger): void {
    const { holders, waiting } = ledger
    for (let at = 0; at < waiting.length; ) {
      const next = waiting[at]!
      const wish = this.#wishOf(next, run)
      if (wish === 'later') {
        if (holders.size < this.#limit) this.#overdue.set(next, run)
        at += 1
        continue
      }
      if (wish === 'now' && holders.size >= this.#limit && !this.#takeFromParked(run, ledger)) break
      waiting.splice(at, 1)
      if (wish === 'never') continue
      this.#grant(run, ledger, next)
      this.#core.ready.touch(next)
    }
    if (waiting.length > 0) return
    if (holders.size === 0) this.#ledgers.delete(run)
    if (this.contended.delete(run)) this.#announce()
  }

  /**
   * Checks whether an agent still wants the permit. Its message may have been withdrawn, its thread may have ended, or
   * it may be busy with other runs.
   */
  #wishOf(agent: Agent, run: RunState): 'now' | 'later' | 'never' {
    const { mailbox, incarnation, permit, promised } = agent
    if (!incarnation?.ready) return 'never'
    const suspended = mailbox.handed.suspended.size > 0 && agent.suspendedOf(run)
    if (suspended) {
      const goesOn = incarnation.awaits(suspended.turn) || agent.isAskedWithin(run)
      return !goesOn ? 'never' : permit || !agent.mayReturn(run) ? 'later' : 'now'
    }
    if (agent.isAt(run)) {
      const isAnswered = agent.interleaves ? incarnation.holds(run.index) : incarnation.backlog.length > 0
      return isAnswered || agent.isAskedWithin(run) ? 'now' : 'never'
    }
    if (!mailbox.has(run)) return 'never'
    return permit || !agent.hasPlace(promised.size) ? 'later' : 'now'
  }

  /**
   * Takes the permit of a parked turn, which needs none until it gets an answer. Returns false if no turn is parked.
   */
  #takeFromParked(run: RunState, { holders }: Ledger): boolean {
    for (const holder of holders) {
      if (!holder.incarnation?.takePermit(run)) continue
      holders.delete(holder)
      holder.permit = undefined
      holder.withoutPermit.set(run.index, run)
      return true
    }
    return false
  }

  #ledger(run: RunState): Ledger {
    let ledger = this.#ledgers.get(run)
    if (!ledger) {
      ledger = { holders: new Set(), waiting: [], since: new WeakMap() }
      this.#ledgers.set(run, ledger)
    }
    return ledger
  }

  /** Restores the word after a thread has cleared it. Turns that have parked since then did not wake the host. */
  #announceAgain(): void {
    Atomics.store(this.#core.team.words, PERMITS_WANTED, 1)
    this.#core.repairs.report({ word: 'permits wanted' })
    for (const { holders } of this.#ledgers.values()) for (const { incarnation } of holders) incarnation?.thread.wake()
  }

  /** Sets the word that threads read when a turn parks: they wake the host only while an agent waits for a permit. */
  #announce(): void {
    const isContended = this.contended.size > 0
    if (this.#isAnnounced === isContended) return
    this.#isAnnounced = isContended
    Atomics.store(this.#core.team.words, PERMITS_WANTED, isContended ? 1 : 0)
  }
}

/** Returns the id of the message for which the agent wants its permit: of its open turn, or of the next one. */
function messageOf({ mailbox }: Agent, run: RunState): string | undefined {
  for (const messages of [mailbox.handed.all(), mailbox.queued()])
    for (const envelope of messages) if (envelope.run === run) return idOf(envelope.memory, envelope.at)
  return undefined
}

/**
 * Suspends turns that wait for a person: such a turn has no permit, and no place among the open turns of its agent. So
 * the agent goes on with messages of other runs, however long the person takes. A turn that waits for the answer of a
 * suspended turn is suspended too.
 *
 * Only the thread knows whether a turn has other work. So the host asks it first, as the deadlock detector does. What
 * the turn waits for is held back until it has a permit and a place again. Only its abort comes at once.
 */
export class Suspension {
  readonly #core: Core
  readonly #permits: Permits
  readonly #replies: ReplyQueue
  readonly #requests: Requests

  constructor(core: Core, permits: Permits, replies: ReplyQueue, requests: Requests) {
    this.#core = core
    this.#permits = permits
    this.#replies = replies
    this.#requests = requests
  }

  /** Suspends a turn that waits for a person, as soon as it does nothing else. `first`: the agent's first instance. */
  consider(first: Agent, turn: number): void {
    const agent = first.holderOf(turn)
    const incarnation = agent?.incarnation
    const envelope = agent?.mailbox.handed.get(turn)
    if (!agent?.settings.isAgent || !incarnation?.ready || !envelope || !waitsForPerson(first, turn)) return
    if (incarnation.quiet.has(turn) || agent.withoutPermit.has(envelope.run.index)) {
      if (mayBeSuspended(agent, envelope) && !mayBeAskedBack(first, turn)) this.#suspend(agent, incarnation, envelope)
    } else if (!incarnation.quiet.isKnown(turn)) incarnation.quiet.ask(turn, this.#replies.probe(agent, turn))
  }

  #suspend(agent: Agent, incarnation: Incarnation, envelope: Envelope<RunState>): void {
    const { run, turn } = envelope
    if (!agent.withoutPermit.has(run.index) && !incarnation.takePlace(run)) return
    agent.mailbox.handed.suspend(envelope)
    incarnation.backlog.push(this.#core.frames.make({ kind: SUSPEND, step: turn }))
    this.#permits.release(run, agent)
    this.#core.ready.touch(agent)
    this.#core.loop.wake()
    const request = this.#requests.of(envelope)
    if (request?.caller.settings.isAgent) this.consider(request.caller, request.turn)
  }

  /** Gives a suspended turn its permit and a place. Returns false if there is none now. */
  takeBack(agent: Agent, incarnation: Incarnation, envelope: Envelope<RunState>): boolean {
    const { run, turn } = envelope
    if (!agent.mayReturn(run) || !this.#permits.regain(run, agent)) return false
    agent.mailbox.handed.resume(envelope)
    agent.promised.delete(run)
    incarnation.run = run
    incarnation.backlog.push(this.#core.frames.make({ kind: RESUME, run: run.index, step: turn }))
    return true
  }
}

/**
 * Checks whether the turn can be suspended: it has begun, and is the only message of its run in the thread. A turn with
 * nested ones shares its permit with them, and what the thread has got ahead of its time would begin.
 */
function mayBeSuspended(agent: Agent, envelope: Envelope<RunState>): boolean {
  const { handed } = agent.mailbox
  if (envelope.within || envelope.cancelled || envelope.startedAt === NOT_YET) return false
  if (handed.suspended.has(envelope.turn) || !agent.incarnation?.begun(envelope)) return false
  if (!agent.interleaves) return handed.size === 1
  for (const other of handed.values()) if (other !== envelope && other.run === envelope.run) return false
  return true
}

/**
 * Checks whether somebody whom the turn has asked may ask its agent back, which handles one turn at a time. That
 * request runs within the turn. Had another turn its place by then, the two runs could wait for each other.
 */
function mayBeAskedBack({ interleaves, open, settings }: Agent, turn: number): boolean {
  if (interleaves || settings.reentrancy === 'none') return false
  for (const request of open.values()) if (request.turn === turn) return true
  return false
}

function waitsForPerson({ calls, open }: Agent, turn: number): boolean {
  for (const call of calls.values()) if (call.turn === turn && call.ofPerson) return true
  for (const { turn: of, callee, envelope } of open.values())
    if (of === turn && callee.instances.some(({ mailbox }) => mailbox.handed.suspended.get(envelope.turn) === envelope))
      return true
  return false
}
