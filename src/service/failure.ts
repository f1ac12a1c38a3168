/** Messages of the command line for failures, and their exit codes. */
import { inspect } from 'node:util'
import { describe } from '../errors.ts'
import { oneLine } from './one-line.ts'

/** The exit codes of the command line. */
export const EXIT = { done: 0, failed: 1, usage: 2, interrupted: 130 } as const

const LONGEST_MESSAGE = 2_000

/** 2 for what the user has to change in the command or the team file, 1 for everything else. */
export function exitCodeOf(error: unknown): number {
  const code = codeOf(error)
  return code === 'CONFIGURATION' || code === 'UNKNOWN_RUN' ? EXIT.usage : EXIT.failed
}

/** Describes an error on one line; with `DEBUG=dramatis` whole, with its stack. */
export function failureWords(error: unknown, env: NodeJS.ProcessEnv = process.env): string {
  if (/(^|[,\s])dramatis([,\s]|$)/.test(env.DEBUG ?? '')) return inspect(error)
  const code = codeOf(error)
  const isPlain = error instanceof Error && (code !== undefined || error.name === 'Error') // the line says "error" already
  const message = (isPlain && error.message) || describe(error)
  const kind = code === undefined || code === 'CONFIGURATION' ? '' : `${code}: `
  return `${kind}${oneLine(message, LONGEST_MESSAGE)}`
}

/** The code of a DramatisError. Not by its class: a team file may have brought a copy of the library of its own. */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('details' in error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}
