/**
 * The log of earlier attempts of a redelivered turn. Each new step is matched with a logged one by kind, target and
 * input, once and in any order. It then keeps the logged id and gets its answer from the log.
 *
 * After a crash of the thread the log holds all steps of the attempt. After a failure of the handler it holds only
 * those that had succeeded, because the next attempt must repeat the others.
 */
import { isFailure } from '../../mailbox/codec.ts'
import type { OnMismatch } from '../../mailbox/envelope.ts'
import {
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
  NOW,
  REFUSED,
  REQUEST,
  SEND,
  SLEEP,
  SLEPT,
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
import { MODEL_TURN } from '../definition/trust.ts'
import {
  describeStep,
  hasEffect,
  isAnswer,
  isCallLike,
  isCallOf,
  isNotice,
  isStepFrame,
  isStepOf,
  type LoggedStep,
  numberOf,
  sameByName,
  stepKey,
} from './logged-step.ts'

/** Content of the reading that says which agents a script sees. */
export const SEES = 'agents'

/** The frame that settled a step. */
interface Frame {
  memory: Memory
  at: number
}

/** Settlement of a step. Without a frame, its turn had withdrawn it before an answer arrived. */
export interface Answer {
  frame: Frame | undefined
  /** Position in the order of settlement. Steps are settled again in the same order. */
  order: number
}

/** Received chunks of a streamed answer, and the number of chunks that the reader had reported as read. */
export interface Streamed {
  pieces: string[]
  reported: number
}

/** Log entry of a step: its correlation number, and its answer if it has one. */
export interface Matched {
  /** The frame of the step itself. */
  frame: Frame
  correlation: number
  answer: Answer | undefined
  streamed: Streamed | undefined
}

interface Logged extends LoggedStep {
  matched: boolean
  /** True if code that is the same asks for it again. */
  awaited: boolean
}

export class Replay {
  #steps: Logged[] = []
  /** Steps that have failed with an attempt that failed. Code that is the same does them again. */
  readonly #undone: Logged[] = []
  readonly #answers = new Map<number, Answer>()
  readonly #streams = new Map<number, Streamed>()
  readonly #withdrawn = new Map<number, number>()
  /** Order of settlement of the sleeps that are over, by their steps. */
  readonly #slept = new Map<number, number>()
  #settled = 0
  /** Set in a run that goes on with the log of an earlier process: what the log does not have is held back. */
  onMismatch: OnMismatch | undefined
  /** Number of steps that code which is the same still has to ask for. */
  awaited = 0
  /** Called for each step that was asked for again. */
  onMatch: () => void = () => {}
  readonly #name: (index: number) => string
  /** All steps before this index are matched. Most turns repeat their steps in the same order. */
  #first = 0
  /** Last step number used by earlier attempts; the new attempt continues after it. */
  readonly nextStep: number

  /** Reads the logged frames of that turn of agent `me`, which are contiguous in `memory` from `start` to `end`. */
  constructor(me: number, turn: number, memory: Memory, start: number, end: number, name: (index: number) => string) {
    this.#name = name
    let last = 0
    for (let at = start; at < end; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      const correlation = correlationOf(memory, at)
      if (kind === END && senderOf(memory, at) === me && turnOf(memory, at) === turn) this.#beginsAgain()
      else if (kind === CANCEL) this.#withdraw(correlation)
      else if (isAnswer(kind)) this.#answered(correlation, { memory, at })
      else if (kind === SLEPT) this.#slept.set(stepOf(memory, at), this.#settled++)
      else if (kind === STREAM_READ) this.#streamed(correlation).reported += limitOf(memory, at)
      else if (kind === CHUNK && senderOf(memory, at) !== me)
        this.#streamed(correlation).pieces.push(readBody(memory, at).content)
      else {
        this.#steps.push({ memory, at, kind, matched: false, awaited: false })
        last = Math.max(last, stepOf(memory, at))
      }
    }
    this.nextStep = last
    this.#await()
  }

  /** Puts aside what has failed with an attempt: the next attempt does it again. */
  #beginsAgain(): void {
    const [undone, steps]: [Logged[], Logged[]] = [[], []]
    for (const step of this.#steps) (this.#isUndone(step) ? undone : steps).push(step)
    this.#steps = steps
    this.#undone.push(...undone)
  }

  /**
   * Marks what code that is the same asks for again. What is asked for within a step that was done is not: the step is
   * answered as a whole. A report may come from a timer, at another time.
   */
  #await(): void {
    const done = new Set(this.#steps.filter(({ kind }) => kind === STEP_DONE).map(numberOf))
    const begun = new Map(this.#steps.filter(({ kind }) => kind === STEP_BEGAN).map((step) => [stepKey(step), step]))
    /** Steps of the handler that are open at that place of the log, and were done later. */
    const around = new Set<number>()
    for (const step of this.#steps) {
      const isOwn = isStepFrame(step.kind) && readBody(step.memory, step.at).threadId === undefined
      if (step.kind === STEP_DONE) around.delete(numberOf(step))
      step.awaited = around.size === 0 && this.#isAwaited(step, done, begun)
      if (step.awaited) this.awaited += 1
      if (step.kind === STEP_BEGAN && isOwn && done.has(numberOf(step))) around.add(numberOf(step))
    }
  }

  #isAwaited(step: Logged, done: ReadonlySet<number>, lastBegun: ReadonlyMap<string, Logged>): boolean {
    const { kind, memory, at } = step
    if (kind === STEP_BEGAN) return !done.has(numberOf(step)) && lastBegun.get(stepKey(step)) === step
    if (kind === SEND && typeOf(memory, at) === 'report') return false
    return hasEffect(kind) && !isNotice(step)
  }

  #withdraw(correlation: number): void {
    if (!this.#answers.has(correlation)) this.#withdrawn.set(correlation, this.#settled++)
  }

  #answered(correlation: number, frame: Frame): void {
    this.#answers.set(correlation, { frame, order: this.#settled++ })
  }

  /**
   * Returns the answer of a step. An answer that arrived after a withdrawal is ignored, except for a send: the host
   * decides whether that was withdrawn.
   */
  #answerOf(kind: number, correlation: number): Answer | undefined {
    const withdrawn = kind === SEND ? undefined : this.#withdrawn.get(correlation)
    return withdrawn === undefined ? this.#answers.get(correlation) : { frame: undefined, order: withdrawn }
  }

  /**
   * Checks whether a step failed, or was withdrawn with the attempt. A send that still waits for room is neither. Nor
   * is a broadcast that some agents did not accept, because the others have it.
   */
  #isUndone({ kind, memory, at }: Logged): boolean {
    if (kind === STEP_DONE) return isFailure(memory, at)
    if (kind === SLEEP) return !this.#slept.has(stepOf(memory, at))
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

  /**
   * Returns the logged frame of the same send, request, call or chunk, with its correlation and its answer if it has
   * one.
   */
  match(frame: Memory): Matched | undefined {
    const found = this.#take(
      (step) => sameStep(step.memory, step.at, frame, 0) || sameByName(step.memory, step.at, frame, this.#name),
    )
    return found && this.#known(found)
  }

  /** Matches a host call by its leading arguments alone. The arguments after them may differ between attempts. */
  matchCall(operation: string, alike: object): Matched | undefined {
    const found = this.#take(isCallLike(operation, alike))
    return found && this.#known(found)
  }

  /**
   * Checks for the same send, request or call that has failed with an earlier attempt. It is done again, so it may not
   * be held back. `alike`: as for `matchCall`.
   */
  repeats(frame: Memory, alike?: object): boolean {
    return this.#repeats(
      alike ? isCallLike(readBody(frame, 0).content, alike) : (step) => sameStep(step.memory, step.at, frame, 0),
    )
  }

  /**
   * Checks whether the log has that call of a tool, and no approval before it: an earlier version asked a person within
   * the call, or nobody had to be asked.
   */
  asksWithin(callId: string): boolean {
    const has = (operation: string) => this.#steps.some((step) => isCallOf(step, operation, callId))
    return has('tool') && !has('approve')
  }

  /** Checks for the same step, or call of a tool, that has failed with an earlier attempt. */
  repeatsStep(name: string, callId: string | undefined): boolean {
    return this.#repeats(isStepOf(name, callId))
  }

  #repeats(fits: (step: Logged) => boolean): boolean {
    const step = this.#undone.find((step) => !step.matched && fits(step))
    if (step) step.matched = true
    return step !== undefined
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

  /** Returns the first unmatched step that fits and marks it as matched. */
  #take(fits: (step: Logged) => boolean): Logged | undefined {
    const steps = this.#steps
    while (steps[this.#first]?.matched) this.#first += 1
    for (let i = this.#first; i < steps.length; i++) {
      const step = steps[i]!
      if (step.matched || !fits(step)) continue
      step.matched = true
      if (step.awaited) {
        this.awaited -= 1
        this.onMatch()
      }
      return step
    }
    return undefined
  }

  /** Returns the result (JSON) or the error of a finished `step(name)`, or of the tool call with that id. */
  matchStep(
    name: string,
    callId: string | undefined,
  ): { failed: boolean; data: string | undefined; step: number } | undefined {
    const found = this.#take(isStepOf(name, callId))
    if (!found) return undefined
    const { memory, at } = found
    return { failed: (flagsOf(memory, at) & FAILED) !== 0, data: readBody(memory, at).data, step: stepOf(memory, at) }
  }

  /** Checks for a step of that name, or a call of a tool with that id, that had begun and was not done. */
  matchBegun(name: string, callId: string | undefined): boolean {
    const found = this.#take(({ kind, memory, at, awaited }) => {
      if (kind !== STEP_BEGAN || !awaited) return false
      const { content, threadId } = readBody(memory, at)
      return content === name && threadId === callId
    })
    return found !== undefined
  }

  /** Returns the next logged reading of the clock. */
  matchNow(): number | undefined {
    const found = this.#take(({ kind, memory, at }) => kind === NOW && readBody(memory, at).content === '')
    return found && timeOf(found.memory, found.at)
  }

  /** Returns the next logged look at the agents. `names`: undefined if they were the same as at the look before. */
  matchAgents(): { names: string[] | undefined } | undefined {
    const found = this.#take(({ kind, memory, at }) => kind === NOW && readBody(memory, at).content === SEES)
    if (!found) return undefined
    const { data } = readBody(found.memory, found.at)
    return { names: data === undefined ? undefined : JSON.parse(data) }
  }

  /**
   * Returns how many turns of its conversation a model's turn began with; undefined if the log does not say. It has a
   * reading unless there were none, or the answer of the host, which older versions always asked.
   */
  matchKnown(): number | undefined {
    if (this.nextStep === 0) return undefined
    const found = this.#take(
      ({ kind, memory, at }) => (kind === NOW || kind === CALL) && readBody(memory, at).content === MODEL_TURN,
    )
    if (!found) return 0
    const frame = found.kind === CALL ? this.#known(found).answer?.frame : found
    const data = frame && readBody(frame.memory, frame.at).data
    return data === undefined ? undefined : (JSON.parse(data) as { known: number }).known
  }

  /**
   * Returns the next logged sleep of `ms`: when it began, in epoch ms, and its position in the order of settlement if
   * it is over.
   */
  matchSleep(ms: number): { step: number; beganAt: number; order: number | undefined } | undefined {
    const found = this.#take(({ kind, memory, at }) => kind === SLEEP && limitOf(memory, at) === ms)
    if (!found) return undefined
    const step = stepOf(found.memory, found.at)
    return { step, beganAt: timeOf(found.memory, found.at), order: this.#slept.get(step) }
  }

  /**
   * Stores a response that arrived before the new attempt repeated the step. Returns false if the step is not logged.
   */
  settle(correlation: number, frame: Frame): boolean {
    if (!this.#knows(correlation)) return false
    this.#answered(correlation, frame)
    return true
  }

  /** Stores a chunk that arrived before the new attempt repeated the step. Returns false if the step is not logged. */
  push(correlation: number, piece: string): boolean {
    if (!this.#knows(correlation)) return false
    this.#streamed(correlation).pieces.push(piece)
    return true
  }

  #knows(correlation: number): boolean {
    return this.#steps.some((step) => correlationOf(step.memory, step.at) === correlation)
  }

  /** Returns descriptions of the steps that code which is the same asks for, and that were not asked for again. */
  missing(name: (index: number) => string): string[] {
    return this.#steps.filter((step) => step.awaited && !step.matched).map((step) => describeStep(step, name))
  }

  /** Returns descriptions of logged steps with an effect that the new attempt did not repeat. */
  unmatched(name: (index: number) => string): string[] {
    return this.#steps
      .filter((step) => !step.matched && hasEffect(step.kind) && !isNotice(step))
      .map((step) => describeStep(step, name))
  }
}
