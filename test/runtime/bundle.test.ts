/** Modules of agents as one file, and compiled code that threads of a process share. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { chmod, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { MessageChannel, Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import t from 'tap'
import { playFirstTurn, Resident } from '../../src/actors/thread/resident.ts'
import { loadable } from '../../src/runtime/threads/bundle-cache.ts'
import { cannotBundle } from '../../src/runtime/threads/bundler.ts'
import { ThreadCode, threadCode, WorkerThread } from '../../src/runtime/threads/worker-thread.ts'
import { epochZero, systemClock } from '../../src/shared/clock.ts'
import { inThread, load, project, projectOfFixtures, refusal, WHAT } from './bundle-helpers.ts'

t.test('JavaScript is loaded as it is', async (t) => {
  const folder = project(t, { 'a.js': '', 'b.mjs': '', 'c.cjs': '' })
  for (const name of ['a.js', 'b.mjs', 'c.cjs']) {
    const { href } = pathToFileURL(join(folder, name))
    t.match(await loadable(`${href}?v=1`, WHAT), { href: `${href}?v=1`, bundled: false, shown: /\Wbundle.*\.[cm]?js$/ })
  }
  t.notOk((await readdir(folder)).includes('node_modules'), 'and needs no cache')
})

t.test('TypeScript is bundled into one file that a thread can load', async (t) => {
  const folder = await projectOfFixtures(t)
  const { href, bundled, shown } = await load(folder, 'agent.ts')
  t.equal(bundled, true)
  t.match(shown, /agent\.ts$/)
  t.match(await inThread(href), { words: ['Hello, Ann', 'agent.ts'], refusal: 'Refusal' })
})

t.test('import.meta is the source, wherever the bundle lies', async (t) => {
  const near = { 'package.json': '{ "exports": "./i.js" }', 'i.js': '' }
  const folder = project(t, {
    'a.ts': `
      import b from './b.ts'
      const { url, dirname, filename, resolve } = import.meta
      export default [b, { url, dirname, filename }, ['./c.js', 'near', 'fs', 'node:fs'].map(resolve)]`,
    'b.ts': `
      import { createRequire } from 'node:module'
      import { fileURLToPath } from 'node:url'
      const require = createRequire(import.meta.url)
      const __filename = fileURLToPath(import.meta.url)
      export default require('node:path').basename(__filename)`,
    node_modules: { near },
  })
  const { href: url } = pathToFileURL(join(folder, 'a.ts'))
  t.strictSame(await inThread((await load(folder, 'a.ts')).href), [
    'b.ts',
    { url, dirname: folder, filename: join(folder, 'a.ts') },
    [new URL('c.js', url).href, new URL('node_modules/near/i.js', url).href, 'node:fs', 'node:fs'],
  ])
})

t.test('a stack names the line of the source that threw', async (t) => {
  const folder = await projectOfFixtures(t)
  const stack = String(await inThread((await load(folder, 'throws.ts')).href))
  const lines = stack.split('\n')
  t.equal(lines[0], `Error: no reason in ${join(folder, 'throws-deeply.ts')}`)
  t.ok(lines[1]?.includes(`${join(folder, 'throws-deeply.ts')}:6:9`), stack)
  t.ok(lines[2]?.includes(`${join(folder, 'throws.ts')}:8:10`), stack)
})

t.test("'dramatis' is the copy of the thread, or of the host for what it imports itself", async (t) => {
  const folder = project(t, { 'a.ts': "import { defineAgent } from 'dramatis'\nexport default defineAgent" })
  const { href } = pathToFileURL(join(folder, 'a.ts'))
  for (const [host, file] of [
    [false, 'thread-api.js'],
    [true, 'index.js'],
  ] as const) {
    const bundle = await readFile(new URL((await loadable(href, WHAT, { host })).href), 'utf8')
    t.match(bundle, `import { defineAgent } from "${new URL(`../../src/${file}`, import.meta.url)}"`)
  }
})

t.test('packages stay outside and are what Node makes of them', async (t) => {
  const folder = project(t, {
    node_modules: {
      dual: {
        'package.json': '{ "exports": { ".": { "import": "./i.mjs", "default": "./r.cjs" } }, "sideEffects": false }',
        'i.mjs': 'globalThis.ran = true; export default "imported"',
        'r.cjs': 'module.exports = "required"',
      },
      old: {
        'package.json': '{ "main": "lib" }',
        lib: { 'index.js': 'exports.named = "named"; exports.here = __dirname' },
      },
      sources: { 'package.json': '{ "exports": "./index.ts" }', 'index.ts': 'export const typed: string = "typed"' },
    },
    'a.ts': `
      import 'dual'
      import type { Nothing } from 'not-installed'
      import { AlsoNothing } from 'not-installed'
      import { named, here } from 'old'
      import { typed } from 'sources'
      import { createRequire } from 'module'
      const required = require('dual')
      const optional = await import('not-installed').then(() => 'found', () => 'missing')
      const lazy = (await import('dual')).default
      let unused: Nothing | AlsoNothing
      export default { named, here, typed, lazy, required, optional, ran: ran, builtin: typeof createRequire }`,
  })
  const { href } = await load(folder, 'a.ts')
  t.strictSame(await inThread(href), {
    named: 'named',
    here: join(folder, 'node_modules', 'old', 'lib'),
    typed: 'typed',
    lazy: 'imported',
    required: 'required',
    optional: 'missing',
    ran: true,
    builtin: 'function',
  })
})

t.test('bundles JSON, CommonJS and every ending of TypeScript', async (t) => {
  const folder = project(t, {
    'data.json': '{ "x": 1 }',
    'a.mts': "export const a: string = 'mts'",
    'b.cts': "import path = require('node:path')\nexport = { b: path.basename(__filename) }",
    'c.cjs': 'exports.c = require("node:path").basename(__dirname)',
    'd.js': 'export { e as d } from "./e.js"',
    'e.ts': "export enum E { e = 'ts' }\nexport const e = E.e",
    'f.tsx': `import data from './data.json' with { type: 'json' }
      import { a } from './a.mjs'
      import common from './b.cjs'
      import left from './c.cjs'
      import { d } from './d.js'
      const h = (tag: string) => tag
      /** @jsx h */
      export default [data.x, a, common.b, left.c === '' ? '' : 'cjs', d, <i />]`,
  })
  t.strictSame(await inThread((await load(folder, 'f.tsx')).href), [1, 'mts', 'b.cts', 'cjs', 'ts', 'i'])
  t.strictSame(await inThread((await load(folder, 'b.cts')).href), { b: 'b.cts' })
})

t.test('reads tsconfig.json as the compiler does', async (t) => {
  const folder = project(t, {
    'tsconfig.json': '{ /* ours */ "extends": "./base", "compilerOptions": { "paths": { "@/*": ["./lib/*"] } } }',
    'base.json': '{ "compilerOptions": { "experimentalDecorators": true, "useDefineForClassFields": false } }',
    lib: { 'five.ts': 'export const five = 5' },
    'a.ts': `import { five } from '@/five'
      const keys: string[] = []
      function note(_: object, key: string) { keys.push(key, import.meta.filename) }
      class A { @note x = five }
      export default { x: new A().x, keys }`,
  })
  t.strictSame(await inThread((await load(folder, 'a.ts')).href), { x: 5, keys: ['x', join(folder, 'a.ts')] })
})

t.test('who asks after a change gets it, also while a bundle of before is being made', async (t) => {
  const long = Array.from({ length: 20_000 }, (_, i) => `export const name${i} = ${i}`).join('\n')
  const text = (version: number) => `import * as long from './long.ts'\nexport default [${version}, long]`
  const folder = project(t, { 'a.ts': text(0), 'long.ts': long })
  const source = join(folder, 'a.ts')
  for (let version = 1; version <= 5; version++) {
    const before = load(source)
    await new Promise((resolve) => setTimeout(resolve, 10 * version)) // at some of these times it has read the source
    writeFileSync(source, text(version))
    const { href } = await load(source)
    t.match(await readFile(fileURLToPath(href), 'utf8'), `[${version}, `)
    await before
  }
})

t.test('a bundle is made once and found again', async (t) => {
  const folder = await projectOfFixtures(t)
  const hrefs = (await Promise.all([1, 2, 3].map(() => load(folder, 'agent.ts')))).map(({ href }) => href)
  const before = await filesOf(folder)
  t.equal(new Set([...hrefs, (await load(folder, 'agent.ts')).href]).size, 1)
  t.match(Object.keys(before), [/^agent-\w+-\w+\.mjs$/, /^agent-\w+-\w+\.mjs\.map$/, /^agent-\w+\.json$/])
  t.strictSame(await filesOf(folder), before)
})

t.test('a bundle is made anew when what it came from has changed', async (t) => {
  const code = (x: number) => `export const x = ${x}`
  const folder = project(t, {
    'a.ts': "import { x } from './b.ts'\nimport y from 'pkg'\nclass A { y = y }\nexport default x + new A().y",
    'b.ts': code(1),
    'tsconfig.json': '{ "extends": ["./base.json"] }',
    'base.json': '{}',
    node_modules: {
      pkg: { 'package.json': '{ "exports": "./1.js" }', '1.js': 'module.exports = 10', '2.js': 'module.exports = 20' },
    },
  })
  const loaded = async () => (await load(folder, 'a.ts')).href
  const first = await loaded()
  t.equal(await inThread(first), 11)

  await writeFile(join(folder, 'b.ts'), code(2))
  const second = await loaded()
  t.strictSame([await inThread(second), await inThread(first)], [12, 11], 'a running process keeps its own')

  await writeFile(join(folder, 'node_modules', 'pkg', 'package.json'), '{ "exports": "./2.js" }')
  t.equal(await inThread(await loaded()), 22)

  const third = await loaded()
  await writeFile(join(folder, 'base.json'), '{ "compilerOptions": { "useDefineForClassFields": false } }')
  t.not(await loaded(), third)

  await writeFile(join(folder, 'b.ts'), code(1))
  await writeFile(join(folder, 'base.json'), '{}')
  await writeFile(join(folder, 'node_modules', 'pkg', 'package.json'), '{ "exports": "./1.js" }')
  t.equal(await loaded(), first, 'the same sources make the same bundle')

  await rm(new URL(first))
  t.equal(await inThread(await loaded()), 11, 'a cache may be cleaned')
})

t.test('a changed comment moves the lines, so it makes a new bundle', async (t) => {
  const folder = await projectOfFixtures(t)
  const path = join(folder, 'throws-deeply.ts')
  const first = await load(folder, 'throws.ts')
  await writeFile(path, `// one line more\n${await readFile(path, 'utf8')}`)
  const second = await load(folder, 'throws.ts')
  t.not(second.href, first.href)
  t.match(await inThread(second.href), `${path}:7:9`)
})

t.test('an import of a whole folder gets the files that are added to it', async (t) => {
  const folder = project(t, {
    'a.ts': `const load = async (name: string) => (await import('./all/' + name + '.ts')).default
      export default () => load('two').catch(() => 'missing')`,
    all: { 'one.ts': 'export default 1' },
  })
  t.equal(await inThread((await load(folder, 'a.ts')).href), 'missing')
  await writeFile(join(folder, 'all', 'two.ts'), 'export default 2')
  t.equal(await inThread((await load(folder, 'a.ts')).href), 2)
})

t.test('a note that nobody can read is replaced', async (t) => {
  const folder = project(t, { 'a.ts': 'export default 1' })
  const { href } = await load(folder, 'a.ts')
  const note = Object.keys(await filesOf(folder)).find((name) => name.endsWith('.json'))
  for (const content of ['{', 'null', '{}', '[1]']) {
    await writeFile(join(folder, CACHE, note!), content)
    t.equal((await load(folder, 'a.ts')).href, href)
  }
})

t.test('where the package cannot be written, the cache is in a private folder', async (t) => {
  const folder = project(t, { node_modules: { '.cache': 'a file' }, 'a.ts': 'export default 1', tmp: {} })
  temporaryFolderIs(t, join(folder, 'tmp'))
  const { href } = await load(folder, 'a.ts')
  t.equal(await inThread(href), 1)
  t.equal((await load(folder, 'a.ts')).href, href)
  const [name] = await readdir(join(folder, 'tmp'))
  t.equal((await stat(join(folder, 'tmp', name!))).mode & 0o77, 0)

  await rm(join(folder, 'tmp', name!), { recursive: true })
  await symlink(folder, join(folder, 'tmp', name!)) // somebody was there first
  const other = await load(folder, 'a.ts')
  t.equal(await inThread(other.href), 1)
  t.not(other.href, href)
})

t.test('where no folder can be written, a bundle is kept in memory', async (t) => {
  const folder = await projectOfFixtures(t, { node_modules: { '.cache': 'a file' } })
  temporaryFolderIs(t, join(folder, 'agent.ts'))
  const { href, bundled } = await load(folder, 'agent.ts')
  t.ok(bundled && href.startsWith('data:'))
  t.match(await inThread(href), { words: ['Hello, Ann', 'agent.ts'], refusal: 'Refusal' })
  t.equal((await load(folder, 'agent.ts')).href, href, 'and found again')
  const source = join(folder, 'agent.ts')
  await writeFile(source, `globalThis.name = ''\n${await readFile(source, 'utf8')}`)
  t.not((await load(folder, 'agent.ts')).href, href)

  const stack = String(await inThread((await load(folder, 'throws.ts')).href))
  t.match(stack, /\n +at fail \(bundle-of:.*throws\.ts:\d+:\d+\)\n/)
})

t.test('a bundle that was made before a folder could not be written is used', async (t) => {
  const folder = project(t, { node_modules: {}, 'a.ts': 'export default 1' })
  const { href } = await load(folder, 'a.ts')
  temporaryFolderIs(t, join(folder, 'a.ts'))
  const cache = join(folder, CACHE)
  await chmod(cache, 0o500)
  const again = await load(folder, 'a.ts')
  await chmod(cache, 0o700)
  t.equal(again.href, href)
})

t.test('a wrong line is named as an editor counts it', async (t) => {
  const folder = project(t, {
    'a.ts': "import './b.ts'\nimport './c.ts'",
    'b.ts': '\n\nconst é: string = "é"; const x: = 1',
    'c.ts': 'console.log(import.meta.url',
  })
  const error = await refusal(load(folder, 'b.ts'))
  t.match(error.message, /^agents\[0\]\.module: .*b\.ts:3:33: Unexpected "="$/)
  t.strictSame(error.details, { path: WHAT, file: join(folder, 'b.ts'), line: 3, column: 33 })
  t.match((await refusal(load(folder, 'c.ts'))).message, /c\.ts:1:1: Unexpected end of file$/)
  t.match((await refusal(load(folder, 'a.ts'))).message, /:\d+:\d+: Unexpected .* \(and 1 more\)$/)
})

t.test('an import that leads nowhere is named with its importer', async (t) => {
  const folder = project(t, {
    'a.ts': "\nimport { b } from './b.ts'\nconsole.log(b)",
    'b.ts': "import './gone.js'",
    'c.ts': "import 'not-installed'",
    'd.ts': "import 'immer/gone'",
  })
  const error = await refusal(load(folder, 'a.ts'))
  t.match(
    error.message,
    /^agents\[0\]\.module: .*b\.ts:1:8: cannot find "\.\/gone\.js", which it imports\. No such file\.$/,
  )
  t.strictSame(error.details, { path: WHAT, file: join(folder, 'b.ts'), line: 1, column: 8 })
  t.match((await refusal(load(folder, 'c.ts'))).message, /c\.ts:1:8: cannot find "not-installed", .* Install it/)
  t.match(
    (await refusal(load(folder, 'd.ts'))).message,
    /"immer\/gone"\. The path "\.\/gone" is not exported by package "immer"\.$/,
  )
})

t.test('an esbuild that does not start is named with a way out', async (t) => {
  const reason = 'The package "@esbuild/linux-x64" could not be found, and is needed by esbuild.'
  const path = join(process.cwd(), 'a.ts')
  t.equal(
    cannotBundle(new Error(`${reason}\n\nIf you are installing ...`), path, WHAT).message,
    `${WHAT}: cannot bundle a.ts: Error: ${reason} Reinstall it (npm install), or compile to JavaScript yourself.`,
  )
  t.match(cannotBundle(new Error('no space left'), path, WHAT).message, /cannot bundle a\.ts: Error: no space left$/)
})

t.test('of a module that is compiled, or is not yet, the file that is there is taken', async (t) => {
  const code = (name: string) => `export default '${name}'`
  const names = ['a.ts', 'b.js', 'c.mts', 'd.mjs', 'e.cts', 'f.cjs', 'g.tsx', 'h.js', 'h.ts']
  const files = Object.fromEntries(names.map((name) => [name, code(name)]))
  const folder = project(t, { ...files, 'e.cts': "export = 'e.cts'", 'f.cjs': "module.exports = 'f.cjs'" })
  for (const [named, there] of Object.entries({
    'a.js': 'a.ts',
    'b.ts': 'b.js',
    'b.tsx': 'b.js',
    'c.mjs': 'c.mts',
    'd.mts': 'd.mjs',
    'd.ts': 'd.mjs',
    'e.cjs': 'e.cts',
    'f.cts': 'f.cjs',
    'g.js': 'g.tsx',
    'h.js': 'h.js',
    'h.ts': 'h.ts',
  })) {
    const { href, shown } = await load(folder, named)
    t.equal(await inThread(href), there, named)
    t.ok(shown.endsWith(there), shown)
  }
  const { href } = pathToFileURL(join(folder, 'b.ts'))
  t.equal((await loadable(`${href}?v=1`, WHAT)).href, `${pathToFileURL(join(folder, 'b.js')).href}?v=1`)
})

t.test('a module that is not there under any of its names is refused with these', async (t) => {
  const folder = project(t, { folder: {} })
  const error = await refusal(load(folder, 'a.js'))
  t.match(error.message, /: there is no file .*a\.js, and none of a\.ts, a\.tsx, a\.mjs, a\.cjs beside it\.$/)
  t.strictSame(error.details, { path: WHAT, file: join(folder, 'a.js') })
  t.match((await refusal(load(folder, 'b.mts'))).message, /b\.mts, and none of b\.mjs, b\.js beside it\.$/)
  t.match((await refusal(load(folder, 'folder'))).message, /there is no file .*folder\.$/)
  t.match((await refusal(load(folder, 'c.py'))).message, /there is no file .*c\.py\.$/)
  t.match(
    (await refusal(loadable('file:///a%2Fb.js', WHAT))).message,
    /file:\/\/\/a%2Fb\.js is no path of this system\.$/,
  )
})

const CACHE = join('node_modules', '.cache', 'dramatis')

/** As long as the test runs. */
function temporaryFolderIs(t: Test, folder: string): void {
  const before = process.env.TMPDIR
  t.teardown(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  })
  process.env.TMPDIR = folder
}

/** Each file of a project's cache with the time of its last change. */
async function filesOf(folder: string): Promise<Record<string, number>> {
  const names = (await readdir(join(folder, CACHE))).sort()
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, (await stat(join(folder, CACHE, name))).mtimeMs] as const)),
  )
}

const CONDITIONS = JSON.stringify({
  exports: {
    '.': { require: './r.cjs', import: './i.mjs' },
    './nested': { browser: './b.js', node: { require: './r.cjs', default: './n.mjs' } },
    './node': './a.js',
  },
})
const PATTERNS = JSON.stringify({
  exports: { './x/*': './*.js', './x/special/*': './c.js', './x/hidden/*': null, './gone': './gone.js' },
})

t.test('a package is found as `import` finds it', async (t) => {
  const folder = project(t, {
    'package.json': '{ "name": "project", "exports": { "./own": "./own.js" } }',
    'own.js': '',
    node_modules: {
      bare: { 'index.js': '', 'file.js': '' },
      main: { 'package.json': '{ "main": "./lib/a" }', lib: { 'a.js': '' } },
      folder: { 'package.json': '{ "main": "lib" }', lib: { 'index.js': '' } },
      '@scope': { conditions: { 'package.json': CONDITIONS, 'i.mjs': '', 'n.mjs': '', 'r.cjs': '' } },
      patterns: { 'package.json': PATTERNS, 'a.js': '', 'b.js': '', 'c.js': '' },
      list: { 'package.json': '{ "exports": [{ "browser": "./b.js" }, "./a.js"] }', 'a.js': '' },
    },
    inner: {},
  })
  inFolder(t, join(folder, 'inner'))
  for (const [specifier, path] of [
    ['bare', 'bare/index.js'],
    ['bare/file.js', 'bare/file.js'],
    ['main', 'main/lib/a.js'],
    ['folder', 'folder/lib/index.js'],
    ['@scope/conditions', '@scope/conditions/i.mjs'],
    ['@scope/conditions/nested', '@scope/conditions/n.mjs'],
    ['patterns/x/a', 'patterns/a.js'],
    ['patterns/x/special/b', 'patterns/c.js'],
    ['list', 'list/a.js'],
  ] as const) {
    const { href } = pathToFileURL(join(folder, 'node_modules', path))
    t.strictSame(await loadable(specifier, WHAT), { href, bundled: false, shown: specifier })
  }
  t.equal((await loadable('project/own', WHAT)).href, pathToFileURL(join(folder, 'own.js')).href)
})

t.test('a package of TypeScript, linked from elsewhere, is bundled', async (t) => {
  const folder = project(t, {
    packages: {
      critic: { 'package.json': '{ "exports": "./src.ts" }', 'src.ts': 'export default import.meta.filename' },
    },
    node_modules: {},
  })
  await symlink(join(folder, 'packages', 'critic'), join(folder, 'node_modules', 'critic'))
  inFolder(t, folder)
  const { href, bundled, shown } = await loadable('critic', WHAT)
  t.strictSame([bundled, shown], [true, 'critic'])
  t.equal(await inThread(href), join(folder, 'packages', 'critic', 'src.ts'))
})

t.test('a package that has no such code is refused', async (t) => {
  const folder = project(t, {
    node_modules: {
      patterns: { 'package.json': PATTERNS },
      empty: { 'package.json': '{' },
      absolute: { 'package.json': '{ "exports": "/etc/a.js" }' },
      forbidden: { 'package.json': '{ "exports": [null, "./a.js"] }', 'a.js': '' },
    },
  })
  inFolder(t, folder)
  for (const [specifier, says] of [
    ['unheard-of', `no node_modules from ${folder} upwards has the package "unheard-of". Install it there, or name`],
    ['patterns/gone', 'exports ./gone.js, which is not in'],
    ['patterns/x/hidden/a', 'does not export "./x/hidden/a" to import.'],
    ['patterns/y', 'does not export "./y" to import.'],
    ['patterns', 'does not export "." to import.'],
    ['empty', 'has no file for "empty".'],
    ['empty/a.js', 'has no file for "empty/a.js".'],
    ['absolute', 'does not export "."'],
    ['forbidden', 'does not export "."'],
  ] as const) {
    const error = await refusal(loadable(specifier, WHAT))
    t.ok(error.message.startsWith(`${WHAT}: `) && error.message.includes(says), error.message)
    t.equal(error.details.specifier, specifier)
  }
})

function inFolder(t: { teardown(back: () => void): void }, folder: string): void {
  const before = process.cwd()
  process.chdir(folder)
  t.teardown(() => process.chdir(before))
}

// Compiled code that threads of a process share.

t.test('the second thread compiles a turn too, and later ones begin with that', async (t) => {
  t.equal(await playFirstTurn(systemClock), true, 'the turn ends, and something is written')
  const code = freshCode()
  const sizes: number[] = []
  for (let thread = 0; thread < 4; thread++) {
    t.ok(await boots(code))
    sizes.push(code.begin().compiled?.length ?? 0)
  }
  const [, second = 0] = sizes
  t.ok(second > 1.2 * earlyBytes(code), `${second} bytes, and ${earlyBytes(code)} of the host`)
  t.same(sizes.slice(1), [second, second, second])
})

t.test('the turn is played as an agent plays it, from its load to its stop', async (t) => {
  const called = (['start', 'stop', 'leave'] as const).map((part) =>
    t.capture(Resident.prototype, part, Resident.prototype[part]),
  )
  t.equal(await playFirstTurn(systemClock), true)
  t.same(
    called.map((calls) => calls().length),
    [1, 1, 1],
  )
})

t.test('the bundle of threads loads no module of Node that few of them need', async (t) => {
  const { source } = threadCode().begin()
  for (const name of ['node:crypto', 'node:module']) {
    t.notMatch(source, `require("${name}")`)
    t.match(source, `getBuiltinModule("${name}")`)
  }
})

t.test('the first thread begins with what the host compiles meanwhile, or compiles for itself', async (t) => {
  const code = freshCode()
  const early = code.begin()
  t.equal(earlyBytes(code), 0, 'nobody waits for it')
  await new Promise((resolve) => setImmediate(resolve))
  t.ok(earlyBytes(code) > 0)
  const told = await bootedWith({ ...early, plays: false })
  t.equal(told.compiled, undefined, 'the thread had nothing to compile')
  const alone = await bootedWith({ ...early, plays: false, early: new SharedArrayBuffer(4) })
  t.ok(alone.compiled, 'it had, and hands it on')
})

t.test('a turn that was not played to its end is played by a later thread', async (t) => {
  const code = freshCode()
  t.notOk(code.begin().plays, 'somebody waits for the first thread')
  const ended = code.begin()
  t.ok(ended.plays)
  t.ok(code.begin().plays)
  code.take(new Uint8Array(1), ended)
  t.notOk(code.begin().plays)
})

t.test('threads compile for themselves where what others have compiled does not fit', async (t) => {
  const code = freshCode()
  code.take(new Uint8Array(1_000), code.begin())
  t.equal(code.begin().compiled?.length, 1_000)
  t.ok(await boots(code))
})

function freshCode(): ThreadCode {
  const { path, source } = threadCode().begin()
  return new ThreadCode(threadCode().boot, path, source)
}

/** Number of bytes that the host has compiled. */
const earlyBytes = (code: ThreadCode) => new Int32Array(code.begin().early, 0, 1)[0] ?? 0

/** Resolves to the first post of a thread with that code. */
async function bootedWith(entry: ReturnType<ThreadCode['begin']>): Promise<{ compiled: Uint8Array | undefined }> {
  const [control, parts] = [new MessageChannel(), new MessageChannel()]
  const worker = new Worker(threadCode().boot, {
    workerData: { control: control.port2, parts: parts.port2, entry, zero: epochZero() },
    transferList: [control.port2, parts.port2],
  })
  const [booted] = await once(worker, 'message')
  await worker.terminate()
  control.port1.close()
  parts.port1.close()
  return booted
}

/** Resolves to true if a thread boots and answers. */
async function boots(code: ThreadCode): Promise<boolean> {
  const thread = new WorkerThread(null, code)
  await thread.booted
  const answered = await Promise.race([thread.stop().then(() => true), thread.gone().then(() => false)])
  thread.terminate()
  await thread.gone()
  return answered
}
