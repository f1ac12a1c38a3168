/**
 * Steps of a turn as its log has them: the kinds of frames that are steps, which of them are the same step, and their
 * descriptions.
 */
import {
  ACCEPTED,
  CALL,
  CANCEL,
  CHUNK,
  END,
  kindOf,
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
  typeOf,
} from '../../mailbox/frame.ts'
import { ACKNOWLEDGE } from '../definition/role.ts'

export interface LoggedStep {
  readonly memory: Memory
  readonly at: number
  readonly kind: number
}

/** Calls that only notify the host; in older logs a limit that is reached is one. */
const NOTICES: ReadonlySet<string> = new Set([ACKNOWLEDGE, 'limit.reached'])

/** Checks for the kinds of frames that have the number of a wait of their own turn, if they have one. */
export const mayWait = (kind: number): boolean => kind === SEND || kind === REQUEST || kind === CALL

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
export function stepKey({ memory, at }: LoggedStep): string {
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
  const beginning = `${JSON.stringify(alike).slice(0, -1)},`
  return ({ kind, memory, at }) => {
    if (kind !== CALL) return false
    const { content, data } = readBody(memory, at)
    return content === operation && data !== undefined && data.startsWith(beginning)
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
