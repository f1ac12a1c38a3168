/** What tests look at in lists of records. */

/** One field of each. */
export const pluck = <T, K extends keyof T>(list: readonly T[], key: K): T[K][] => list.map((each) => each[key])

/** Those whose field has that value. */
export const where = <T, K extends keyof T>(list: readonly T[], key: K, value: T[K]): T[] =>
  list.filter((each) => each[key] === value)
