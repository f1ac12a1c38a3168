/** The workspace's root: made when it is first used, and then the same folder for as long as the process lives. */

import { mkdir, realpath } from 'node:fs/promises'
import { parse, resolve } from 'node:path'
import { ConfigurationError, shown, ToolFailedError, ToolInputError } from '../../errors.ts'
import { own } from '../../own.ts'
import { Folder } from './folder.ts'
import { pathNames } from './path-names.ts'

export class Root {
  readonly #given: string
  readonly #held: boolean | undefined
  #real: Promise<string> | undefined

  /**
   * @param given a path; what is relative is so to the current folder when the root is first used.
   * @param held as `Folder.root` has it.
   */
  constructor(given: unknown, held?: boolean) {
    if (typeof given !== 'string' || given === '' || given.includes('\0')) {
      const message = `workspace: root must be the path of a folder, and is ${shown(given)}.`
      throw new ConfigurationError(message, { path: 'root' })
    }
    if (resolve(given) === parse(resolve(given)).root) {
      const message = `workspace: root is ${shown(given)}, the whole machine. Give a folder of its own.`
      throw new ConfigurationError(message, { path: 'root' })
    }
    this.#given = given
    this.#held = held
  }

  /** The path as it was given. */
  get path(): string {
    return this.#given
  }

  /** Returns the real path. Makes the folder if it is missing. */
  async real(): Promise<string> {
    this.#real ??= makeFolder(resolve(this.#given))
    return this.#real.catch((error) => {
      this.#real = undefined // the next call tries again
      throw error
    })
  }

  /** The folder that `path` means. */
  async folder<T>(path: string, use: (folder: Folder) => Promise<T>, create = false): Promise<T> {
    return this.#walk(path, (names) => names, create, use)
  }

  /** The folder in which `path` lies, and its name there. */
  async parent<T>(path: string, use: (folder: Folder, name: string) => Promise<T>, create = false): Promise<T> {
    return this.#walk(
      path,
      (names) => names.slice(0, -1),
      create,
      (folder, names) => {
        const name = names.at(-1)
        if (name !== undefined) return use(folder, name)
        throw new ToolInputError(`The path ${shown(path)} is the workspace itself, and no file.`, { path })
      },
    )
  }

  async #walk<T>(
    path: string,
    way: (names: string[]) => string[],
    create: boolean,
    use: (folder: Folder, names: string[]) => Promise<T>,
  ): Promise<T> {
    const real = await this.real()
    const names = pathNames(path, real)
    try {
      const root = await Folder.root(real, this.#held)
      const folder = await root.down(way(names), create)
      try {
        return await use(folder, names)
      } finally {
        await folder.close()
      }
    } catch (error) {
      throw explained(error, path)
    }
  }
}

async function makeFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true })
  return realpath(path)
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
