const LONG_MS = 2 ** 30

/** The same promise; this process lives until it has settled, which it would not for the threads of an idle team. */
export async function held<T>(promise: Promise<T>): Promise<T> {
  const hold = setTimeout(() => {}, LONG_MS)
  try {
    return await promise
  } finally {
    clearTimeout(hold)
  }
}
