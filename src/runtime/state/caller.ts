/** Fields of the metadata of runs that were begun over HTTP: the caller, and the hash of a body with a key. */

/** Field of a run's metadata with the id of its caller. */
export const CALLER = 'caller'

/** Field of the metadata of a run that was begun with an idempotency key: the hash of the body that began it. */
export const BODY_HASH = 'bodyHash'

/** Checks for the metadata of a run that was begun with an idempotency key. */
export const isKeyed = (metadata: Readonly<Record<string, string>> = {}): boolean => Object.hasOwn(metadata, BODY_HASH)

/** Returns the caller that metadata name. */
export const callerIn = (metadata: Readonly<Record<string, string>> = {}): string | null =>
  Object.hasOwn(metadata, CALLER) ? metadata[CALLER]! : null
