/** Work on other threads whose result is the same every time: virtual time stands still until it is done. */

/** Stops the clock until that work is done. */
export type Outside = <T>(work: Promise<T>) => Promise<T>
export type AnyFunction = (...args: unknown[]) => unknown

/**
 * Wraps a function that works on another thread if it is given a callback: the clock stops for that. Without a callback
 * the function works in this thread.
 */
export function stoppingTheClock(work: AnyFunction, outside: Outside): AnyFunction {
  return (...args) => {
    const done = args.at(-1)
    if (typeof done !== 'function') return work(...args)
    const settled = outside(
      new Promise<unknown[]>((resolve) => void work(...args.slice(0, -1), (...results: unknown[]) => resolve(results))),
    )
    void settled.then((results) => Reflect.apply(done, undefined, results))
    return undefined
  }
}
