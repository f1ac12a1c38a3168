/** Flow of messages of late: who has sent how much to whom. */
import { COPY, TO_SEVERAL } from '../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../digest/digest-fold.ts'

export interface Flow {
  readonly from: string
  readonly to: string
  readonly count: number
  /** Time since the last message. */
  readonly ageMs: number
}

const RECENT_MS = 30_000
const MOST_ROWS = 20_000

export function recentFlow({ messages, names }: DigestFold, now: number, recentMs = RECENT_MS): Flow[] {
  const { at, from, to, type } = messages.columns
  const found = new Map<number, { from: string; to: string; count: number; ageMs: number }>()
  const first = Math.max(at.countUpTo(now - recentMs), at.length - MOST_ROWS)
  for (let row = first; row < at.length; row++) {
    if (to.at(row) < 0 || (type.at(row) & TO_SEVERAL && !(type.at(row) & COPY))) continue
    const key = from.at(row) * names.length + to.at(row)
    const known = found.get(key)
    const ageMs = now - at.at(row)
    if (known) Object.assign(known, { count: known.count + 1, ageMs })
    else found.set(key, { from: names[from.at(row)]!, to: names[to.at(row)]!, count: 1, ageMs })
  }
  return [...found.values()]
}
