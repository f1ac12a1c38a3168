/** Times of the service, as people of this place read them. */
const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})
const dayFormat = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const DAY_MS = 86_400_000

/** 14:02:13, with the day if it was another one. */
export function clock(at: number, now: number): string {
  const time = clockFormat.format(at)
  return Math.abs(now - at) < DAY_MS / 2 ? time : `${dayFormat.format(at)} ${time}`
}

/** 14:02:13.480 */
export const exactClock = (at: number): string =>
  `${clockFormat.format(at)}.${String(Math.floor(at) % 1_000).padStart(3, '0')}`

/** Returns a time span of the machine's work, in words: 12 ms, 3.4 s, 12 s, 3 min. */
export const shortSpan = (ms: number): string => {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 100_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`
}
