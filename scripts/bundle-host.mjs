/**
 * Puts what users import into a few files, for the package that is published: to walk some 400 modules takes four times
 * as long as to run them. Of the modules those stay that threads load one by one; what users import leads to the bundle. A
 * clone works without it, and is built anew by the next command.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { build } from 'esbuild'
import { dist, filesBelow, root } from './files.mjs'

/** Entries by their names in the bundle. They share chunks, so that all have the same classes. */
const entries = {
  index: 'index',
  testing: 'testing',
  protocols: 'protocols',
  tools: 'tools/index',
  mcp: 'mcp/index',
  opentelemetry: 'opentelemetry',
  models: 'models',
  'ai-sdk': 'ai-sdk/index',
  telemetry: 'telemetry',
  cli: 'service/cli',
  'rehearsal-thread': 'service/rehearsal/thread-entry',
}
/** What threads load as modules, each with what it imports. */
const threads = ['thread-api', 'tools/sandbox/thread', 'tools/web/readable-text']
const SHEBANG = '#!/usr/bin/env node\n'
const host = join(dist, 'host')

for (const note of ['.stamp', '.tsbuildinfo']) rmSync(join(dist, note), { force: true }) // the next command builds all anew
rmSync(host, { recursive: true, force: true })
const fromModules = { absWorkingDir: root, bundle: true, packages: 'external', platform: 'node', format: 'esm' }
await build({
  ...fromModules,
  entryPoints: Object.fromEntries(Object.entries(entries).map(([name, module]) => [name, `dist/src/${module}.js`])),
  outdir: host,
  splitting: true,
  target: 'node20',
  sourcemap: 'linked',
  sourcesContent: false, // src is in the package
  legalComments: 'none',
  logLevel: 'warning',
  chunkNames: '[name]-[hash]',
})
for (const [name, module] of Object.entries(entries)) {
  const file = join(dist, 'src', `${module}.js`)
  const bundle = relative(dirname(file), join(host, `${name}.js`)).replaceAll('\\', '/')
  const runs = name === 'cli' || name === 'rehearsal-thread'
  writeFileSync(file, `${name === 'cli' ? SHEBANG : ''}${runs ? 'import' : 'export * from'} '${bundle}'\n`)
}

const { metafile } = await build({
  ...fromModules,
  entryPoints: threads.map((module) => `dist/src/${module}.js`),
  outdir: host,
  write: false,
  metafile: true,
})
const kept = new Set([
  ...Object.values(entries).map((module) => `dist/src/${module}.js`),
  ...Object.keys(metafile.inputs),
])
for (const name of filesBelow('dist/src')) {
  const module = name.replace(/\.map$/, '')
  if (/\.js$/.test(module) && !module.endsWith('.bundle.js') && !kept.has(module)) rmSync(join(root, name))
}
