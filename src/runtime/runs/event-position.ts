/** Places in the events of a run: a number, or an id that says of which log the number is. */
import { refused } from '../checks/refused.ts'

/** Place behind the event with that number. `log`: name of the log that numbered it, if it is known. */
export interface EventPosition {
  readonly log: string | undefined
  readonly seq: number
}

const ID = /^([\w-]{1,100})\.(-1|\d{1,16})$/
const ACCEPTED = 'the `seq` of an event, -1 for all events, or an id: the `logName` of the team, a dot and a `seq`'

/** @throws ConfigurationError if it is neither a number nor an id. */
export function readPosition(after: unknown): EventPosition {
  if (typeof after === 'number' && Number.isSafeInteger(after) && after >= -1) return { log: undefined, seq: after }
  const [, log, seq] = (typeof after === 'string' && ID.exec(after)) || []
  if (log === undefined || !Number.isSafeInteger(Number(seq))) throw refused('after', after, ACCEPTED)
  return { log, seq: Number(seq) }
}
