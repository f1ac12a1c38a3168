/** A command of the allow-list, run in the workspace: what is checked before, and what is said of it afterwards. */

import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { ConfigurationError, shown, ToolFailedError, ToolInputError, ToolTimeoutError } from '../../errors.ts'
import { own } from '../../own.ts'
import { confineArguments } from './confine-arguments.ts'
import { findProgram, safePath } from './find-program.ts'
import { landlock } from './landlock.ts'
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

/** @throws ConfigurationError for what is no list of paths. */
export function checkWritable(writable: unknown): string[] {
  const isPath = (path: unknown) => typeof path === 'string' && path !== '' && !path.includes('\0')
  if (Array.isArray(writable) && writable.every(isPath)) return [...writable]
  const message = `workspace: writable must be a list of paths of folders, and is ${shown(writable)}.`
  throw new ConfigurationError(message, { path: 'writable' })
}

const LONGEST_ARGUMENTS = 128 * 1024 // characters, of all together

export interface Permitted {
  allow: string[]
  /** Folders that programs may write in, beside the workspace. */
  writable: readonly string[]
  timeoutMs: number
}

/** Runs it and says how it ended and what it printed; a failed command is no error, since the model has to read why. */
export async function runAllowed(
  root: Root,
  { allow, writable, timeoutMs }: Permitted,
  { command, args, cwd }: Call,
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
    const run = (program: { file: string; args: string[] }, env: Record<string, string>) => {
      signal.throwIfAborted()
      return runProgram({ ...program, cwd: folder.path, env, timeoutMs, signal })
    }
    const env = environment(folders, real)
    const confine = await landlock(folders, real)
    if (!confine) return run({ file, args }, env)
    const places = await Promise.all(writable.map(realFolder))
    return withScratch((scratch) => run(confine(file, args, [real, scratch, ...places]), { ...env, TMPDIR: scratch }))
  })
  signal.throwIfAborted()
  if (ended.timedOut) throw timedOut(command, timeoutMs, ended)
  const how = ended.signal === null ? `exit code ${ended.code}` : `ended by ${ended.signal}`
  return `${how}\n${ended.output === '' ? '(no output)' : ended.output}`
}

/** Gives a folder for temporary files that is gone afterwards: the system's own lies outside of the workspace. */
async function withScratch<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const scratch = await mkdtemp(join(await realpath(tmpdir()), 'dramatis-command-'))
  try {
    return await use(scratch)
  } finally {
    await rm(scratch, { recursive: true, force: true }).catch(() => {}) // a program that left its group may still write
  }
}

async function realFolder(path: string): Promise<string> {
  return realpath(path).catch((error) => {
    const message = `run_cmd cannot run: the folder ${shown(path)} of the option writable is not there.`
    throw new ToolFailedError(message, { path }, error)
  })
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
