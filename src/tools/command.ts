/** A command of the allow-list, run in the workspace: what is checked before, and what is said of it afterwards. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { access, lstat, mkdtemp, readdir, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path'
import { systemClock } from '../shared/clock.ts'
import { shown, ToolFailedError, ToolInputError, ToolTimeoutError } from '../shared/errors.ts'
import { onAbort } from '../shared/on-abort.ts'
import { own } from '../shared/values.ts'
import { isInside, pathNames, type Root, wrongOption } from './folder.ts'
import { BoundedOutput } from './options.ts'

/*
 * Looks at the arguments of a command for what names a place outside of the workspace: an absolute path, "..", a link
 * that leads out, a file: URL. This is about what is written there, so that a linter or a package installer is not
 * pointed elsewhere; what an interpreter does with a script of the workspace is not confined by it.
 */

// the argument after one of these is a program's text
const codeAfter: Record<string, string[]> = {
  python: ['-c'],
  python3: ['-c'],
  node: ['-e', '--eval', '-p', '--print'],
}
// pip percent-decodes them, so that they can say ".." without two dots
const FILE_URL = /(?<![a-z\d])(?:[a-z\d]+\+)?file:/i
const APART = 'Write each option, and each value, as an argument of its own'
const LONGEST_NAME = 255 // bytes of one name of a path, on the file systems that there are
const OTHER_URL = /(?<![a-z\d+.-])[a-z][a-z\d+.-]*:\/\/\S*/gi

/**
 * @param cwd the real path of the folder in which the command is going to run.
 * @throws ToolInputError that names the argument.
 */
export async function confineArguments(command: string, args: string[], cwd: string, root: string): Promise<void> {
  const code = args.findIndex((arg) => own(codeAfter, command)?.includes(arg)) + 1
  const names = new Set(await readdir(cwd))
  for (const [index, arg] of args.entries()) {
    if (arg.includes('\0')) throw refused(arg, 'it has a NUL character')
    if (code > 0 && index === code) continue
    if (FILE_URL.test(arg)) throw refused(arg, 'file: URLs are not possible')
    const why = await leadsOut(partsOf(arg), cwd, root)
    if (why !== undefined) throw refused(arg, why)
    const inGroups = listIn(arg).flatMap((part) => pathsInGroup(part, names))
    const grouped = await leadsOut(inGroups, cwd, root)
    if (grouped !== undefined)
      throw refused(arg, `of what may be the value of one of its options, ${grouped}. ${APART}`)
  }
}

async function leadsOut(parts: Iterable<string>, cwd: string, root: string): Promise<string | undefined> {
  for (const part of parts) {
    if (part.startsWith('~')) return 'the home folder is not in the workspace'
    if (part.split(/[\\/]/).includes('..')) return 'it has ".."'
    if (isRooted(part) && !isInside(resolve(part), root)) return 'it leads out of the workspace'
    const real = await existing(resolve(cwd, part))
    if (real === undefined || !isInside(real, root)) return 'a symbolic link leads out of the workspace'
  }
  return undefined
}

/** Everything in an argument that could be taken for a path: `--config=/a`, `-r/a`, `@/a`, `x,/a`, `name:/a`. */
function partsOf(arg: string): Set<string> {
  const attached = /^-[a-z\d](.+)$/is.exec(arg)?.[1] ?? ''
  const parts = [arg, attached, ...arg.split(/[=,;]/), ...listIn(arg)].map((part) => part.trim().replace(/^@/, ''))
  return new Set(parts.filter((part) => part !== ''))
}

/** Splits a list. Behind the colon of a URL there is no path. */
const listIn = (arg: string): string[] => arg.replaceAll(OTHER_URL, '').split(/[=,;:]/)

/**
 * Returns what else could be a path in a group of short options: `-uo/a` is `-u -o /a` to some programs, and `-u o/a`
 * to others. So a path may begin at the first "/", with "..", and with each name that there is in the folder.
 */
function pathsInGroup(part: string, names: ReadonlySet<string>): string[] {
  const group = /^-([^-].+)$/s.exec(part)?.[1]
  if (group === undefined) return []
  const slash = group.search(/[\\/]/)
  const nameEnd = slash < 0 ? group.length : slash
  const isName = (text: string) => text === '..' || names.has(text)
  const starts = Array.from({ length: Math.min(nameEnd, LONGEST_NAME) }, (_, back) => nameEnd - 1 - back)
  const named = starts.filter((start) => start > 0 && isName(group.slice(start, nameEnd)))
  return [...named, ...[slash, group.indexOf('~')].filter((start) => start >= 0)].map((start) => group.slice(start))
}

function isRooted(part: string): boolean {
  return isAbsolute(part) || /^(?:[a-z]:[\\/]|\\\\)/i.test(part)
}

/** The real path of the part of a path that there is; nothing for what cannot be told. */
async function existing(path: string): Promise<string | undefined> {
  try {
    return await realpath(path)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const above = dirname(path)
    // a program's text can be longer than any path, and is none
    if (!['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(code) || above === path) return undefined
    const found = await lstat(path).catch(() => undefined)
    return found?.isSymbolicLink() ? undefined : existing(above) // what it writes to a dangling link is made elsewhere
  }
}

function refused(arg: string, why: string): ToolInputError {
  const shown = JSON.stringify(arg.length > 100 ? `${arg.slice(0, 100)}...` : arg)
  const message = `The argument ${shown} is refused: ${why}. Name what is in the workspace, by a relative path.`
  return new ToolInputError(message, { argument: arg, why })
}

/** The folders of a PATH that count: absolute ones, outside of the workspace. A relative one is where the agent is. */
export async function safePath(path: string, root: string): Promise<string[]> {
  const folders = path.split(delimiter).filter((folder) => isAbsolute(folder))
  const safe = await Promise.all(folders.map(async (folder) => !isInside(await realOf(folder), root)))
  return folders.filter((_, index) => safe[index])
}

/** The first program of that name in these folders, or nothing. */
export async function findProgram(name: string, folders: string[], root: string): Promise<string | undefined> {
  const file = process.platform === 'win32' ? `${name}.exe` : name // a .cmd would need a shell
  for (const folder of folders) {
    const candidate = join(folder, file)
    if ((await isProgram(candidate)) && !isInside(await realOf(candidate), root)) return candidate
  }
  return undefined
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

function realOf(path: string): Promise<string> {
  return realpath(path).catch(() => path)
}

/*
 * Runs a program so that it, and whatever it starts, can write in the folders alone that are named: by Landlock, which
 * Linux has since 5.13. Node cannot ask the kernel for that. Perl can, which nearly every Linux has, so it is the
 * program that starts, and the other one takes its place.
 *
 * Landlock is about contents and names of files. It does not keep a program from changing modes and times of files that
 * belong to the host's user, from reading, or from the network.
 */

/** Number of the system call prctl. Those of Landlock are the same on all machines. */
const PRCTL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 157, arm64: 167, riscv64: 167 }

/** Files that a program may write although they are in no folder of its own. */
const DEVICES = ['/dev/null', '/dev/zero', '/dev/full']

/**
 * Arguments: the number of prctl, how many paths follow, these paths, then the program. Without a program it ends well
 * if the kernel can do it. The rights are all those of include/uapi/linux/landlock.h that change files or folders, as
 * far as the kernel knows them.
 */
const SCRIPT = `
my ($prctl, $count, @rest) = @ARGV;
my $version = syscall(444, 0, 0, 1);
$version >= 1 or die "no Landlock: $!\\n";
my $rights = $version < 2 ? 0x1ff2 : $version < 3 ? 0x3ff2 : 0x7ff2;
my $attributes = pack 'Q', $rights;
my $rules = syscall(444, $attributes, 8, 0);
for my $path (splice @rest, 0, $count) {
  open my $handle, '<', $path or die "$path: $!\\n";
  my $rule = pack 'Ql', -d $handle ? $rights : $rights & 0x4002, fileno $handle;
  syscall(445, $rules, 1, $rule, 0) == 0 or die "$path: $!\\n";
}
syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!\\n";
syscall(446, $rules, 0) == 0 or die "no Landlock: $!\\n";
exit 0 unless @rest;
exec { $rest[0] } @rest or die "$rest[0]: $!\\n";
`

/** Makes of a program and its arguments those that run it where only these folders can be written. */
export type Confine = (file: string, args: string[], folders: readonly string[]) => { file: string; args: string[] }

/** Perls that were tried, by their paths: true if the kernel did it for them. */
const tried = new Map<string, Promise<boolean>>()

/** Looks for perl in the folders of a PATH. Returns undefined where the system cannot do it. */
export async function landlock(path: string[], root: string): Promise<Confine | undefined> {
  const prctl = PRCTL[process.arch]
  const perl = process.platform === 'linux' ? await findProgram('perl', path, root) : undefined
  if (prctl === undefined || perl === undefined) return undefined
  const argumentsOf = (paths: readonly string[]) => ['-e', SCRIPT, '--', `${prctl}`, `${paths.length}`, ...paths]
  const works = tried.get(perl) ?? runsInSilence(perl, argumentsOf(DEVICES))
  tried.set(perl, works)
  if (!(await works)) return undefined
  return (file, args, folders) => ({ file: perl, args: [...argumentsOf([...DEVICES, ...folders]), file, ...args] })
}

/** A perl that prints something, such as that it lacks a locale, would print it with each command. */
function runsInSilence(file: string, args: string[]): Promise<boolean> {
  const options = { env: { LANG: 'C.UTF-8' }, timeout: 10_000 }
  return new Promise((resolve) => {
    execFile(file, args, options, (error, stdout, stderr) => resolve(error === null && stdout === '' && stderr === ''))
  })
}

/*
 * Runs one program in a process group of its own, without a shell, and lets nothing of the group outlive the call: at
 * its end, at the deadline, when it is aborted, and when this process exits. On Windows there are no groups: the
 * program alone is ended. What a program moves into another group (`setsid`) is not found.
 */

const KEPT_BYTES = 16 * 1024 // of the head and of the tail of what it prints
const KILL_AFTER_MS = 2_000 // between being asked to end and being ended
const PIPES_OPEN_MS = 500 // for what is on its way in the pipes when the program has ended

interface Program {
  file: string
  args: string[]
  cwd: string
  env: Record<string, string>
  timeoutMs: number
  signal: AbortSignal
}

interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  /** Both streams, in the order in which they came. */
  output: string
  timedOut: boolean
}

const windows = process.platform === 'win32'
const running = new Set<ChildProcess>()

/** Resolves when the program has ended, by itself or not. Rejects when it cannot be started. */
function runProgram({ file, args, cwd, env, timeoutMs, signal }: Program): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const options = { cwd, env, shell: false, detached: !windows, windowsHide: true }
    const child = spawn(file, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const output = new BoundedOutput(KEPT_BYTES)
    let timedOut = false
    if (running.size === 0) process.on('exit', killAll)
    running.add(child)
    const stop = () => {
      kill(child, 'SIGTERM')
      killing ??= systemClock.timer(KILL_AFTER_MS, () => kill(child, 'SIGKILL'))
    }
    let killing: { cancel(): void } | undefined
    const deadline = systemClock.timer(timeoutMs, () => {
      timedOut = true
      stop()
    })
    const forget = onAbort(signal, stop)
    const settled = () => {
      deadline.cancel()
      killing?.cancel()
      forget()
      running.delete(child)
      if (running.size === 0) process.off('exit', killAll)
    }
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.add(chunk))
    child.on('error', (error) => {
      settled()
      reject(error)
    })
    child.on('exit', () => {
      kill(child, 'SIGKILL') // what it has left behind in its group
      const pipes = systemClock.timer(PIPES_OPEN_MS, () => {
        for (const stream of [child.stdout, child.stderr]) stream.destroy() // somebody outside the group holds them
      })
      child.on('close', () => pipes.cancel())
    })
    child.on('close', (code, by) => {
      settled()
      resolve({ code, signal: by, output: output.toString(), timedOut })
    })
    if (signal.aborted) stop()
  })
}

function kill(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    if (windows) child.kill(signal)
    else process.kill(-child.pid, signal)
  } catch {
    // nobody is left in the group
  }
}

function killAll(): void {
  for (const child of running) kill(child, 'SIGKILL')
}

// many machines have the second name alone
const alsoCalled: Record<string, string> = { python: 'python3', pip: 'pip3' }

/** @throws ConfigurationError for what is no list of plain names. */
export function checkAllowed(allow: unknown): string[] {
  const plain = (name: unknown) => typeof name === 'string' && /^[a-z\d_][a-z\d_.+-]*$/i.test(name)
  if (Array.isArray(allow) && allow.every(plain)) return [...allow]
  const message = `workspace: allow must be a list of names of programs, such as "python", and is ${shown(allow)}. Paths are not possible: a program is looked for on PATH.`
  throw wrongOption('allow', message)
}

/** @throws ConfigurationError for what is no list of paths. */
export function checkWritable(writable: unknown): string[] {
  const isPath = (path: unknown) => typeof path === 'string' && path !== '' && !path.includes('\0')
  if (Array.isArray(writable) && writable.every(isPath)) return [...writable]
  throw wrongOption('writable', `workspace: writable must be a list of paths of folders, and is ${shown(writable)}.`)
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
  { command, args, cwd }: { command: string; args: string[]; cwd: string },
  signal: AbortSignal,
): Promise<string> {
  if (!allow.includes(command)) {
    const known = allow.length === 0 ? 'None is' : `Allowed: ${allow.join(', ')}`
    const message = `The command ${shown(command)} is not allowed. ${known}; arguments go into args, and there is no shell.`
    throw new ToolInputError(message, { command, allow })
  }
  const length = args.reduce((sum, arg) => sum + arg.length, 0)
  if (length > LONGEST_ARGUMENTS) {
    const message = `The arguments for "${command}" have ${length} characters, and at most ${LONGEST_ARGUMENTS} are possible. Write them into a file.`
    throw new ToolInputError(message, { command, length, limit: LONGEST_ARGUMENTS })
  }
  const real = await root.real()
  const folders = await safePath(process.env.PATH ?? '', real)
  const other = own(alsoCalled, command)
  const file = (await findProgram(command, folders, real)) ?? (other && (await findProgram(other, folders, real)))
  const missing = `The command "${command}" is not installed: no folder of the host's PATH outside of the workspace has it.`
  if (file === undefined) throw new ToolFailedError(missing, { command })
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

/** None of the host's variables but what finds programs: the host's environment holds keys. */
function environment(folders: string[], home: string): Record<string, string> {
  const env = { PATH: folders.join(delimiter), HOME: home, LANG: 'C.UTF-8' }
  const system = process.env.SystemRoot // no program of Windows starts without it
  return system === undefined ? env : { ...env, SystemRoot: system, USERPROFILE: home }
}

function timedOut(command: string, timeoutMs: number, { output }: Ended): ToolTimeoutError {
  const printed = output === '' ? 'It printed nothing.' : `It printed:\n${output}`
  const message = `The command "${command}" did not end within ${timeoutMs} ms and was killed. ${printed}`
  return new ToolTimeoutError(message, { command, timeoutMs })
}
