/**
 * Turns that are tried again, and have done things that the log in memory has given up since: that is read from the
 * durable log first. Until then their messages wait in the mailbox.
 */
import { DramatisError, describe, OutcomeUnknownError } from '../../errors.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import { lastSeq } from '../log/run-log.ts'
import { isForgotten, unknownStep } from '../state/attempt-log.ts'
import type { Cell } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import { TurnFrames } from '../state/turn-frames.ts'
import type { Cancellation } from './cancellation.ts'

interface Needs {
  readonly cancellation: Cancellation
  readonly journal: Journal
  readonly loop: HostLoop
  readonly ready: Ready
}

export class Recalls {
  readonly #needs: Needs
  readonly #reading = new Set<Envelope<RunState>>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Checks whether a message that is tried again has to wait for the durable log, and begins to read there. */
  holds(cell: Cell, envelope: Envelope<RunState>): boolean {
    if (!isForgotten(envelope)) return false
    if (!this.#reading.has(envelope)) void this.#recall(cell.first, envelope)
    return true
  }

  async #recall(cell: Cell, envelope: Envelope<RunState>): Promise<void> {
    const { cancellation, loop, ready } = this.#needs
    this.#reading.add(envelope)
    const error = await this.#read(cell, envelope).then(
      () => unknownIn(cell, envelope),
      (reason: unknown) => unreadable(cell, reason),
    )
    this.#reading.delete(envelope)
    if (loop.closed) return
    if (error) cancellation.bury(cell, envelope, 'failed', error)
    ready.touch(cell)
    loop.wake()
  }

  async #read(cell: Cell, envelope: Envelope<RunState>): Promise<void> {
    const { run, turn } = envelope
    const to = run.log.forgottenTo
    await this.#needs.journal.reread(run, async (entries) => {
      const frames = new TurnFrames(cell.index, turn)
      for await (const entry of entries) {
        if (lastSeq(entry) > to) break
        frames.see(entry)
      }
      frames.to = to
      run.reread.set(envelope, frames)
    })
  }
}

function unknownIn(cell: Cell, envelope: Envelope<RunState>): OutcomeUnknownError | undefined {
  const step = unknownStep(cell, envelope)
  return step && outcomeUnknown(cell, step)
}

/** Makes the error for a turn whose step had begun when it was cut off, and may not run twice. */
export function outcomeUnknown(
  { name: agent }: Cell,
  { kind, name }: { kind: 'step' | 'tool'; name: string },
  cause?: DramatisError,
): OutcomeUnknownError {
  const how = cause?.code.endsWith('_TIMEOUT') ? 'was late' : 'died'
  const text = `Agent "${agent}" ${how} while its ${kind} "${name}" was under way: it may have happened, or not, so it is not run again. Mark the ${kind} { idempotent: true } if it may.`
  return new OutcomeUnknownError(text, { agent, [kind]: name }, cause)
}

function unreadable({ name: agent }: Cell, reason: unknown): OutcomeUnknownError {
  const text = `What an earlier attempt of a turn of agent "${agent}" had done cannot be read from the durable log, so the turn is not run again: ${describe(reason)}`
  return new OutcomeUnknownError(text, { agent }, reason instanceof DramatisError ? reason : undefined)
}
