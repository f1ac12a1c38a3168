/** Resolves an agent's module: every form in which a role may name it becomes one that a thread can import. */
import { statSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, isAbsolute, posix } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { reading, refused } from '../checks/refused.ts'

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
  if (RELATIVE.test(module)) throw refused(path, module, ACCEPTED, relativeAdvice(module))
  if (!PACKAGE.test(module)) throw refused(path, module, ACCEPTED)
  return module
}

/**
 * Returns the folder from which packages are resolved: that of the file, or the path itself if it is a folder. Throws
 * if it can be neither.
 */
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

function relativeAdvice(module: string): string {
  return `Relative to what? Write new URL(${JSON.stringify(module)}, import.meta.url).`
}

/** Returns a URL for a message: without its content (data:), query and password. */
function withoutBody(href: string): string {
  if (!URL.canParse(href)) return href
  const { protocol, host, pathname } = new URL(href)
  return host === '' ? `${protocol}...` : `${protocol}//${host}${pathname}`
}
