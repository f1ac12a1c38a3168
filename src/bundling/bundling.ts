/** Builds of esbuild: that of the host, and those of modules that the host, or such a module, names by its URL. */

import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type * as Esbuild from 'esbuild'
import type { BuildFailure, BuildOptions, BuildResult, OnLoadResult, OutputFile, Plugin, PluginBuild } from 'esbuild'
import { namesOfModule, othersInWords } from '../runtime/settings/module-file.ts'
import { ownFile } from '../shared/environment.ts'
import { ConfigurationError } from '../shared/errors.ts'

/** A module that a source names by `new URL('./critic.ts', import.meta.url)`: an agent, a tool, a protocol. */
const MODULE_URL = /\bnew\s+URL\(\s*(['"`])(\.{1,2}\/[^'"`\n$]+\.[cm]?[jt]sx?)\1\s*,\s*import\.meta\.url\s*,?\s*\)/g

const COPIED = [
  'actors/thread/thread-boot.cjs',
  'actors/thread/thread-entry.bundle.cjs',
  'actors/turn/tool-entry.bundle.js',
  ...['o200k_base', 'cl100k_base'].flatMap((name) =>
    ['bundle.cjs', 'ranks.json'].map((part) => `actors/model/${name}.${part}`),
  ),
  'thread-api.js',
]
/** Threads of built-in tools. They import modules of this package, and packages that are optional. */
const BUNDLED = ['tools/sandbox-thread.js', 'tools/readable-text.js']

/** Returns the files by their paths, with forward slashes. */
async function threadFiles({ build }: Pick<typeof Esbuild, 'build'>): Promise<Map<string, Uint8Array>> {
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

/** Namespace of the paths of emitted modules, which a source imports in place of their URLs. */
const EMITTED = 'dramatis-emitted'
/** Namespace of what `dramatis` is in a source. */
const PACKAGE = 'dramatis-package'
const SOURCE = /\.[cm]?[jt]sx?$/

export class Bundling {
  /** Files that are written when the build is over, by their absolute paths. */
  readonly files: Map<string, Uint8Array>
  /** Source of each emitted module, by the path that stands for it. */
  readonly sources: Map<string, string>
  readonly #build: PluginBuild
  readonly #self: Plugin
  /** Modules that led to this one: a circle of them could not be named by its content. */
  readonly #trail: readonly string[]
  readonly #isExternal: boolean

  constructor(build: PluginBuild, self: Plugin, of?: Bundling, trail: readonly string[] = []) {
    const { external = [], packages } = build.initialOptions
    this.#build = build
    this.#self = self
    this.#trail = trail
    this.#isExternal = packages === 'external' || external.includes('dramatis')
    this.files = of?.files ?? new Map()
    this.sources = of?.sources ?? new Map()
  }

  host(): void {
    assertFits(this.#build.initialOptions)
    const index = JSON.stringify(fileURLToPath(ownFile('index.js')))
    // Modules that the host itself imports, such as protocols, find it there.
    this.#package(`import * as host from ${index}
      globalThis[Symbol.for('dramatis.host')] ??= host
      export * from ${index}`)
    this.#modules()
    this.#build.initialOptions.metafile = true // names the files that may need a `require`
    this.#build.onEnd(async (result) => {
      if (result.errors.length > 0) return
      if (!this.#isCommonJs) await this.#makeRunnable(result)
      const folder = outputFolder(this.#build.initialOptions)
      if (!this.#isExternal)
        for (const [path, bytes] of await threadFiles(this.#build.esbuild))
          this.files.set(join(folder, 'dramatis', path), bytes)
      await this.#write(result)
    })
  }

  /** Makes this the build of a module, which a thread of an agent or the host imports. */
  #module(): void {
    const api = JSON.stringify(fileURLToPath(ownFile('thread-api.js')))
    this.#package(`module.exports = globalThis[Symbol.for('dramatis.host')] ?? require(${api})`)
    this.#modules()
  }

  #package(contents: string): void {
    if (this.#isExternal) return
    const { onResolve, onLoad } = this.#build
    onResolve({ filter: /^dramatis$/ }, () => ({ path: 'dramatis', namespace: PACKAGE }))
    onLoad({ filter: /./, namespace: PACKAGE }, () => ({ contents, resolveDir: fileURLToPath(ownFile('.')) }))
  }

  #modules(): void {
    const { onResolve, onLoad } = this.#build
    const own = [fileURLToPath(ownFile('.')), fileURLToPath(ownFile('../host/'))]
    onResolve({ filter: new RegExp(`^${EMITTED}:`) }, ({ path }) => ({
      path: path.slice(EMITTED.length + 1),
      namespace: EMITTED,
    }))
    onLoad({ filter: /./, namespace: EMITTED }, ({ path }) => this.#emitted(path))
    onLoad({ filter: SOURCE, namespace: 'file' }, async ({ path }) => {
      const code = await readFile(path, 'utf8')
      return own.some((folder) => path.startsWith(folder)) ? this.#ownSource(code) : this.#source(path, code)
    })
  }

  /** A bundle that is CommonJS has no `import.meta`; what this package asks of it is where it is. */
  async #ownSource(code: string): Promise<OnLoadResult | undefined> {
    if (!this.#isCommonJs || !code.includes('import.meta')) return undefined
    const place = '__dramatis_place'
    // texts that only speak of it stay as they are
    const define = { 'import.meta': place }
    const { code: contents } = await this.#build.esbuild.transform(code, { define, target: 'node20.19' })
    if (!contents.includes(place)) return undefined
    const meta = '({ url: require("node:url").pathToFileURL(__filename).href })'
    return { contents: `const ${place} = ${meta}; ${contents}`, loader: 'js' }
  }

  #source(path: string, code: string): OnLoadResult | undefined {
    const warnings: NonNullable<OnLoadResult['warnings']> = []
    const imports: string[] = []
    let contents = ''
    let end = 0
    for (const { 0: text, 2: named = '', index: start } of code.matchAll(MODULE_URL)) {
      const target = resolve(dirname(path), named)
      const source = namesOfModule(target).find((name) => existsSync(name))
      if (source === undefined) {
        const message = `There is no file ${named}${othersInWords(named)}: the expression stays as it is.`
        warnings.push({ text: message, location: locationOf(path, code, start, text) })
        continue
      }
      const standIn = `${source.slice(0, -extname(source).length)}.mjs`
      this.sources.set(standIn, source)
      const name = `__dramatis_emitted_${imports.length}`
      imports.push(`import ${name} from ${JSON.stringify(`${EMITTED}:${standIn}`)};`)
      contents += code.slice(end, start) + this.#urlOf(name)
      end = start + text.length
    }
    if (imports.length + warnings.length === 0) return undefined
    // Imports are hoisted, and at the end they move no line.
    contents += `${code.slice(end)}\n${imports.join('')}`
    return { contents, loader: 'default', resolveDir: dirname(path), warnings }
  }

  /** The URL of an emitted module. `name`: variable with its path from the file that has this expression. */
  #urlOf(name: string): string {
    return this.#isCommonJs
      ? `require('node:url').pathToFileURL(require('node:path').join(__dirname, ${name}))`
      : `new URL(${name}, import.meta.url)`
  }

  get #isCommonJs(): boolean {
    return this.#build.initialOptions.format === 'cjs'
  }

  /** Bundles a module. Its path becomes what a source imports. */
  async #emitted(standIn: string): Promise<OnLoadResult> {
    const source = this.sources.get(standIn)!
    const { esbuild, initialOptions } = this.#build
    const circle = [...this.#trail.slice(this.#trail.indexOf(source)), source]
    if (this.#trail.includes(source)) {
      const names = circle.map((path) => basename(path)).join(', which names ')
      return { errors: [{ text: `${names} by its URL: modules that name each other cannot be emitted.` }] }
    }
    const folder = assetFolder(initialOptions)
    const self = this.#self
    const plugin: Plugin = {
      name: self.name,
      setup: (build) => new Bundling(build, plugin, this, [...this.#trail, source]).#module(),
    }
    try {
      const { outputFiles, metafile, warnings } = await esbuild.build({
        ...kept(initialOptions),
        entryPoints: [source],
        entryNames: '[name]',
        assetNames: '[name]-[hash]',
        outdir: folder,
        bundle: true,
        format: 'esm',
        platform: 'node',
        write: false,
        metafile: true,
        logLevel: 'silent',
        plugins: (initialOptions.plugins ?? []).map((each) => (each === self ? plugin : each)),
      })
      const isMain = ({ path }: OutputFile) => basename(path) === `${basename(standIn, '.mjs')}.js`
      for (const file of outputFiles) if (!isMain(file)) this.files.set(file.path, file.contents)
      const watchFiles = Object.keys(metafile.inputs).map((path) => resolve(initialOptions.absWorkingDir ?? '.', path))
      return { contents: runnable(outputFiles.find(isMain)!.text), loader: 'file', warnings, watchFiles }
    } catch (error) {
      if (!isFailure(error)) throw error
      return { errors: error.errors, watchFiles: [source] }
    }
  }

  /** Gives what the host's build has written a `require`, where CommonJS in it asks for one. */
  async #makeRunnable({ metafile, outputFiles }: BuildResult): Promise<void> {
    const { absWorkingDir = process.cwd(), banner } = this.#build.initialOptions
    if (/\brequire\b/.test(banner?.js ?? '')) return // whoever builds has done so
    const isCode = (path: string) => /\.[cm]?js$/.test(path)
    for (const name of Object.keys(metafile!.outputs).filter(isCode)) {
      const path = resolve(absWorkingDir, name)
      const at = outputFiles?.findIndex((file) => file.path === path) ?? -1
      const code = outputFiles ? outputFiles[at]!.text : await readFile(path, 'utf8')
      const made = runnable(code)
      if (made === code) continue
      if (outputFiles) outputFiles[at] = outputFile(path, Buffer.from(made))
      else await writeFile(path, made)
    }
  }

  async #write({ outputFiles }: BuildResult): Promise<void> {
    for (const [path, contents] of this.files) {
      if (this.#build.initialOptions.write === false) outputFiles?.push(outputFile(path, contents))
      else {
        await mkdir(dirname(path), { recursive: true })
        await writeFile(path, contents)
      }
    }
  }
}

/** Gives an ES module a `require` if CommonJS in it asks for one. On the first line, so that no line moves. */
function runnable(code: string): string {
  // esbuild's stand-in for `require`, which it leaves out where nothing calls it
  if (!code.includes('typeof require') || !code.includes('Dynamic require of "')) return code
  const [shebang = ''] = /^#!.*\n/.exec(code) ?? []
  const require =
    "import { createRequire as __dramatis_require } from 'node:module'; const require = __dramatis_require(import.meta.url); "
  return shebang + require + code.slice(shebang.length)
}

/** Options of the host's build that hold for its modules too. */
const kept = (options: BuildOptions): BuildOptions => ({
  ...options,
  outfile: undefined,
  stdin: undefined,
  splitting: undefined,
  outbase: undefined,
  outExtension: undefined,
  banner: undefined,
  footer: undefined,
  sourcemap: options.sourcemap ? 'inline' : undefined,
})

/** @throws ConfigurationError for what could not run. */
function assertFits({ bundle, platform, format, publicPath, outdir, outfile }: BuildOptions): void {
  const wrong = (path: string, got: unknown, accepted: string): ConfigurationError => {
    const message = `dramatis/esbuild: ${path}: got ${JSON.stringify(got) ?? 'nothing'}; accepted: ${accepted}.`
    return new ConfigurationError(message, { path })
  }
  if (bundle !== true) throw wrong('bundle', bundle, 'true')
  if (platform !== 'node') throw wrong('platform', platform, '"node"')
  if (format !== 'esm' && format !== 'cjs') throw wrong('format', format, '"esm", "cjs"')
  if (publicPath !== undefined) throw wrong('publicPath', publicPath, 'nothing: modules are found beside the bundle')
  if (outdir === undefined && outfile === undefined) throw wrong('outfile', outfile, 'a file, or an outdir')
}

function outputFolder({ absWorkingDir = process.cwd(), outdir, outfile }: BuildOptions): string {
  return resolve(absWorkingDir, outdir ?? dirname(outfile!))
}

/** The folder of emitted modules: `assetNames` may name one below that of the bundle. */
function assetFolder(options: BuildOptions): string {
  const { assetNames = '[name]-[hash]' } = options
  const folder = dirname(assetNames)
  if (folder.includes('[')) {
    const text = `dramatis/esbuild: assetNames: got "${assetNames}"; accepted: a folder without placeholders, as "agents/[name]-[hash]".`
    throw new ConfigurationError(text, { path: 'assetNames' })
  }
  return join(outputFolder(options), ...folder.split(/[\\/]/)).replace(new RegExp(`\\${sep}$`), '')
}

function locationOf(file: string, code: string, start: number, lineText: string) {
  const before = code.slice(0, start).split('\n')
  return { file, line: before.length, column: Buffer.byteLength(before.at(-1)!), length: lineText.length, lineText }
}

function outputFile(path: string, contents: Uint8Array): OutputFile {
  return {
    path,
    contents,
    hash: '',
    get text() {
      return Buffer.from(contents).toString()
    },
  }
}

function isFailure(error: unknown): error is BuildFailure {
  return error instanceof Error && 'errors' in error && Array.isArray(error.errors)
}
