/**
 * Turns that end the process again and again, in code that JavaScript cannot stop. Which one it was is known when it
 * was the only one at work. A turn of which that is known, and that was open at as many deaths in a row as its agent
 * may have (`poisonAttempts`, at least 2) without getting any further, does not come again.
 */
import { AgentCrashedError } from '../../errors.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Stage } from '../dispatch/cautious-start.ts'
import type { Cell } from '../state/cell.ts'
import type { OpenMessage } from '../state/open-work.ts'
import type { RunState } from '../state/run-state.ts'
import type { OldLog } from './old-log.ts'

/** Open message of an earlier process that was taken up, and its agent. */
export interface TakenUp {
  readonly message: OpenMessage
  readonly cell: Cell
  readonly envelope: Envelope<RunState>
}

/** Suspects begin one by one, but in no more stages than this: then several begin together. */
const MOST_STAGES = 16
/** Time of a stage. It doubles with each further death, for turns that take longer to end their process. */
const STAGE_MS = 2_000
const LONGEST_STAGE_MS = 60_000

/** Returns the deaths in a row after which a turn of that agent does not come again. One death proves nothing. */
const mostDeaths = ({ settings }: Cell): number => Math.max(2, settings.supervision.poisonAttempts)

/** Returns the error for a turn that does not come again because it ended its processes. */
export function poisonIn({ message, cell }: TakenUp, { deaths }: OldLog): AgentCrashedError | undefined {
  const count = deaths.of(message)
  const [accused, other] = deaths.accused
  if (accused !== message || other || count < mostDeaths(cell)) return undefined
  const text = `The process died ${count} times in a row while agent "${cell.name}" worked on this message, the last time when nothing else was under way; it is not tried again. Look for native code that crashes, and for a lack of memory.`
  return new AgentCrashedError(text, { agent: cell.name, processDeaths: count })
}

/** Returns the stages in which the turns begin that may have ended the processes; none if nothing is known. */
export function stagesOf(taken: readonly TakenUp[], { deaths, work }: OldLog): Stage[] {
  const suspects = taken.filter(({ cell, message }) => deaths.of(message) >= mostDeaths(cell) - 1)
  if (suspects.length === 0) return []
  const waiting = new Set<string>()
  for (const { caller, turn } of [...work.waits, ...work.calls]) waiting.add(`${caller} ${turn}`)
  const isWaiting = ({ message }: TakenUp) => waiting.has(`${message.recipient} ${message.turn}`)
  const places = new Map(deaths.accused.map((message, place) => [message, place]))
  const accused = suspects.filter(({ message }) => places.has(message))
  const others = suspects.filter(({ message }) => !places.has(message))
  const busy = others.filter((each) => !isWaiting(each))
  const idle = others.filter(isWaiting)
  accused.sort((a, b) => places.get(b.message)! - places.get(a.message)!) // the last to begin is the first suspect
  const groups = [...grouped(accused), ...grouped(busy), ...(idle.length > 0 ? [idle] : [])]
  return groups.map((group) => ({ suspects: group, limitMs: limitOf(group, deaths) }))
}

function grouped(suspects: readonly TakenUp[]): TakenUp[][] {
  const size = Math.ceil(suspects.length / MOST_STAGES)
  const groups: TakenUp[][] = []
  for (let from = 0; from < suspects.length; from += size) groups.push(suspects.slice(from, from + size))
  return groups
}

function limitOf(group: readonly TakenUp[], deaths: OldLog['deaths']): number {
  const more = Math.max(...group.map(({ cell, message }) => deaths.of(message) - mostDeaths(cell) + 1))
  return Math.min(STAGE_MS * 2 ** more, LONGEST_STAGE_MS)
}
