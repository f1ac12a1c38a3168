/** Describes a failed bundle: the wrong line of the source, and the option that named the source. */
import { dirname, isAbsolute, relative, resolve } from 'node:path'
import type { BuildFailure, Location, Message } from 'esbuild'
import { ConfigurationError, describe } from '../../../errors.ts'
import { META } from './node-semantics.ts'

/** The error for what esbuild threw. `what` is the option that named the entry. */
export function cannotBundle(error: unknown, entry: string, what: string): ConfigurationError {
  const [first, ...more] = isFailure(error) ? error.errors : []
  if (!first) {
    const [reason = ''] = describe(error).split('\n', 1)
    const advice = /\besbuild\b/.test(reason) ? ' Reinstall it (npm install), or compile to JavaScript yourself.' : ''
    const message = `${what}: cannot bundle ${shownPath(entry)}: ${reason}${advice}`
    return new ConfigurationError(message, { path: what, file: entry }, error)
  }
  const at = first.location ? placeOf(first.location, dirname(entry)) : { file: entry }
  const others = more.length === 0 ? '' : ` (and ${more.length} more)`
  const message = `${what}: ${shownPlace(at)}: ${sentence(first, at)}${others}`
  return new ConfigurationError(message, { path: what, ...at }, error)
}

/** A path as a person says it: from the working directory, or whole if it is not below it. */
export function shownPath(path: string): string {
  const short = relative(process.cwd(), path)
  return short === '' || short.startsWith('..') || isAbsolute(short) ? path : short
}

/** Lines and columns count from 1. */
export interface Place {
  file: string
  line?: number
  column?: number
}

function placeOf({ file, line, column, lineText }: Location, folder: string): Place {
  const path = resolve(folder, file)
  // a source that stops too early is found wrong in the import that the plugin adds at its end
  if (lineText.includes(META)) return { file: path, line: line - 1, column: 1 }
  // esbuild counts bytes from 0, editors count characters from 1
  return { file: path, line, column: Buffer.from(lineText).subarray(0, column).toString().length + 1 }
}

/** A place as a person says it. */
export function shownPlace({ file, line, column }: Place): string {
  return [shownPath(file), line, column].filter((part) => part !== undefined).join(':')
}

function sentence({ text, notes, location }: Message, at: Place): string {
  const missing = /^Could not resolve "(.+)"$/.exec(text)?.[1]
  if (missing === undefined) return location?.lineText.includes(META) ? 'Unexpected end of file' : text
  // notes without a place advise on esbuild's own options, which nobody can set here
  const reason = notes.find((note) => note.location)?.text.replace(/[:.]$/, '')
  if (reason !== undefined) return `cannot find "${missing}". ${reason}.`
  const advice = missing.startsWith('.') || isAbsolute(missing) ? 'No such file.' : 'Install it, or correct its name.'
  return at.line === undefined ? 'cannot be read.' : `cannot find "${missing}", which it imports. ${advice}`
}

/** Checks whether esbuild ran, and found something wrong in a source. */
export function isFailure(error: unknown): error is BuildFailure {
  return error instanceof Error && 'errors' in error && Array.isArray(error.errors)
}
