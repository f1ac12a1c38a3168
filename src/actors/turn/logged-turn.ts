/**
 * Reads what the log has of the earlier attempts of a turn: its steps in the order of their begin, and what settled for
 * them.
 *
 * After a crash of the thread the log has all of the attempt. After a failure of the handler the next attempt does
 * again what had failed with it.
 */
import { isFailure, type Mark, markOf, UNANSWERED, withoutMark } from '../../mailbox/codec.ts'
import {
  ACCEPTED,
  attemptOf,
  BEGINS_AGAIN,
  CALL,
  CANCEL,
  CHUNK,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  limitOf,
  type Memory,
  NOBODY,
  NOW,
  REFUSED,
  REJECTED,
  REQUEST,
  RESPONSE,
  RESULT,
  readBody,
  recipientOf,
  SEND,
  SLEEP,
  SLEPT,
  STEP_BEGAN,
  STEP_DONE,
  STREAM_READ,
  sameStep,
  senderOf,
  stepOf,
  turnOf,
  typeOf,
} from '../../mailbox/frame.ts'
import { ACKNOWLEDGE } from '../definition/role.ts'

/*
 * Steps of a turn as its log has them: the kinds of frames that are steps, which of them are the same step, and their
 * descriptions.
 */

export interface LoggedStep {
  readonly memory: Memory
  readonly at: number
  readonly kind: number
}

/** Calls that only notify the host; in older logs a limit that is reached is one. */
const NOTICES: ReadonlySet<string> = new Set([ACKNOWLEDGE, 'limit.reached'])

const mayWait = (kind: number): boolean => kind === SEND || kind === REQUEST || kind === CALL

/** Checks whether a frame of that kind affects others, or is logged so that its action does not run twice. */
export const hasEffect = (kind: number): boolean => mayWait(kind) || kind === STEP_DONE

/** Checks for a step of the handler, or a call of a tool in its thread. */
export const isStepFrame = (kind: number) => kind === STEP_BEGAN || kind === STEP_DONE

/** Checks for the kinds of frames that settle a wait. */
export const isAnswer = (kind: number): boolean =>
  kind === END || kind === RESPONSE || kind === RESULT || kind === ACCEPTED || kind === REFUSED

/**
 * Checks for the kinds of frames that a redelivered turn may repeat, or that tell it that it need not. The host
 * collects these from the log.
 */
export const isStep = (kind: number): boolean =>
  kind === SEND ||
  kind === REQUEST ||
  kind === CALL ||
  kind === CANCEL ||
  kind === CHUNK ||
  kind === STEP_BEGAN ||
  kind === STEP_DONE ||
  kind === REJECTED ||
  kind === NOW ||
  kind === SLEEP ||
  kind === SLEPT

/** The same for all attempts of one step, also for all steps of one name. */
function stepKey({ memory, at }: LoggedStep): string {
  const { content, threadId } = readBody(memory, at)
  return `${threadId ?? ''} ${content}`
}

/**
 * Checks for a call that the next attempt need not make, though its code is the same: an acknowledgement of a task that
 * takes a while, where it ends at once; a limit that is not reached this time.
 */
export const isNotice = ({ kind, memory, at }: LoggedStep) => kind === CALL && NOTICES.has(readBody(memory, at).content)

export const isStepOf = (name: string, callId: string | undefined) => (step: LoggedStep) => {
  if (!isStepFrame(step.kind)) return false
  const { content, threadId } = readBody(step.memory, step.at)
  return content === name && threadId === callId
}

export function isCallOf({ kind, memory, at }: LoggedStep, operation: string, callId: string): boolean {
  if (kind !== CALL) return false
  const { content, data } = readBody(memory, at)
  return content === operation && (JSON.parse(data ?? '{}') as { callId?: unknown }).callId === callId
}

/** Finds calls of that verb by their leading arguments alone. */
export function isCallLike(operation: string, alike: object): (step: LoggedStep) => boolean {
  const whole = JSON.stringify(alike)
  const beginning = `${whole.slice(0, -1)},`
  return ({ kind, memory, at }) => {
    if (kind !== CALL) return false
    const { content, data } = readBody(memory, at)
    return content === operation && (data === whole || data?.startsWith(beginning) === true)
  }
}

/**
 * Checks for the same message to the same agent if one frame has the agent's index and the other its name. The name is
 * used while the thread does not know the index.
 */
export function sameByName(logged: Memory, at: number, frame: Memory, nameOf: (index: number) => string): boolean {
  const [then, now] = [recipientOf(logged, at), recipientOf(frame, 0)]
  if (then === now || (then !== NOBODY && now !== NOBODY)) return false
  if (kindOf(logged, at) !== kindOf(frame, 0) || typeOf(logged, at) !== typeOf(frame, 0)) return false
  const [a, b] = [readBody(logged, at), readBody(frame, 0)]
  const fields = ['content', 'data', 'metadata', 'threadId'] as const
  return (a.name ?? nameOf(then)) === (b.name ?? nameOf(now)) && fields.every((field) => a[field] === b[field])
}

/** Checks for the same request if the log is of an earlier version, which did not say what is no sub-task. */
export function sameUnmarked(logged: Memory, at: number, frame: Memory): boolean {
  if (kindOf(frame, 0) !== REQUEST || kindOf(logged, at) !== REQUEST) return false
  if (recipientOf(logged, at) !== recipientOf(frame, 0) || typeOf(logged, at) !== typeOf(frame, 0)) return false
  const [then, now] = [readBody(logged, at), readBody(frame, 0)]
  const fields = ['content', 'data', 'threadId', 'name'] as const
  return then.metadata === withoutMark(now.metadata) && fields.every((field) => then[field] === now[field])
}

/** Describes the step in words: an error names the steps that are missing. */
export function describeStep(step: LoggedStep, name: (index: number) => string): string {
  const { content, data, threadId } = readBody(step.memory, step.at)
  switch (step.kind) {
    case SEND:
      return `send to ${name(recipientOf(step.memory, step.at))}`
    case REQUEST:
      return `request to ${name(recipientOf(step.memory, step.at))}`
    case STEP_BEGAN:
    case STEP_DONE:
      return threadId === undefined ? `step ${content}` : `tool ${content}`
    default:
      return content === 'tool' ? `tool ${(JSON.parse(data ?? '{}') as { name?: string }).name}` : content
  }
}

/*
 * The moments of a turn's earlier attempts, in the order in which its thread had them: steps that began, and what
 * settled them. A later attempt is settled in the same order.
 *
 * The log has the frames of a thread in the order of that thread. Answers stand in it where the host has sent them, and
 * the thread may have had them later. So what a thread settles by itself (the end of a step, of a sleep, a withdrawal)
 * names the answer that the thread had got last.
 */

/** Something that an earlier attempt began, or that settled for it. */
export interface Moment {
  /** Position in the order. Set by the script. */
  index: number
  /** True if the next attempt comes to it too, so that it is waited for. */
  isRequired: boolean
  isOver: boolean
}

export class Script {
  readonly #moments: Moment[] = []
  readonly #answers: Moment[] = []
  /** Number of the answers up to the one with that mark. */
  readonly #counts = new Map<string, number>()
  /** No moment before this one is waited for. */
  #first = 0
  #length = 0
  /** The answer that the turn has got last. */
  last: Mark = UNANSWERED

  get moments(): readonly Moment[] {
    return this.#moments
  }

  /** Position of the first moment that is waited for; Infinity if there is none. */
  get open(): number {
    for (let next = this.#moments[this.#first]; next; next = this.#moments[this.#first]) {
      if (next.isRequired && !next.isOver) return next.index
      this.#first += 1
    }
    return Number.POSITIVE_INFINITY
  }

  /** Adds what the log has next. */
  add(moment: Moment): void {
    this.#moments.push(moment)
  }

  /** Adds an answer, or a piece of one. */
  answer(moment: Moment, mark: Mark): void {
    this.#moments.push(moment)
    this.last = mark
    this.#counts.set(keyOf(mark), this.#answers.push(moment))
  }

  /** Adds what the thread has settled by itself, when `mark` was the last answer that it had got. */
  settle(moment: Moment, mark: Mark): void {
    const late = this.#answers.slice(this.#countOf(mark))
    if (late.length === 0) return this.add(moment)
    const since = this.#moments.splice(this.#moments.lastIndexOf(late[0]!))
    this.#moments.push(...since.filter((each) => !late.includes(each)), moment, ...late)
  }

  /** Returns the number of answers up to the marked one; of all if the log does not tell. */
  #countOf(mark: Mark): number {
    if (mark.piece === UNANSWERED.piece) return 0
    return this.#counts.get(keyOf(mark)) ?? this.#answers.length
  }

  /** Waits for nothing from that moment to the end of what there is so far. */
  release(from: Moment): void {
    for (let at = this.#moments.indexOf(from); at < this.#moments.length; at++) this.#moments[at]!.isRequired = false
  }

  /** Gives the moments their positions, when the log has no more. */
  number(): void {
    for (const moment of this.#moments) moment.index = this.next()
  }

  /** Returns the position of what happens now. */
  next(): number {
    return this.#length++
  }

  /** Waits no longer for what stands before that position. */
  skip(to: number): void {
    while (this.open < to) this.#moments[this.#first]!.isOver = true
  }
}

const keyOf = ({ correlation, piece }: Mark): string => `${correlation} ${piece}`

/** The frame that settled a step, or that has a piece of its answer. Undefined: its turn had withdrawn it. */
export interface Settled extends Moment {
  readonly frame: { readonly memory: Memory; readonly at: number } | undefined
}

/** A step as an earlier attempt began it. */
export interface Logged extends LoggedStep, Moment {
  /** Number of the step among those of its turn. */
  number: number
  /** Undefined if nothing has settled the step, or if the step failed with an attempt that failed. */
  settled: Settled | undefined
  /** Pieces of its answer, in their order. */
  readonly pieces: Settled[]
  /** Number of pieces that the reader had reported as read. */
  reported: number
  /** True if the next attempt does it again: it failed with an attempt that failed. */
  isUndone: boolean
  /** Only for a send: its turn had withdrawn it, and the host decides whether that was in time. */
  isWithdrawn: boolean
  /** True if code that is the same asks for it again. */
  awaited: boolean
  /** Steps that were open when it began and were done later: it may be a part of one. */
  within: readonly Logged[]
}

const NONE: readonly Logged[] = []
/** Checks for the same step, so that one may be the other, begun again. */
function isSame(a: LoggedStep, b: LoggedStep): boolean {
  if (isStepFrame(a.kind)) return isStepFrame(b.kind) && stepKey(a) === stepKey(b)
  if (a.kind === SLEEP) return b.kind === SLEEP && limitOf(a.memory, a.at) === limitOf(b.memory, b.at)
  return sameStep(a.memory, a.at, b.memory, b.at)
}

export class LoggedTurn {
  /** In the order of their begin. */
  readonly steps: Logged[] = []
  readonly script = new Script()
  /** Highest number of a step. */
  last = 0
  #anyUndone = false
  readonly #byNumber = new Map<number, Logged>()
  readonly #byCorrelation = new Map<number, Logged>()

  /** Reads the frames of that turn of agent `me`, which are contiguous in `memory` from `start` to `end`. */
  constructor(me: number, turn: number, memory: Memory, start: number, end: number) {
    for (let at = start; at < end; at += lengthOf(memory, at)) {
      const kind = kindOf(memory, at)
      if (kind === END && senderOf(memory, at) === me && turnOf(memory, at) === turn) this.#beginsAgain()
      else if (kind === CANCEL) this.#withdrawn(memory, at)
      else if (isAnswer(kind)) this.#answered(memory, at)
      else if (kind === STREAM_READ) this.#read(memory, at)
      else if (kind === CHUNK && senderOf(memory, at) !== me) this.#piece(memory, at)
      else if (kind === STEP_DONE || kind === SLEPT) this.#done(memory, at)
      else this.#began({ memory, at, kind })
    }
    this.script.number()
    this.#judge()
  }

  /** Returns the step that awaits an answer with that number. */
  find(correlation: number): Logged | undefined {
    return this.#byCorrelation.get(correlation)
  }

  #of(memory: Memory, at: number): Logged | undefined {
    return this.#byCorrelation.get(correlationOf(memory, at))
  }

  #began(frame: LoggedStep): Logged {
    const { memory, at, kind } = frame
    const number = stepOf(memory, at)
    this.last = Math.max(this.last, number)
    const again = this.#repeated(frame, number)
    if (again)
      Object.assign(again, { memory, at, number, pieces: [], reported: 0, isUndone: false, isWithdrawn: false })
    const step: Logged = again ?? {
      ...{ memory, at, kind, number, index: 0, isRequired: false, isOver: false, awaited: false },
      ...{ settled: undefined, pieces: [], reported: 0, isUndone: false, isWithdrawn: false, within: NONE },
    }
    const correlation = mayWait(kind) ? correlationOf(memory, at) : 0
    if (correlation !== 0) this.#byCorrelation.set(correlation, step)
    if (isStepFrame(kind) || kind === SLEEP) this.#byNumber.set(number, step)
    if (again) return step
    this.steps.push(step)
    this.script.add(step)
    return step
  }

  /** Returns the step of an earlier attempt that this one does again. */
  #repeated(frame: LoggedStep, number: number): Logged | undefined {
    const attempt = attemptOf(frame.memory, frame.at)
    if (!isStepFrame(frame.kind))
      return this.#anyUndone ? this.steps.find((step) => step.isUndone && isSame(step, frame)) : undefined
    // Older versions gave it another number.
    const isOfBefore = ({ memory, at, settled }: Logged) => !settled && attemptOf(memory, at) < attempt
    return (
      this.#byNumber.get(number) ??
      (attempt > 1 ? this.steps.find((step) => isOfBefore(step) && isSame(step, frame)) : undefined)
    )
  }

  // ---- what settled

  #settled(memory: Memory | undefined, at: number): Settled {
    return { frame: memory && { memory, at }, index: 0, isRequired: true, isOver: false }
  }

  #done(memory: Memory, at: number): void {
    const step = this.#byNumber.get(stepOf(memory, at)) ?? this.#began({ memory, at, kind: kindOf(memory, at) })
    step.settled = this.#settled(memory, at)
    this.script.settle(step.settled, markOf(memory, at))
  }

  #answered(memory: Memory, at: number): void {
    if (kindOf(memory, at) === END && flagsOf(memory, at) & BEGINS_AGAIN) return // the callee is tried again
    const step = this.#of(memory, at)
    if (!step || (step.settled && !step.settled.frame)) return // withdrawn before
    if (step.settled) step.settled.isRequired = false // a retried request has got another answer
    step.settled = this.#settled(memory, at)
    this.script.answer(step.settled, { correlation: correlationOf(memory, at), piece: 0 })
  }

  #piece(memory: Memory, at: number): void {
    const step = this.#of(memory, at)
    if (!step) return
    const piece = this.#settled(memory, at)
    this.script.answer(piece, { correlation: correlationOf(memory, at), piece: step.pieces.push(piece) })
  }

  #read(memory: Memory, at: number): void {
    const step = this.#of(memory, at)
    if (step) step.reported += limitOf(memory, at)
  }

  /** Notes a withdrawal. An answer that its thread had not got by then is for nobody. */
  #withdrawn(memory: Memory, at: number): void {
    const step = this.#of(memory, at)
    if (!step) return
    if (step.kind === SEND) {
      step.isWithdrawn ||= !step.settled
      return
    }
    const withdrawal = this.#settled(undefined, at)
    this.script.settle(withdrawal, markOf(memory, at))
    const { moments } = this.script
    const isLate = !step.settled || moments.indexOf(step.settled) > moments.indexOf(withdrawal)
    const other = isLate ? step.settled : withdrawal
    if (other) other.isRequired = false
    if (isLate) step.settled = withdrawal
  }

  // ---- attempts that have failed

  /** Notes what the next attempt does again. What settled after it may not settle again before that. */
  #beginsAgain(): void {
    const undone = this.steps.filter((step) => !step.isUndone && this.#hasFailed(step))
    this.#anyUndone ||= undone.length > 0
    const settled = undone.flatMap(({ settled }) => settled ?? [])
    const { moments } = this.script
    const first = Math.min(...settled.map((each) => moments.indexOf(each)))
    if (settled.length > 0) this.script.release(moments[first]!)
    for (const step of undone) {
      if (step.settled && this.#isRetried(step, step.settled)) {
        this.steps.splice(this.steps.indexOf(step), 1)
        this.steps.push(step)
      }
      for (const piece of step.pieces) piece.isRequired = false
      Object.assign(step, { isUndone: true, settled: undefined })
    }
  }

  /**
   * Checks whether a step failed, or was withdrawn with the attempt. A send that still waits for room is neither. Nor
   * is a broadcast that some agents did not accept, because the others have it.
   */
  #hasFailed({ kind, memory, at, settled, isWithdrawn }: Logged): boolean {
    const frame = settled?.frame
    if (isStepFrame(kind)) return frame !== undefined && isFailure(frame.memory, frame.at)
    if (kind === SLEEP) return !frame
    if (correlationOf(memory, at) === 0 || !mayWait(kind)) return false
    if (!frame) return kind !== SEND || isWithdrawn
    if (kind === SEND && typeOf(memory, at) === 'broadcast') return false
    return kindOf(frame.memory, frame.at) === REFUSED || isFailure(frame.memory, frame.at)
  }

  /** Checks whether the attempt itself has begun a failed step once more, so that the next one asks for that first. */
  #isRetried(step: Logged, failed: Settled): boolean {
    const { moments } = this.script
    return this.steps.some(
      (other) => other !== step && isSame(other, step) && moments.indexOf(other) > moments.indexOf(failed),
    )
  }

  // ---- what comes again

  /**
   * Marks what code that is the same asks for again. What is asked for within a step that was done is not: the step is
   * answered as a whole. A report may come from a timer, at another time.
   */
  #judge(): void {
    /** Steps of the handler that are open at that place of the log, and were done later. */
    const around = new Map<Moment, Logged>()
    const began = new Set<Moment>(this.steps)
    for (const moment of this.script.moments) {
      if (!began.has(moment)) {
        around.delete(moment)
        continue
      }
      const step = moment as Logged
      const isWithin = around.size > 0
      if (isWithin) step.within = [...around.values()]
      step.awaited = !isWithin && this.#isAwaited(step)
      const isWaitedFor = step.awaited || (step.kind === SLEEP && !isWithin)
      for (const each of [...step.pieces, ...(step.settled ? [step.settled] : [])]) each.isRequired &&= isWaitedFor
      const isOwn = isStepFrame(step.kind) && readBody(step.memory, step.at).threadId === undefined
      if (step.settled && isOwn) around.set(step.settled, step)
    }
  }

  #isAwaited(step: Logged): boolean {
    const { kind, memory, at, isUndone } = step
    if (isUndone || (kind === SEND && typeOf(memory, at) === 'report')) return false
    return (hasEffect(kind) || isStepFrame(kind)) && !isNotice(step)
  }
}
