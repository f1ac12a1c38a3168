/**
 * Which file a package's name means to `import`, seen from a folder: Node's own rules (its documentation, ECMAScript
 * modules, "Resolution algorithm"), which Node offers for the importing file alone.
 */

import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { own } from '../../../own.ts'

/** The conditions of `exports` that hold for `import` in this Node. */
export const CONDITIONS: readonly string[] = [
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
  const choices = Array.isArray(target) ? target : isRecord(target) ? conditional(target) : []
  for (const choice of choices) {
    if (choice === null) return undefined // forbidden, whatever follows
    const found = targetOf(choice, star)
    if (found) return found
  }
  return undefined
}

function conditional(target: Readonly<Record<string, unknown>>): unknown[] {
  return Object.entries(target).flatMap(([condition, value]) => (CONDITIONS.includes(condition) ? [value] : []))
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
