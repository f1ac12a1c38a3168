/**
 * Files of this package that are found by their place: what threads run, what agents import as 'dramatis', and the
 * packages that cannot be put into a bundle. The plugin of esbuild puts them beside a bundle. Another bundler that
 * makes one file of a service leaves them behind; they are then those of the package that is installed where that file
 * is.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ConfigurationError } from './errors.ts'

/** Stands in no other folder than that of this package's code. */
const PROOF = 'actors/loop/thread-entry.bundle.cjs'

let folder: URL | undefined

/**
 * A file below the folder of this one, by its path from there. Throws `ConfigurationError` where it was bundled and is
 * not installed.
 */
export function ownFile(path: string): URL {
  folder ??= codeFolder()
  return new URL(path, folder)
}

/**
 * Loads packages as this one sees them. A bundler that sees their names would put them into its bundle, where they
 * cannot work.
 */
export function ownRequire(): NodeJS.Require {
  return createRequire(ownFile('own-files.js'))
}

function codeFolder(): URL {
  const here = placeOfThisFile()
  // In the published package the host's code is a bundle in a folder beside that of the modules.
  const folders = [new URL('./', here), new URL('../src/', here), ...emittedSeenFrom(here), installedSeenFrom(here)]
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
