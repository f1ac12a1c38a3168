/** From where an agent's code is to what its thread can import: JavaScript as it is, TypeScript as one bundled file. */
import { realpath, stat } from 'node:fs/promises'
import { basename, extname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ConfigurationError } from '../errors.ts'
import { cached, cacheFolder, cacheKey, store } from './bundle-cache.ts'
import { compile } from './bundle-compile.ts'
import { cannotBundle, shownPath } from './bundle-errors.ts'
import { packageFile } from './bundle-package.ts'

/** What a worker thread can load. */
export interface Loadable {
  /** For `import()`. */
  href: string
  /** Whether it came from TypeScript. The thread then calls `process.setSourceMapsEnabled(true)` before it imports. */
  bundled: boolean
  /** The source in words for a message: a path, from the working directory if it is below it, or a package's name. */
  shown: string
}

const TYPESCRIPT = /\.(?:[cm]?ts|tsx)$/i
// what `import ... from 'dramatis'` means
const THREAD_API = new URL('../thread-api.js', import.meta.url).href
const HOST_API = new URL('../index.js', import.meta.url).href
const compiling = new Map<string, Promise<string>>()

/**
 * Finds the code that a role names, and bundles it if it is TypeScript. Bundles stay in a cache on disk, checked
 * against the content of their sources: cheap enough to ask again before each life of a thread, which gets what the
 * sources are by then, as it does with JavaScript.
 *
 * @param specifier the href of a file: URL, or a package, resolved from the working directory
 * @param what the option that named it, for errors: `agents[0].module`
 * @param options `host` is for code that this thread imports itself, as a team file: its `dramatis` is then the host's
 * @throws ConfigurationError with `details.path`, if there is no such code or it does not compile; then
 * `details.file`, `line` and `column` say where, both counted from 1
 */
export async function loadable(specifier: string, what: string, { host = false } = {}): Promise<Loadable> {
  const isFile = specifier.startsWith('file:')
  const path = await sourceOf(specifier, what)
  const shown = isFile ? shownPath(path) : specifier
  if (!TYPESCRIPT.test(path)) return { href: isFile ? specifier : pathToFileURL(path).href, bundled: false, shown }
  try {
    return {
      href: pathToFileURL(await bundleOnce(await realpath(path), host ? HOST_API : THREAD_API)).href,
      bundled: true,
      shown,
    }
  } catch (error) {
    throw cannotBundle(error, path, what)
  }
}

/**
 * The path of the file that a role names.
 *
 * @param specifier the href of a file: URL, or a package, resolved from the working directory
 * @param what the option that named it, for errors
 * @throws ConfigurationError if there is none
 */
export function sourceOf(specifier: string, what: string): Promise<string> {
  return specifier.startsWith('file:') ? existing(specifier, what) : installed(specifier, what)
}

/** The path of a bundle that is up to date. Those who ask while it is made wait for the same one. */
function bundleOnce(path: string, api: string): Promise<string> {
  const id = `${api} ${path}`
  const running = compiling.get(id)
  if (running) return running
  const bundle = bundleOf(path, api).finally(() => compiling.delete(id))
  compiling.set(id, bundle)
  return bundle
}

async function bundleOf(path: string, api: string): Promise<string> {
  const folder = await cacheFolder(path)
  const key = cacheKey(path, api)
  return (await cached(folder, key)) ?? (await store(folder, key, await compile(path, api)))
}

async function existing(href: string, what: string): Promise<string> {
  let path: string
  try {
    path = fileURLToPath(href)
  } catch (cause) {
    const details = { path: what, file: href }
    throw new ConfigurationError(`${what}: ${href} is no path of this system.`, details, cause)
  }
  if (await isFile(path)) return path
  const message = `${what}: there is no file ${shownPath(path)}.${await advice(path)}`
  throw new ConfigurationError(message, { path: what, file: path })
}

async function installed(specifier: string, what: string): Promise<string> {
  const found = await packageFile(specifier, process.cwd())
  if ('path' in found) return found.path
  throw new ConfigurationError(`${what}: ${found.missing}.`, { path: what, specifier })
}

/** The same code under the other ending: a build renames it, and a role that names the old one is a common slip. */
async function advice(path: string): Promise<string> {
  const ending = extname(path)
  const stem = path.slice(0, path.length - ending.length)
  for (const other of OTHER_ENDINGS[ending] ?? []) {
    if (await isFile(stem + other)) return ` There is ${basename(stem + other)} beside it: name that.`
  }
  return ''
}

const OTHER_ENDINGS: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx', '.mjs'],
  '.mjs': ['.mts', '.js'],
  '.cjs': ['.cts'],
  '.ts': ['.js', '.tsx', '.mts'],
  '.tsx': ['.js', '.ts'],
  '.mts': ['.mjs', '.ts'],
  '.cts': ['.cjs'],
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}
