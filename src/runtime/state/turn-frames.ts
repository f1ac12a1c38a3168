/** Collects what one turn has done, and the answers that it got, from the entries of its run in their order. */
import { isAnswer, isStep } from '../../actors/turn/logged-step.ts'
import {
  CALL,
  CHUNK,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  REQUEST,
  recipientOf,
  SEND,
  STREAM_READ,
  STREAMS,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { LogEntry } from '../log/records.ts'

export interface LoggedFrame {
  memory: Memory
  at: number
  bytes: number
}

export class TurnFrames {
  readonly frames: LoggedFrame[] = []
  readonly #agent: number
  readonly #turn: number
  readonly #sends = new Set<number>()
  readonly #requests = new Set<number>()
  /** Number up to which entries were seen. */
  to = -1

  /** `before`: what was collected of the same turn so far. */
  constructor(agent: number, turn: number, before?: TurnFrames) {
    this.#agent = agent
    this.#turn = turn
    if (!before) return
    this.to = before.to
    for (const frame of before.frames) this.frames.push(frame)
    for (const send of before.#sends) this.#sends.add(send)
    for (const request of before.#requests) this.#requests.add(request)
  }

  see(entry: LogEntry): void {
    if (entry.kind !== 'frames') return
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) this.#frame(memory, at)
  }

  #frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    const correlation = correlationOf(memory, at)
    const byIt = senderOf(memory, at) === this.#agent && turnOf(memory, at) === this.#turn
    const isAsked = this.#sends.has(correlation) || this.#requests.has(correlation)
    const forIt = recipientOf(memory, at) === this.#agent && isAsked
    const ended = kind === END && byIt
    const mine =
      (isAnswer(kind) && !ended) || this.#isPiece(memory, at)
        ? forIt
        : byIt && (isStep(kind) || ended || kind === STREAM_READ)
    if (!mine) return
    if (kind === SEND) this.#sends.add(correlation)
    if (kind === REQUEST || kind === CALL) this.#requests.add(correlation)
    if (ended) this.#requests.clear() // an attempt that ends withdraws its requests: a later answer is for nobody
    this.frames.push({ memory, at, bytes: lengthOf(memory, at) })
  }

  /** Checks for a piece of an answer that another agent streams to this agent. */
  #isPiece(memory: Memory, at: number): boolean {
    const isStreamed = kindOf(memory, at) === CHUNK && (flagsOf(memory, at) & STREAMS) !== 0
    return isStreamed && senderOf(memory, at) !== this.#agent
  }
}
