/**
 * Helpers for promises that may be left alone. Promises of verbs never count as unhandled rejections, which would end a
 * thread.
 */

export const quiet = () => {}

export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(quiet)
  return promise
}

export function rejected(error: unknown): Promise<never> {
  return handled(Promise.reject(error))
}
