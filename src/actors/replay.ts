/**
 * What the earlier attempts of a redelivered turn had logged. Each step is matched by kind, target and input, once, in
 * any order, keeps its id, and is answered from the log.
 */
import {
  CALL,
  CHUNK,
  correlationOf,
  END,
  FAILED,
  flagsOf,
  kindOf,
  lengthOf,
  NOW,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  readBody,
  recipientOf,
  SEND,
  STEP_BEGAN,
  STEP_DONE,
  sameStep,
  senderOf,
  stepOf,
  timeOf,
} from '../mailbox/frame.ts'
import type { Memory } from '../mailbox/memory.ts'

/** A settled step: the frame that answered it. */
export interface Answer {
  memory: Memory
  at: number
}

/** What the log knows of a step: its number for the wait, and its answer if it has one. */
export interface Matched {
  correlation: number
  answer: Answer | undefined
}

interface Logged {
  memory: Memory
  at: number
  kind: number
  matched: boolean
}

export class Replay {
  readonly #steps: Logged[] = []
  readonly #answers = new Map<number, Answer>()
  /** Pieces of answers that had arrived. */
  readonly #chunks: Answer[] = []
  /** The next step number of the new attempt: those of the old ones are taken. */
  readonly nextStep: number

  /** Over the logged frames that stand one after the other in `memory` from `start` to `end`, for the agent `me`. */
  constructor(memory: Memory, start: number, end: number, me: number) {
    let last = 0
    for (let at = start; at < end; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      if (kind === END || kind === RESPONSE || kind === RESULT || kind === REFUSED)
        this.#answers.set(correlationOf(memory, at), { memory, at })
      else if (kind === CHUNK && senderOf(memory, at) !== me) this.#chunks.push({ memory, at })
      else {
        this.#steps.push({ memory, at, kind, matched: false })
        last = Math.max(last, stepOf(memory, at))
      }
    }
    this.nextStep = last
  }

  /** The logged frame of the same send, request, call or chunk; its correlation, and its answer if there is one. */
  match(frame: Memory): Matched | undefined {
    const found = this.#steps.find((step) => !step.matched && sameStep(step.memory, step.at, frame, 0))
    if (!found) return undefined
    found.matched = true
    const correlation = correlationOf(found.memory, found.at)
    return { correlation, answer: correlation === 0 ? undefined : this.#answers.get(correlation) }
  }

  /** The pieces of an answer that an earlier attempt had been sent. */
  chunksOf(correlation: number): string[] {
    const mine = this.#chunks.filter(({ memory, at }) => correlationOf(memory, at) === correlation)
    return mine.map(({ memory, at }) => readBody(memory, at).content)
  }

  /** The result of a finished `step(name)`, as JSON, or the error that it ended with. */
  matchStep(name: string): { failed: boolean; data: string | undefined; step: number } | undefined {
    for (const logged of this.#steps) {
      if (logged.matched || logged.kind !== STEP_DONE) continue
      const body = readBody(logged.memory, logged.at)
      if (body.content !== name) continue
      logged.matched = true
      return {
        failed: (flagsOf(logged.memory, logged.at) & FAILED) !== 0,
        data: body.data,
        step: stepOf(logged.memory, logged.at),
      }
    }
    return undefined
  }

  /** The next logged reading of the clock. */
  matchNow(): number | undefined {
    const found = this.#steps.find((step) => !step.matched && step.kind === NOW)
    if (!found) return undefined
    found.matched = true
    return timeOf(found.memory, found.at)
  }

  /** A response came before the new attempt had asked again. */
  settle(correlation: number, answer: Answer): boolean {
    if (!this.#steps.some((step) => correlationOf(step.memory, step.at) === correlation)) return false
    this.#answers.set(correlation, answer)
    return true
  }

  /** Logged steps with an effect that the new attempt did not ask for again. */
  unmatched(name: (index: number) => string): string[] {
    return this.#steps.filter((step) => !step.matched && hasEffect(step.kind)).map((step) => describeStep(step, name))
  }
}

const hasEffect = (kind: number) => kind === SEND || kind === REQUEST || kind === CALL || kind === STEP_DONE

function describeStep(step: Logged, name: (index: number) => string): string {
  const { content } = readBody(step.memory, step.at)
  switch (step.kind) {
    case SEND:
      return `send to ${name(recipientOf(step.memory, step.at))}`
    case REQUEST:
      return `request to ${name(recipientOf(step.memory, step.at))}`
    case STEP_DONE:
      return `step ${content}`
    default:
      return content
  }
}

/** Kinds of frames that a redelivered turn may ask for again; the host gathers them from the log. */
export const isStep = (kind: number): boolean =>
  kind === SEND ||
  kind === REQUEST ||
  kind === CALL ||
  kind === CHUNK ||
  kind === STEP_BEGAN ||
  kind === STEP_DONE ||
  kind === NOW
