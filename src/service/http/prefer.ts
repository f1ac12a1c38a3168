/** The header `Prefer` (RFC 7240): how long a client wants to wait for the end of a task. */

const MOST_S = 600

/** Returns the ms to wait: without end, if the client does not say otherwise. `applied`: the preference that is met. */
export function waitOf(request: Request): { waitMs: number; applied: string | undefined } {
  const given = request.headers.get('prefer') ?? ''
  const wait = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})"?/i.exec(given)?.[1]
  if (wait !== undefined) {
    const seconds = Math.min(Number(wait), MOST_S)
    return { waitMs: seconds * 1_000, applied: `wait=${seconds}` }
  }
  if (/(?:^|[,;\s])respond-async(?:$|[,;\s])/i.test(given)) return { waitMs: 0, applied: 'respond-async' }
  return { waitMs: Number.POSITIVE_INFINITY, applied: undefined }
}
