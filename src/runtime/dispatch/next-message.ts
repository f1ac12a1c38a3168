/**
 * Chooses the next message for an instance of an agent: a permit and the order must allow it, and the instance must
 * have a place for it beside the messages that it has.
 */
import { senderOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { policyOf } from '../../mailbox/overflow.ts'
import { inlineLimit } from '../../mailbox/window.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Life } from '../state/life.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { CautiousStart } from './cautious-start.ts'
import type { Gate } from './permits.ts'
import type { ReplyLane } from './reply-lane.ts'

// More than 20 ms of work ahead would take the order by priority and the permit out of the host's control. Less would
// cause more wake-ups.
const AHEAD_MS = 20
const HANDED_AHEAD = 1024
const RANKED_AHEAD = 64

interface Needs {
  readonly caution: CautiousStart
  readonly gate: Gate
  /** Checks whether a message that is tried again has to wait for what its earlier attempts have done. */
  recalls(cell: Cell, envelope: Envelope<RunState>): boolean
  readonly limits: LimitNotices
  readonly ready: Ready
  readonly replies: ReplyLane
}

export class NextMessage {
  readonly #caution: CautiousStart
  readonly #gate: Gate
  readonly #limits: LimitNotices
  readonly #ready: Ready
  readonly #recalls: Needs['recalls']
  readonly #replies: ReplyLane

  constructor({ caution, gate, limits, ready, recalls, replies }: Needs) {
    this.#ready = ready
    this.#recalls = recalls
    this.#caution = caution
    this.#gate = gate
    this.#limits = limits
    this.#replies = replies
  }

  of(cell: Cell, life: Life): Envelope<RunState> | undefined {
    const gate = this.#gate
    const { mailbox, settings, suspects } = cell
    if (life.draining || life.retired) return this.#nothing(cell)
    if (this.#caution.isAsked) {
      if (this.#caution.isHolding) return this.#held(cell)
      if (this.#caution.waitsForLog(cell)) return this.#nothing(cell)
    }
    if (cell.interleaves && settings.isAgent) return this.#nextRun(cell, life)
    if (mailbox.handed.size > 0 && life.held.length > 0) return undefined // a shelved turn is to go on first
    const shelved = mailbox.handed.shelved
    const isOpen = shelved.size > 0 ? runsOf(shelved.values()) : NONE
    const first = mailbox.line.next
    if (first && isOpen.has(first.run)) {
      const other = mailbox.handed.size === 0 ? this.#another(cell, new Set(isOpen)) : undefined
      return other ?? (mailbox.handed.size > 0 ? undefined : this.#nothing(cell))
    }
    if (first && first.attempt > 1 && (this.#isRecalled(cell, first) || this.#isLeft(cell, first)))
      return mailbox.handed.size > 0 ? undefined : this.#nothing(cell)
    if (mailbox.handed.size > 0) {
      if (!first || suspects.size > 0 || cell.instances.length > 1) return undefined
      if (settings.isAgent && !this.#mayFollow(cell, life, first)) return undefined
    }
    if (first && (!settings.isAgent || gate.take(first.run, cell))) return first
    if (mailbox.handed.size > 0) return undefined
    const other =
      first && mailbox.isMixed && gate.mayPass(cell) ? this.#another(cell, new Set([...isOpen, first.run])) : undefined
    if (!other && cell.permit) gate.release(cell.permit, cell) // its messages are gone
    return other
  }

  #isRecalled(cell: Cell, envelope: Envelope<RunState>): boolean {
    return envelope.attempt > 1 && this.#recalls(cell, envelope)
  }

  /**
   * Checks whether a turn that was tried here is left to another instance. It is left once: an instance that seems free
   * may not take it yet, and nobody would ask this one again.
   */
  #isLeft(cell: Cell, { retries, run }: Envelope<RunState>): boolean {
    if (!retries || retries.instance !== cell.instance || !hasFreeOther(cell, run)) return false
    retries.instance = undefined
    this.#ready.touchInstance(cell)
    return true
  }

  /** Returns the message that may begin while others are held back. */
  #held(cell: Cell): Envelope<RunState> | undefined {
    const held = this.#caution.heldFor(cell)
    if (!held || this.#isRecalled(cell, held)) return this.#nothing(cell)
    return !cell.settings.isAgent || this.#gate.take(held.run, cell) ? held : undefined
  }

  /** Returns the next message for an agent with several turns at once: of a run of which it has no open turn. */
  #nextRun(cell: Cell, life: Life): Envelope<RunState> | undefined {
    const { mailbox, promised, settings, suspects } = cell
    const { handed } = mailbox
    const mayCome = cell.hasPlace() && mailbox.waiting > 0
    if (!mayCome && mailbox.waiting > 0) {
      if (suspects.size > 0) this.#askWhetherQuiet(cell, life)
      else
        this.#limits.reached(
          {
            option: `concurrency of "${cell.name}"`,
            limit: settings.concurrency,
            runId: mailbox.peek()?.run.id,
            agent: cell.name,
          },
          'messages of other runs wait for it',
        )
    }
    const next = mayCome ? this.#another(cell, runsOf(handed.all())) : undefined
    if (next) return next
    for (const run of [...promised]) // its messages are gone, or cannot come
      if (handed.shelved.size === 0 || !cell.shelvedOf(run)) this.#gate.release(run, cell)
    return next
  }

  /** Asks the open turns whether they wait for others alone. They answer when they do. */
  #askWhetherQuiet(cell: Cell, life: Life): void {
    for (const envelope of cell.mailbox.handed.values()) {
      const { turn, within } = envelope
      if (life.quiet.isKnown(turn) || (within && !life.begun(envelope))) continue
      life.quiet.ask(turn, this.#replies.probe(cell, turn))
    }
  }

  /** Gives back the permits of messages that must wait. A turn that is open keeps its own. */
  #nothing(cell: Cell): undefined {
    for (const run of [...cell.promised]) this.#gate.release(run, cell)
    if (cell.permit && cell.mailbox.handed.size === 0) this.#gate.release(cell.permit, cell)
  }

  /**
   * Returns the next message of another run that has a permit, while the first message waits: for the permit of its
   * run, or for the end of its run's turn. Rule 16 holds: no message passes an earlier one of its own run, nor one of
   * its own sender and priority. Scripts count as separate senders in each run. Nor does a new message take the last
   * place of an interrupted turn that has asked others and waits for its permit: what they ask back runs within that
   * turn, and others wait for it. `runs`: runs whose messages wait.
   */
  #another(cell: Cell, runs: Set<RunState>): Envelope<RunState> | undefined {
    const gate = this.#gate
    const senders = new Set<number>()
    let passes = false
    let interrupted = 0
    let isSpare: boolean | undefined
    for (const envelope of cell.mailbox.queued()) {
      if (envelope.within) continue
      if (envelope.attempt > 1) interrupted += hasAsked(cell, envelope) ? 1 : 0
      else if (interrupted > 0) {
        isSpare ??= placesOf(cell) > interrupted // the interrupted ones stand before all others
        if (!isSpare) return undefined
      }
      const sender = senderOf(envelope.memory, envelope.at)
      const line = sender * 2 ** 32 + envelope.priority
      const isFree = !runs.has(envelope.run) && (sender === ORCHESTRATOR_INDEX || !senders.has(line))
      if (isFree && !this.#isRecalled(cell, envelope) && !this.#isLeft(cell, envelope)) {
        if (passes && !gate.mayPass(cell)) return undefined
        if (gate.take(envelope.run, cell)) return envelope
        passes = true
      }
      runs.add(envelope.run)
      senders.add(line)
    }
    return undefined
  }

  /** Checks whether the message may be placed in the window behind others. */
  #mayFollow(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    if (life.run !== envelope.run || isAhead(cell, envelope)) return false
    // A message too large for the ranked ring goes through the plain one, outside of the order of its priority. So it
    // must be alone in the window.
    return !ranksLarge(life, envelope) && !(life.ranksLarge && cell.mailbox.handed.get(life.ranksLarge.turn))
  }
}

/** Returns the number of free places for messages of further runs, over all instances of the agent. */
const placesOf = ({ instances, settings }: Cell): number =>
  instances.reduce(
    (sum, { stopped, openRuns }) => sum + (stopped ? 0 : Math.max(0, settings.concurrency - openRuns)),
    0,
  )

/** Checks whether a turn that was interrupted waits for an answer. */
function hasAsked({ open }: Cell, { turn }: Envelope<RunState>): boolean {
  for (const request of open.values()) if (request.turn === turn) return true
  return false
}

/** Checks whether another instance of the agent has a place for a turn of that run now. */
const hasFreeOther = ({ instance, instances }: Cell, run: RunState): boolean =>
  instances.some((other) => {
    const { life } = other
    const isFree = life?.ready && !life.draining && !life.retired && other.hasPlace() && !other.isAt(run)
    return other.instance !== instance && isFree
  })

const NONE: ReadonlySet<RunState> = new Set()

const runsOf = (envelopes: Iterable<Envelope<RunState>>) => new Set(Array.from(envelopes, ({ run }) => run))

/**
 * Checks whether the window holds its maximum of messages. The maximum is 1 if a message may be redelivered to the same
 * thread, or may expire or be dropped before it has begun.
 */
function isAhead({ settings, mailbox, turnMs }: Cell, { priority }: Envelope<RunState>): boolean {
  const { supervision, turnRetries, queueTimeoutMs } = settings
  const { displaces } = policyOf(settings.mailbox.overflow)
  if (supervision.onHandlerError !== 'fail' || turnRetries > 0 || queueTimeoutMs !== false || displaces) return true
  const { size, ranked } = mailbox.handed
  const most = Math.ceil(AHEAD_MS / turnMs)
  return priority === 0 ? size - ranked >= Math.min(most, HANDED_AHEAD) : ranked >= Math.min(most, RANKED_AHEAD)
}

/** Checks whether the message is too large for the ring of its priority. */
export const ranksLarge = ({ window }: Life, { priority, bytes }: Envelope<RunState>): boolean =>
  priority !== 0 && bytes > inlineLimit(window.ranked)
