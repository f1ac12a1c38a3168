/**
 * Hands over requests that run within a turn that is open. They wait in no line: they go by the lane of the answers that
 * the turn waits for, to the instance that has it, and with its permit. The thread begins with one when all that it has
 * open of the run waits for others, and says so.
 */
import { ownCopyOf, setAttempt, setStep, setTurn } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { HostFrames } from '../log/host-frames.ts'
import { loggedFrames } from '../state/attempt-log.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'

/** Puts what may go now behind the other replies; the rest waits for its turn to come again, or for a permit. */
interface Needs {
  readonly frames: HostFrames
  readonly journal: Journal
}

export function handNested(needs: Needs, cell: Cell, life: Life, mayGoOn: (run: RunState) => boolean): void {
  for (const envelope of [...cell.mailbox.nested]) {
    if (!cell.mailbox.holds(envelope.within!)) continue
    if (!mayGoOn(envelope.run)) continue
    const replay = envelope.attempt > 1 ? needs.frames.replay(envelope.turn, loggedFrames(cell, envelope)) : undefined
    if (replay) life.backlog.push(replay)
    hand(needs, cell, life, envelope)
  }
}

function hand({ journal }: Needs, cell: Cell, life: Life, envelope: Envelope<RunState>): void {
  const { memory, at, bytes } = envelope
  cell.mailbox.hand(envelope)
  envelope.handedSeq = journal.seq
  envelope.lane = 'replies'
  const copy = ownCopyOf(memory, at, bytes)
  setTurn(copy, 0, envelope.turn)
  setStep(copy, 0, envelope.within!.turn) // of no use to who gets it, but for this
  setAttempt(copy, 0, envelope.attempt)
  life.backlog.push({ memory: copy, bytes })
}
