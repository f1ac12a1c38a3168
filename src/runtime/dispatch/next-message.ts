/**
 * Which message may be handed to an instance of an agent now: one that a permit and the order allow, and that has a place
 * beside what it has already.
 */
import { senderOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { policyOf } from '../../mailbox/overflow.ts'
import { inlineLimit } from '../../mailbox/window.ts'
import type { LimitNotices } from '../logging/limit-notices.ts'
import { ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'
import type { Gate } from './permits.ts'

// More than 20 ms of work would take the order by priority and the permit out of the host's hands, less would ring more often.
const AHEAD_MS = 20
const HANDED_AHEAD = 1024
const RANKED_AHEAD = 64

interface Needs {
  readonly gate: Gate
  readonly limits: LimitNotices
}

export class NextMessage {
  readonly #gate: Gate
  readonly #limits: LimitNotices

  constructor({ gate, limits }: Needs) {
    this.#gate = gate
    this.#limits = limits
  }

  of(cell: Cell, life: Life): Envelope<RunState> | undefined {
    const gate = this.#gate
    const { mailbox, settings, suspects } = cell
    if (cell.interleaves && settings.counted) return this.#nextRun(cell)
    const first = mailbox.peek()
    if (mailbox.handed.size > 0) {
      if (!first || suspects.size > 0 || cell.instances.length > 1) return undefined
      if (settings.counted && !this.#mayFollow(cell, life, first)) return undefined
    }
    if (first && (!settings.counted || gate.take(first.run, cell))) return first
    if (mailbox.handed.size > 0) return undefined
    const other = first && mailbox.isMixed && gate.mayPass(cell) ? this.#another(cell, new Set([first.run])) : undefined
    if (!other && cell.permit) gate.release(cell.permit, cell) // what it was for is gone
    return other
  }

  /** With several turns at once: the next message of a run that the agent is not at. */
  #nextRun(cell: Cell): Envelope<RunState> | undefined {
    const { mailbox, promised, atOnce } = cell
    const { handed } = mailbox
    const mayCome = cell.openRuns < atOnce && mailbox.waiting > 0
    if (!mayCome && mailbox.waiting > 0 && cell.suspects.size === 0)
      this.#limits.reached(`concurrency of "${cell.name}"`, atOnce, 'messages of other runs wait for it')
    const next = mayCome ? this.#another(cell, runsOf(handed.values())) : undefined
    if (!next) for (const run of [...promised]) this.#gate.release(run, cell) // what it was for is gone, or cannot come
    return next
  }

  /**
   * While the first waits, for the permit of its run or for the end of its run's turn, the agent goes on with the next
   * message of another run that has a permit. Rule 16 stays: none passes an earlier one of its own run, nor one of its own
   * sender and priority. Scripts are senders of their own in each run. `runs`: those whose messages wait.
   */
  #another(cell: Cell, runs: Set<RunState>): Envelope<RunState> | undefined {
    const gate = this.#gate
    const senders = new Set<number>()
    let passes = false
    for (const envelope of cell.mailbox.queued()) {
      if (envelope.within) continue
      const sender = senderOf(envelope.memory, envelope.at)
      const line = sender * 2 ** 32 + envelope.priority
      const isFree = !runs.has(envelope.run) && (sender === ORCHESTRATOR_INDEX || !senders.has(line))
      if (isFree) {
        if (passes && !gate.mayPass(cell)) return undefined
        if (gate.take(envelope.run, cell)) return envelope
        passes = true
      }
      runs.add(envelope.run)
      senders.add(line)
    }
    return undefined
  }

  /** Whether it may stand in the window behind others. */
  #mayFollow(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    if (life.run !== envelope.run || isAhead(cell, envelope)) return false
    // In the lane of priority 0 it has no place among its own: while it is there, it is there alone.
    return !ranksLarge(life, envelope) && !(life.ranksLarge && cell.mailbox.handed.get(life.ranksLarge.turn))
  }
}

const runsOf = (envelopes: Iterable<Envelope<RunState>>) => new Set(Array.from(envelopes, ({ run }) => run))

/** Whether as many stand in the window as may: one, where it may come again in the same life, or expire or be dropped before it has begun. */
function isAhead({ settings, mailbox, turnMs }: Cell, { priority }: Envelope<RunState>): boolean {
  const { supervision, queueTimeoutMs } = settings
  const { displaces } = policyOf(settings.mailbox.overflow)
  if (supervision.onHandlerError !== 'fail' || queueTimeoutMs !== false || displaces) return true
  const { size, ranked } = mailbox.handed
  const most = Math.ceil(AHEAD_MS / turnMs)
  return priority === 0 ? size - ranked >= Math.min(most, HANDED_AHEAD) : ranked >= Math.min(most, RANKED_AHEAD)
}

/** Too large for the lane of its priority. */
export const ranksLarge = ({ window }: Life, { priority, bytes }: Envelope<RunState>): boolean =>
  priority !== 0 && bytes > inlineLimit(window.ranked)
