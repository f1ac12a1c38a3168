/** Messages of the host's own making: for somebody who wants to know whether they were taken or to be answered, and reports. */
import { tooLarge } from '../../actors/definition/checks.ts'
import type { DramatisError } from '../../errors.ts'
import { ASKS, correlationOf, REQUEST, SEND } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import type { HostFrames, OwnFrame, Question } from '../log/host-frames.ts'
import { type AgentDirectory, USER_INDEX } from '../state/agent-directory.ts'
import { type Cell, NO_TURN, type OpenRequest } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { Admission } from './admission.ts'

interface Needs {
  readonly admission: Admission
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
  readonly loop: HostLoop
  readonly team: TeamMemory
}

/** A request of the host's making. */
export interface HostRequest {
  readonly target: Cell
  readonly run: RunState
  readonly question: Question
  /** In whose name; the caller's. */
  readonly sender?: Cell
  /** Who has decided that it is done, if that is another than the sender. */
  readonly giver?: Cell
  /** Takes the answer. */
  settle(memory: Memory, at: number): void
}

export class HostMessages {
  readonly #needs: Needs
  #last = 0

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** The next frame's number for the question: below zero, where no agent's own numbers are. */
  number(): number {
    this.#last -= 1
    return this.#last
  }

  /** `frame` is a SEND with such a number, and asks for room. `told` hears whether it was taken. */
  post(sender: Cell, run: RunState, frame: OwnFrame, told: (error: DramatisError | undefined) => void): void {
    sender.verdicts.set(correlationOf(frame.memory, 0), told)
    this.put(sender, run, frame)
    this.#needs.loop.wake()
  }

  /** Writes it into the log of the run and sends it: a message that has its room, or that nobody waits for. */
  put(sender: Cell, run: RunState, { memory, bytes }: OwnFrame): void {
    const { admission, journal } = this.#needs
    journal.appendOwned(run, memory, bytes)
    admission.message({ sender, run, memory, at: 0 })
  }

  /**
   * What the runtime itself has to say to an agent: a message of type report, for its `observe`. Room is taken that may not be
   * there. To an agent without `observe` it is an empty turn.
   */
  report(run: RunState, recipient: number, content: string, data: object): void {
    const { directory, frames, team } = this.#needs
    const fields = { kind: SEND, type: 'report', recipient, run: run.index, content } as const
    const frame = frames.make({ ...fields, data: JSON.stringify(data) })
    team.force(recipient, frame.bytes)
    this.put(directory.cells[0]!, run, frame)
  }

  /**
   * Gives the request, unless it was answered at once.
   *
   * @throws MessageRejectedError when it is larger than its recipient takes.
   */
  ask({ target, run, question, settle, sender = this.#caller, giver = sender }: HostRequest): OpenRequest | undefined {
    const { admission, frames, journal, loop } = this.#needs
    const correlation = sender.index === USER_INDEX ? ++sender.correlation : this.number()
    const threadId = question.threadId ?? run.threadId
    const { memory, bytes } = frames.make({
      kind: REQUEST,
      sender: sender.index,
      recipient: target.index,
      run: run.index,
      turn: NO_TURN,
      correlation,
      ...question,
      ...(threadId !== undefined && { threadId }),
      flags: ASKS,
    })
    const { maxMessageBytes } = target.settings.mailbox
    if (bytes > maxMessageBytes) throw tooLarge(bytes, maxMessageBytes)
    journal.appendOwned(run, memory, bytes)
    admission.message({ sender, run, memory, at: 0, settle, giver })
    loop.wake()
    return sender.open.get(correlation)
  }

  get #caller(): Cell {
    return this.#needs.directory.cells[USER_INDEX]!
  }
}
