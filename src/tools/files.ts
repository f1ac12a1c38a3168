/** Reads, writes and lists files and folders of the workspace, each within a bound. */
import { randomUUID } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir, rename, unlink } from 'node:fs/promises'
import { ToolFailedError } from '../shared/errors.ts'
import { AS_FILE, type Folder, type Root } from './folder.ts'

/** Bytes of a file that is read. */
export const LARGEST_READ = 256 * 1024
/** Bytes of a file that is written. */
export const LARGEST_WRITE = 1024 * 1024
/** Entries of a folder that are listed. */
export const MOST_ENTRIES = 1_000

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = constants

export interface Entry {
  name: string
  /** 'link': a symbolic link, which nothing here follows. 'other': a device, a FIFO, a socket. */
  type: 'file' | 'folder' | 'link' | 'other'
  /** Bytes, of a file. */
  size?: number
}

/**
 * The text of a file. Throws for what is no text, for more than `LARGEST_READ` bytes, and for what is no regular file.
 */
export async function readText(root: Root, path: string, signal: AbortSignal): Promise<string> {
  return root.parent(path, async (folder, name) => {
    checkReadable(await lstat(folder.at(name)), path) // before it is opened: that alone moves some devices
    signal.throwIfAborted()
    const handle = await open(folder.at(name), O_RDONLY | AS_FILE)
    try {
      checkReadable(await handle.stat(), path)
      await folder.holds(handle, name)
      return textOf(await readUpTo(handle, LARGEST_READ + 1), path)
    } finally {
      await handle.close()
    }
  })
}

/** Writes all of a file or nothing, in place of what was there; makes the folders on the way. */
export async function writeText(root: Root, path: string, content: string, signal: AbortSignal): Promise<void> {
  const bytes = Buffer.from(content)
  if (bytes.length > LARGEST_WRITE) throw tooLarge(path, bytes.length, LARGEST_WRITE)
  await root.parent(
    path,
    async (folder, name) => {
      const before = await lstat(folder.at(name)).catch(unlessMissing)
      if (before && !before.isFile()) throw notRegular(path, before)
      signal.throwIfAborted()
      // a new file with the old one's name: no reader sees half of it, and other names of the old one keep what they
      // had
      const draft = `.${randomUUID()}.tmp`
      const handle = await open(folder.at(draft), O_WRONLY | O_CREAT | O_EXCL | AS_FILE, 0o666)
      try {
        await folder.holds(handle, draft)
        if (before) await handle.chmod(before.mode & 0o777)
        await handle.writeFile(bytes)
        await handle.close()
        await rename(folder.at(draft), folder.at(name))
      } catch (error) {
        await handle.close()
        await unlink(folder.at(draft)).catch(() => {}) // what failed says more than what is left
        throw error
      }
    },
    true,
  )
}

/** Lists a folder, by name. `more`: there are more than `MOST_ENTRIES`. */
export async function listFolder(
  root: Root,
  path: string,
  signal: AbortSignal,
): Promise<{ entries: Entry[]; more: boolean }> {
  return root.folder(path, async (folder) => {
    const names: string[] = []
    for await (const { name } of await opendir(folder.path)) {
      signal.throwIfAborted()
      if (names.length > MOST_ENTRIES) break
      names.push(name)
    }
    const listed = names.slice(0, MOST_ENTRIES).sort()
    const entries = await Promise.all(listed.map((name) => entryOf(folder, name)))
    return { entries: entries.filter((entry) => entry !== undefined), more: names.length > MOST_ENTRIES }
  })
}

async function entryOf(folder: Folder, name: string): Promise<Entry | undefined> {
  const found = await lstat(folder.at(name)).catch(unlessMissing)
  if (!found) return undefined // gone meanwhile
  if (found.isFile()) return { name, type: 'file', size: found.size }
  return { name, type: typeOf(found) }
}

function typeOf(found: Stats): Entry['type'] {
  if (found.isFile()) return 'file'
  if (found.isDirectory()) return 'folder'
  return found.isSymbolicLink() ? 'link' : 'other'
}

function checkReadable(found: Stats, path: string): void {
  if (!found.isFile()) throw notRegular(path, found)
  if (found.nlink > 1) {
    const why = `has ${found.nlink} names (hard links), and one of them could lie outside of the workspace`
    throw new ToolFailedError(`The file ${JSON.stringify(path)} ${why}. Copy it to a name of its own.`, { path })
  }
  if (found.size > LARGEST_READ) throw tooLarge(path, found.size, LARGEST_READ)
}

/** Not by the size that it claims: a file can grow while it is read. */
async function readUpTo(handle: FileHandle, most: number): Promise<Buffer> {
  const bytes = Buffer.alloc(most)
  let length = 0
  while (length < most) {
    const { bytesRead } = await handle.read(bytes, length, most - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return bytes.subarray(0, length)
}

function textOf(bytes: Buffer, path: string): string {
  if (bytes.length > LARGEST_READ) throw tooLarge(path, bytes.length, LARGEST_READ)
  try {
    if (!bytes.includes(0)) return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    // no UTF-8
  }
  throw new ToolFailedError(`The file ${JSON.stringify(path)} is binary (${bytes.length} bytes), and no UTF-8 text.`, {
    path,
    bytes: bytes.length,
  })
}

const words = { file: 'a file', folder: 'a folder', link: 'a symbolic link, which is not followed', other: 'no file' }

function notRegular(path: string, found: Stats): ToolFailedError {
  const type = typeOf(found)
  return new ToolFailedError(`The path ${JSON.stringify(path)} is ${words[type]}. Give a regular file.`, { path, type })
}

function tooLarge(path: string, bytes: number, limit: number): ToolFailedError {
  const message = `The file ${JSON.stringify(path)} has ${bytes} bytes or more; at most ${limit} are possible. Use parts of it.`
  return new ToolFailedError(message, { path, bytes, limit })
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
