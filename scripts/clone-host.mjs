/**
 * Puts modules of src into a few files, dist/host/, and leaves re-exports in their places in dist/src: to walk the 520
 * modules of `dramatis` takes three times as long as to run them, and each test and each command of the clone would pay
 * it. Who imports a module gets it from the same file by each way that leads there, so each class is there once.
 *
 * The sources are read, not what tsc made of them: tsc writes only what has changed.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { build } from 'esbuild'
import { lightModules, packagesOfUsers, root, slashed } from './files.mjs'

/**
 * Files by the modules that begin them. Each holds those and what they import, unless a file before it does. What no
 * module here leads to stays as tsc made it, and so does, with all that it needs, what is loaded late and what is light.
 */
const files = {
  base: /^src\/((errors|on-abort|own-files|clock|nearest|visible)|(mailbox|blackboard)\/.+)\.ts$/,
  actors: /^src\/actors\/.+\.ts$/,
  logs: lightModules,
  host: /^src\/index\.ts$/,
  testing: /^src\/testing\.ts$/,
  command: /^src\/service\/commands\/run\.ts$/,
  digest: /^src\/service\/digest\/.+\.ts$/,
  http: /^src\/service\/http\/index\.ts$/,
}
/** What `dramatis` imports, in four files: a test of the mailbox needs the first. */
const whole = ['base', 'actors', 'logs', 'host']
const folder = join(root, 'dist/host')
const options = {
  absWorkingDir: root,
  bundle: true,
  splitting: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  outdir: folder,
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'none',
}

/** Resolves to which modules go into which file, and to what each exports. Modules are paths in the clone. */
export async function planOf(modules) {
  const probe = { entryPoints: modules, packages: 'external', metafile: true, write: false, logLevel: 'silent' }
  const { inputs, outputs } = (await build({ ...options, ...probe })).metafile
  const late = modules.flatMap((module) => importsOf(module, 'dynamic-import'))
  const ofIndex = reached(['src/index.ts'])
  const fileOf = new Map()
  for (const [file, begins] of Object.entries(files)) {
    const first = modules.filter((module) => begins.test(module))
    const all = reached(first)
    const later = late.filter((module) => all.has(module) && !first.includes(module))
    const apart = reached([...later, ...modules.filter((module) => lightModules.test(module))])
    for (const module of all) {
      const belongs = whole.includes(file) ? ofIndex.has(module) : !apart.has(module)
      if (belongs && !fileOf.has(module)) fileOf.set(module, file)
    }
  }
  const exportsOf = new Map(Object.values(outputs).map(({ entryPoint, exports }) => [entryPoint, exports]))
  return [...fileOf].map(([module, file], number) => {
    // modules have names in common
    const names = exportsOf.get(module).map((name) => ({ name, unique: `${name}_${number}` }))
    return { module, file, names }
  })

  function reached(from) {
    const seen = new Set(from)
    for (const module of seen) for (const path of importsOf(module, 'import-statement')) seen.add(path)
    return seen
  }

  function importsOf(module, how) {
    return inputs[module].imports.filter(({ kind, external }) => kind === how && !external).map(({ path }) => path)
  }
}

/** Writes the files, and re-exports where tsc has written modules. */
export async function bundleClone(plan) {
  const planned = new Set(plan.map(({ module }) => module))
  const plugin = {
    name: 'files',
    setup(build) {
      build.onResolve({ filter: /^hosts:/ }, ({ path }) => ({ path: path.slice('hosts:'.length), namespace: 'hosts' }))
      build.onLoad({ filter: /./, namespace: 'hosts' }, ({ path }) => ({ contents: contents(path), resolveDir: root }))
      build.onResolve({ filter: /^\..*\.ts$/ }, ({ path, resolveDir }) => {
        const module = slashed(relative(root, join(resolveDir, path)))
        return planned.has(module) ? undefined : { path: slashed(relative(folder, compiled(module))), external: true }
      })
    },
  }
  const entryPoints = Object.keys(files).map((file) => ({ in: `hosts:${file}`, out: file }))
  const external = packagesOfUsers()
  await build({ ...options, entryPoints, external, plugins: [plugin], logLevel: 'warning' })
  for (const { module, file, names } of plan) {
    const target = compiled(module)
    const list = names.map(({ name, unique }) => `${unique} as ${name}`).join(', ')
    rmSync(`${target}.map`, { force: true })
    writeFileSync(target, `export { ${list} } from '${slashed(relative(dirname(target), join(folder, file)))}.js'\n`)
  }

  /** Each file loads those of `dramatis` before it as wholes: esbuild would cut them into what this and that one needs. */
  function contents(file) {
    const before = whole.slice(0, whole.includes(file) ? whole.indexOf(file) : whole.length)
    const exported = plan
      .filter((each) => each.file === file)
      .map(({ module, names }) => {
        const list = names.map(({ name, unique }) => `${name} as ${unique}`).join(', ')
        return `export { ${list} } from './${module}'\n`
      })
    return [...before.map((each) => `import 'hosts:${each}'\n`), ...exported].join('')
  }
}

const compiled = (module) => join(root, 'dist', module.replace(/\.ts$/, '.js'))
