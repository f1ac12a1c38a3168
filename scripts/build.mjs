/** Compiles everything into dist/, then bundles what runs inside a thread into one file each: an actor's, a tool's. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { build } from 'esbuild'
import { filesBelow, root, sourceFolders, sources } from './files.mjs'

const entries = ['dist/src/actors/thread-entry.js', 'dist/src/actors/tool-entry.js']
const bundleOf = (entry) => entry.replace(/\.js$/, '.bundle.js')

const names = sources()
const kept = new Set(entries.map(bundleOf).flatMap((bundle) => [bundle, `${bundle}.map`]))
for (const name of names) {
  const target = `dist/${name}`
  if (name.endsWith('.d.ts')) continue
  if (name.endsWith('.ts')) {
    const stem = target.slice(0, -'.ts'.length)
    for (const extension of ['.js', '.js.map', '.d.ts']) kept.add(stem + extension)
  } else {
    kept.add(target)
    mkdirSync(dirname(join(root, target)), { recursive: true })
    copyFileSync(join(root, name), join(root, target))
  }
}

// A test whose source is gone would run for ever after.
for (const name of sourceFolders.flatMap((folder) => filesBelow(`dist/${folder}`))) {
  if (!kept.has(name)) rmSync(join(root, name))
}

// Code is written out even if a type is wrong, so the bundle follows and the exit code tells.
const tsc = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', root], {
  cwd: root,
  stdio: 'inherit',
})
process.exitCode = tsc.status ?? 1

for (const entry of entries) {
  if (existsSync(join(root, entry))) await bundle(entry)
  else rmSync(join(root, bundleOf(entry)), { force: true })
}

/** A thread that loads one file boots in a fraction of the time that it takes to walk its modules. */
async function bundle(entry) {
  const options = {
    absWorkingDir: root,
    entryPoints: [entry],
    outfile: bundleOf(entry),
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    mainFields: ['module', 'main'],
    sourcemap: 'linked',
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
  }
  const probe = await build({ ...options, write: false })
  const code = probe.outputFiles.find((file) => file.path.endsWith('.js')).text
  // esbuild leaves this helper in only where an inlined CommonJS module calls `require`, which ESM lacks
  const banner = code.includes('__require = ')
    ? { js: "import { createRequire as requireFor } from 'node:module'; const require = requireFor(import.meta.url);" }
    : {}
  const { metafile } = await build({ ...options, banner })
  const outside = Object.values(metafile.outputs).flatMap((output) => output.imports.map((found) => found.path))
  const unexpected = outside.filter((path) => !isBuiltin(path))
  if (unexpected.length > 0) throw new Error(`${bundleOf(entry)} still imports ${unexpected.join(', ')}`)
}
