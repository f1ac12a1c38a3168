/**
 * Puts what users import into a few files, for the package that is published: to walk some 400 modules takes four times
 * as long as to run them. Of the modules those stay that threads load one by one; what users import leads to the bundle. A
 * clone works without it, and is built anew by the next command.
 *
 * What the host imports goes into the bundle too, unless it is a dependency or a peer: an install of openai takes 12 MB,
 * of which the clients need 0.4, one of hono 2.2. Packages stay outside whose values or types users share with dramatis
 * (zod, rxjs, immer), whose files are found by their place (piscina, esbuild), and CommonJS that requires modules of Node.
 * The licences of all that is bundled are written beside it.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { build } from 'esbuild'
import { dist, filesBelow, lightModules, packagesOfUsers, root, slashed } from './files.mjs'
import { bundlePage } from './page.mjs'

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const exported = Object.entries(manifest.exports).filter(([, entry]) => typeof entry === 'object')
/** Entries by their names in the bundle: each subpath of the package, and what runs. They share chunks, so that all have the same classes. */
const entries = {
  ...Object.fromEntries(
    exported.map(([path, entry]) => [
      path === '.' ? 'index' : path.slice(2),
      /^\.\/dist\/src\/(.+)\.js$/.exec(entry.default)[1],
    ]),
  ),
  cli: 'service/cli',
  'rehearsal-thread': 'service/rehearsal/thread-entry',
}
/** Entries that need little, and that modules of agents and scripts import in their threads. */
const small = ['tools/index', 'models', 'mcp/index', 'ai-sdk/index', 'opentelemetry', 'bundling/index']
/** What threads load as modules, each with what it imports. */
const threads = ['thread-api', 'tools/sandbox-thread', 'tools/readable-text']
/** What stands before the command's code: where Node keeps compiled code (from 22.8 on), the next start takes less. */
const COMMAND = "#!/usr/bin/env node\nimport module from 'node:module'\nmodule.enableCompileCache?.()\nawait "
const host = join(dist, 'host')

rmSync(join(dist, '.tsbuildinfo'), { force: true }) // the next command builds all anew
rmSync(host, { recursive: true, force: true })
const fromModules = { absWorkingDir: root, bundle: true, external: packagesOfUsers(), platform: 'node', format: 'esm' }
const entryPoints = Object.fromEntries(Object.entries(entries).map(([name, module]) => [name, `dist/src/${module}.js`]))
const split = { ...fromModules, metafile: true, entryPoints, outdir: host, splitting: true }
const { inputs: graph } = (await build({ ...split, write: false, logLevel: 'silent' })).metafile
const bundled = await build({
  ...split,
  plugins: [wholes(graph)],
  target: 'node20',
  sourcemap: 'linked',
  sourcesContent: false, // src is in the package
  legalComments: 'none',
  logLevel: 'warning',
  chunkNames: '[name]-[hash]',
})
for (const [name, { bytes, inputs }] of Object.entries(bundled.metafile.outputs)) {
  const ofPackages = Object.entries(inputs).reduce(
    (sum, [input, { bytesInOutput }]) => sum + (input.startsWith('node_modules/') ? bytesInOutput : 0),
    0,
  )
  if (!name.endsWith('.js') || ofPackages < 0.9 * bytes) continue // only then its sources are not in the package
  const file = join(root, name)
  rmSync(`${file}.map`)
  writeFileSync(file, readFileSync(file, 'utf8').replace(/\n\/\/# sourceMappingURL=\S+\s*$/, '\n'))
}
// The test kit has at its begin what a team loads later: virtual time cannot wait for a file. What it has is in a chunk,
// and what is loaded later a file that exports it again.
const lateFiles = new Map(Object.entries(bundled.metafile.outputs).map(([name, { entryPoint }]) => [entryPoint, name]))
const early = bundled.metafile.inputs['dist/src/testing.js'].imports
  .filter(({ kind, path }) => kind === 'import-statement' && lateFiles.has(path))
  .map(({ path }) => `\nimport './${basename(lateFiles.get(path))}'`)
const kit = join(host, 'testing.js')
writeFileSync(kit, readFileSync(kit, 'utf8').replace(/(\n\/\/# sourceMappingURL=|$)/, `${early.join('')}\n$1`))
for (const [name, module] of Object.entries(entries)) {
  const file = join(dist, 'src', `${module}.js`)
  const bundle = slashed(relative(dirname(file), join(host, `${name}.js`)))
  if (name === 'cli') writeFileSync(file, `${COMMAND}import('${bundle}')\n`)
  else writeFileSync(file, `${name === 'rehearsal-thread' ? 'import' : 'export * from'} '${bundle}'\n`)
}

/**
 * Plugin: of what `dramatis` imports, four files are made. esbuild would cut it into some fifty, by who else imports
 * what, and each costs a start half a millisecond. So whoever needs a module of such a file is made to import all of it.
 */
function wholes(inputs) {
  const importsOf = (module, how) =>
    inputs[module].imports.filter(({ kind, external }) => kind === how && !external).map(({ path }) => path)
  const reached = (from) => {
    const seen = new Set(from)
    for (const module of seen) for (const path of importsOf(module, 'import-statement')) seen.add(path)
    return seen
  }
  const compiled = (module) => `dist/src/${module}.js`
  const modules = Object.keys(inputs)
  /** Each file has what these need, unless a file before it has it. */
  const files = [
    small.map(compiled),
    [compiled('protocols')],
    modules.filter((module) => lightModules.test(module)),
    [compiled('index')],
  ].map(reached)
  const all = files.at(-1)
  const fileOf = (module) => files.findIndex((file) => file.has(module))
  const late = modules.flatMap((module) => importsOf(module, 'dynamic-import'))
  const begins = new Set([...Object.values(entries).map(compiled), ...late])
  return {
    name: 'wholes',
    setup(build) {
      build.onResolve({ filter: /^whole:/ }, ({ path }) => ({ path: path.slice('whole:'.length), namespace: 'wholes' }))
      build.onLoad({ filter: /./, namespace: 'wholes' }, ({ path }) => {
        const own = [...all].filter((module) => module.startsWith('dist/') && fileOf(module) <= Number(path))
        return { contents: own.map((module) => `import './${module}'`).join('\n'), resolveDir: root }
      })
      build.onLoad({ filter: /\.js$/ }, ({ path }) => {
        if (!begins.has(slashed(relative(root, path)))) return undefined
        const needed = [...reached([slashed(relative(root, path))])].filter((module) => all.has(module)).map(fileOf)
        if (needed.length === 0) return undefined
        const contents = `${readFileSync(path, 'utf8')}\nimport 'whole:${Math.max(...needed)}'\n`
        return { contents, resolveDir: dirname(path) }
      })
    },
  }
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

/** Declarations that an import leads to: nothing else of them can be reached. */
const declared = new Set()
const reach = (module) => {
  const name = `dist/src/${module}.d.ts`
  if (declared.has(name)) return
  declared.add(name)
  const code = readFileSync(join(root, name), 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '') // samples in comments import too
  for (const [, path] of code.matchAll(/(?:from|import|import\()\s*['"](\.[^'"]+)\.ts['"]/g))
    reach(slashed(join(dirname(module), path)))
}
for (const [, entry] of exported) reach(/^\.\/dist\/src\/(.+)\.d\.ts$/.exec(entry.types)[1])
for (const name of filesBelow('dist/src')) if (name.endsWith('.d.ts') && !declared.has(name)) rmSync(join(root, name))

/** Packages whose code stands in files of the package: in the bundles of the host, of threads and of the page, and in vocabularies. */
const ofThreads = ['actors/thread/thread-entry.bundle.cjs', 'actors/turn/tool-entry.bundle.js'].flatMap(
  (name) => JSON.parse(readFileSync(join(dist, 'src', `${name}.map`), 'utf8')).sources,
)
const packages = new Set(['node_modules/gpt-tokenizer'])
const ofPage = Object.keys((await bundlePage({ write: false })).inputs)
for (const file of [...Object.keys(bundled.metafile.inputs), ...ofThreads, ...ofPage]) {
  // the innermost: a package of a package may be another version
  const folder = /(?:^|\/)(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]
  if (folder) packages.add(folder)
}
writeFileSync(
  join(host, 'THIRD-PARTY-NOTICES.txt'),
  `Code of these packages is part of dramatis.\n${[...packages].sort().map(noticeOf).join('')}`,
)

function noticeOf(place) {
  const folder = join(root, place)
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const texts = readdirSync(folder).filter((file) => /^(licen[cs]e|notice)(\.|$)/i.test(file))
  if (texts.length === 0) throw new Error(`${name} has no file with its licence`)
  const text = texts.map((file) => readFileSync(join(folder, file), 'utf8').trim()).join('\n\n')
  return `\n${'-'.repeat(80)}\n${name} ${version} (${license})\n\n${text}\n`
}
