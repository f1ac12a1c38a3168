/** The tools that work in one folder of the machine: files, and programs from an allow-list. */
import { z } from 'zod'
import { defineTool, type Tool } from '../actors/definition/tool.ts'
import { shown } from '../shared/errors.ts'
import { checkAllowed, checkWritable, type Permitted, runAllowed } from './command.ts'
import { LARGEST_READ, LARGEST_WRITE, listFolder, MOST_ENTRIES, readText, writeText } from './files.ts'
import { Root, wrongOption } from './folder.ts'

const FILE_TIMEOUT_MS = 30_000
const COMMAND_TIMEOUT_MS = 120_000
const LONGEST_COMMAND_MS = 60 * 60_000
const KILLING_MS = 5_000 // it takes a moment until a command that is too late is gone
const DEFAULT_ROOT = 'workspace'
const DEFAULT_ALLOW = ['python', 'pytest', 'ruff', 'pip']

const path = z.string().min(1).max(1_024)
const place = 'relative to the workspace, with "/" between the names'

/** Options of `workspace`. */
export interface WorkspaceOptions {
  /** The folder, absolute or relative to the current one; it is made when it is first used. It cannot be `/`. */
  root: string
  /** Names of the programs that `run_cmd` may start; `['python', 'pytest', 'ruff', 'pip']`. */
  allow?: readonly string[]
  /** Other folders that programs may write in, such as the virtual environment that `pip` installs into. */
  writable?: readonly string[]
  /** How long one command may run, in ms; 120,000, at most one hour. */
  timeoutMs?: number
}

/**
 * The tools `write_file`, `read_file`, `list_dir` and `run_cmd`, all in the folder `root`.
 *
 * **Files.** A path leads down from `root`: no `..`, no absolute path elsewhere, no symbolic link (also none that stays
 * inside), no device, FIFO or socket; a file with a second name (hard link) is not read. On Linux that holds against
 * links and folders that are exchanged at the same moment; on other platforms what was exchanged is noticed before
 * anything is read or written, and an empty file can be left where the exchanged folder led. Text is UTF-8; up to 256
 * KiB are read, 1 MiB written (all of it or nothing), 1,000 entries listed.
 *
 * **Commands.** The program's name is on the allow-list and is looked for on the host's PATH, never in the workspace;
 * `python` and `pip` may be `python3` and `pip3`. No shell sees the arguments, and none may name a place outside of the
 * workspace. The environment is PATH, HOME (the workspace) and LANG, and on Linux TMPDIR. Of the output the first and
 * the last 16 KiB are kept. At the deadline, or when the call is aborted, its process group gets SIGTERM, and SIGKILL
 * 2 s later.
 *
 * **What a program writes, on Linux**, lies in the workspace, in the folders of `writable`, or in a folder TMPDIR that
 * is removed when it ends, whatever its arguments and its files say. That takes Landlock (a kernel of 5.13 or newer)
 * and perl on the host's PATH. Without them, and on other systems, the check of the arguments is all there is.
 *
 * **What else a program does is not confined**: a Python script, a test or a package's installer reads and connects as
 * the host's user can, and finds the host's own environment in `/proc`. For agents that you don't trust leave
 * interpreters out of `allow`, or run the host in a container.
 *
 * @throws ConfigurationError for a root, a list or a limit that cannot work.
 * @example
 * const tools = workspace({ root: './work', allow: ['python', 'pytest'] })
 */
export function workspace(options: WorkspaceOptions): Tool[] {
  checkNames(options)
  const { root, allow = DEFAULT_ALLOW, writable = [], timeoutMs = COMMAND_TIMEOUT_MS } = options
  const folder = new Root(root)
  const allowed = checkAllowed(allow)
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > LONGEST_COMMAND_MS) {
    const message = `workspace: timeoutMs must be a whole number from 1 to ${LONGEST_COMMAND_MS}, and is ${shown(timeoutMs)}.`
    throw wrongOption('timeoutMs', message)
  }
  const permitted = { allow: allowed, writable: checkWritable(writable), timeoutMs }
  return [writeTool(folder), readTool(folder), listTool(folder), commandTool(folder, permitted)]
}

const OPTIONS: readonly string[] = ['root', 'allow', 'writable', 'timeoutMs'] satisfies (keyof WorkspaceOptions)[]

/** A list of programs under a mistyped name would leave the list of the default in force. */
function checkNames(options: unknown): void {
  if (typeof options !== 'object' || options === null)
    throw wrongOption('options', `workspace: got ${shown(options)}; accepted: { root, allow?, writable?, timeoutMs? }.`)
  const unknown = Object.keys(options).find((key) => !OPTIONS.includes(key))
  if (unknown !== undefined)
    throw wrongOption(unknown, `workspace: there is no option "${unknown}"; there are ${OPTIONS.join(', ')}.`)
}

const defaultRoot = new Root(DEFAULT_ROOT)

/** `read_file` in the folder `workspace` of the current one; see {@link workspace}. */
export const readFile: Tool<{ path: string }, string> = readTool(defaultRoot)
/** `write_file` in the folder `workspace` of the current one; see {@link workspace}. */
export const writeFile: Tool<{ path: string; content: string }, void> = writeTool(defaultRoot)
/** `run_cmd` with the default allow-list in the folder `workspace` of the current one; see {@link workspace}. */
export const runCommand: Tool<{ command: string; args?: string[]; cwd?: string }, string> = commandTool(defaultRoot, {
  allow: DEFAULT_ALLOW,
  writable: [],
  timeoutMs: COMMAND_TIMEOUT_MS,
})

function ofFiles({ path }: Root) {
  return { outside: true, workspace: path, idempotent: true, timeoutMs: FILE_TIMEOUT_MS }
}

function readTool(root: Root) {
  return defineTool({
    name: 'read_file',
    description: `Reads a text file of the workspace, of at most ${LARGEST_READ} bytes.`,
    input: z.strictObject({ path: path.describe(`The file, ${place}.`) }),
    readOnly: true,
    ...ofFiles(root),
    run: ({ path }, { signal }) => readText(root, path, signal),
  })
}

function writeTool(root: Root) {
  return defineTool({
    name: 'write_file',
    description: `Writes a text file of the workspace, at most ${LARGEST_WRITE} bytes; replaces what was there and makes the folders on the way.`,
    input: z.strictObject({
      path: path.describe(`The file, ${place}.`),
      content: z.string().max(LARGEST_WRITE).describe('All of its text.'),
    }),
    sequential: true,
    ...ofFiles(root),
    run: ({ path, content }, { signal }) => writeText(root, path, content, signal),
  })
}

function listTool(root: Root) {
  return defineTool({
    name: 'list_dir',
    description: `Lists a folder of the workspace: name, type and size of at most ${MOST_ENTRIES} entries.`,
    input: z.strictObject({ path: path.default('.').describe(`The folder, ${place}.`) }),
    readOnly: true,
    ...ofFiles(root),
    run: ({ path }, { signal }) => listFolder(root, path, signal),
  })
}

function commandTool(root: Root, permitted: Permitted) {
  const { allow, timeoutMs } = permitted
  return defineTool({
    name: 'run_cmd',
    description: `Runs one of these programs in the workspace, without a shell: ${allow.join(', ')}. Answers with the exit code and what it printed.`,
    input: z.strictObject({
      command: z.string().min(1).max(64).describe('The name of the program alone.'),
      args: z.array(z.string().max(32_768)).max(256).default([]).describe('Its arguments, one by one, as they are.'),
      cwd: path.default('.').describe(`The folder to run it in, ${place}.`),
    }),
    sequential: true,
    outside: true,
    workspace: root.path,
    timeoutMs: timeoutMs + KILLING_MS,
    run: (call, { signal }) => runAllowed(root, permitted, call, signal),
  })
}
