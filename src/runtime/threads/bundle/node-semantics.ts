/**
 * Keeps the meaning that each import and each `import.meta` of a source has in Node, in a bundle that lies in another
 * folder:
 *
 * - packages stay outside, named by file: URL, so that they are loaded once and as Node loads them;
 * - `dramatis` is the copy that runs already;
 * - `import.meta` and `__dirname` are those of the source.
 *
 * `import(expression)` with a relative path cannot be kept: use `new URL(path, import.meta.url)` there.
 */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire, isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { ImportKind, OnLoadResult, OnResolveArgs, OnResolveResult, Plugin, PluginBuild } from 'esbuild'

/** The identifier that stands for a source's `import.meta`. */
export const META = '__dramatis_meta'
/** The scheme of the module that each source's `import.meta` comes from. */
export const META_SCHEME = 'dramatis-meta:'

/** Files that a bundle was made from. */
export interface Sources {
  /** The hash of each file in it. */
  readonly inputs: Map<string, string>
  /** The files of packages that it imports. */
  readonly outside: Set<string>
}

export const CODE = /\.[cm]?[jt]sx?$/
const COMMONJS = /\.c[jt]s$/
const NODES_OWN = /\.(?:[cm]?js|node)$/ // what Node loads without help
const LEFT_TO_NODE = /\.(?:cjs|node)$/ // even if it is the project's own
const asked = Symbol('asked') // marks our own question to esbuild, or we would answer it ourselves

/** The plugin for one bundle. It notes in `sources` what it meets; `api` is the href of `dramatis`. */
export function nodeSemantics(sources: Sources, api: string): Plugin {
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
