/**
 * Looks at the arguments of a command for what names a place outside of the workspace: an absolute path, "..", a link
 * that leads out, a file: URL. This is about what is written there, so that a linter or a package installer is not
 * pointed elsewhere; what an interpreter does with a script of the workspace is not confined by it.
 */

import { lstat, realpath } from 'node:fs/promises'
import { dirname, isAbsolute, resolve } from 'node:path'
import { ToolInputError } from '../../errors.ts'
import { own } from '../../own.ts'
import { isInside } from './folder.ts'

// the argument after one of these is a program's text
const codeAfter: Record<string, string[]> = {
  python: ['-c'],
  python3: ['-c'],
  node: ['-e', '--eval', '-p', '--print'],
}
// pip percent-decodes them, so that they can say ".." without two dots
const FILE_URL = /(?<![a-z\d])(?:[a-z\d]+\+)?file:/i
const OTHER_URL = /(?<![a-z\d+.-])[a-z][a-z\d+.-]*:\/\/\S*/gi

/**
 * @param cwd the real path of the folder in which the command is going to run.
 * @throws ToolInputError that names the argument.
 */
export async function confineArguments(command: string, args: string[], cwd: string, root: string): Promise<void> {
  const code = args.findIndex((arg) => own(codeAfter, command)?.includes(arg)) + 1
  for (const [index, arg] of args.entries()) {
    if (arg.includes('\0')) throw refused(arg, 'it has a NUL character')
    if (code > 0 && index === code) continue
    const why = await leadsOut(arg, cwd, root)
    if (why !== undefined) throw refused(arg, why)
  }
}

async function leadsOut(arg: string, cwd: string, root: string): Promise<string | undefined> {
  if (FILE_URL.test(arg)) return 'file: URLs are not possible'
  for (const part of partsOf(arg)) {
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
  const lists = arg.replaceAll(OTHER_URL, '').split(/[=,;:]/) // what follows a URL's colon is no path
  const parts = [arg, attached, ...arg.split(/[=,;]/), ...lists].map((part) => part.trim().replace(/^@/, ''))
  return new Set(parts.filter((part) => part !== ''))
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
    return (await isLink(path)) ? undefined : existing(above) // what it writes to a dangling link is made elsewhere
  }
}

function isLink(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isSymbolicLink(),
    () => false,
  )
}

function refused(arg: string, why: string): ToolInputError {
  const shown = JSON.stringify(arg.length > 100 ? `${arg.slice(0, 100)}...` : arg)
  const message = `The argument ${shown} is refused: ${why}. Name what is in the workspace, by a relative path.`
  return new ToolInputError(message, { argument: arg, why })
}
