/** Files that stand beside a bundle of the host: what its threads run, under the paths that `ownFile` looks for. */
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type * as Esbuild from 'esbuild'
import { ownFile } from '../own-files.ts'

const COPIED = [
  'actors/loop/thread-boot.cjs',
  'actors/loop/thread-entry.bundle.cjs',
  'actors/tools/tool-entry.bundle.js',
  ...['o200k_base', 'cl100k_base'].flatMap((name) =>
    ['bundle.cjs', 'ranks.json'].map((part) => `actors/model/context/${name}.${part}`),
  ),
  'thread-api.js',
]
/** Threads of built-in tools. They import modules of this package, and packages that are optional. */
const BUNDLED = ['tools/sandbox/thread.js', 'tools/web/readable-text.js']

/** Returns the files by their paths, with forward slashes. */
export async function threadFiles({ build }: Pick<typeof Esbuild, 'build'>): Promise<Map<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>()
  files.set('package.json', Buffer.from('{ "type": "module" }\n'))
  for (const path of COPIED) files.set(path, await readFile(ownFile(path)))
  const folder = fileURLToPath(ownFile('.'))
  const { outputFiles } = await build({
    entryPoints: BUNDLED.map((path) => fileURLToPath(ownFile(path))),
    outbase: folder,
    outdir: folder,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    write: false,
    logLevel: 'silent',
  })
  for (const { path, contents } of outputFiles) files.set(relative(folder, path).replaceAll('\\', '/'), contents)
  return files
}
