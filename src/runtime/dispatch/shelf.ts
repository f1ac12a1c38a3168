/**
 * Shelves turns that wait for a person: such a turn has no permit, and no place among the open turns of its agent. So
 * the agent goes on with messages of other runs, however long the person takes. A turn that waits for the answer of a
 * shelved turn is shelved too.
 *
 * Only the thread knows whether a turn has other work. So the host asks it first, as the deadlock detector does. What
 * the turn waits for is held back until it has a permit and a place again. Only its abort comes at once.
 */
import { SHELVE, UNSHELVE } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Life } from '../state/life.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { Gate } from './permits.ts'
import type { ReplyLane } from './reply-lane.ts'

interface Needs {
  readonly frames: HostFrames
  readonly gate: Gate
  readonly loop: HostLoop
  readonly ready: Ready
  readonly replies: ReplyLane
  /** Returns the request that the message is, if its sender waits. */
  requestOf(envelope: Envelope<RunState>): OpenRequest | undefined
}

export class Shelf {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Shelves a turn that waits for a person, as soon as it does nothing else. `agent`: its first instance. */
  consider(agent: Cell, turn: number): void {
    const cell = agent.holderOf(turn)
    const life = cell?.life
    const envelope = cell?.mailbox.handed.get(turn)
    if (!cell?.settings.isAgent || !life?.ready || !envelope || !waitsForPerson(agent, turn)) return
    if (life.quiet.has(turn) || cell.suspended.has(envelope.run.index)) {
      if (mayBeShelved(cell, envelope) && !mayBeAskedBack(agent, turn)) this.#shelve(cell, life, envelope)
    } else if (!life.quiet.isKnown(turn)) life.quiet.ask(turn, this.#needs.replies.probe(cell, turn))
  }

  #shelve(cell: Cell, life: Life, envelope: Envelope<RunState>): void {
    const { frames, gate, loop, ready, requestOf } = this.#needs
    const { run, turn } = envelope
    if (!cell.suspended.has(run.index) && !life.takePlace(run)) return
    cell.mailbox.handed.shelve(envelope)
    life.backlog.push(frames.make({ kind: SHELVE, step: turn }))
    gate.release(run, cell)
    ready.touch(cell)
    loop.wake()
    const request = requestOf(envelope)
    if (request?.caller.settings.isAgent) this.consider(request.caller, request.turn)
  }

  /** Gives a shelved turn its permit and a place. Returns false if there is none now. */
  takeBack(cell: Cell, life: Life, envelope: Envelope<RunState>): boolean {
    const { frames, gate } = this.#needs
    const { run, turn } = envelope
    if (!cell.mayReturn(run) || !gate.regain(run, cell)) return false
    cell.mailbox.handed.unshelve(envelope)
    cell.promised.delete(run)
    life.run = run
    life.backlog.push(frames.make({ kind: UNSHELVE, run: run.index, step: turn }))
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

/** Checks whether the turn waits for a person, directly or by one of its requests. */
function waitsForPerson({ calls, open }: Cell, turn: number): boolean {
  for (const call of calls.values()) if (call.turn === turn && call.ofPerson) return true
  for (const { turn: of, callee, envelope } of open.values())
    if (of === turn && callee.instances.some(({ mailbox }) => mailbox.handed.shelved.get(envelope.turn) === envelope))
      return true
  return false
}
