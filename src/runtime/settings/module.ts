/** Resolves an agent's module: every form in which a role may name it becomes one that a thread can import. */

import { statSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, isAbsolute, posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AgentRole } from '../../actors/definition/role.ts'
import { reading, refused, refusedAs } from '../../shared/checks.ts'
import { shown } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'

const ACCEPTED = 'a file: URL, an absolute path, or a package ("name", "@scope/name/file")'
const PACKAGE = /^(?:@[\w-][\w.~-]*\/)?[\w-][\w.~-]*(?:\/[^\\]+)?$/
const RELATIVE = /^\.\.?(?:[\\/]|$)/
const WINDOWS_PATH = /^(?:[a-z]:[\\/]|\\\\[^\\]+\\[^\\]+)/i
const SCHEME = /^[a-z][a-z\d+.-]+:/i // at least two letters: one letter is a Windows drive

/** Returns the href of a file: URL, or a bare specifier unchanged. Throws for anything else. */
export function moduleFrom(module: unknown, path: string): string {
  const href = reading(path, () => (isUrl(module) ? module.href : undefined))
  if (href !== undefined) return fileHref(href, path)
  if (typeof module !== 'string') throw refused(path, module, ACCEPTED)
  if (posix.isAbsolute(module)) return pathToFileURL(module).href
  if (WINDOWS_PATH.test(module)) return pathToFileURL(module, { windows: true }).href
  if (isBuiltin(module)) throw refused(path, module, ACCEPTED, 'A module of Node itself is no agent.')
  if (SCHEME.test(module)) return fileHref(module, path)
  if (RELATIVE.test(module))
    throw refused(
      path,
      module,
      ACCEPTED,
      `Relative to what? Write new URL(${JSON.stringify(module)}, import.meta.url).`,
    )
  if (!PACKAGE.test(module)) throw refused(path, module, ACCEPTED)
  return module
}

/** Returns the folder from which packages are resolved: that of the file, or the path itself if it is a folder. */
export function folderFrom(file: unknown, path: string): string {
  const href = isUrl(file) ? file.href : file
  const accepted = 'a file: URL or an absolute path, as import.meta.url or __filename'
  if (typeof href !== 'string') throw refused(path, file, accepted)
  const found = isAbsolute(href) ? href : pathOf(href)
  if (found === undefined) throw refused(path, withoutBody(href), accepted)
  return statSync(found, { throwIfNoEntry: false })?.isDirectory() ? found : dirname(found)
}

function pathOf(href: string): string | undefined {
  if (!URL.canParse(href)) return undefined
  const url = new URL(href)
  if (url.protocol !== 'file:') return undefined
  try {
    return fileURLToPath(url)
  } catch {
    return undefined // a path of another system
  }
}

// Checks the field, because a test runner may have a URL class of its own.
function isUrl(value: unknown): value is { href: string } {
  return typeof value === 'object' && value !== null && 'href' in value && typeof value.href === 'string'
}

function fileHref(href: string, path: string): string {
  if (URL.canParse(href) && new URL(href).protocol === 'file:') return new URL(href).href
  const advice = 'Code comes from files alone: save it as one, or make it a package.'
  throw refused(path, withoutBody(href), ACCEPTED, advice)
}

/** Returns a URL for a message: without its content (data:), query and password. */
function withoutBody(href: string): string {
  if (!URL.canParse(href)) return href
  const { protocol, host, pathname } = new URL(href)
  return host === '' ? `${protocol}...` : `${protocol}//${host}${pathname}`
}

export function checkNames(agents: readonly AgentRole[]): void {
  const first = new Map<string, number>()
  for (const [i, { name }] of agents.entries()) {
    const other = first.get(name)
    if (other !== undefined) {
      const got = `${shown(name)}, which agents[${other}] has already`
      throw refusedAs(`agents[${i}].name`, got, 'a name that no other agent has')
    }
    first.set(name, i)
  }
  for (const [i, role] of agents.entries()) checkReferences(role, `agents[${i}]`, first)
}

export function checkNewName(
  role: AgentRole,
  at: string,
  others: readonly string[],
  expected: readonly string[],
): void {
  const known = new Set(others)
  if (known.has(role.name))
    throw refusedAs(`${at}.name`, `${shown(role.name)}, which an agent has already`, 'a name that no other agent has')
  checkReferences(role, at, new Set([...others, ...expected, role.name]))
}

type Known = Pick<ReadonlySet<string>, 'has' | 'keys'>

function checkReferences(role: AgentRole, at: string, known: Known): void {
  for (const [j, name] of (role.canDelegateTo ?? []).entries()) mustExist(name, `${at}.canDelegateTo[${j}]`, known)
  for (const [j, name] of (role.canHandoffTo ?? []).entries()) mustExist(name, `${at}.canHandoffTo[${j}]`, known)
  for (const [j, name] of (role.sharedWith ?? []).entries()) mustExist(name, `${at}.sharedWith[${j}]`, known)
  if (role.escalateTo !== undefined) mustExist(role.escalateTo, `${at}.escalateTo`, known)
}

export function mustExist(name: string, path: string, known: Known): void {
  if (known.has(name)) return
  const meant = nearest(name, known.keys())
  const advice = meant === undefined ? 'Define that agent, or remove the name.' : `Did you mean "${meant}"?`
  throw refused(path, name, `an agent of this team (${[...known.keys()].join(', ')})`, advice)
}
