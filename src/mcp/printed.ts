/** Passes the lines that a server prints on stderr to a logger, with a bound. */
import { MIB } from '../bounded-answer.ts'
import { systemClock } from '../clock.ts'

const LONGEST_PRINT = 16_384
const MOST_A_MINUTE = MIB
const MINUTE_MS = 60_000

/** Passes on at most 1 MiB a minute, and says once that the rest of a minute is left out. */
export function printedOn(tell: (text: string) => void): (text: Buffer) => void {
  let since = Number.NEGATIVE_INFINITY
  let bytes = 0
  return (text) => {
    const now = systemClock.monotonic()
    if (now - since >= MINUTE_MS) {
      since = now
      bytes = 0
    }
    const before = bytes
    bytes += text.length
    if (bytes <= MOST_A_MINUTE) tell(text.subarray(0, LONGEST_PRINT).toString().trimEnd())
    else if (before <= MOST_A_MINUTE) tell('it prints more than 1 MiB a minute: the rest of this minute is left out')
  }
}
