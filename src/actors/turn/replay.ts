/**
 * What the earlier attempts of a redelivered turn had logged. Each step is matched by kind, target and input, once, in
 * any order, keeps its id, and is answered from the log. After an attempt that its thread did not survive that is all of
 * them. After one that its handler failed it is what had succeeded: the rest is what the next attempt is there for.
 */
import { isFailure } from '../../mailbox/codec.ts'
import {
  ACCEPTED,
  CALL,
  CANCEL,
  CHUNK,
  correlationOf,
  END,
  FAILED,
  flagsOf,
  kindOf,
  lengthOf,
  limitOf,
  NOBODY,
  NOW,
  REFUSED,
  REJECTED,
  REQUEST,
  RESPONSE,
  RESULT,
  recipientOf,
  SEND,
  STEP_BEGAN,
  STEP_DONE,
  STREAM_READ,
  sameStep,
  senderOf,
  stepOf,
  timeOf,
  turnOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { ACKNOWLEDGE } from '../definition/trust.ts'

/** The frame that settled a step. */
interface Frame {
  memory: Memory
  at: number
}

/** How a step was settled; without a frame, its turn had withdrawn it before there was an answer. */
export interface Answer {
  frame: Frame | undefined
  /** Steps are settled again in the order in which they were settled. */
  order: number
}

/** Pieces of a streamed answer that had come, and of how many the reader had said that it has read them. */
export interface Streamed {
  pieces: string[]
  reported: number
}

/** What the log knows of a step: its number for the wait, and its answer if it has one. */
export interface Matched {
  /** The step itself. */
  frame: Frame
  correlation: number
  answer: Answer | undefined
  streamed: Streamed | undefined
}

interface Logged {
  memory: Memory
  at: number
  kind: number
  matched: boolean
}

export class Replay {
  #steps: Logged[] = []
  readonly #answers = new Map<number, Answer>()
  readonly #streams = new Map<number, Streamed>()
  readonly #withdrawn = new Map<number, number>()
  #settled = 0
  readonly #name: (index: number) => string
  /** All steps before it are matched: most turns ask in the same order again. */
  #first = 0
  /** The next step number of the new attempt: those of the old ones are taken. */
  readonly nextStep: number

  /** Over the logged frames of that turn of agent `me` that stand one after the other in `memory` from `start` to `end`. */
  constructor(me: number, turn: number, memory: Memory, start: number, end: number, name: (index: number) => string) {
    this.#name = name
    let last = 0
    for (let at = start; at < end; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      const correlation = correlationOf(memory, at)
      if (kind === END && senderOf(memory, at) === me && turnOf(memory, at) === turn)
        this.#steps = this.#steps.filter((step) => !this.#isUndone(step))
      else if (kind === CANCEL) this.#withdraw(correlation)
      else if (isAnswer(kind)) this.#answered(correlation, { memory, at })
      else if (kind === STREAM_READ) this.#streamed(correlation).reported += limitOf(memory, at)
      else if (kind === CHUNK && senderOf(memory, at) !== me)
        this.#streamed(correlation).pieces.push(readBody(memory, at).content)
      else {
        this.#steps.push({ memory, at, kind, matched: false })
        last = Math.max(last, stepOf(memory, at))
      }
    }
    this.nextStep = last
  }

  #withdraw(correlation: number): void {
    if (!this.#answers.has(correlation)) this.#withdrawn.set(correlation, this.#settled++)
  }

  #answered(correlation: number, frame: Frame): void {
    this.#answers.set(correlation, { frame, order: this.#settled++ })
  }

  /** What came after it had been withdrawn was for nobody; but of a send the host has the say whether it was. */
  #answerOf(kind: number, correlation: number): Answer | undefined {
    const withdrawn = kind === SEND ? undefined : this.#withdrawn.get(correlation)
    return withdrawn === undefined ? this.#answers.get(correlation) : { frame: undefined, order: withdrawn }
  }

  /**
   * Whether it failed, or was withdrawn with the attempt. A send that still waits for room is not, nor is a broadcast that
   * some did not take: the others have it.
   */
  #isUndone({ kind, memory, at }: Logged): boolean {
    if (kind === STEP_DONE) return isFailure(memory, at)
    const correlation = correlationOf(memory, at)
    if (correlation === 0 || !(kind === SEND || kind === REQUEST || kind === CALL)) return false
    const frame = this.#answerOf(kind, correlation)?.frame
    if (!frame) return kind !== SEND || this.#withdrawn.has(correlation)
    if (kind === SEND && typeOf(memory, at) === 'broadcast') return false
    return kindOf(frame.memory, frame.at) === REFUSED || isFailure(frame.memory, frame.at)
  }

  #streamed(correlation: number): Streamed {
    let streamed = this.#streams.get(correlation)
    if (!streamed) {
      streamed = { pieces: [], reported: 0 }
      this.#streams.set(correlation, streamed)
    }
    return streamed
  }

  /** The logged frame of the same send, request, call or chunk; its correlation, and its answer if there is one. */
  match(frame: Memory): Matched | undefined {
    const found = this.#take(
      (step) => sameStep(step.memory, step.at, frame, 0) || sameByName(step.memory, step.at, frame, this.#name),
    )
    return found && this.#known(found)
  }

  /** The same of a call of the host whose arguments begin with these: what follows them may differ from attempt to attempt. */
  matchCall(operation: string, alike: object): Matched | undefined {
    const beginning = `${JSON.stringify(alike).slice(0, -1)},`
    const found = this.#take(({ kind, memory, at }) => {
      if (kind !== CALL) return false
      const { content, data } = readBody(memory, at)
      return content === operation && data !== undefined && data.startsWith(beginning)
    })
    return found && this.#known(found)
  }

  #known({ memory, at, kind }: Logged): Matched {
    const correlation = correlationOf(memory, at)
    return {
      frame: { memory, at },
      correlation,
      answer: correlation === 0 ? undefined : this.#answerOf(kind, correlation),
      streamed: this.#streams.get(correlation),
    }
  }

  /** The first step that is not matched yet and fits. From now on it is. */
  #take(fits: (step: Logged) => boolean): Logged | undefined {
    const steps = this.#steps
    while (steps[this.#first]?.matched) this.#first += 1
    for (let i = this.#first; i < steps.length; i++) {
      const step = steps[i]!
      if (step.matched || !fits(step)) continue
      step.matched = true
      return step
    }
    return undefined
  }

  /** The result of a finished `step(name)`, or of that call of a tool, as JSON; or the error that it ended with. */
  matchStep(
    name: string,
    callId: string | undefined,
  ): { failed: boolean; data: string | undefined; step: number } | undefined {
    const found = this.#take(({ kind, memory, at }) => {
      if (kind !== STEP_DONE) return false
      const { content, threadId } = readBody(memory, at)
      return content === name && threadId === callId
    })
    if (!found) return undefined
    const { memory, at } = found
    return { failed: (flagsOf(memory, at) & FAILED) !== 0, data: readBody(memory, at).data, step: stepOf(memory, at) }
  }

  /** The next logged reading of the clock. */
  matchNow(): number | undefined {
    const found = this.#take(({ kind }) => kind === NOW)
    return found && timeOf(found.memory, found.at)
  }

  /** A response came before the new attempt had asked again. */
  settle(correlation: number, frame: Frame): boolean {
    if (!this.#knows(correlation)) return false
    this.#answered(correlation, frame)
    return true
  }

  /** A piece of a streamed response came before the new attempt had asked again. */
  push(correlation: number, piece: string): boolean {
    if (!this.#knows(correlation)) return false
    this.#streamed(correlation).pieces.push(piece)
    return true
  }

  #knows(correlation: number): boolean {
    return this.#steps.some((step) => correlationOf(step.memory, step.at) === correlation)
  }

  /** Logged steps with an effect that the new attempt did not ask for again. */
  unmatched(name: (index: number) => string): string[] {
    return this.#steps
      .filter((step) => !step.matched && hasEffect(step.kind) && !isAcknowledgement(step))
      .map((step) => describeStep(step, name))
  }
}

/** The same message to the same agent, once by its index and once by its name: then it was not known in the thread. */
function sameByName(logged: Memory, at: number, frame: Memory, nameOf: (index: number) => string): boolean {
  const [then, now] = [recipientOf(logged, at), recipientOf(frame, 0)]
  if (then === now || (then !== NOBODY && now !== NOBODY)) return false
  if (kindOf(logged, at) !== kindOf(frame, 0) || typeOf(logged, at) !== typeOf(frame, 0)) return false
  const [a, b] = [readBody(logged, at), readBody(frame, 0)]
  const fields = ['content', 'data', 'metadata', 'threadId'] as const
  return (a.name ?? nameOf(then)) === (b.name ?? nameOf(now)) && fields.every((field) => a[field] === b[field])
}

/** Whether a turn does something to others by a frame of that kind, or something that was logged so that it is not done twice. */
export const hasEffect = (kind: number): boolean =>
  kind === SEND || kind === REQUEST || kind === CALL || kind === STEP_DONE

/** That an attempt at a task was under way for a while: the next one may end at once. */
const isAcknowledgement = ({ kind, memory, at }: Logged) =>
  kind === CALL && readBody(memory, at).content === ACKNOWLEDGE

export function describeStep(step: Omit<Logged, 'matched'>, name: (index: number) => string): string {
  const { content, data, threadId } = readBody(step.memory, step.at)
  switch (step.kind) {
    case SEND:
      return `send to ${name(recipientOf(step.memory, step.at))}`
    case REQUEST:
      return `request to ${name(recipientOf(step.memory, step.at))}`
    case STEP_DONE:
      return threadId === undefined ? `step ${content}` : `tool ${content}`
    default:
      return content === 'tool' ? `tool ${(JSON.parse(data ?? '{}') as { name?: string }).name}` : content
  }
}

/** Kinds of frames that settle a wait. */
export const isAnswer = (kind: number): boolean =>
  kind === END || kind === RESPONSE || kind === RESULT || kind === ACCEPTED || kind === REFUSED

/** Kinds of frames that a redelivered turn may ask for again, or that say that it need not; the host gathers them from the log. */
export const isStep = (kind: number): boolean =>
  kind === SEND ||
  kind === REQUEST ||
  kind === CALL ||
  kind === CANCEL ||
  kind === CHUNK ||
  kind === STEP_BEGAN ||
  kind === STEP_DONE ||
  kind === REJECTED ||
  kind === NOW
