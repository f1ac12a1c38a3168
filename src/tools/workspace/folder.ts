/**
 * A folder of the workspace, reached from the root name by name, without following a symbolic link.
 *
 * On Linux a folder is held open, and what is in it is named through its descriptor (`/proc/self/fd/7/name`, what
 * `openat` is elsewhere): whatever is moved or linked meanwhile, the way leads nowhere else. On other platforms a
 * folder is a path; `holds` looks once more, after a file was opened, whether it is the one that lies there.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, realpath, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import { ToolInputError } from '../../errors.ts'

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

  /** Returns the path of that name in this folder. */
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
