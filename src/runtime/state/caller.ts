/** Callers of runs: who began a run, as its metadata say. */

/** Field of a run's metadata with the id of its caller. */
export const CALLER = 'caller'

/** Returns the caller that metadata name. */
export const callerIn = (metadata: Readonly<Record<string, string>> = {}): string | null =>
  Object.hasOwn(metadata, CALLER) ? metadata[CALLER]! : null
