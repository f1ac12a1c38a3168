/** Compares values of two plays of a run. Ids and times are not compared: each play has its own. */

import { canonical } from '../../../actors/decisions/vote.ts'
import { own } from '../../../own.ts'

const ID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/gi

/** A time of this century in epoch ms. */
const TIME = /(?<![\w.])[1-3]\d{12}(?:\.\d+)?(?![\w.])/g

/** Returns one text for all values that count as the same. */
export const keyOf = (value: unknown): string => canonical(value).replaceAll(ID, '*').replaceAll(TIME, '*')

/** Place at which two values differ, and what stands there in each. */
export interface Difference {
  /** Fields and positions on the way there, like `messages[1].content`; '' for the whole value. */
  path: string
  before: unknown
  now: unknown
}

/** Returns the first difference of two values; undefined if they count as the same. */
export function differenceOf(before: unknown, now: unknown, path = ''): Difference | undefined {
  if (keyOf(before) === keyOf(now)) return undefined
  if (Array.isArray(before) && Array.isArray(now)) {
    for (let i = 0; i < Math.max(before.length, now.length); i++) {
      const found = differenceOf(before[i], now[i], `${path}[${i}]`)
      if (found) return found
    }
  } else if (isObject(before) && isObject(now)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(now)])) {
      const found = differenceOf(own(before, name), own(now, name), path === '' ? name : `${path}.${name}`)
      if (found) return found
    }
  }
  return { path, before, now }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
