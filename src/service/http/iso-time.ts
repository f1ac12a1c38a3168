/** Times as the HTTP API gives them: ISO 8601, in UTC. Its streams keep those of the runtime, in epoch ms. */

/** Latest time that a date has, in epoch ms. */
const LATEST = 8.64e15

export const isoTime = (epochMs: number): string => new Date(Math.min(epochMs, LATEST)).toISOString()

/** The same for a time that may be missing. */
export const isoTimeOr = (epochMs: number | null): string | null => (epochMs === null ? null : isoTime(epochMs))
