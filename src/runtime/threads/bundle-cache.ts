/** From where an agent's code is to what its thread can import: JavaScript as it is, TypeScript as one bundled file. */

import { randomUUID } from 'node:crypto'
import {
  access,
  constants,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AgentCode, ToolCode } from '../../actors/definition/assignment.ts'
import { ownFile } from '../../shared/environment.ts'
import { ConfigurationError, type DramatisError } from '../../shared/errors.ts'
import { namesOfModule, othersInWords } from '../settings/module-file.ts'
import {
  type Compiled,
  cannotBundle,
  compile,
  hashOf,
  isFailure,
  type Place,
  packageFile,
  recipe,
  shownPath,
  shownPlace,
} from './bundler.ts'

/** Those that would count if they were there are among them. */
async function configsOf(sources: Iterable<string>, packages: Iterable<string>): Promise<Set<string>> {
  const found = new Set<string>()
  for (const folder of new Set([...sources].map(dirname))) {
    await nearest(folder, 'package.json', found)
    const config = await nearest(folder, 'tsconfig.json', found)
    if (config) await addBases(config, found)
  }
  for (const path of packages) {
    const root = /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(path)?.[0]
    await nearest(root ?? dirname(path), 'package.json', found)
  }
  return found
}

async function nearest(folder: string, name: string, looked: Set<string>): Promise<string | undefined> {
  const path = join(folder, name)
  looked.add(path)
  if ((await textOf(path)) !== undefined) return path
  const above = dirname(folder)
  return above === folder ? undefined : nearest(above, name, looked)
}

/** Follows `extends`. The file may have comments, so it is searched, not parsed. */
async function addBases(config: string, found: Set<string>): Promise<void> {
  const text = (await textOf(config)) ?? ''
  const bases = /"extends"\s*:\s*("[^"]*"|\[[^\]]*\])/.exec(text)?.[1] ?? ''
  for (const [, base = ''] of bases.matchAll(/"([^"]*)"/g)) {
    const path = baseOf(config, base)
    if (path === undefined || found.has(path)) continue
    found.add(path)
    await addBases(path, found)
  }
}

function baseOf(config: string, base: string): string | undefined {
  if (/^(?:\.|[\\/]|[a-z]:)/i.test(base))
    return resolve(dirname(config), base.endsWith('.json') ? base : `${base}.json`)
  const { resolve: installed } = createRequire(config)
  for (const name of [base, `${base}.json`, `${base}/tsconfig.json`]) {
    try {
      return installed(name)
    } catch {} // the next spelling
  }
  return undefined
}

const textOf = (path: string) => readFile(path, 'utf8').catch(() => undefined)

/*
 * Bundles on disk. A bundle's name has the hash of its content, so a new one never changes what another process
 * runs. Beside it lies a note of what it was made from; the bundle is good while all of that has the same content.
 * Where no folder can be written a bundle is a data: URL, which this process keeps with the same note.
 */

interface Note {
  /** The name of its file, or its data: URL; '' as long as it has none. */
  bundle: string
  /** The hash of each file, or null for one that must not be there, as it would count if it were. */
  files: Record<string, string | null>
  outside: string[]
}

const inMemory = new Map<string, Note>()

/**
 * The href of the bundle of an entry, in which `api` is what 'dramatis' means: one that is kept and up to date, else a
 * new one. It is kept in the entry's package, in a folder of this user's if that cannot be written, or in memory.
 */
async function bundleOf(entry: string, api: string): Promise<string> {
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

async function homeOf(entry: string): Promise<string | undefined> {
  const manifest = await nearest(dirname(entry), 'package.json', new Set())
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

/** Node has no source maps for data: URLs: a stack names lines of the bundle, and the source that it is of. */
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

const hashOfFile = (path: string) => readFile(path).then(hashOf, () => null)

const exists = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined)) !== undefined

export interface Loadable {
  href: string
  /**
   * True if the module came from TypeScript. The thread then calls `process.setSourceMapsEnabled(true)` before it
   * imports.
   */
  bundled: boolean
  /** The source in words for a message: a path, from the working directory if it is below it, or a package's name. */
  shown: string
}

const TYPESCRIPT = /\.(?:[cm]?ts|tsx)$/i
// what `import ... from 'dramatis'` means
const threadApi = () => ownFile('thread-api.js').href
const hostApi = () => ownFile('index.js').href
const compiling = new Map<string, Promise<string>>()

/**
 * Finds the code that a role names, and bundles it if it is TypeScript. Bundles stay in a cache on disk, checked
 * against the content of their sources: cheap enough to ask again before each life of a thread, which gets what the
 * sources are by then, as it does with JavaScript. `specifier`: the href of a file: URL, or a package, resolved from
 * the folder `from`. `what`: the option that named it, for errors. `host` is for code that this thread imports itself,
 * as a team file: its `dramatis` is then the host's.
 */
export async function loadable(
  specifier: string,
  what: string,
  { host = false, from = process.cwd() } = {},
): Promise<Loadable> {
  const isFile = specifier.startsWith('file:')
  const path = await sourceOf(specifier, what, from)
  const shown = isFile ? shownPath(path) : specifier
  if (!TYPESCRIPT.test(path)) return { href: hrefOf(path, specifier), bundled: false, shown }
  try {
    return { href: await bundleOnce(await realpath(path), host ? hostApi() : threadApi()), bundled: true, shown }
  } catch (error) {
    throw cannotBundle(error, path, what)
  }
}

/** A role may give the URL of a file a query, which makes a module one of its own. */
function hrefOf(path: string, specifier: string): string {
  const { href } = pathToFileURL(path)
  if (!specifier.startsWith('file:')) return href
  if (fileURLToPath(specifier) === path) return specifier
  const { search, hash } = new URL(specifier)
  return href + search + hash
}

/**
 * The path of the file that a role names; where that is not there, of the same module under the ending that it has
 * before or after it is compiled.
 */
export function sourceOf(specifier: string, what: string, from: string): Promise<string> {
  return specifier.startsWith('file:') ? existing(specifier, what) : installed(specifier, what, from)
}

/**
 * The href of a bundle that is up to date. One that is being made may have read its sources before they changed. Those
 * who ask meanwhile wait for its end, then for the next one, which finds it in the cache if nothing has changed.
 */
async function bundleOnce(path: string, api: string): Promise<string> {
  const id = `${api} ${path}`
  const running = compiling.get(id)
  if (running) {
    await running.catch(() => {})
    const next = compiling.get(id)
    if (next) return next
  }
  const bundle = bundleOf(path, api).finally(() => compiling.delete(id))
  compiling.set(id, bundle)
  return bundle
}

async function existing(href: string, what: string): Promise<string> {
  let path: string
  try {
    path = fileURLToPath(href)
  } catch (cause) {
    const details = { path: what, file: href }
    throw new ConfigurationError(`${what}: ${href} is no path of this system.`, details, cause)
  }
  for (const name of namesOfModule(path)) if (await isFile(name)) return name
  const message = `${what}: there is no file ${shownPath(path)}${othersInWords(path)}.`
  throw new ConfigurationError(message, { path: what, file: path })
}

async function installed(specifier: string, what: string, from: string): Promise<string> {
  const found = await packageFile(specifier, from)
  if ('path' in found) return found.path
  throw new ConfigurationError(`${what}: ${found.missing}.`, { path: what, specifier })
}

const isFile = async (path: string) => (await stat(path).catch(() => undefined))?.isFile() ?? false

/** Resolves to the path of each file of a module, with the hash of what it held when it was read. */
export async function sourcesOf(specifier: string, from: string): Promise<ReadonlyMap<string, string>> {
  const path = await realpath(await sourceOf(specifier, 'module', from))
  try {
    return (await compile(path, ownFile('thread-api.js').href)).inputs
  } catch (error) {
    throw cannotBundle(error, path, 'module')
  }
}

export type ImportedCode = Exclude<AgentCode, { model: true } | { remote: unknown }> | ToolCode

/** `error` says what was thrown while the module of an agent or a tool was imported; its cause is that. */
export async function importFailure(
  { info, option }: { readonly info: { readonly name: string }; readonly option: string },
  code: ImportedCode,
  error: DramatisError,
): Promise<ConfigurationError> {
  const tool = 'option' in code ? code : undefined
  const path = `${tool?.option ?? option}.module`
  const stack = error.cause instanceof Error ? (error.cause.stack ?? '') : ''
  const place = placeIn(stack)
  const typo = !place && /^SyntaxError/.test(stack) ? await typoIn(code, path) : undefined
  if (typo) return typo
  const what = stack.includes('ERR_MODULE_NOT_FOUND') ? 'imports what was not found' : 'throws when it is imported'
  const where = place ? shownPlace(place) : code.shown
  return new ConfigurationError(
    `${path}: the module of ${tool ? 'a tool of ' : ''}"${info.name}" ${what}: ${where}: ${error.message}`,
    { path, agent: info.name, module: code.shown, ...place },
    error.cause,
  )
}

const PLACE = /^(?:\s+at (?:async )?(?:.*\()?)?(file:\/\/\/\S+?|(?:\/|[a-z]:\\)[^()]+?):(\d+)(?::(\d+))?\)?$/i

/** The first place in a stack that is neither Node's nor ours. */
function placeIn(stack: string): Place | undefined {
  const own = [fileURLToPath(ownFile('.')), fileURLToPath(ownFile('../host/'))]
  for (const text of stack.split('\n')) {
    const [, found, line, column] = PLACE.exec(text) ?? []
    if (found === undefined) continue
    const file = found.startsWith('file:') ? fileURLToPath(found) : found
    if (!own.some((folder) => file.startsWith(folder)))
      return { file, line: Number(line), ...(column !== undefined && { column: Number(column) }) }
  }
  return undefined
}

/** Node does not say where JavaScript is no JavaScript. The bundler does, also of what the module imports. */
async function typoIn(code: ImportedCode, path: string): Promise<ConfigurationError | undefined> {
  const href = 'module' in code ? code.module : code.protocol
  if (!href.startsWith('file:')) return undefined // a bundle in memory: it has been compiled
  const entry = fileURLToPath(href)
  try {
    await compile(entry, ownFile('thread-api.js').href)
    return undefined // it sees nothing wrong
  } catch (error) {
    return isFailure(error) ? cannotBundle(error, entry, path) : undefined // it may not run, as with --permission
  }
}
