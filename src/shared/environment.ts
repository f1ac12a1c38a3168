/**
 * Variables of the environment, and those of the `.env` that the command line reads. The latter stay out of
 * `process.env`: child processes get all that is there, and reports of the process show it.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { ConfigurationError } from './errors.ts'
import { own } from './values.ts'

/*
 * Files of this package that are found by their place: what threads run, what agents import as 'dramatis', and the
 * packages that cannot be put into a bundle. The plugin of esbuild puts them beside a bundle. Another bundler that
 * makes one file of a service leaves them behind; they are then those of the package that is installed where that file
 * is.
 */

/** Stands in no other folder than that of this package's code. */
const PROOF = 'actors/thread/thread-entry.bundle.cjs'

let folder: URL | undefined

/** Throws `ConfigurationError` where this package was bundled and is not installed. */
export function ownFile(path: string): URL {
  folder ??= codeFolder()
  return new URL(path, folder)
}

/**
 * Loads packages as this one sees them. A bundler that sees their names would put them into its bundle, where they
 * cannot work.
 */
export function ownRequire(): NodeJS.Require {
  return createRequire(ownFile('index.js'))
}

function codeFolder(): URL {
  const here = placeOfThisFile()
  // In the published package the host's code is a bundle in a folder beside that of the modules.
  const folders = [
    new URL('../', here),
    new URL('./', here),
    new URL('../src/', here),
    ...emittedSeenFrom(here),
    installedSeenFrom(here),
  ]
  const found = folders.find((url) => url && existsSync(new URL(PROOF, url)))
  if (found) return found
  const file = fileURLToPath(here)
  throw new ConfigurationError(
    `dramatis was bundled into ${file}, and is not installed there: its threads cannot start. Bundle it with the plugin of dramatis/esbuild, or leave it out of the bundle (external: ['dramatis']) and install it beside.`,
    { path: 'dramatis', file },
  )
}

/** Folders that the plugin of esbuild makes beside a bundle, which may lie in a folder of its own. */
function emittedSeenFrom(file: string): URL[] {
  const above = new URL('../', new URL('./', file))
  const folder = new URL('./dramatis/', file)
  return above.href === new URL('./', file).href ? [folder] : [folder, ...emittedSeenFrom(above.href)]
}

function installedSeenFrom(file: string): URL | undefined {
  try {
    return new URL('dist/src/', pathToFileURL(createRequire(file).resolve('dramatis/package.json')))
  } catch {
    return undefined
  }
}

/** A bundle that is CommonJS has no `import.meta`. */
function placeOfThisFile(): string {
  const { url }: { url?: string } = import.meta
  return url ?? pathToFileURL(__filename).href
}

export type Environment = Readonly<Record<string, string | undefined>>

let ofFile: Environment | undefined

/** Returns all variables. One that the process has counts before one of the file. */
export const environment = (): Environment => (ofFile ? { ...ofFile, ...process.env } : process.env)

export function addToEnvironment(read: Environment): void {
  ofFile = { ...ofFile, ...read }
}

/** Does `load` with all variables in `process.env`: a team file reads its options there while it is imported. */
export async function withEnvironment<T>(load: () => Promise<T>): Promise<T> {
  const added = Object.entries(environment()).filter(([name]) => own(process.env, name) === undefined)
  Object.assign(process.env, Object.fromEntries(added))
  try {
    return await load()
  } finally {
    for (const [name, value] of added) if (own(process.env, name) === value) Reflect.deleteProperty(process.env, name)
  }
}

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
