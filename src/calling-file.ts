/** Finds the file of a user's code that calls a function of this package. */

/** Number of frames that are looked at: a call may pass functions of JavaScript itself, such as `map`. */
const FRAMES = 10

/**
 * Returns the path or file: URL of the file that has called that function of this package; undefined where no file has,
 * as in a REPL. To be called while the function is.
 */
export function callingFile(called: Function): string | undefined {
  const { prepareStackTrace, stackTraceLimit } = Error
  const holder: { stack?: unknown } = {}
  try {
    Error.stackTraceLimit = FRAMES
    Error.prepareStackTrace = (_error, sites) => sites
    Error.captureStackTrace(holder, called)
    const sites = holder.stack // is made by that function, when it is read
    if (!Array.isArray(sites)) return undefined
    return (sites as NodeJS.CallSite[]).map((site) => site.getFileName() ?? '').find(isFile)
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit })
  }
}

const isFile = (name: string): boolean => /^(?:file:|\/|[a-z]:[\\/]|\\\\)/i.test(name)
