/**
 * Compiles a TypeScript source, and all that it imports by relative path, into one ESM file for the oldest supported
 * Node.
 */
import { readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { BuildOptions } from 'esbuild'
import { ownRequire } from '../../../own-files.ts'
import { META, META_SCHEME, nodeSemantics, type Sources } from './node-semantics.ts'
import { CONDITIONS } from './package-file.ts'

/** A bundle that is not written yet. */
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

/** Bundles one entry, in which `api` is what 'dramatis' means. Throws what esbuild throws. */
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
