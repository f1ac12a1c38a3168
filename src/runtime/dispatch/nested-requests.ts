/**
 * Hands over nested requests: those that run within an open turn. They do not queue. They go through the ring of the
 * replies, to the instance that has the turn, and with its permit. The thread begins a nested request when all its open
 * turns of the run wait for others, and reports that.
 */
import { ownCopyOf, setAttempt, setStep, setTurn } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { HostFrames } from '../log/host-frames.ts'
import { loggedFrames } from '../state/attempt-log.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'
import type { CautiousStart } from './cautious-start.ts'

interface Needs {
  readonly caution: CautiousStart
  readonly frames: HostFrames
  recalls(cell: Cell, envelope: Envelope<RunState>): boolean
  readonly journal: Journal
}

/**
 * Queues the nested requests that may go now behind the other replies. The others wait until their outer turn is
 * redelivered, or for a permit.
 */
export function handNested(needs: Needs, cell: Cell, life: Life, mayGoOn: (run: RunState) => boolean): void {
  for (const envelope of [...cell.mailbox.nested]) {
    if (!cell.mailbox.holds(envelope.within!)) continue
    if (!needs.caution.allows(envelope) || !mayGoOn(envelope.run)) continue
    if (envelope.attempt > 1 && needs.recalls(cell, envelope)) continue
    const replay = envelope.attempt > 1 ? needs.frames.replay(envelope.turn, loggedFrames(cell, envelope)) : undefined
    if (replay) life.backlog.push(replay)
    hand(needs, cell, life, envelope)
  }
}

function hand({ journal }: Needs, cell: Cell, life: Life, envelope: Envelope<RunState>): void {
  const { memory, at, bytes } = envelope
  cell.mailbox.hand(envelope)
  envelope.handedSeq ||= journal.seq
  journal.handed(cell, envelope)
  envelope.lane = 'replies'
  const copy = ownCopyOf(memory, at, bytes)
  setTurn(copy, 0, envelope.turn)
  setStep(copy, 0, envelope.within!.turn) // the step is not used otherwise: it names the outer turn
  setAttempt(copy, 0, envelope.attempt)
  life.backlog.push({ memory: copy, bytes })
}
