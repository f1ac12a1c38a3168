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
