/**
 * When to look for turns that wait in vain: when a wait begins or ends that can have closed a cycle. It is asked of every record
 * that the log gets, so it reads headers alone; what it calls suspicious is looked at in the host's books.
 */
import type { AgentTask } from '../../../actors/definition/task.ts'
import {
  ACCEPTED,
  ASKS,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  limitOf,
  QUIET,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  recipientOf,
  runOf,
  SEND,
  STREAM_WAIT,
  senderOf,
} from '../../../mailbox/frame.ts'
import type { Memory } from '../../../mailbox/memory.ts'
import type { Batch } from '../../log/records.ts'
import type { AgentDirectory } from '../../state/agent-directory.ts'
import type { Cell } from '../../state/cell.ts'

interface Needs {
  readonly directory: AgentDirectory
}

const isHeld = ({ status, dependencies }: AgentTask) => status === 'blocked' && dependencies.length > 0

export class Suspicion {
  readonly #needs: Needs
  /** Agents that found a mailbox full, and perhaps wait for room still. */
  readonly #askers = new Set<number>()
  /** Runs in which somebody waits for what anybody may write, by their index. */
  readonly #waitedIn = new Set<number>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Whether one of these can have left somebody stuck. */
  has(batch: Batch): boolean {
    let suspicious = false
    for (const entry of batch) {
      if (entry.kind === 'frames') {
        const { memory, to } = entry
        for (let at = entry.from; at < to; at += lengthOf(memory, at)) if (this.#frame(memory, at)) suspicious = true
      } else if (entry.kind === 'agent.status' && entry.status !== 'starting') suspicious = true
      // What it had asked before it was cut off it waits for again, and says so to nobody.
      else if (entry.kind === 'turn.started' && entry.attempt > 1) suspicious = true
      else if (entry.kind === 'task' && isHeld(entry.task)) suspicious = true
    }
    return suspicious
  }

  /** Somebody looks: who waits now is what there is to know. */
  looked(): void {
    this.#askers.clear()
    this.#waitedIn.clear()
    for (const cell of this.#needs.directory.cells) {
      const { mailbox, calls } = cell
      for (const { waitsFor, turn } of calls.values()) {
        const run = waitsFor && cell.messageOf(turn)?.run
        if (run) this.#waitedIn.add(run.index)
      }
      if (mailbox.parked.length > 0) for (const sender of mailbox.parked.senders()) this.#askers.add(sender)
    }
  }

  /** Whether it can have left somebody stuck: only a wait for one who waits can. */
  #frame(memory: Memory, at: number): boolean {
    const { cells } = this.#needs.directory
    switch (kindOf(memory, at)) {
      case SEND:
        // What had its room already may have taken that of others.
        if (!(flagsOf(memory, at) & ASKS)) return this.#isFull(cells[recipientOf(memory, at)])
        this.#askers.add(senderOf(memory, at))
        return true
      case REQUEST: {
        if (flagsOf(memory, at) & ASKS) this.#askers.add(senderOf(memory, at))
        const callee = cells[recipientOf(memory, at)]
        return callee === undefined || this.#mayWait(callee)
      }
      case CALL: {
        const waits = cells[senderOf(memory, at)]?.calls.get(correlationOf(memory, at))?.waitsFor !== undefined
        if (waits) this.#waitedIn.add(runOf(memory, at))
        return waits
      }
      case END:
        if (this.#isBlocking(cells[senderOf(memory, at)])) return true
        if (correlationOf(memory, at) > 0 && this.#waitsOn(cells[recipientOf(memory, at)])) return true
        return this.#waitedIn.has(runOf(memory, at)) && !this.#isAnybodyAtWork(runOf(memory, at))
      case RESPONSE:
      case RESULT:
      case ACCEPTED:
      case REFUSED:
        return this.#waitsOn(cells[recipientOf(memory, at)])
      case CANCEL:
        return this.#waitsOn(cells[senderOf(memory, at)])
      case STREAM_WAIT:
        return limitOf(memory, at) === 1
      case QUIET:
        return true
      default:
        return false
    }
  }

  #isFull(cell: Cell | undefined): boolean {
    return cell !== undefined && cell.mailbox.parked.length > 0
  }

  /** A turn of the run is under way that waits for nothing that the host knows: it may write what others wait for. */
  #isAnybodyAtWork(run: number): boolean {
    for (const cell of this.#needs.directory.actors) {
      if (!cell.life || this.#mayWait(cell)) continue
      for (const envelope of cell.underWay) if (envelope.run.index === run) return true
    }
    return false
  }

  /** Others wait for its turns, and what is left of these may wait, too. */
  #isBlocking(cell: Cell | undefined): boolean {
    return cell !== undefined && (cell.mailbox.waiting > 0 || this.#isFull(cell)) && this.#mayWait(cell)
  }

  #mayWait({ first }: Cell): boolean {
    if (first.open.size > 0 || first.calls.size > 0 || this.#askers.has(first.index)) return true
    return first.instances.some(({ life }) => life !== undefined && life.awaitReader.size > 0)
  }

  /** Whether it has a wait left for somebody who may wait himself. */
  #waitsOn(cell: Cell | undefined): boolean {
    if (!cell) return false
    for (const { callee } of cell.open.values()) if (this.#mayWait(callee)) return true
    return cell.calls.size > 0 || this.#askers.has(cell.index)
  }
}
