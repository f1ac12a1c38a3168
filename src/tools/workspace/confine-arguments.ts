/**
 * Looks at the arguments of a command for what names a place outside of the workspace: an absolute path, "..", a link
 * that leads out, a file: URL. This is about what is written there, so that a linter or a package installer is not
 * pointed elsewhere; what an interpreter does with a script of the workspace is not confined by it.
 */

import { lstat, readdir, realpath } from 'node:fs/promises'
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
