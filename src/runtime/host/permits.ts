/**
 * Limits how many agents of one run execute turns at the same time (rule 19). An agent holds its permit as long as
 * anything of the run is in its window, so successive turns cost nothing until another agent waits. A turn that only
 * waits for others is parked. Its permit is taken when another agent wants it, and it gets one back before its answer
 * is delivered. An agent that waits for a permit goes on with other runs meanwhile, but only once: if it was busy when
 * its permit was free, it then waits for that permit alone.
 */

import { idOf, SHELVE, UNSHELVE } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import { PERMITS_WANTED } from '../../mailbox/team-memory.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import type { Cell } from './agent.ts'
import type { Core } from './core.ts'
import type { Life } from './life.ts'
import type { Requests } from './mailboxes.ts'
import type { ReplyLane } from './replies.ts'
import type { RunState } from './run.ts'

interface Ledger {
  readonly holders: Set<Cell>
  /** Agents in the order of their priority, then of their asking. */
  readonly waiting: Cell[]
  /** Epoch ms at which each of them asked. */
  readonly since: WeakMap<Cell, number>
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
  readonly #overdue = new Map<Cell, RunState>()
  #isAnnounced = false

  /** `limit`: number of agents of one run that may execute at a time. Without one, each has its permit. */
  constructor(core: Core, limit = Number.POSITIVE_INFINITY) {
    this.#core = core
    this.#limit = limit
    this.#isOpen = limit === Number.POSITIVE_INFINITY
    core.limits.watch(() => this.#waits())
  }

  take(run: RunState, cell: Cell): boolean {
    if (this.#isOpen) return true
    const ledger = this.#ledger(run)
    const { holders, waiting } = ledger
    if (holders.has(cell))
      return cell.interleaves || waiting.length === 0 || cell.mailbox.handed.size === 0 || --cell.slice > 0
    if (!cell.interleaves && cell.suspended.size > 0) return false // its open turn goes on first
    // The permit is for a message that another one has come before. It is kept while that one waits for a permit of its
    // own: until then it may be of use.
    if (cell.permit && holders.size < this.#limit) this.release(cell.permit, cell)
    if (waiting.length === 0 && holders.size < this.#limit) {
      this.#grant(run, ledger, cell)
      return true
    }
    this.#ask(run, ledger, cell)
    return holders.has(cell)
  }

  /**
   * Checks whether messages of other runs may go before the one that waits. They may not if its permit was free while
   * the agent was busy.
   */
  mayPass(cell: Cell): boolean {
    const run = this.#overdue.get(cell)
    if (!run) return true
    if (cell.mailbox.has(run)) return false
    this.#overdue.delete(cell)
    return true
  }

  /** Releases the permit of an agent that has nothing of the run any more. */
  release(run: RunState, cell: Cell): void {
    if (this.#isOpen) return
    cell.suspended.delete(run.index)
    const ledger = this.#ledgers.get(run)
    if (!ledger) return
    if (ledger.holders.delete(cell)) {
      cell.permit = undefined
      cell.promised.delete(run)
    }
    this.#serve(run, ledger)
  }

  #grant(run: RunState, { holders }: Ledger, cell: Cell): void {
    holders.add(cell)
    if (!cell.interleaves) {
      cell.permit = run
      cell.slice = Math.min(Math.ceil(SLICE_MS / cell.turnMs), LARGEST_SLICE)
    } else if (!cell.suspended.has(run.index)) cell.promised.add(run)
    if (this.#overdue.get(cell) === run) this.#overdue.delete(cell)
  }

  /** Gets a permit for a turn of that run that gave up its own and is to go on. Returns false if there is none. */
  resume(run: RunState, cell: Cell): boolean {
    if (this.#isOpen) return true
    const ledger = this.#ledger(run)
    if (!run.ending && !ledger.holders.has(cell)) this.#ask(run, ledger, cell)
    if (!run.ending && !ledger.holders.has(cell)) return false
    if (cell.suspended.delete(run.index)) cell.life?.returnPermit(run)
    return true
  }

  /** Gets a permit for a shelved turn of that run that is to go on. Returns false if there is none. */
  regain(run: RunState, cell: Cell): boolean {
    if (this.#isOpen || run.ending) return true
    const ledger = this.#ledger(run)
    if (ledger.holders.has(cell)) return true
    // The permit of another run is given up only for this one: else two agents would pass it to each other for ever,
    // since each gives it up before it comes to the message that the permit is for.
    if (cell.permit && (ledger.holders.size < this.#limit || this.#takeFromParked(run, ledger)))
      this.release(cell.permit, cell)
    this.#ask(run, ledger, cell)
    return ledger.holders.has(cell)
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
      for (const cell of waiting) {
        const messageId = messageOf(cell, run)
        if (messageId !== undefined)
          yield {
            option: OPTION,
            limit: this.#limit,
            runId: run.id,
            agent: cell.name,
            messageId,
            since: since.get(cell)!,
          }
      }
    }
  }

  #ask(run: RunState, ledger: Ledger, cell: Cell): void {
    const { waiting } = ledger
    const isFirst = waiting.length === 0
    if (!waiting.includes(cell)) {
      const priority = cell.settings.info.priority ?? 0
      const at = waiting.findIndex((other) => (other.settings.info.priority ?? 0) < priority)
      waiting.splice(at < 0 ? waiting.length : at, 0, cell)
      ledger.since.set(cell, this.#core.clock.now())
      this.contended.set(run, ledger)
    }
    this.#announce() // before the wake-ups: a turn that comes to wait later finds it, and wakes the host
    if (isFirst) for (const { life } of ledger.holders) life?.thread.ring()
    this.#serve(run, ledger)
    if (waiting.includes(cell) && ledger.holders.size >= this.#limit) {
      const reached = { option: OPTION, limit: this.#limit, runId: run.id, agent: cell.name }
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
  #wishOf(cell: Cell, run: RunState): 'now' | 'later' | 'never' {
    const { mailbox, life, permit, promised } = cell
    if (!life?.ready) return 'never'
    const shelved = mailbox.handed.shelved.size > 0 && cell.shelvedOf(run)
    if (shelved) {
      const goesOn = life.awaits(shelved.turn) || cell.isAskedWithin(run)
      return !goesOn ? 'never' : permit || !cell.mayReturn(run) ? 'later' : 'now'
    }
    if (cell.isAt(run)) {
      const isAnswered = cell.interleaves ? life.holds(run.index) : life.backlog.length > 0
      return isAnswered || cell.isAskedWithin(run) ? 'now' : 'never'
    }
    if (!mailbox.has(run)) return 'never'
    return permit || !cell.hasPlace(promised.size) ? 'later' : 'now'
  }

  /**
   * Takes the permit of a parked turn, which needs none until it gets an answer. Returns false if no turn is parked.
   */
  #takeFromParked(run: RunState, { holders }: Ledger): boolean {
    for (const holder of holders) {
      if (!holder.life?.takePermit(run)) continue
      holders.delete(holder)
      holder.permit = undefined
      holder.suspended.set(run.index, run)
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
    for (const { holders } of this.#ledgers.values()) for (const { life } of holders) life?.thread.ring()
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
function messageOf({ mailbox }: Cell, run: RunState): string | undefined {
  for (const messages of [mailbox.handed.all(), mailbox.queued()])
    for (const envelope of messages) if (envelope.run === run) return idOf(envelope.memory, envelope.at)
  return undefined
}

/**
 * Shelves turns that wait for a person: such a turn has no permit, and no place among the open turns of its agent. So
 * the agent goes on with messages of other runs, however long the person takes. A turn that waits for the answer of a
 * shelved turn is shelved too.
 *
 * Only the thread knows whether a turn has other work. So the host asks it first, as the deadlock detector does. What
 * the turn waits for is held back until it has a permit and a place again. Only its abort comes at once.
 */
export class Shelf {
  readonly #core: Core
  readonly #permits: Permits
  readonly #replies: ReplyLane
  readonly #requests: Requests

  constructor(core: Core, permits: Permits, replies: ReplyLane, requests: Requests) {
    this.#core = core
    this.#permits = permits
    this.#replies = replies
    this.#requests = requests
  }

  /** Shelves a turn that waits for a person, as soon as it does nothing else. `agent`: its first instance. */
  consider(agent: Cell, turn: number): void {
    const cell = agent.holderOf(turn)
    const life = cell?.life
    const envelope = cell?.mailbox.handed.get(turn)
    if (!cell?.settings.isAgent || !life?.ready || !envelope || !waitsForPerson(agent, turn)) return
    if (life.quiet.has(turn) || cell.suspended.has(envelope.run.index)) {
      if (mayBeShelved(cell, envelope) && !mayBeAskedBack(agent, turn)) this.#shelve(cell, life, envelope)
    } else if (!life.quiet.isKnown(turn)) life.quiet.ask(turn, this.#replies.probe(cell, turn))
  }

  #shelve(cell: Cell, life: Life, envelope: Envelope<RunState>): void {
    const { run, turn } = envelope
    if (!cell.suspended.has(run.index) && !life.takePlace(run)) return
    cell.mailbox.handed.shelve(envelope)
    life.backlog.push(this.#core.frames.make({ kind: SHELVE, step: turn }))
    this.#permits.release(run, cell)
    this.#core.ready.touch(cell)
    this.#core.loop.wake()
    const request = this.#requests.of(envelope)
    if (request?.caller.settings.isAgent) this.consider(request.caller, request.turn)
  }

  /** Gives a shelved turn its permit and a place. Returns false if there is none now. */
  takeBack(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    const { run, turn } = envelope
    if (!cell.mayReturn(run) || !this.#permits.regain(run, cell)) return false
    cell.mailbox.handed.unshelve(envelope)
    cell.promised.delete(run)
    life.run = run
    life.backlog.push(this.#core.frames.make({ kind: UNSHELVE, run: run.index, step: turn }))
    return true
  }
}

/**
 * Checks whether the turn can be shelved: it has begun, and is the only message of its run in the thread. A turn with
 * nested ones shares its permit with them, and what the thread has got ahead of its time would begin.
 */
function mayBeShelved(cell: Cell, envelope: Envelope<RunState>): boolean {
  const { handed } = cell.mailbox
  if (envelope.within || envelope.cancelled || envelope.startedAt === NOT_YET) return false
  if (handed.shelved.has(envelope.turn) || !cell.life?.begun(envelope)) return false
  if (!cell.interleaves) return handed.size === 1
  for (const other of handed.values()) if (other !== envelope && other.run === envelope.run) return false
  return true
}

/**
 * Checks whether somebody whom the turn has asked may ask its agent back, which handles one turn at a time. That
 * request runs within the turn. Had another turn its place by then, the two runs could wait for each other.
 */
function mayBeAskedBack({ interleaves, open, settings }: Cell, turn: number): boolean {
  if (interleaves || settings.reentrancy === 'none') return false
  for (const request of open.values()) if (request.turn === turn) return true
  return false
}

function waitsForPerson({ calls, open }: Cell, turn: number): boolean {
  for (const call of calls.values()) if (call.turn === turn && call.ofPerson) return true
  for (const { turn: of, callee, envelope } of open.values())
    if (of === turn && callee.instances.some(({ mailbox }) => mailbox.handed.shelved.get(envelope.turn) === envelope))
      return true
  return false
}
