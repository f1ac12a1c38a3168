/** From where an agent's code is to what its thread can import: JavaScript as it is, TypeScript as one bundled file. */
import { realpath, stat } from 'node:fs/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ConfigurationError } from '../../../errors.ts'
import { ownFile } from '../../../own-files.ts'
import { namesOfModule, othersInWords } from '../../settings/module-file.ts'
import { bundleOf } from './cache.ts'
import { cannotBundle, shownPath } from './errors.ts'
import { packageFile } from './package-file.ts'

/** Module that a worker thread can load. */
export interface Loadable {
  /** For `import()`. */
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
 * sources are by then, as it does with JavaScript.
 *
 * @param specifier the href of a file: URL, or a package
 * @param what the option that named it, for errors: `agents[0].module`
 * @param options `from`: the folder from which a package is resolved; the working directory. `host` is for code that
 *   this thread imports itself, as a team file: its `dramatis` is then the host's
 * @throws ConfigurationError with `details.path`, if there is no such code or it does not compile; then
 * `details.file`, `line` and `column` say where, both counted from 1
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
 *
 * @param specifier the href of a file: URL, or a package, resolved from the folder `from`
 * @param what the option that named it, for errors
 * @throws ConfigurationError if there is none
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

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}
