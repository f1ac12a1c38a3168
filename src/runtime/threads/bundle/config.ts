/** The files that a source does not name and that yet decide what it means: tsconfig.json, package.json. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'

/**
 * All of these for the sources and the packages of a bundle. Those that would count if they were there are among
 * them.
 */
export async function configsOf(sources: Iterable<string>, packages: Iterable<string>): Promise<Set<string>> {
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

/** The package.json above a file. */
export function nearestPackage(path: string): Promise<string | undefined> {
  return nearest(dirname(path), 'package.json', new Set())
}

/** Adds the places where it looks to `looked`. */
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

async function textOf(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined)
}
