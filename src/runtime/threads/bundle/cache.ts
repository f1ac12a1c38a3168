/**
 * Bundles on disk. A bundle's name has the hash of its content, so a new one never changes what another process
 * runs. Beside it lies a note of what it was made from; the bundle is good while all of that has the same content.
 * Where no folder can be written a bundle is a data: URL, which this process keeps with the same note.
 */
import { randomUUID } from 'node:crypto'
import { access, constants, lstat, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Compiled, compile, recipe } from './compile.ts'
import { configsOf, nearestPackage } from './config.ts'
import { hashOf } from './node-semantics.ts'

interface Note {
  /** The name of its file, or its data: URL; '' as long as it has none. */
  bundle: string
  /** The hash of each file, or null for one that must not be there, as it would count if it were. */
  files: Record<string, string | null>
  /** Files that must be there. */
  outside: string[]
}

/** Bundles that no folder takes, by their keys. */
const inMemory = new Map<string, Note>()

/**
 * The href of the bundle of an entry, in which `api` is what 'dramatis' means: one that is kept and up to date, else a
 * new one. It is kept in the entry's package, in a folder of this user's if that cannot be written, or in memory.
 */
export async function bundleOf(entry: string, api: string): Promise<string> {
  const key = cacheKey(entry, api)
  const home = await homeOf(entry)
  const found = (home && (await cached(home, key))) ?? (await remembered(key))
  if (found) return found // also from a folder that cannot be written now
  const folder = home && (await isWritable(home)) ? home : await temporaryFolder().catch(() => undefined)
  const other = folder && folder !== home && (await cached(folder, key))
  if (other) return other
  const bundle = await compile(entry, api)
  const note = await noteOf(bundle)
  if (!folder) return remember(key, entry, bundle, note)
  return store(folder, key, bundle, note).catch(() => remember(key, entry, bundle, note)) // a full disk, or less than was promised
}

/** The folder for bundles in the package of an entry, which need not be there. */
async function homeOf(entry: string): Promise<string | undefined> {
  const manifest = await nearestPackage(entry)
  return manifest && join(dirname(manifest), 'node_modules', '.cache', 'dramatis')
}

async function isWritable(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { recursive: true })
    await access(folder, constants.W_OK)
    return true
  } catch {
    return false // a read-only file system, or somebody else's
  }
}

/** The name under which the note of an entry is kept. */
function cacheKey(entry: string, api: string): string {
  const name = basename(entry, extname(entry)).replaceAll(/[^\w.-]/g, '_')
  return `${name.slice(0, 40)}-${hashOf(`${recipe(api)}\n${entry}`).slice(0, 16)}`
}

/** The href of the kept bundle, or undefined if there is none or anything that it was made from has changed. */
async function cached(folder: string, key: string): Promise<string | undefined> {
  const note = await noteIn(join(folder, `${key}.json`))
  if (!note || !(await isUpToDate(note))) return undefined
  const path = join(folder, note.bundle)
  const there = await Promise.all([path, `${path}.map`].map(exists))
  return there.every(Boolean) ? pathToFileURL(path).href : undefined
}

async function isUpToDate({ files, outside }: Note): Promise<boolean> {
  const same = Object.entries(files).map(async ([file, hash]) => (await hashOfFile(file)) === hash)
  return (await Promise.all([...same, ...outside.map(exists)])).every(Boolean)
}

/** Writes a bundle and returns its href. It is found again if it is known when it gets out of date. */
async function store(folder: string, key: string, { code, map }: Compiled, note: Note | undefined): Promise<string> {
  const name = `${key}-${hashOf(code + map).slice(0, 16)}.mjs`
  const path = join(folder, name)
  await replace(`${path}.map`, map)
  await replace(path, `${code}//# sourceMappingURL=${name}.map\n`)
  if (note) await replace(join(folder, `${key}.json`), JSON.stringify({ ...note, bundle: name }))
  return pathToFileURL(path).href
}

async function remembered(key: string): Promise<string | undefined> {
  const note = inMemory.get(key)
  return note && (await isUpToDate(note)) ? note.bundle : undefined
}

/**
 * The bundle as a data: URL. Node has no source maps for these: a stack names lines of the bundle, and the source that
 * it is of.
 */
function remember(key: string, entry: string, { code }: Compiled, note: Note | undefined): string {
  const named = `${code}//# sourceURL=bundle-of:${encodeURI(entry)}\n`
  const bundle = `data:text/javascript;base64,${Buffer.from(named).toString('base64')}`
  if (note) inMemory.set(key, { ...note, bundle })
  return bundle
}

/** Returns the sources of a bundle with their state, if a change of them can be noticed. */
async function noteOf({ inputs, outside, closed }: Compiled): Promise<Note | undefined> {
  if (!closed) return undefined
  const files = new Map<string, string | null>(inputs)
  for (const file of await configsOf(inputs.keys(), outside))
    if (!files.has(file)) files.set(file, await hashOfFile(file))
  return { bundle: '', files: Object.fromEntries(files), outside: [...outside] }
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
