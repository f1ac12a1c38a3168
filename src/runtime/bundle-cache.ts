/**
 * Bundles on disk. A bundle's name has the hash of its content, so a new one never changes what another process
 * runs. Beside it lies a note of what it was made from; the bundle is good while all of that has the same content.
 */
import { randomUUID } from 'node:crypto'
import { access, constants, lstat, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join } from 'node:path'
import { type Compiled, recipe } from './bundle-compile.ts'
import { configsOf, nearestPackage } from './bundle-config.ts'
import { hashOf } from './bundle-plugin.ts'

interface Note {
  bundle: string
  /** The hash of each file, or null for one that must not be there, as it would count if it were. */
  files: Record<string, string | null>
  /** Files that must be there. */
  outside: string[]
}

/** Where bundles of an entry are kept: in its package, or in a folder of this user's if that cannot be written. */
export async function cacheFolder(entry: string): Promise<string> {
  const manifest = await nearestPackage(entry)
  if (manifest) {
    const folder = join(dirname(manifest), 'node_modules', '.cache', 'dramatis')
    try {
      await mkdir(folder, { recursive: true })
      await access(folder, constants.W_OK)
      return folder
    } catch {} // a read-only file system, or somebody else's
  }
  return temporaryFolder()
}

/** The name under which the note of an entry is kept. */
export function cacheKey(entry: string, api: string): string {
  const name = basename(entry, extname(entry)).replaceAll(/[^\w.-]/g, '_')
  return `${name.slice(0, 40)}-${hashOf(`${recipe(api)}\n${entry}`).slice(0, 16)}`
}

/** The path of the kept bundle, or undefined if there is none or anything that it was made from has changed. */
export async function cached(folder: string, key: string): Promise<string | undefined> {
  const note = await noteIn(join(folder, `${key}.json`))
  if (!note) return undefined
  const path = join(folder, note.bundle)
  const same = Object.entries(note.files).map(async ([file, hash]) => (await hashOfFile(file)) === hash)
  const there = [path, `${path}.map`, ...note.outside].map(exists)
  return (await Promise.all([...same, ...there])).every(Boolean) ? path : undefined
}

/** Writes a bundle and returns its path. It is found again if it is known when it gets out of date. */
export async function store(folder: string, key: string, bundle: Compiled): Promise<string> {
  const { code, map, inputs, outside, closed } = bundle
  const name = `${key}-${hashOf(code + map).slice(0, 16)}.mjs`
  const path = join(folder, name)
  await replace(`${path}.map`, map)
  await replace(path, `${code}//# sourceMappingURL=${name}.map\n`)
  if (!closed) return path
  const files: Note['files'] = Object.fromEntries(inputs)
  for (const file of await configsOf(inputs.keys(), outside)) files[file] ??= await hashOfFile(file)
  const note: Note = { bundle: name, files, outside: [...outside] }
  await replace(join(folder, `${key}.json`), JSON.stringify(note))
  return path
}

/** Nobody ever sees half a file: it is written under another name, then moved. */
async function replace(path: string, content: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`
  try {
    await writeFile(draft, content)
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    // Windows moves nothing onto a file that someone reads; they read the same
    if (!(await exists(path))) throw error
  }
}

/** Others may write to the system's folder, and code from this one is run: it must be ours alone. */
async function temporaryFolder(): Promise<string> {
  const user = process.getuid?.()
  const folder = join(tmpdir(), `dramatis-${user ?? 'cache'}`)
  await mkdir(folder, { mode: 0o700 }).catch(() => undefined)
  const found = await lstat(folder).catch(() => undefined)
  const ours = user === undefined || (found?.uid === user && (found.mode & 0o022) === 0)
  return found?.isDirectory() && ours ? folder : mkdtemp(join(tmpdir(), 'dramatis-'))
}

async function noteIn(path: string): Promise<Note | undefined> {
  try {
    const note: unknown = JSON.parse(await readFile(path, 'utf8'))
    return isNote(note) ? note : undefined
  } catch {
    return undefined // absent, or not ours: the next bundle replaces it
  }
}

function isNote(note: unknown): note is Note {
  if (typeof note !== 'object' || note === null || !('bundle' in note && 'files' in note && 'outside' in note))
    return false
  return typeof note.bundle === 'string' && typeof note.files === 'object' && Array.isArray(note.outside)
}

async function hashOfFile(path: string): Promise<string | null> {
  return readFile(path).then(hashOf, () => null)
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
