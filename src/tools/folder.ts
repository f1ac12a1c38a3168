/**
 * A folder of the workspace, reached from the root name by name, without following a symbolic link.
 *
 * On Linux a folder is held open, and what is in it is named through its descriptor (`/proc/self/fd/7/name`, what
 * `openat` is elsewhere): whatever is moved or linked meanwhile, the way leads nowhere else. On other platforms a
 * folder is a path; `holds` looks once more, after a file was opened, whether it is the one that lies there.
 */

import { Buffer } from 'node:buffer'
import { constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, realpath, stat } from 'node:fs/promises'
import { isAbsolute, join, parse, relative, resolve, sep } from 'node:path'
import { ConfigurationError, shown, ToolFailedError, ToolInputError } from '../shared/errors.ts'
import { own } from '../shared/values.ts'

// a platform that lacks a flag has nothing for it to do
const { O_RDONLY, O_DIRECTORY = 0, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
const AS_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK

/** For a file: a FIFO does not keep its opener waiting, and a link is not followed. */
export const AS_FILE = O_NOFOLLOW | O_NONBLOCK

const descriptors = process.platform === 'linux'

export class Folder {
  /** Path of this folder: through its descriptor, or its own path. */
  readonly path: string
  readonly #root: string
  readonly #handle: FileHandle | undefined

  private constructor(root: string, path: string, handle?: FileHandle) {
    this.path = path
    this.#root = root
    this.#handle = handle
  }

  /** The root itself. `held`: by descriptors. Close it. */
  static async root(root: string, held: boolean = descriptors): Promise<Folder> {
    return Folder.#open(root, root, held)
  }

  static async #open(root: string, path: string, held: boolean): Promise<Folder> {
    if (!held) {
      const found = await lstat(path)
      if (!found.isDirectory()) throw Object.assign(new Error('not a folder'), { code: 'ENOTDIR' })
      return new Folder(root, path)
    }
    const handle = await open(path, AS_FOLDER)
    return new Folder(root, `/proc/self/fd/${handle.fd}`, handle)
  }

  at(name: string): string {
    return join(this.path, name)
  }

  /** Goes down by these names; only the last folder stays open. `create`: makes folders that are missing. */
  async down(names: string[], create = false): Promise<Folder> {
    let here: Folder = this
    for (const name of names) {
      const above = here
      try {
        if (create) await mkdir(above.at(name)).catch(unlessThere)
        here = await Folder.#open(this.#root, above.at(name), this.#handle !== undefined)
      } finally {
        await above.close()
      }
    }
    return here
  }

  /** Throws unless the open file is what that name of this folder means, inside of the workspace. */
  async holds(handle: FileHandle, name: string): Promise<void> {
    if (this.#handle) return // it was opened through the descriptor
    const real = await realpath(this.at(name))
    const [there, opened] = await Promise.all([stat(real, { bigint: true }), handle.stat({ bigint: true })])
    if (isInside(real, this.#root) && there.dev === opened.dev && there.ino === opened.ino) return
    throw new ToolInputError(`${JSON.stringify(name)} was exchanged while it was opened. Try again.`, { name })
  }

  async close(): Promise<void> {
    await this.#handle?.close()
  }
}

/** True if `path` is `root` or below it; both are real paths. */
export function isInside(path: string, root: string): boolean {
  const way = relative(root, path)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}

/*
 * A path as a model wrote it, taken apart into the names that lead down from the workspace's root. What could lead
 * elsewhere is refused by its form, the same on every platform; what a name turns out to be is the folder's matter.
 */

const MOST_NAMES = 40
const LONGEST_NAME = 255 // bytes, of most file systems

type Rule = readonly [breaks: RegExp, why: string]

const ofPaths = (): readonly Rule[] => [
  [/[\p{Cc}\p{Cs}]/u, 'it has a control character'],
  [/\\/, 'it has a backslash; folders are separated by "/"'],
  [/^~(?:\/|$)/, 'the home folder is not in the workspace'],
  [/^[a-z]:/i, 'it begins with a drive'],
  [/^[a-z][a-z\d+.-]*:\/\//i, 'it is a URL'],
  [/^\//, 'it is absolute, and not below the workspace'],
  [/(?:^|\/)\.\.(?:\/|$)/, 'it has ".."'],
]
// Windows drops a dot or a space at the end, so that "... " can be another name than it looks
const ofNames: readonly Rule[] = [[/[. ]$/, 'one of its names ends in a dot or a space']]
const ofWindows: readonly Rule[] = [
  ...ofNames,
  [/[:<>"|?*]/, 'one of its names has a character that Windows does not allow'],
  [/^(?:con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])(?:\.|$)/i, 'one of its names is a device of Windows'],
]

/**
 * The names on the way from `root` (a real path) to what `path` means; none for the root itself.
 *
 * @throws ToolInputError when the path could mean anything that is not below the root.
 */
export function pathNames(path: string, root: string, platform: string = process.platform): string[] {
  const below = path === root || path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path
  refuse(path, brokenBy(below, ofPaths()))
  const names = below.split('/').filter((name) => name !== '' && name !== '.')
  const rules = platform === 'win32' ? ofWindows : ofNames
  for (const name of names) {
    refuse(path, brokenBy(name, rules))
    if (Buffer.byteLength(name) > LONGEST_NAME) refuse(path, `one of its names is longer than ${LONGEST_NAME} bytes`)
  }
  if (names.length > MOST_NAMES) refuse(path, `it is more than ${MOST_NAMES} folders deep`)
  return names
}

function brokenBy(text: string, rules: readonly Rule[]): string | undefined {
  return rules.find(([breaks]) => breaks.test(text))?.[1]
}

function refuse(path: string, why: string | undefined): void {
  if (why === undefined) return
  const shown = JSON.stringify(path.length > 100 ? `${path.slice(0, 100)}...` : path)
  const message = `The path ${shown} is refused: ${why}. Give a path below the workspace, such as "src/main.py".`
  throw new ToolInputError(message, { path, why })
}

export class Root {
  /** The path as it was given. */
  readonly path: string
  readonly #held: boolean | undefined
  #real: Promise<string> | undefined

  /**
   * @param given a path; what is relative is so to the current folder when the root is first used.
   * @param held as `Folder.root` has it.
   */
  constructor(given: unknown, held?: boolean) {
    if (typeof given !== 'string' || given === '' || given.includes('\0')) {
      throw wrongOption('root', `workspace: root must be the path of a folder, and is ${shown(given)}.`)
    }
    if (resolve(given) === parse(resolve(given)).root) {
      throw wrongOption('root', `workspace: root is ${shown(given)}, the whole machine. Give a folder of its own.`)
    }
    this.path = given
    this.#held = held
  }

  /** Returns the real path. Makes the folder if it is missing. */
  async real(): Promise<string> {
    const path = resolve(this.path)
    this.#real ??= mkdir(path, { recursive: true }).then(() => realpath(path))
    return this.#real.catch((error) => {
      this.#real = undefined // the next call tries again
      throw error
    })
  }

  /** Calls `use` with the folder that `path` means. */
  async folder<T>(path: string, use: (folder: Folder) => Promise<T>): Promise<T> {
    return this.#walk(path, pathNames(path, await this.real()), false, use)
  }

  /** Calls `use` with the folder in which `path` lies, and its name there. */
  async parent<T>(path: string, use: (folder: Folder, name: string) => Promise<T>, create = false): Promise<T> {
    const names = pathNames(path, await this.real())
    const name = names.pop()
    return this.#walk(path, names, create, (folder) => {
      if (name !== undefined) return use(folder, name)
      throw new ToolInputError(`The path ${shown(path)} is the workspace itself, and no file.`, { path })
    })
  }

  async #walk<T>(path: string, names: string[], create: boolean, use: (folder: Folder) => Promise<T>): Promise<T> {
    try {
      const root = await Folder.root(await this.real(), this.#held)
      const folder = await root.down(names, create)
      try {
        return await use(folder)
      } finally {
        await folder.close()
      }
    } catch (error) {
      throw explained(error, path)
    }
  }
}

export function wrongOption(path: string, message: string): ConfigurationError {
  return new ConfigurationError(message, { path })
}

const reasons: Record<string, string> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of it is no folder; symbolic links are not followed, also not inside of the workspace',
  ELOOP: 'it is a symbolic link, and those are not followed, also not inside of the workspace',
  EISDIR: 'it is a folder',
  EACCES: 'the system does not permit it',
  EPERM: 'the system does not permit it',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  ENAMETOOLONG: 'it is too long for the file system',
  ENXIO: 'it is no regular file',
}

/** Describes an error code of the system in words that a model can act on. */
function explained(error: unknown, path: string): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const reason = own(reasons, code)
  if (reason === undefined) return error
  return new ToolFailedError(`The path ${shown(path)} cannot be used: ${reason}.`, { path, code }, error)
}
