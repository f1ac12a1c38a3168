/** What verbs refuse, and the errors that say so. */
import type { Patch } from 'immer'
import { CancelledError, describe, MessageRejectedError } from '../errors.ts'
import { jsonIssue } from '../mailbox/message.ts'
import { notJson } from './outbox.ts'

const HALF = 2 ** 31

/** The priority of a message: an integer of 32 bits; 0. */
export function priorityOf(value: number | undefined): number {
  if (value === undefined) return 0
  if (!Number.isInteger(value) || value < -HALF || value >= HALF)
    throw new MessageRejectedError(`priority is ${describe(value)}; an integer of 32 bits is needed.`, {
      path: 'priority',
      got: describe(value),
    })
  return value
}

/** A duration in ms, at most what a timer can hold. */
export function durationOr(value: number | undefined, fallback: number, path: string): number {
  if (value === undefined) return fallback
  if (typeof value !== 'number' || Number.isNaN(value) || value < 0)
    throw new MessageRejectedError(`${path} is ${describe(value)}; milliseconds are needed, 0 or more.`, {
      path,
      got: describe(value),
    })
  return Math.min(Math.ceil(value), HALF - 1)
}

/** State is JSON: throws with the path of the first thing in the patches that is not. */
export function checkPatches(patches: Patch[], path: string): void {
  for (const patch of patches) {
    if (patch.op === 'remove') continue
    const issue = jsonIssue(patch.value, [path, ...patch.path].join('.'))
    if (issue) throw notJson(issue)
  }
}

export const withdrawn = (to: string, signal: AbortSignal) =>
  new CancelledError(`The wait for "${to}" was withdrawn: its signal was aborted.`, { agent: to }, signal.reason)
