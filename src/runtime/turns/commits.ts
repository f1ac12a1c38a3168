/** Ends turns: in a commit, or in an error. Withdrawn turns are in cancellation.ts. */
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { Logger } from '../../actors/definition/logger.ts'
import type { Clock } from '../../clock.ts'
import { type DramatisError, describe, StepMismatchError } from '../../errors.ts'
import { errorOf, jsonIn } from '../../mailbox/codec.ts'
import {
  ANNOUNCED,
  BEGINS_AGAIN,
  CORRELATION,
  FAILED,
  HAS_METADATA,
  ID,
  KIND,
  NOTHING,
  REQUEST,
  STARTED,
  setCorrelation,
  setFlag,
  setKind,
  TIME,
  turnOf,
  WHO,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Gate } from '../dispatch/permits.ts'
import type { Mailboxes } from '../mailboxes/mailboxes.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { AgentStates } from '../state/agent-states.ts'
import type { Cell } from '../state/cell.ts'
import type { HandedAnswers } from '../state/handed-answers.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { Cancellation } from './cancellation.ts'
import type { Redelivery } from './redelivery.ts'

// The estimated duration of an agent's turns adapts quickly to short turns, since a long one may be the machine's
// fault. For an agent whose turns are truly long, a sixteenth of the difference per turn is enough.
const TURNS_TO_SPEED = 2
const TURNS_TO_SLOW = 16
/** Limit on the patches of one turn: one of its agent's state, and one of its run's. */
const MOST_PATCHES = 2

interface Needs {
  readonly agentStates: AgentStates
  readonly cancellation: Cancellation
  readonly clock: Clock
  readonly directory: AgentDirectory
  readonly gate: Gate
  readonly handedAnswers: HandedAnswers
  readonly journal: Journal
  readonly logger: Logger
  readonly mailboxes: Mailboxes
  readonly ready: Ready
  readonly redelivery: Redelivery
  readonly requests: Requests
  /** Called with a turn that ends in an error, and is not tried again. */
  failed(cell: Cell, envelope: Envelope<RunState>, error: DramatisError): void
  /** Called with a turn whose code has changed since an earlier process began it. */
  changed(cell: Cell, envelope: Envelope<RunState>, error: DramatisError): void
}

export class Commits {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  end(cell: Cell, life: Life, envelope: Envelope<RunState>, memory: Memory, at: number): void {
    const { cancellation, clock, gate, handedAnswers, mailboxes, ready, redelivery } = this.#needs
    const { run, turn } = envelope
    const { i32, f64 } = memory
    const flags = (i32[(at >> 2) + KIND]! >>> 8) & 0xff
    const failed = (flags & FAILED) !== 0
    if (life.quiet.any) life.quiet.goesOn(turn)
    if (failed && envelope.onMismatch === 'refuse' && !run.over && !envelope.cancelled) {
      const error = errorOf(memory, at)
      if (error.code === 'STEP_MISMATCH') {
        life.patches.delete(turn)
        setKind(memory, at, NOTHING) // the turn has no end
        return this.#needs.changed(cell, envelope, error)
      }
    }
    const { caller, correlation } = addressEnd(envelope, memory, at)
    if (envelope.attempt > 1) cancellation.withdrawRequests(cell, envelope) // what only earlier attempts asked
    if (envelope.announced) i32[(at >> 2) + KIND]! |= ANNOUNCED << 8
    if (failed && redelivery.tryAgain(cell, envelope, memory, at)) {
      life.patches.delete(turn)
      setFlag(memory, at, BEGINS_AGAIN)
      return setCorrelation(memory, at, 0) // a turn that is retried has not answered
    }
    if (failed && envelope.retries && !envelope.cancelled) this.#needs.failed(cell, envelope, errorOf(memory, at))
    if (failed && correlation === 0) cell.mailbox.discard(envelope)
    else cell.mailbox.ended(envelope)
    run.messageEnded()
    cell.turns += 1
    if (cell.suspects.size > 0) cell.suspects.delete(envelope)
    if (!envelope.within) cell.lastEndAt = clock.monotonic() // the outer turn of a nested one continues
    const off = Math.max(0, f64[(at >> 3) + TIME]! - f64[(at >> 3) + STARTED]!) - cell.turnMs
    cell.turnMs += off > 0 ? off / TURNS_TO_SLOW : off / TURNS_TO_SPEED
    if (cell.groups.any) cell.groups.forget(turn)
    if (life.patches.size > 0) {
      if (!failed) this.#applyPatches(cell, life, run, turn)
      life.patches.delete(turn)
    }
    if (envelope.handedOff && run.over) handedAnswers.remember(run) // it may have its answer already
    mailboxes.freed(cell, envelope.bytes)
    if (cell.isDoneWith(run)) gate.release(run, cell)
    if (!cell.isBare(life)) ready.touch(cell)
    if (!failed && (flags & HAS_METADATA) !== 0) {
      const missed = readMissed(memory, at)
      if (missed.length > 0) this.#mismatch(cell, run, memory, at, missed)
    }
    if (correlation === 0) {
      if (failed)
        this.#needs.journal.deadLetter(run, envelope.memory, envelope.at, envelope.cancelled ? 'cancelled' : 'failed', [
          errorOf(memory, at),
        ])
      return
    }
    const request = this.#needs.directory.cells[caller]?.open.get(correlation)
    if (request?.envelope === envelope) this.#needs.requests.settle(request, memory, at)
    else this.#settleOther(run, envelope, memory, at, failed)
  }

  /** Settles the end of a turn whose message is not what its sender waits for under that number. */
  #settleOther(run: RunState, envelope: Envelope<RunState>, memory: Memory, at: number, failed: boolean): void {
    const duty = this.#needs.requests.of(envelope)
    if (duty) return this.#needs.requests.conclude(duty, memory, at)
    if (!failed || !envelope.cancelled) this.#needs.journal.deadLetter(run, memory, at, 'late', [])
    setCorrelation(memory, at, 0) // the caller has had its one answer
  }

  #mismatch(cell: Cell, run: RunState, memory: Memory, at: number, missed: string[]): void {
    const error = new StepMismatchError(
      `Agent "${cell.name}" took another way when its turn was tried again: it did not ask again for ${missed.join(', ')}. What the earlier attempt did stands beside it. Decide by the message and by steps alone.`,
      { agent: cell.name, missed },
    )
    this.#needs.journal.record(run, { kind: 'step.mismatch', agent: cell.name, messageId: idOf(memory, at), error })
  }

  patch(life: Life, memory: Memory, at: number): void {
    const turn = turnOf(memory, at)
    const notices = life.patches.get(turn) ?? []
    if (notices.length === MOST_PATCHES) throw new Error(`a turn has up to ${MOST_PATCHES} patches`)
    notices.push(Object(jsonIn(readBody(memory, at).data)) as PatchNotice)
    life.patches.set(turn, notices)
  }

  #applyPatches(cell: Cell, life: Life, run: RunState, turn: number): void {
    try {
      for (const notice of life.patches.get(turn) ?? []) this.#needs.agentStates.applyPatch(cell, run, notice)
    } catch (error) {
      const text = 'the state that a turn of the agent left cannot be read; it stays what it was'
      this.#needs.logger.error({ agent: cell.name, turn, error: describe(error) }, text)
    }
  }
}

/**
 * Sets the recipient and the number of an END frame. The writer has no say in it: the answer goes to the caller, under
 * its number, or to nobody.
 */
function addressEnd(
  { memory: asked, at: from, handedOff }: Envelope<RunState>,
  { i32 }: Memory,
  at: number,
): { caller: number; correlation: number } {
  const source = asked.i32
  const i = from >> 2
  const j = at >> 2
  const isAsked = (source[i + KIND]! & 0xff) === REQUEST && !handedOff
  const correlation = isAsked ? source[i + CORRELATION]! : 0
  const caller = source[i + WHO]! & 0xffff
  i32[j + CORRELATION] = correlation
  i32[j + WHO] = (i32[j + WHO]! & 0xffff) | (caller << 16)
  for (let word = ID; word < ID + 4; word++) i32[j + word] = source[i + word]!
  return { caller, correlation }
}

/** Reads the steps that a redelivered turn did not ask for again. */
function readMissed(memory: Memory, at: number): string[] {
  const { missed } = Object(jsonIn(readBody(memory, at).metadata)) as { missed?: unknown }
  return Array.isArray(missed) ? missed.map(String) : []
}
