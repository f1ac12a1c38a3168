import { fileURLToPath } from 'node:url'
import { ownFile } from './environment.ts'

/** Key of the file that has defined something, among its fields: another file may use it. */
export const PLACE = Symbol.for('dramatis.place')

/** Number of frames that are looked at. Some are of this package, and of JavaScript itself, such as `map`. */
const FRAMES = 20

/**
 * Returns the path or file: URL of the file that has called this package; undefined where no file has, as in a REPL.
 * In a bundle that contains this package it is the bundle.
 */
export function callingFile(): string | undefined {
  const own = ownFolders()
  const isOwn = (file: string) =>
    own.some((folder) => (file.startsWith('file:') ? fileURLToPath(file) : file).startsWith(folder))
  return filesOnStack().find((file) => !isOwn(file))
}

function filesOnStack(): string[] {
  const { prepareStackTrace, stackTraceLimit } = Error
  const holder: { stack?: unknown } = {}
  try {
    Error.stackTraceLimit = FRAMES
    Error.prepareStackTrace = (_error, sites) => sites // names of files as they run, without source maps
    Error.captureStackTrace(holder, filesOnStack)
    const sites = holder.stack
    return Array.isArray(sites) ? sites.map((site) => site.getFileName?.() ?? '').filter(isFile) : []
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit })
  }
}

const isFile = (name: string): boolean => /^(?:file:|\/|[a-z]:[\\/]|\\\\)/i.test(name)

function ownFolders(): string[] {
  try {
    // The sources are those of Deno, which reads source maps.
    return ['.', '../host/', '../../src/'].map((folder) => fileURLToPath(ownFile(folder)))
  } catch {
    return [] // in a bundle that has left its files behind: the start of a thread says so
  }
}
