/** Messages of the command line for failures, and their exit codes. */
import { inspect } from 'node:util'
import { describe } from '../../shared/errors.ts'

/** Agents' text must neither forge a second line nor steer a terminal; more than `most` characters are cut off. */
export function oneLine(text: string, most = 200): string {
  const clean = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()
  const letters = [...clean]
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : clean
}

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

export interface Interrupt {
  /** Aborted by the first Ctrl-C. */
  readonly signal: AbortSignal
  /** Gives Ctrl-C its usual meaning back. */
  stop(): void
}

/** Listens until `stop()`. `say` tells the user what goes on; `leave` ends the process. */
export function listenForInterrupt(
  say: (text: string) => void,
  leave: (code: number) => void = (code) => process.exit(code),
): Interrupt {
  const controller = new AbortController()
  const onSignal = () => {
    if (controller.signal.aborted) return leave(EXIT.interrupted)
    say('Interrupted: closing the team. Ctrl-C again leaves at once.\n')
    controller.abort(new Error('interrupted from the keyboard'))
  }
  process.on('SIGINT', onSignal)
  return { signal: controller.signal, stop: () => void process.off('SIGINT', onSignal) }
}

/** Resolves to the exit code of the work, which Ctrl-C aborts. Work that fails then was interrupted. */
export async function untilInterrupt(
  say: (text: string) => void,
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const { signal, stop } = listenForInterrupt(say)
  try {
    return await work(signal)
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
  }
}
