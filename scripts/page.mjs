/** Bundles the page of the dashboard: its code with the packages that it uses, and its style. */
import { join } from 'node:path'
import { build } from 'esbuild'
import { pageFolder, root } from './files.mjs'

const folder = 'dist/src/service/page'
export const pageBundles = ['js', 'css'].map((type) => `${folder}/page.bundle.${type}`)

/** Resolves to esbuild's account of the files that are in it. */
export async function bundlePage({ write = true } = {}) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ['main.tsx', 'page.css'].map((name) => ({ in: join(pageFolder, name), out: 'page.bundle' })),
    outdir: folder,
    bundle: true,
    platform: 'browser',
    target: 'es2022',
    format: 'esm',
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
    write,
  })
  return metafile
}
