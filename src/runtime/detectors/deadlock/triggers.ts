/**
 * Decides when to look for stuck turns: when the start or the end of a wait can have closed a cycle. It sees every
 * record of the log, so it reads headers only. The detector then checks what is suspicious in the host's own records.
 */
import type { AgentStatus, AgentTask } from '../../../actors/definition/task.ts'
import {
  ACCEPTED,
  ASKS,
  CALL,
  CANCEL,
  CORRELATION,
  END,
  KIND,
  LIMIT,
  QUIET,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  RUN_INDEX,
  SEND,
  STREAM_WAIT,
  WHO,
} from '../../../mailbox/frame.ts'
import type { Memory } from '../../../mailbox/memory.ts'
import type { Batch } from '../../log/records.ts'
import { type AgentDirectory, USER_INDEX } from '../../state/agent-directory.ts'
import type { Cell } from '../../state/cell.ts'

interface Needs {
  readonly directory: AgentDirectory
}

const isHeld = ({ status, dependencies }: AgentTask) => status === 'blocked' && dependencies.length > 0

/** Statuses that leave no turn stuck: an agent without a thread gets one for its next message. */
const HARMLESS: ReadonlySet<AgentStatus> = new Set(['starting', 'passivated'])

export class Suspicion {
  readonly #needs: Needs
  /** Agents that found a mailbox full, and may still wait for room. */
  readonly #askers = new Set<number>()
  /** Runs in which a turn waits for an entry that anybody may write, by their index. */
  readonly #waitedIn = new Set<number>()
  /** Agent of each such run that got a message last: most likely it is at work. */
  readonly #lastAsked = new Map<number, Cell>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Checks whether one of these records can have left a turn stuck. */
  has(batch: Batch): boolean {
    let suspicious = false
    for (const entry of batch) {
      if (entry.kind === 'frames') {
        const { memory, to } = entry
        for (let at = entry.from; at < to; at += memory.i32[at >> 2]!) if (this.#frame(memory, at)) suspicious = true
      } else if (entry.kind === 'agent.status' && !HARMLESS.has(entry.status)) suspicious ||= this.#isTurnOpen
      // A redelivered turn waits again for what it asked before it was interrupted, and writes nothing about that.
      else if (entry.kind === 'turn.started' && entry.attempt > 1) suspicious = true
      else if (entry.kind === 'task' && isHeld(entry.task)) suspicious = true
    }
    return suspicious
  }

  /** True if there is a turn that could be stuck. A team that ends has none, and may have thousands of agents. */
  get #isTurnOpen(): boolean {
    return this.#needs.directory.living.some(({ mailbox }) => !mailbox.handed.isEmpty)
  }

  /** Notes the waits that are open now. Called when the detector looks at all turns. */
  looked(): void {
    this.#askers.clear()
    this.#waitedIn.clear()
    this.#lastAsked.clear()
    for (const cell of this.#needs.directory.cells) {
      const { mailbox, calls } = cell
      for (const { waitsFor, turn } of calls.values()) {
        const run = waitsFor && cell.messageOf(turn)?.run
        if (run) this.#waitedIn.add(run.index)
      }
      if (mailbox.parked.length > 0) for (const sender of mailbox.parked.senders()) this.#askers.add(sender)
    }
  }

  /** Checks whether the frame can have left a turn stuck: only a wait for an agent that waits can. */
  #frame({ i32 }: Memory, at: number): boolean {
    const { cells } = this.#needs.directory
    const i = at >> 2
    const who = i32[i + WHO]!
    const sender = who & 0xffff
    const recipient = who >>> 16
    switch (i32[i + KIND]! & 0xff) {
      case SEND:
        if (this.#waitedIn.size > 0) this.#note(i32[i + RUN_INDEX]!, recipient)
        // A message that had its room already may have taken the room of others.
        if (((i32[i + KIND]! >>> 8) & ASKS) === 0) return this.#isFull(cells[recipient])
        this.#askers.add(sender)
        return true
      case REQUEST: {
        if (this.#waitedIn.size > 0) this.#note(i32[i + RUN_INDEX]!, recipient)
        if (((i32[i + KIND]! >>> 8) & ASKS) !== 0) this.#askers.add(sender)
        const callee = cells[recipient]
        return callee === undefined || this.#mayWait(callee)
      }
      case CALL: {
        const waits = cells[sender]?.calls.get(i32[i + CORRELATION]!)?.waitsFor !== undefined
        if (waits) this.#waitedIn.add(i32[i + RUN_INDEX]!)
        return waits
      }
      case END:
        if (this.#isBlocking(cells[sender])) return true
        if (i32[i + CORRELATION]! > 0 && this.#waitsOn(cells[recipient])) return true
        return this.#waitedIn.has(i32[i + RUN_INDEX]!) && !this.#isAnybodyAtWork(i32[i + RUN_INDEX]!)
      case RESPONSE:
      case RESULT:
      case ACCEPTED:
      case REFUSED:
        return this.#waitsOn(cells[recipient])
      case CANCEL:
        return this.#waitsOn(cells[sender])
      case STREAM_WAIT:
        return i32[i + LIMIT] === 1
      case QUIET:
        return true
      default:
        return false
    }
  }

  #note(run: number, recipient: number): void {
    if (!this.#waitedIn.has(run)) return
    const callee = this.#needs.directory.cells[recipient]
    if (callee) this.#lastAsked.set(run, callee)
  }

  #isFull(cell: Cell | undefined): boolean {
    return cell !== undefined && cell.mailbox.parked.length > 0
  }

  /**
   * Checks for an open turn of the run that waits for nothing that the host knows: it may write what others wait for.
   */
  #isAnybodyAtWork(run: number): boolean {
    if (this.#lastAsked.get(run)?.instances.some((cell) => this.#isAtWork(cell, run))) return true
    return this.#needs.directory.living.some((cell) => this.#isAtWork(cell, run))
  }

  #isAtWork(cell: Cell, run: number): boolean {
    if (!cell.life || this.#mayWait(cell)) return false
    for (const envelope of cell.underWay) if (envelope.run.index === run) return true
    return false
  }

  /** Checks whether messages wait for the agent while its remaining turns may wait, too. */
  #isBlocking(cell: Cell | undefined): boolean {
    if (cell === undefined) return false
    const { parked, waiting } = cell.mailbox.line
    return waiting + parked.length > 0 && this.#mayWait(cell)
  }

  #mayWait({ instances }: Cell): boolean {
    const first = instances[0]!
    if (first.open.size > 0 || first.calls.size > 0 || this.#askers.has(first.index)) return true
    for (const { life } of instances) if (life !== undefined && life.awaitReader.size > 0) return true
    return false
  }

  /**
   * Checks for a remaining wait that can be part of a cycle: for an agent that may wait itself, in a call, or for room.
   * Who asks from outside has no turn, so nobody waits for them.
   */
  #waitsOn(cell: Cell | undefined): boolean {
    if (!cell || cell.index === USER_INDEX) return false
    for (const { callee } of cell.open.values()) if (this.#mayWait(callee)) return true
    return cell.calls.size > 0 || this.#askers.has(cell.index)
  }
}
