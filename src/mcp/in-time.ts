/** Work of this thread that a stranger's data decides the length of, ended when it takes too long. */
import { createContext, Script } from 'node:vm'

const script = new Script('work()', { filename: 'in-time.js' })

/**
 * Runs a function and returns its result, or throws its error. Throws the error of `late` after `ms`: neither a loop
 * nor a regular expression holds this thread any longer. Changes that the function has made by then stay. The guard
 * costs about a third of a millisecond.
 */
export function inTime<T>(ms: number, late: () => Error, work: () => T): T {
  try {
    return script.runInContext(createContext({ work }), { timeout: ms }) as T
  } catch (error) {
    const { code } = Object(error) as { code?: unknown } // an error of the other context is no Error here
    throw code === 'ERR_SCRIPT_EXECUTION_TIMEOUT' ? late() : error
  }
}
