/** Figures as all faces show them: terminal and page. */

export const grouped = (value: number): string => String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ',')

/** Returns a time span in words: 0.4 s, 12 s, 3 min, 2 h. */
export function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = seconds / 60
  return minutes < 120 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`
}
