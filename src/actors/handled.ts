/** Promises of verbs. */

const quiet = () => {}

/** A promise that may be left alone: verb promises never count as unhandled rejections. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(quiet)
  return promise
}

export function rejected(error: unknown): Promise<never> {
  return handled(Promise.reject(error))
}
