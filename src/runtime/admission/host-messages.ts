/** Messages that the host itself creates: sends with a receipt, requests, and reports. */
import { tooLarge } from '../../actors/definition/checks.ts'
import type { DramatisError } from '../../errors.ts'
import { ASKS, correlationOf, REQUEST, SEND, STREAMS } from '../../mailbox/frame.ts'
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

/** Request that the host makes. */
export interface HostRequest {
  readonly target: Cell
  readonly run: RunState
  readonly question: Question
  /** Agent in whose name the host asks; by default the caller. */
  readonly sender?: Cell
  /** Agent that decided to send the request, if that is not the sender. */
  readonly giver?: Cell
  /** Number of the agent's call that the request is made for: a later process finds it by that. */
  readonly call?: number
  /** Takes the answer. */
  settle(memory: Memory, at: number): void
}

export class HostMessages {
  readonly #needs: Needs
  #last = 0

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Continues the numbers of an earlier process. */
  continueFrom(last: number): void {
    this.#last = Math.min(this.#last, last)
  }

  /** Lowest number that a frame of the host has had. */
  get last(): number {
    return this.#last
  }

  /** Returns the next correlation for a frame of the host. It is negative, so it differs from the numbers of agents. */
  number(): number {
    this.#last -= 1
    return this.#last
  }

  /**
   * Sends `frame`, a SEND with such a correlation that asks for room. `told` is called with the receipt: an error if
   * the message was refused.
   */
  post(sender: Cell, run: RunState, frame: OwnFrame, told: (error: DramatisError | undefined) => void): void {
    sender.verdicts.set(correlationOf(frame.memory, 0), told)
    this.put(sender, run, frame)
    this.#needs.loop.wake()
  }

  /**
   * Writes the frame into the log of the run and sends it. The message must have its room, or nobody waits for its
   * receipt.
   */
  put(sender: Cell, run: RunState, { memory, bytes }: OwnFrame): void {
    const { admission, journal } = this.#needs
    journal.appendOwned(run, memory, bytes)
    admission.message({ sender, run, memory, at: 0 })
  }

  /**
   * Sends a message of type report from the runtime to an agent, for its `observe`. It takes room even in a full
   * mailbox. For an agent without `observe` it is an empty turn.
   */
  report(run: RunState, recipient: number, content: string, data: object): void {
    const { directory, frames, team } = this.#needs
    const fields = { kind: SEND, type: 'report', recipient, run: run.index, content } as const
    const frame = frames.make({ ...fields, data: JSON.stringify(data) })
    team.force(recipient, frame.bytes)
    this.put(directory.cells[0]!, run, frame)
  }

  /**
   * Sends a request. Returns it, or undefined if it was answered at once.
   *
   * @throws MessageRejectedError when it is larger than its recipient takes.
   */
  ask({
    target,
    run,
    question,
    settle,
    sender = this.#caller,
    giver = sender,
    call = 0,
  }: HostRequest): OpenRequest | undefined {
    const { admission, frames, journal, loop } = this.#needs
    const correlation = sender.index === USER_INDEX ? ++sender.correlation : this.number()
    const { streams = false, ...asked } = question
    const threadId = asked.threadId ?? run.threadId
    const { memory, bytes } = frames.make({
      kind: REQUEST,
      sender: sender.index,
      recipient: target.index,
      run: run.index,
      turn: NO_TURN,
      step: call,
      correlation,
      ...asked,
      ...(threadId !== undefined && { threadId }),
      flags: streams ? ASKS | STREAMS : ASKS,
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
