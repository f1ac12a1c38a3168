/** Flags of this process that its threads must be given: a worker with `execArgv` or `env` of its own inherits none. */
import { Worker } from 'node:worker_threads'

/**
 * Flags that a thread is not given. A debugger would open the port of the process; `--env-file` would give it
 * variables, which an agent has as its role says; and the others say what the process runs.
 */
const OF_PROCESS =
  /^--(?:inspect|debug|env-file|eval$|print$|check$|interactive$|run$|input-type|test|experimental-test|watch)|^-(?:e|p|pe|c|i)$/

/** Flags of Node's permission model, which no thread may lack. Source: nodejs.org/api/permissions.html. */
const PERMISSION = /^--(?:experimental-)?permission$|^--allow-/

/** No thread takes it, so that a trial with it begins none. */
const REFUSED = '--no-flag-of-node'

let inherited: string[] | undefined

/**
 * Returns the flags that a `new Worker(file)` inherits: preloaded modules, loaders, conditions, experiments, and those
 * by which this process may do less than others. What else V8 and the process were told holds for its threads anyway.
 */
export function threadFlags(): readonly string[] {
  inherited ??= flagsOf(process.execArgv, process.env.NODE_OPTIONS ?? '')
  return inherited
}

/** Returns those of a command line and of `NODE_OPTIONS`. */
export function flagsOf(args: readonly string[], nodeOptions: string): string[] {
  const flags = withValues([...wordsOf(nodeOptions), ...args])
  return flags
    .filter((flag) => PERMISSION.test(nameOf(flag)) || (!OF_PROCESS.test(nameOf(flag)) && isTaken(flag)))
    .flat()
}

/** Puts each flag together with its value, where that is the next word. */
function withValues(words: readonly string[]): string[][] {
  const flags: string[][] = []
  for (const word of words) {
    const last = flags.at(-1)
    if (last && !word.startsWith('-')) last.push(word)
    else flags.push([word])
  }
  return flags
}

const nameOf = ([word = '']: readonly string[]) => word.split('=', 1)[0] ?? ''

/** Asks Node, because which flags threads take differs from version to version. */
function isTaken(flag: readonly string[]): boolean {
  try {
    void new Worker('', { eval: true, execArgv: [...flag, REFUSED] }).terminate() // a runtime that refuses none
    return true
  } catch (error) {
    return error instanceof Error && error.message.endsWith(`: ${REFUSED}`)
  }
}

/**
 * As Node reads the variable: words stand between spaces, a quoted one may have some, and a backslash is for quoted
 * ones alone.
 */
function wordsOf(text: string): string[] {
  return Array.from(text.matchAll(/(?:"(?:\\.|[^"\\])*"|[^\s"])+/g), ([word]) =>
    word.replaceAll(/"((?:\\.|[^"\\])*)"/g, (_, quoted: string) => quoted.replaceAll(/\\(.)/g, '$1')),
  )
}
