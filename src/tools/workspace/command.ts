/** A command of the allow-list, run in the workspace: what is checked before, and what is said of it afterwards. */

import { delimiter, join } from 'node:path'
import { ConfigurationError, shown, ToolFailedError, ToolInputError, ToolTimeoutError } from '../../errors.ts'
import { own } from '../../own.ts'
import { confineArguments } from './confine-arguments.ts'
import { findProgram, safePath } from './find-program.ts'
import { pathNames } from './path-names.ts'
import { type Ended, runProgram } from './process-group.ts'
import type { Root } from './root.ts'

export interface Call {
  command: string
  args: string[]
  cwd: string
}

// many machines have the second name alone
const alsoCalled: Record<string, string> = { python: 'python3', pip: 'pip3' }

/** @throws ConfigurationError for what is no list of plain names. */
export function checkAllowed(allow: unknown): string[] {
  const plain = (name: unknown) => typeof name === 'string' && /^[a-z\d_][a-z\d_.+-]*$/i.test(name)
  if (Array.isArray(allow) && allow.every(plain)) return [...allow]
  const message = `workspace: allow must be a list of names of programs, such as "python", and is ${shown(allow)}. Paths are not possible: a program is looked for on PATH.`
  throw new ConfigurationError(message, { path: 'allow' })
}

const LONGEST_ARGUMENTS = 128 * 1024 // characters, of all together

/** Runs it and says how it ended and what it printed; a failed command is no error, since the model has to read why. */
export async function runAllowed(
  root: Root,
  allow: string[],
  { command, args, cwd }: Call,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string> {
  if (!allow.includes(command)) throw notAllowed(command, allow)
  const length = args.reduce((sum, arg) => sum + arg.length, 0)
  if (length > LONGEST_ARGUMENTS) throw tooLong(command, length)
  const real = await root.real()
  const folders = await safePath(process.env.PATH ?? '', real)
  const file = (await findProgram(command, folders, real)) ?? (await findAlias(command, folders, real))
  if (file === undefined) throw notThere(command)
  const ended = await root.folder(cwd, async (folder) => {
    await confineArguments(command, args, join(real, ...pathNames(cwd, real)), real)
    signal.throwIfAborted()
    const env = environment(folders, real)
    return runProgram({ file, args, cwd: folder.path, env, timeoutMs, signal })
  })
  signal.throwIfAborted()
  if (ended.timedOut) throw timedOut(command, timeoutMs, ended)
  const how = ended.signal === null ? `exit code ${ended.code}` : `ended by ${ended.signal}`
  return `${how}\n${ended.output === '' ? '(no output)' : ended.output}`
}

async function findAlias(command: string, folders: string[], root: string): Promise<string | undefined> {
  const other = own(alsoCalled, command)
  return other === undefined ? undefined : findProgram(other, folders, root)
}

/** None of the host's variables but what finds programs: the host's environment holds keys. */
function environment(folders: string[], home: string): Record<string, string> {
  const env = { PATH: folders.join(delimiter), HOME: home, LANG: 'C.UTF-8' }
  const system = process.env.SystemRoot // no program of Windows starts without it
  return system === undefined ? env : { ...env, SystemRoot: system, USERPROFILE: home }
}

function notAllowed(command: string, allow: string[]): ToolInputError {
  const known = allow.length === 0 ? 'None is' : `Allowed: ${allow.join(', ')}`
  const message = `The command ${shown(command)} is not allowed. ${known}; arguments go into args, and there is no shell.`
  return new ToolInputError(message, { command, allow })
}

function tooLong(command: string, length: number): ToolInputError {
  const message = `The arguments for "${command}" have ${length} characters, and at most ${LONGEST_ARGUMENTS} are possible. Write them into a file.`
  return new ToolInputError(message, { command, length, limit: LONGEST_ARGUMENTS })
}

function notThere(command: string): ToolFailedError {
  const message = `The command "${command}" is not installed: no folder of the host's PATH outside of the workspace has it.`
  return new ToolFailedError(message, { command })
}

function timedOut(command: string, timeoutMs: number, { output }: Ended): ToolTimeoutError {
  const printed = output === '' ? 'It printed nothing.' : `It printed:\n${output}`
  const message = `The command "${command}" did not end within ${timeoutMs} ms and was killed. ${printed}`
  return new ToolTimeoutError(message, { command, timeoutMs })
}
