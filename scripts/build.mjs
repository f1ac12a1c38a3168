/**
 * Compiles everything into dist/, then bundles what runs inside a thread into one file each (an actor's, a tool's), what
 * runs in the host into a few, and each vocabulary of tokens into one: of the package that has them, 30 MB, two files
 * are needed. The page of the dashboard is for browsers: it is checked with a tsconfig of its own, and bundled with its
 * packages.
 *
 *   node scripts/build.mjs [--modules]
 *
 * --modules leaves a file for each module of the host, of which the published package is made.
 */
import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'
import { bundleClone, planOf } from './clone-host.mjs'
import { dist, filesBelow, pageFolder, root, sourceFolders, sources } from './files.mjs'
import { bundlePage, pageBundles } from './page.mjs'

// thread-boot.cjs runs an actor's as a script, which V8 compiles once for all threads; Piscina imports a tool's
const entries = [
  { entry: 'src/actors/thread/thread-entry.ts', bundle: 'dist/src/actors/thread/thread-entry.bundle.cjs' },
  { entry: 'src/actors/turn/tool-entry.ts', bundle: 'dist/src/actors/turn/tool-entry.bundle.js' },
]
// stands before ESM in which a CommonJS module calls `require`
const requireInModules =
  "import { createRequire as requireFor } from 'node:module'; const require = requireFor(import.meta.url);"
const vocabularies = ['o200k_base', 'cl100k_base'].map((name) => ({
  entry: `gpt-tokenizer/encoding/${name}`,
  bundle: `dist/src/actors/model/${name}.bundle.cjs`,
  ranks: `dist/src/actors/model/${name}.ranks.json`,
}))

const { values: asked } = parseArgs({ options: { modules: { type: 'boolean', default: false } } })
const names = sources().filter((name) => !name.startsWith(`${pageFolder}/`))
const kept = new Set([
  ...entries.flatMap(({ bundle }) => [bundle, `${bundle}.map`]),
  ...vocabularies.flatMap(({ bundle, ranks }) => [bundle, ranks]),
  ...pageBundles,
])
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

const modules = names.filter((name) => /^src\/.*(?<!\.d)\.ts$/.test(name))
let unread // what esbuild cannot read, of which tsc tells more
const plan = asked.modules
  ? []
  : await planOf(modules).catch((error) => {
      unread = error
      return []
    })
rmSync(join(dist, 'host'), { recursive: true, force: true })
const bundledModules = new Set(plan.map(({ module }) => module))
// tsc writes what has changed alone: it has to begin anew where a module is to be and a re-export stands
if (modules.some((name) => !bundledModules.has(name) && !existsSync(join(root, `dist/${name.slice(0, -3)}.js.map`))))
  rmSync(join(dist, '.tsbuildinfo'), { force: true })

// Code is written out even if a type is wrong, so the bundle follows and the exit code tells.
const compiled = await Promise.all([root, join(root, pageFolder)].map(compile))
process.exitCode = compiled.find((code) => code !== 0) ?? 0
if (unread && process.exitCode === 0) throw unread
if (plan.length > 0) await bundleClone(plan)

/** Resolves to the exit code of the compiler. */
function compile(project) {
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const child = spawn(process.execPath, [compiler, '-p', project], { cwd: root, stdio: 'inherit' })
  return new Promise((resolve) => {
    child.on('error', () => resolve(1))
    child.on('close', (code) => resolve(code ?? 1))
  })
}

/** Functions of Node that few threads call. To load the module that uuid hashes names by is a tenth of a thread's boot. */
const onUse = {
  'node:crypto': ['createHash'],
  'node:module': ['createRequire'],
}
const loadedOnUse = {
  name: 'loaded-on-use',
  setup(build) {
    const filter = new RegExp(`^(${Object.keys(onUse).join('|')})$`)
    build.onResolve({ filter }, ({ path }) => ({ path, namespace: 'on-use' }))
    build.onLoad({ filter: /./, namespace: 'on-use' }, ({ path }) => ({
      contents: onUse[path]
        .map((name) => `export const ${name} = (of) => process.getBuiltinModule('${path}').${name}(of)`)
        .join('\n'),
    }))
  },
}

for (const { entry, bundle } of entries) {
  if (existsSync(join(root, entry))) await bundled(entry, bundle)
  else rmSync(join(root, bundle), { force: true })
}
for (const { entry, bundle, ranks } of vocabularies) {
  const { default: tokens } = await import(entry.replace('encoding', 'bpeRanks'))
  writeFileSync(join(root, ranks), JSON.stringify(tokens)) // JSON is read in half the time of code
  const contents = `export default require('./${basename(ranks)}')`
  await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outfile: bundle,
    bundle: true,
    external: ['*.ranks.json'],
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    minify: true,
    banner: { js: `/*\n${readFileSync(join(root, 'node_modules/gpt-tokenizer/LICENSE'), 'utf8')}*/` },
    plugins: [{ name: 'ranks', setup: ({ onLoad }) => onLoad({ filter: /bpeRanks/ }, () => ({ contents })) }],
    logLevel: 'warning',
  })
}

await bundlePage()
await bundleTap()

/**
 * Puts tap, some 200 modules, into one file where compiled tests find it before the package. Without its domains, which
 * make every promise of the code under test dearer: what throws outside of a test ends its file, which fails by that.
 */
async function bundleTap() {
  const modules = join(root, 'dist/test/node_modules')
  const withoutDomains = {
    name: 'without-domains',
    setup(build) {
      build.onResolve({ filter: /^async-hook-domain$/ }, ({ path }) => ({ path, namespace: 'without' }))
      build.onLoad({ filter: /^/, namespace: 'without' }, () => ({ contents: 'export class Domain { destroy() {} }' }))
    },
  }
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ['tap'],
    outfile: join(modules, '@tapjs/tap.js'), // tap leaves frames of @tapjs out of the stacks that it shows
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    plugins: [withoutDomains],
    banner: { js: requireInModules },
    logLevel: 'warning',
    metafile: true,
  })
  if (!('without:async-hook-domain' in metafile.inputs)) throw new Error('tap has its domains from elsewhere')
  mkdirSync(join(modules, 'tap'), { recursive: true })
  writeFileSync(join(modules, 'tap/package.json'), '{ "name": "tap", "type": "module", "exports": "./index.js" }\n')
  writeFileSync(join(modules, 'tap/index.js'), "export { default } from '../@tapjs/tap.js'\n")
}

/** A thread that loads one file boots in a fraction of the time that it takes to walk its modules. */
async function bundled(entry, outfile) {
  const options = {
    absWorkingDir: root,
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node20',
    mainFields: ['module', 'main'],
    plugins: [loadedOnUse],
    // a thread holds its source: names stay for stack traces, white space goes
    minifyWhitespace: true,
    minifySyntax: true,
    ...(outfile.endsWith('.cjs')
      ? { format: 'cjs', define: { 'import.meta': '{}' } } // it has __filename
      : { format: 'esm' }),
    sourcemap: 'linked',
    sourcesContent: false, // src is beside it
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
  }
  const probe = await build({ ...options, write: false })
  const code = probe.outputFiles.find((file) => !file.path.endsWith('.map')).text
  // esbuild leaves this helper in only where an inlined CommonJS module calls `require`, which ESM lacks
  const banner = code.includes('__require = ') ? { js: requireInModules } : {}
  const { metafile } = await build({ ...options, banner })
  const outside = Object.values(metafile.outputs).flatMap((output) => output.imports.map((found) => found.path))
  const unexpected = outside.filter((path) => !isBuiltin(path))
  if (unexpected.length > 0) throw new Error(`${outfile} still imports ${unexpected.join(', ')}`)
}
