/** Promises that may be left alone: those of verbs never count as unhandled rejections, which would cost the thread. */

export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

export function rejected(error: unknown): Promise<never> {
  return handled(Promise.reject(error))
}
