/**
 * Compiles a TypeScript source, and all that it imports by relative path, into one ESM file for the oldest supported
 * Node.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile, realpath, stat } from 'node:fs/promises'
import { createRequire, isBuiltin } from 'node:module'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type {
  BuildFailure,
  BuildOptions,
  ImportKind,
  Location,
  Message,
  OnLoadResult,
  OnResolveArgs,
  OnResolveResult,
  Plugin,
  PluginBuild,
} from 'esbuild'
import { ownRequire } from '../../shared/environment.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'

/*
 * Keeps the meaning that each import and each `import.meta` of a source has in Node, in a bundle that lies in another
 * folder:
 *
 * - packages stay outside, named by file: URL, so that they are loaded once and as Node loads them;
 * - `dramatis` is the copy that runs already;
 * - `import.meta` and `__dirname` are those of the source.
 *
 * `import(expression)` with a relative path cannot be kept: use `new URL(path, import.meta.url)` there.
 */

const META = '__dramatis_meta'
/** The scheme of the module that each source's `import.meta` comes from. */
export const META_SCHEME = 'dramatis-meta:'

export interface Sources {
  readonly inputs: Map<string, string>
  readonly outside: Set<string>
}

export const CODE = /\.[cm]?[jt]sx?$/
const COMMONJS = /\.c[jt]s$/
const NODES_OWN = /\.(?:[cm]?js|node)$/ // what Node loads without help
const LEFT_TO_NODE = /\.(?:cjs|node)$/ // even if it is the project's own
const asked = Symbol('asked') // marks our own question to esbuild, or we would answer it ourselves

/** The plugin for one bundle. It notes in `sources` what it meets; `api` is the href of `dramatis`. */
function nodeSemantics(sources: Sources, api: string): Plugin {
  return {
    name: 'dramatis',
    setup(build) {
      build.onResolve({ filter: new RegExp(`^${META_SCHEME}`) }, ({ path }) => {
        return { path: path.slice(META_SCHEME.length), namespace: 'dramatis-meta' }
      })
      build.onLoad({ filter: /.*/, namespace: 'dramatis-meta' }, ({ path }) => ({ contents: metaOf(path) }))
      build.onResolve({ filter: /.*/ }, (args) => {
        if (args.kind === 'require-resolve') return requireResolved(args)
        if (args.path === 'dramatis') return leftOutside(fileURLToPath(api), args.kind)
        return resolveAsNode(args, build, sources.outside)
      })
      build.onLoad({ filter: /.*/, namespace: 'file' }, async ({ path }) => {
        const content = await readFile(path)
        sources.inputs.set(path, hashOf(content))
        return CODE.test(path) ? withMeta(path, content.toString()) : undefined
      })
    },
  }
}

export function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

async function resolveAsNode(
  { path, kind, pluginData, importer, namespace, resolveDir, with: attributes }: OnResolveArgs,
  build: PluginBuild,
  outside: Set<string>,
): Promise<OnResolveResult | undefined> {
  if (pluginData === asked || kind === 'entry-point' || isBuiltin(path)) return undefined
  const local = /^(?:\.{0,2}\/|\.{1,2}$|file:|[a-z]:\\)/i.test(path)
  if (local && !LEFT_TO_NODE.test(path) && !path.startsWith('file:')) return undefined
  const target = path.startsWith('file:') ? fileURLToPath(path) : path
  const question = { kind, importer, namespace, resolveDir, with: attributes, pluginData: asked }
  const found = await build.resolve(target, question)
  if (found.errors.length > 0 || found.external) return undefined // esbuild knows whether that is an error
  if ((local ? LEFT_TO_NODE : NODES_OWN).test(found.path)) {
    outside.add(found.path)
    return leftOutside(found.path, kind)
  }
  // an answer of ours would lose the tsconfig.json that belongs to the file
  return target === path ? undefined : { path: found.path }
}

/**
 * `require.resolve(name)` is a path, seen from the source; the bundle says that path. One that leads nowhere fails when
 * it is called.
 */
export function requireResolved({ path, resolveDir }: OnResolveArgs): OnResolveResult {
  try {
    return { path: createRequire(join(resolveDir, 'source')).resolve(path), external: true }
  } catch {
    return { path, external: true }
  }
}

/** `import` takes URLs, and on Windows nothing else; `require` takes paths alone. */
function leftOutside(path: string, kind: ImportKind): OnResolveResult {
  return { path: kind.startsWith('require') ? path : pathToFileURL(path).href, external: true }
}

/**
 * Binds `import.meta` for one source. The import stands at the end, where it moves no line and no column; imports
 * are hoisted. CommonJS takes no import, so there the first line grows.
 */
export function withMeta(path: string, code: string): OnLoadResult | undefined {
  if (code.includes('import.meta') && !COMMONJS.test(path)) {
    return { contents: `${code}\nimport ${META} from ${JSON.stringify(META_SCHEME + path)}`, loader: 'default' }
  }
  if (!/\b__(?:dir|file)name\b/.test(code)) return undefined
  return {
    contents: `const ${META} = ${JSON.stringify(placesOf(path))};${code.replace(/^#!/, '//')}`,
    loader: 'default',
  }
}

export function placesOf(path: string): { url: string; dirname: string; filename: string } {
  return { url: pathToFileURL(path).href, dirname: dirname(path), filename: path }
}

/** The module behind `import.meta`. It resolves packages as `require` does, all that Node offers for another file. */
function metaOf(path: string): string {
  return `import { createRequire, isBuiltin } from 'node:module'
import { pathToFileURL } from 'node:url'
const places = ${JSON.stringify(placesOf(path))}
const resolve = (specifier) => {
  if (/^(?:\\.{0,2}\\/|[a-z][a-z\\d+.-]*:)/i.test(specifier)) return new URL(specifier, places.url).href
  return isBuiltin(specifier) ? 'node:' + specifier : pathToFileURL(createRequire(places.url).resolve(specifier)).href
}
export default { ...places, resolve }`
}

/*
 * Which file a package's name means to `import`, seen from a folder: Node's own rules (its documentation, ECMAScript
 * modules, "Resolution algorithm"), which Node offers for the importing file alone.
 */

const CONDITIONS: readonly string[] = [
  'node',
  'import',
  'node-addons',
  ...(process.features.require_module ? ['module-sync'] : []),
  'default',
]

type Found = { path: string } | { missing: string }

interface Manifest {
  folder: string
  name?: unknown
  main?: unknown
  exports?: unknown
}

/** The real path of the file, or a sentence about what is missing, without its full stop. */
export async function packageFile(specifier: string, from: string): Promise<Found> {
  const [, name, rest] = /^((?:@[^/]+\/)?[^/]+)(?:\/(.*))?$/.exec(specifier) ?? []
  const manifest = name === undefined ? undefined : ((await itself(name, from)) ?? (await installed(name, from)))
  if (!manifest) {
    return {
      missing: `no node_modules from ${from} upwards has the package "${name ?? specifier}". Install it there, or name the file to look from: resolveFrom`,
    }
  }
  const { folder, exports } = manifest
  if (exports === undefined || exports === null) {
    const path = await firstFile(rest === undefined ? mainsOf(manifest) : [join(folder, rest)])
    return path ? { path } : { missing: `the package "${name}" in ${folder} has no file for "${specifier}"` }
  }
  const subpath = rest === undefined ? '.' : `./${rest}`
  const target = exported(exports, subpath)
  if (!target) return { missing: `the package "${name}" in ${folder} does not export "${subpath}" to import` }
  const path = await firstFile([join(folder, target)])
  return path ? { path } : { missing: `the package "${name}" exports ${target}, which is not in ${folder}` }
}

/** A package may import itself by name, if it has `exports`. */
async function itself(name: string, from: string): Promise<Manifest | undefined> {
  for (const folder of upwards(from)) {
    const manifest = await manifestIn(folder)
    if (manifest) return manifest.name === name && manifest.exports ? manifest : undefined
  }
  return undefined
}

async function installed(name: string, from: string): Promise<Manifest | undefined> {
  for (const above of upwards(from)) {
    const folder = join(above, 'node_modules', name)
    if ((await stat(folder).catch(() => undefined))?.isDirectory()) return (await manifestIn(folder)) ?? { folder }
  }
  return undefined
}

async function manifestIn(folder: string): Promise<Manifest | undefined> {
  try {
    const manifest: unknown = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
    return typeof manifest === 'object' ? { ...manifest, folder } : { folder }
  } catch {
    return undefined
  }
}

function mainsOf({ folder, main }: Manifest): string[] {
  const named = typeof main === 'string' ? [main, `${main}.js`, join(main, 'index.js')] : []
  return [...named, 'index.js'].map((file) => join(folder, file))
}

/** Returns the target that `exports` has for a subpath (`.` or `./file`): a path below the package, or undefined. */
function exported(exports: unknown, subpath: string): string | undefined {
  if (!isRecord(exports) || !Object.keys(exports).some((key) => key.startsWith('.'))) {
    return subpath === '.' ? targetOf(exports, '') : undefined
  }
  if (Object.hasOwn(exports, subpath) && !subpath.includes('*')) return targetOf(own(exports, subpath), '')
  const patterns = Object.keys(exports).filter((key) => key.includes('*'))
  // the longer what stands before the star, the better it fits; then the longer pattern
  patterns.sort((one, other) => other.indexOf('*') - one.indexOf('*') || other.length - one.length)
  for (const pattern of patterns) {
    const [before = '', after = ''] = pattern.split('*')
    if (subpath.length < pattern.length || !subpath.startsWith(before) || !subpath.endsWith(after)) continue
    return targetOf(own(exports, pattern), subpath.slice(before.length, subpath.length - after.length))
  }
  return undefined
}

function targetOf(target: unknown, star: string): string | undefined {
  if (typeof target === 'string') return target.startsWith('./') ? target.replaceAll('*', star) : undefined
  const conditional = () => Object.entries(Object(target)).filter(([condition]) => CONDITIONS.includes(condition))
  const choices: unknown[] = Array.isArray(target) ? target : conditional().map(([, choice]) => choice)
  for (const choice of choices) {
    if (choice === null) return undefined // forbidden, whatever follows
    const found = targetOf(choice, star)
    if (found) return found
  }
  return undefined
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

async function firstFile(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    if ((await stat(path).catch(() => undefined))?.isFile()) return realpath(path)
  }
  return undefined
}

function upwards(folder: string): string[] {
  const above = dirname(folder)
  return above === folder ? [folder] : [folder, ...upwards(above)]
}

export interface Compiled extends Sources {
  code: string
  /** A source map whose sources are file: URLs, so that it may lie anywhere. */
  map: string
  /** False if a file that is added later could belong to it: `import(`./plugins/${name}.ts`)` takes a whole folder. */
  closed: boolean
}

export const OPTIONS = {
  bundle: true,
  write: false,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  charset: 'utf8',
  keepNames: true, // names of classes get into logs, and a bundle renames those that collide
  ignoreAnnotations: true, // Node runs every import, also what a bundler may leave out
  legalComments: 'none',
  sourcemap: 'external',
  sourcesContent: false,
  logLevel: 'silent',
  mainFields: ['main'],
  conditions: CONDITIONS.filter((condition) => !['node', 'import', 'default'].includes(condition)), // esbuild has those
  define: { 'import.meta': META, __dirname: `${META}.dirname`, __filename: `${META}.filename` },
} satisfies BuildOptions

/** Everything but the sources that decides what a bundle looks like. The number is for a change of the plugin. */
export function recipe(api: string): string {
  const path = ownRequire().resolve('esbuild/package.json')
  const { version }: { version: string } = JSON.parse(readFileSync(path, 'utf8'))
  return JSON.stringify([2, version, api, OPTIONS])
}

export async function compile(entry: string, api: string): Promise<Compiled> {
  const { build }: typeof import('esbuild') = ownRequire()('esbuild') // takes about as long as a thread to boot, so only who needs it pays
  const sources: Sources = { inputs: new Map(), outside: new Set() }
  const folder = dirname(entry)
  const { outputFiles } = await build({
    ...OPTIONS,
    entryPoints: [entry],
    outfile: join(folder, 'bundle.mjs'), // never written; the map is relative to it
    absWorkingDir: folder,
    plugins: [nodeSemantics(sources, api)],
  })
  const text = (ending: string) => outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? ''
  const map: { sources: string[]; mappings: string } = JSON.parse(text('.mjs.map'))
  map.sources = map.sources.map((source) =>
    source.startsWith(META_SCHEME) ? source : pathToFileURL(resolve(folder, source)).href,
  )
  let code = text('.mjs')
  if (code.includes('var __require = ')) {
    // esbuild's helper for `require` in a source looks for a real one, which ESM has not; one line more moves the map
    code = `${requireFor(entry)}\n${code}`
    map.mappings = `;${map.mappings}`
  }
  return { ...sources, code, map: JSON.stringify(map), closed: !code.includes('var __glob = ') }
}

function requireFor(entry: string): string {
  const url = JSON.stringify(pathToFileURL(entry).href)
  return `import { createRequire as __dramatis_r } from 'node:module'; const require = __dramatis_r(${url});`
}

/** The error for what esbuild threw. `what` is the option that named the entry. */
export function cannotBundle(error: unknown, entry: string, what: string): ConfigurationError {
  const [first, ...more] = isFailure(error) ? error.errors : []
  if (!first) {
    const [reason = ''] = describe(error).split('\n', 1)
    const advice = /\besbuild\b/.test(reason) ? ' Reinstall it (npm install), or compile to JavaScript yourself.' : ''
    const message = `${what}: cannot bundle ${shownPath(entry)}: ${reason}${advice}`
    return new ConfigurationError(message, { path: what, file: entry }, error)
  }
  const at = first.location ? placeOf(first.location, dirname(entry)) : { file: entry }
  const others = more.length === 0 ? '' : ` (and ${more.length} more)`
  const message = `${what}: ${shownPlace(at)}: ${sentence(first, at)}${others}`
  return new ConfigurationError(message, { path: what, ...at }, error)
}

/** A path as a person says it: from the working directory, or whole if it is not below it. */
export function shownPath(path: string): string {
  const short = relative(process.cwd(), path)
  return short === '' || short.startsWith('..') || isAbsolute(short) ? path : short
}

/** Lines and columns count from 1. */
export interface Place {
  file: string
  line?: number
  column?: number
}

function placeOf({ file, line, column, lineText }: Location, folder: string): Place {
  const path = resolve(folder, file)
  // a source that stops too early is found wrong in the import that the plugin adds at its end
  if (lineText.includes(META)) return { file: path, line: line - 1, column: 1 }
  // esbuild counts bytes from 0, editors count characters from 1
  return { file: path, line, column: Buffer.from(lineText).subarray(0, column).toString().length + 1 }
}

export function shownPlace({ file, line, column }: Place): string {
  return [shownPath(file), line, column].filter((part) => part !== undefined).join(':')
}

function sentence({ text, notes, location }: Message, at: Place): string {
  const missing = /^Could not resolve "(.+)"$/.exec(text)?.[1]
  if (missing === undefined) return location?.lineText.includes(META) ? 'Unexpected end of file' : text
  // notes without a place advise on esbuild's own options, which nobody can set here
  const reason = notes.find((note) => note.location)?.text.replace(/[:.]$/, '')
  if (reason !== undefined) return `cannot find "${missing}". ${reason}.`
  const advice = missing.startsWith('.') || isAbsolute(missing) ? 'No such file.' : 'Install it, or correct its name.'
  return at.line === undefined ? 'cannot be read.' : `cannot find "${missing}", which it imports. ${advice}`
}

export function isFailure(error: unknown): error is BuildFailure {
  return error instanceof Error && 'errors' in error && Array.isArray(error.errors)
}
