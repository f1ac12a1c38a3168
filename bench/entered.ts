/** Functions of the runtime that are entered, by precise coverage of the thread that counts. */
import { type Profiler, Session } from 'node:inspector'

export interface Entered {
  /** Path or URL of a built file. */
  readonly url: string
  /** Where the function begins, in characters of the code that V8 was given, and how long that is. */
  readonly start: number
  readonly length: number
  readonly name: string
  readonly calls: number
}

/** Begins to count in this thread. What it returns takes what was entered since then, or since it was called last. */
export function countEntered(): () => Entered[] {
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.startPreciseCoverage', { callCount: true })
  return () => {
    let scripts: readonly Profiler.ScriptCoverage[] = []
    session.post('Profiler.takePreciseCoverage', (error, coverage) => {
      if (error) throw error
      scripts = coverage.result
    })
    return scripts.filter(({ url }) => /\/dist\/(src|host)\//.test(url)).flatMap(functionsOf)
  }
}

/** The first function of a script is the whole of it. */
function functionsOf({ url, functions }: Profiler.ScriptCoverage): Entered[] {
  const length = functions[0]?.ranges[0]?.endOffset ?? 0
  return functions.flatMap(({ functionName: name, ranges: [whole] }) =>
    whole && whole.count > 0 ? [{ url, start: whole.startOffset, length, name, calls: whole.count }] : [],
  )
}
